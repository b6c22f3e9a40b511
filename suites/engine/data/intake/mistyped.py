"""Words of a command line that are names of files, or texts: which of them is meant, and which file is near."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

from suites.engine.data.intake.naming import clutter, shown
from suites.engine.names import nearest

_LONGEST = 1024  # characters of a path
_MOST_NEIGHBOURS = 10_000  # names of a folder that are compared
_GLOB = re.compile(r"[*\[]|\?(?=.)")  # a question mark at the end ends a sentence
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def is_like_path(word: str, endings: Collection[str]) -> bool:
    """Whether a word that names no file was meant to: `endings` are those of files of its kind, lower case.

    One word with a separator, a pattern or `~`, whatever ends as such files do, and what begins as a path does.

    >>> [is_like_path(word, [".txt"]) for word in ("my tpyo.txt", "in/typo", "good/bad film", "why?", "~/x")]
    [True, True, False, False, True]
    """
    if len(word) >= _LONGEST or "\n" in word or "\t" in word:
        return False
    if word.lower().endswith(tuple(endings)) or word.startswith(("~/", "./", "../")):
        return True
    top, separator, _ = word.replace("\\", "/").removeprefix("/").partition("/")
    if separator and _is_folder(Path("/" * word.startswith("/") + top)):
        return True
    if any(map(str.isspace, word)) or _ADDRESS.match(word):
        return False
    return any(sep in word for sep in "/\\") or word.startswith("~") or _GLOB.search(word) is not None


def nearest_file(word: str) -> str | None:
    """The path most like `word` that exists, in its folder or in the nearest folder above that does; None without."""
    path = Path(os.path.expanduser(word))
    rest: list[str] = [path.name]
    while not _is_folder(path.parent):
        path = path.parent
        rest.insert(0, path.name)
    return _followed(path.parent, rest)


def _followed(folder: Path, rest: list[str]) -> str | None:
    """The existing path below `folder` whose names are nearest to `rest`."""
    for name in rest:
        with os.scandir(folder) as found:
            names = [entry.name for entry, _ in zip(found, range(_MOST_NEIGHBOURS), strict=False)]
        close = nearest(name, [each for each in names if clutter(each) is None])
        if close is None:
            return None
        folder = folder / close
        if not _is_folder(folder):
            return str(folder) if name == rest[-1] else None
    return str(folder)


def missing_file(word: str) -> str:
    """What to say of a word that names no file: the file that is near, if any."""
    close = nearest_file(word)
    return f"{shown(word)}: there is no such file" + (f"; did you mean '{shown(close)}'?" if close else "")


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError):
        return False
