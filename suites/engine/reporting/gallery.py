"""The pictures and cases of a run as HTML: small pictures, marked texts, each with its source and why it is there."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from framework.errors import DataError
from suites.engine.registry import REGISTRY, load_suites, register_role
from suites.engine.reporting.case import MARKS
from suites.engine.reporting.cases import FILE
from suites.engine.reporting.html import Room, grid, note, say
from suites.engine.reporting.reading import Run

Thumbnail = Callable[[bytes], tuple[bytes, bool]]  # a picture file's content: a small JPEG, and whether it is wide

_MOST_FILE = 32 << 20  # bytes of a picture file
_TEXT = 20_000  # characters of examples told in text
_ROLE = "thumbnail"

register_role(_ROLE, doc="Makes small pictures for reports.")


def gallery(run: Run, of: str, room: Room, most: int) -> list[str]:
    """Pictures of the evaluation set and cases of its last evaluation, `most` of each part; `of` stands in titles."""
    folder = run.path / "pictures"
    pictures = [_figure(run, path, path.name, "", room) for path in sorted(folder.glob("*.jpg"))[:most]]
    parts = [f"<h2>Pictures{say(of)}</h2>", grid(pictures)] if any(pictures) else []
    text = _examples(folder / "examples.txt")
    parts += [f"<h2>Examples{say(of)}</h2><pre>{say(text)}</pre>"] if text else []
    for title, cases in _cases(run, folder / "worst"):
        shown = [_case(run, folder / "worst", case, room) for case in cases[:most]]
        if any(shown):
            parts += [f"<h2>{say(title)}{say(of)}</h2>", grid(shown)]
    return parts


def _cases(run: Run, folder: Path) -> list[tuple[str, list[dict[str, Any]]]]:
    """Parts by title; of a run of an older version, the pictures that its `worst.json` names."""
    place = folder.relative_to(run.path)
    parts = run.json(str(place / FILE)).get("parts", [])
    if not parts and (words := run.json(str(place / "worst.json"))):
        parts = [{"title": "Worst", "cases": [{"name": k, "picture": k, "why": v} for k, v in words.items()]}]
    try:
        return [(str(part["title"]), [dict(case) for case in part["cases"]]) for part in parts]
    except (KeyError, TypeError, ValueError) as error:
        run.note(f"{place / FILE} holds no cases ({type(error).__name__}: {error}); `paddock eval` writes it anew")
        return []


def _case(run: Run, folder: Path, case: dict[str, Any], room: Room) -> str:
    name, why = str(case.get("name", "")), str(case.get("why", ""))
    if "picture" in case:
        return _figure(run, folder / Path(str(case["picture"])).name, name, why, room)
    return room.take(f"<figure><p class='text'>{_marked(case.get('text'))}</p>{_caption(name, why)}</figure>")


def _marked(runs: Any) -> str:
    """A text whose runs are marked; every character of it is escaped."""
    pieces = []
    for one in runs if isinstance(runs, list) else []:
        text, mark = one if isinstance(one, list) and len(one) == 2 else (one, "")
        known = mark if mark in MARKS else ""
        pieces.append(f'<mark class="{known}">{say(text)}</mark>' if known else say(text))
    return "".join(pieces)


def _caption(name: str, why: str) -> str:
    return f"<figcaption>{say(name)}{': ' if name and why else ''}{say(why)}</figcaption>"


def _figure(run: Run, path: Path, name: str, why: str, room: Room) -> str:
    try:
        content, wide = _thumbnail(path)
    except (OSError, ValueError, DataError) as error:
        run.note(f"{path.relative_to(run.path)} is not shown ({error})")
        return ""
    source = f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
    kind = ' class="wide"' if wide else ""
    return room.take(f'<figure{kind}><img alt="{say(name)}" src="{source}">{_caption(name, why)}</figure>')


def _thumbnail(path: Path) -> tuple[bytes, bool]:
    """A small JPEG of a picture file, and whether it is a wide one; ValueError where it is huge or nothing draws it."""
    size = path.stat().st_size
    if size > _MOST_FILE:
        raise ValueError(f"it has {size >> 20} MiB")
    load_suites([])  # what all suites share has the one that knows pixels
    names = REGISTRY.names(_ROLE)
    if not names:
        raise ValueError("nothing is registered that makes small pictures")
    make: Any = REGISTRY.get(_ROLE, names[0])
    content, wide = make(path.read_bytes())
    return content, wide


def _examples(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(4 * _TEXT).decode("utf-8", "replace")[:_TEXT]


def left_out(room: Room) -> str:
    """What a page says of pieces for which there was no room."""
    if not room.left_out:
        return ""
    return note(f"{room.left_out} plots and pictures are not shown, so that the page stays small; see the run's folder")
