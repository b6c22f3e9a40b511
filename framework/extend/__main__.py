"""`python -m framework.extend` prints the flags that compile a library of operators; `--cmake` the CMake package."""

from __future__ import annotations

import argparse
import shlex

from framework.extend.libraries import compile_flags, library_dir


def main(words: list[str] | None = None) -> None:
    """Prints what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m framework.extend", description="Flags for libraries of operators.")
    parser.add_argument("--cmake", action="store_true", help="print the folder of the CMake package instead")
    if parser.parse_args(words).cmake:
        print(library_dir() / "cmake" / "paddock")
    else:
        print(shlex.join(compile_flags()))


if __name__ == "__main__":
    main()
