"""The command line: one file per verb. Parses, calls the library, prints; decides nothing itself.

Knows nothing of tensors. Start-up stays lean: torch is imported when a verb needs it, never for
`--help`.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on `arguments` (default: those of the process); return the exit code."""
    from intonaco.cli.app import app
    from intonaco.cli.failures import run_guarded

    return run_guarded(app, list(sys.argv[1:] if arguments is None else arguments))
