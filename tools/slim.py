"""`python tools/slim.py ...` is `paddock slim ...`, from a clone that is not installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.engine.cli.slim import main

if __name__ == "__main__":
    sys.exit(main())
