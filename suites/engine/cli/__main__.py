"""`python -m suites.engine.cli ...` is `paddock ...`."""

import sys

from suites.engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
