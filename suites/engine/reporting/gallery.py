"""The pictures and cases of a run as HTML: small pictures, marked texts, each with its source and why it is there."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from suites.engine.reporting.cases import FILE, MARKS
from suites.engine.reporting.html import Room, grid, note, say
from suites.engine.reporting.reading import Run

_WIDTH, _HIGHEST, _QUALITY = 480, 640, 75  # pixels of a picture at most, JPEG's quality
_WIDEST = 960  # of one that is wide, such as a strip of frames
_WIDE = 2.5  # width over height
_MOST_FILE = 32 << 20  # bytes of a picture file
_TEXT = 20_000  # characters of examples told in text


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
        data = _thumbnail(path)
    except (OSError, ValueError, cv2.error) as error:
        run.note(f"{path.relative_to(run.path)} is not shown ({error})")
        return ""
    wide, content = data
    source = f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"
    kind = ' class="wide"' if wide else ""
    return room.take(f'<figure{kind}><img alt="{say(name)}" src="{source}">{_caption(name, why)}</figure>')


def _thumbnail(path: Path) -> tuple[bool, bytes]:
    """Whether a picture file is a wide one, and a small JPEG of it; ValueError where it is damaged or huge."""
    size = path.stat().st_size
    if size > _MOST_FILE:
        raise ValueError(f"it has {size >> 20} MiB")
    image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR) if size else None
    if image is None:
        raise ValueError("it is no picture")
    height, width = image.shape[:2]
    wide = width > _WIDE * height
    factor = min((_WIDEST if wide else _WIDTH) / width, _HIGHEST / height)
    if factor < 1:
        small = max(1, round(width * factor)), max(1, round(height * factor))
        image = cv2.resize(image, small, interpolation=cv2.INTER_AREA)
    done, content = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    if not done:
        raise ValueError("it cannot be written as a JPEG")
    return wide, content.tobytes()


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
