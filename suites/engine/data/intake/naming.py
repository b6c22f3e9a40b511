"""Names of files and folders: which are no data, in which order they come, and how a list's name finds its file."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

_DIGITS = re.compile(r"([0-9]+)")
# What systems and tools leave among data: NAS servers, Windows, macOS, Python.
_CLUTTER = frozenset({
    "__macosx", "@eadir", "@tmp", "#recycle", "#snapshot", "@recycle", "@recently-snapshot", "$recycle.bin", "recycler",
    "system volume information", "lost+found", "thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__pycache__",
})  # fmt: skip
_ABOUT = ("readme", "license", "licence", "copying", "citation", "changelog")
_DIGIT_PLACES = bytes(ord("0") <= byte <= ord("9") for byte in range(256))  # of a text's bytes, 1 for a digit
_OFFICE_LOCK = "~$"


def clutter(name: str) -> str | None:
    """Why one component of a path is no data; None for data.

    >>> clutter(".ipynb_checkpoints"), clutter("Thumbs.db"), clutter("cat.jpg")
    ('hidden', 'left by the system', None)
    """
    if name.startswith("."):
        return "hidden"
    if name.lower() in _CLUTTER or name.startswith(_OFFICE_LOCK):
        return "left by the system"
    return None


def is_about(name: str) -> bool:
    """Whether a file tells of data and holds none, by its name.

    >>> is_about("README.roboflow.txt"), is_about("LICENSE"), is_about("notes.md"), is_about("labels.txt")
    (True, True, True, False)
    """
    plain = name.lower()
    return plain.startswith(_ABOUT) or plain.endswith((".md", ".rst", ".pdf", ".html", ".bib"))


def by_number(name: str) -> tuple[tuple[tuple[int, int, str], ...], str]:
    """Sort key of a path: folder by folder, runs of digits as numbers, the rest as text.

    >>> sorted(["f10.png", "f9.png", "a/2.png", "a/10.png"], key=by_number)
    ['a/2.png', 'a/10.png', 'f9.png', 'f10.png']
    """
    parts = []
    for at, text in enumerate(_DIGITS.split(name.replace("/", "\0"))):  # a folder comes before names that go on
        digits = text.lstrip("0") if at % 2 else ""  # numbers of any length: longer ones are larger
        parts.append((1, len(digits), digits) if at % 2 else (2 if text else 0, 0, text))
    return tuple(parts), name


def in_order(names: Iterable[str]) -> list[str]:
    """The names sorted by `by_number`."""
    names = list(names)
    return sorted(names, key=None if _are_alike(names) else by_number)


def _are_alike(names: Sequence[str]) -> bool:
    """Whether all have digits in the same places, so that their texts are in the order of their numbers."""
    if not "".join(names).isascii() or any("/" in name for name in names):
        return False
    return len({name.encode().translate(_DIGIT_PLACES) for name in names}) == 1


def ending(name: str) -> str:
    """The ending of a file's name in lower case, with its dot; "" where it has none."""
    kind = name[name.rfind(".") :]  # most names; `PurePosixPath` takes twenty times as long
    if 1 < len(kind) < len(name) and "/" not in kind and name[-len(kind) - 1] != "/":
        return kind.lower()
    last = name.rstrip("/").rpartition("/")[2]
    dot = last.rfind(".")
    return last[dot:].lower() if 0 < dot < len(last) - 1 else ""


class Endings:
    """Names by their endings, each of which is looked at once.

    >>> Endings(["a.jpg", "b.txt", "c.JPG"]).of((".jpg",))
    ['a.jpg', 'c.JPG']

    Attributes:
        names: as they were given.
        counts: how many of them have which ending, in the order in which the endings come.
    """

    def __init__(self, names: Sequence[str], endings: Sequence[str] | None = None) -> None:
        self.names = names
        self._endings = [ending(name) for name in names] if endings is None else endings
        self.counts = Counter(self._endings)

    @classmethod
    def joined(cls, parts: Iterable[tuple[str, Endings]]) -> Endings:
        """Those of several folders, each with what to put before its names."""
        parts = list(parts)
        names = [prefix + name for prefix, part in parts for name in part.names]
        return cls(names, [each for _, part in parts for each in part._endings])

    def of(self, endings: Collection[str]) -> list[str]:
        """The names with one of these endings, in their order."""
        wanted = {each for each in self.counts if each in endings}
        if len(wanted) == len(self.counts):
            return list(self.names)
        return [name for name, each in zip(self.names, self._endings, strict=True) if each in wanted] if wanted else []


def stem(name: str) -> str:
    """A path without the ending of its file."""
    kind = ending(name)
    return name[: len(name) - len(kind)] if kind and not name.endswith("/") else name


def shown(name: str) -> str:
    r"""A name for people: bytes of it that are no text, and control characters, are escaped.

    >>> shown("caf\udce9\n.jpg")
    'caf\\xe9\\n.jpg'
    """
    if name.isascii() and name.isprintable():
        return name
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def as_written(name: str) -> str:
    r"""A path as a list or an annotation may write it, in the one form that names of sources have.

    Backslashes of Windows are slashes, `./` and doubled slashes go, composed characters are one (NFC).

    >>> as_written(".\\images\\1.jpg")
    'images/1.jpg'
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    return unicodedata.normalize("NFC", "/".join(parts))


def entries(folder: Path) -> list[Path]:
    """What lies directly in a folder, in order, without clutter; raises OSError where it cannot be listed."""
    return [folder / name for name in in_order(p.name for p in folder.iterdir()) if clutter(name) is None]


class Finder:
    """Finds files by the names that people write for them.

    A name is taken as it is where there is such a file. Else its form does not count: `./`, backslashes, composed or
    decomposed letters, and capitals.

    Args:
        names: paths of files.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = dict.fromkeys(names)
        self._forms: dict[str, list[str]] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def find(self, name: str) -> str | None:
        """The file that a name means; None where there is none, or several that differ in capitals only."""
        if name in self._names:
            return name
        if self._forms is None:
            self._forms = {}
            for known in self._names:
                self._forms.setdefault(_form(known), []).append(known)
        found = self._forms.get(_form(name), [])
        exact = [known for known in found if as_written(known) == as_written(name)]
        only = exact or found
        return only[0] if len(only) == 1 else None


def _form(name: str) -> str:
    return as_written(name).casefold()


class Stems:
    """Files by their paths without endings, so that a text finds its picture whatever the picture's ending.

    Args:
        names: paths of files.
        preferred: endings, of which the first that is there is taken.
    """

    def __init__(self, names: Iterable[str], preferred: Sequence[str] = ()) -> None:
        self._rank = {suffix: at for at, suffix in enumerate(preferred)}
        self._names: dict[str, list[str]] = {}
        for name in names:
            self._names.setdefault(_form(stem(name)), []).append(name)

    def find(self, name: str) -> str | None:
        """The file of this path without an ending; None where there is none."""
        found = self._names.get(_form(name))
        if found is None:
            return None
        exact = [each for each in found if as_written(stem(each)).endswith(as_written(name))]
        return min(exact or found, key=lambda each: (self._rank.get(ending(each), len(self._rank)), each))
