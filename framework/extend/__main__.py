"""`python -m framework.extend` prints the flags that compile a library of operators.

`--cmake` prints the folder of the CMake package, `--pkg-config` that of paddock.pc. Programs that run exported models
without Python are built with them too (docs/howto/native.md).
"""

from __future__ import annotations

import argparse
import shlex

from framework.extend.libraries import compile_flags, library_dir


def main(words: list[str] | None = None) -> None:
    """Prints what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m framework.extend", description="Flags for libraries of operators.")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--cmake", action="store_true", help="print the folder of the CMake package instead")
    instead.add_argument("--pkg-config", action="store_true", help="print the folder of paddock.pc instead")
    asked = parser.parse_args(words)
    if asked.cmake:
        print(library_dir() / "cmake" / "paddock")
    elif asked.pkg_config:
        print(library_dir() / "pkgconfig")
    else:
        print(shlex.join(compile_flags()))


if __name__ == "__main__":
    main()
