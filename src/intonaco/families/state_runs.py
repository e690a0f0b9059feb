"""Which families have a tap for keys and values, and who makes their denoisers for template state.

A new family adds one function and one line.
"""

from collections.abc import Callable
from typing import Any

from intonaco.errors import UnsupportedError
from intonaco.families.base import EditableFamily
from intonaco.families.template_state import StateRuns


def state_runs(family: EditableFamily) -> StateRuns:
    """Return the denoisers of `family` for template state; UnsupportedError if it has none."""
    maker = MAKERS.get(family.name)
    if maker is None:
        raise UnsupportedError(
            f"template state needs a family with a tap for keys and values, got {family.name}; use "
            f"one of {', '.join(sorted(MAKERS))}, or edit without a template"
        )
    return maker(family)


def _flux2_runs(family: Any) -> StateRuns:
    # Imported here: only the family in use pays.
    from intonaco.families.flux2_state import make_runs

    return make_runs(family)


MAKERS: dict[str, Callable[[Any], StateRuns]] = {"flux2": _flux2_runs}
