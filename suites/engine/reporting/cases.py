"""Cases in files: what a report shows of single samples, as pictures or marked texts.

They lie in a folder of the run: `cases.json`, which names the pictures beside it. The file is replaced last and in one
piece, and pictures are named for their content, so that whoever interrupts the writing leaves the cases of before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.atomic import remove_file, write_bytes, write_text
from framework.errors import DataError
from suites.engine.contract.capabilities import drawn_case, picture
from suites.engine.reporting.case import MARKS, Case, Marked

if TYPE_CHECKING:
    from suites.engine.contract.metric import Metric
    from suites.engine.contract.task import Task

FILE = "cases.json"
_MOST_CHARACTERS = 4000  # of a case told in text


def draw_cases(task: Task, predict: Callable[[Any], Any], folder: Path, metric: Metric, count: int) -> None:
    """Show the worst cases of a metric, `count` of each part at most, in `folder`; what it held before goes.

    Args:
        task: draws the cases.
        predict: an item to its result.
        folder: for the pictures and `cases.json`.
        metric: of an evaluation that is done.
        count: cases of a part.

    A sample that cannot be read any more is left out.
    """
    parts: list[dict[str, Any]] = []
    for title, cases in metric.worst(count).items() if count else ():
        shown = []
        for case in cases[:count]:
            with contextlib.suppress(DataError, OSError):
                shown.append(_shown(task, predict, folder, case))
        if shown:
            parts.append({"title": title, "cases": shown})
    if parts or folder.is_dir():
        write_text(folder / FILE, json.dumps({"parts": parts}, indent=1) + "\n")
    _sweep(folder, {case["picture"] for part in parts for case in part["cases"] if "picture" in case})


def _shown(task: Task, predict: Callable[[Any], Any], folder: Path, case: Case) -> dict[str, Any]:
    name, drawing = drawn_case(task, case, predict)
    words = {"name": name, "why": case.why}
    if isinstance(drawing, Sequence):
        return words | {"text": _bounded(drawing)}
    content = picture(task.processor(), drawing, ".jpg")
    file = f"{Path(name).stem[:80]}-{hashlib.sha256(content).hexdigest()[:8]}.jpg"
    write_bytes(folder / file, content)
    return words | {"picture": file}


def _bounded(runs: Marked) -> list[list[str]]:
    """The runs up to a number of characters; DataError for a mark that is none."""
    kept, left = [], _MOST_CHARACTERS
    for text, mark in runs:
        if mark not in MARKS:
            raise DataError(f"case: '{mark}' is no mark; there are {', '.join(map(repr, MARKS))}")
        if left <= 0:
            kept.append(["...", ""])
            break
        kept.append([text[:left], mark])
        left -= len(text)
    return kept


def _sweep(folder: Path, kept: set[str]) -> None:
    """Remove pictures, and the list of older versions, that no case names."""
    for path in [*folder.glob("*.jpg"), folder / "worst.json"]:
        if path.name not in kept:
            remove_file(path)
