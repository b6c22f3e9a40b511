"""Files of one JSON object a line, which a run appends to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from framework.atomic import open_to_append, write_text

LAST = "last"  # in metrics.json: the figures of the last evaluation, where they are not those of the best weights


def withdraw(path: Path, step: int) -> None:
    """Remove the lines of later steps than `step`, which a killed run wrote beyond its checkpoint."""
    if path.is_file():
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in read_lines(path) if line["step"] <= step))


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line."""
    with open_to_append(path) as file:
        file.write(json.dumps(line) + "\n")


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All lines that are whole objects with a `step`; the last one may have been cut off by a kill."""
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int):
            found.append(line)
    return found
