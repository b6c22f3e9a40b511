"""Drawn texts for configs of models that write: parallel lines, and running text."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LINES = [f"a small dog and {n} green houses stand there" for n in range(24)]
OTHERS = [f"ein kleiner Hund und {n} grüne Häuser stehen da" for n in range(24)]


def put(path: str, text: str) -> None:
    """Write a text file, also one inside of a zip."""
    archive, ending, inside = path.partition(".zip/")
    Path(path if not ending else archive).parent.mkdir(parents=True, exist_ok=True)
    if not ending:
        Path(path).write_text(text, encoding="utf-8")
        return
    with zipfile.ZipFile(f"{archive}.zip", "a") as file:
        if inside not in file.namelist():
            file.writestr(inside, text)


def parallel(arguments: Mapping[str, Any], classes: int) -> None:
    """Two files of lines."""
    put(arguments["path"], "\n".join(LINES) + "\n")
    put(arguments["other"], "\n".join(OTHERS) + "\n")


def prose(arguments: Mapping[str, Any], classes: int) -> None:
    """A file of running text."""
    put(arguments["path"], "\n".join(LINES * 4) + "\n")
