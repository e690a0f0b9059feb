"""`python -m intonaco`: the same as the `intonaco` command."""

import sys

from intonaco.cli import main

if __name__ == "__main__":
    sys.exit(main())
