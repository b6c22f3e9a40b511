"""The command: `python -m tests.bombs FOLDER`, `python -m tests.bombs --read KIND`."""

import sys
from pathlib import Path

from tests.bombs import BOMBS
from tests.bombs.core import read_all, write

if sys.argv[1:2] == ["--read"]:
    read_all(sys.argv[2])
else:
    for kind, bombs in BOMBS.items():
        for name, make in bombs.items():
            print(write(make, Path(sys.argv[1]) / kind / name.replace(" ", "_")))
