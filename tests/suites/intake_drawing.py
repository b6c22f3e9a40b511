"""What drawn sets of the intake's fuzz are written with: names, encodings, clutter, archives; and their comparison."""

from __future__ import annotations

import random
import re
import unicodedata
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

STEMS = ("a b", "a,b", "50%", "x (1)", "café", "日本", "o'b", "img_", "IMG-", "p.q", "&amp", "#n", "a+b", "Ünï", "v=1")
ENDINGS = (".jpg", ".JPG", ".jpeg", ".jfif", ".png", ".PNG", ".bmp")
CLUTTER = (
    *(".DS_Store", "Thumbs.db", "desktop.ini", "._0.jpg", "__MACOSX/._1.jpg", ".ipynb_checkpoints/1-checkpoint.jpg"),
    *("@eaDir/1.jpg", "sub@/Thumbs.db", ".git/config"),
)
CLASSES = ("cat", "big dog", "Vögel", "猫", "2", "10")


@dataclass
class Draw:
    """A drawn data set.

    Attributes:
        rng: draws.
        root: the folder that it is written into.
        odd: its oddities, for messages.
        wrong: it is wrong in a way that must be refused, or left out with a count.
    """

    rng: random.Random
    root: Path
    odd: list[str] = field(default_factory=list)
    wrong: bool = False

    def chance(self, share: float, odd: str) -> bool:
        """Whether an oddity is drawn."""
        if self.rng.random() < share:
            self.odd.append(odd)
            return True
        return False

    def pick(self, *options: Any) -> Any:
        """One of the options, the first half the time; the others are oddities."""
        if self.rng.random() < 0.5 or len(options) == 1:
            return options[0]
        found = self.rng.choice(options[1:])
        self.odd.append(repr(found))
        return found

    def text(self, path: str, text: str, *, wide: bool = True, ends: bool = True) -> None:
        """Writes a text in a drawn encoding with drawn ends of lines."""
        end = self.pick("\n", "\r\n", "\r") if ends else "\n"
        encodings = ("utf-8", "utf-8-sig", "utf-16", "utf-16-be") if wide else ("utf-8", "utf-8-sig")
        encoding = self.pick(*encodings)
        data = text.replace("\n", end).encode("utf-16-be" if encoding == "utf-16-be" else encoding)
        self.put(path, b"\xfe\xff" + data if encoding == "utf-16-be" else data)

    def put(self, path: str, data: bytes) -> None:
        """Writes a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def stem(self, number: int) -> str:
        """A name, unique by its number."""
        name = f"{self.rng.choice(STEMS)}{number}" if self.odd_names else f"photo{number}"
        return unicodedata.normalize(self.form, name)

    odd_names: bool = False
    form: Any = "NFC"

    def picture(self, path: str, value: int, size: tuple[int, int]) -> None:
        """Writes a picture whose mean says its number."""
        pixels = np.full((*size, 3), value, np.uint8)
        pixels[:: 1 + value % 7, :: 1 + value % 5] += 3
        kind = ".png" if path.lower().endswith(".png") else ".bmp" if path.lower().endswith(".bmp") else ".jpg"
        self.put(path, cv2.imencode(kind, pixels)[1].tobytes())

    def names(self, count: int) -> list[tuple[str, str]]:
        """(stem, ending) of pictures."""
        self.odd_names = self.chance(0.5, "names")
        self.form = self.pick("NFC", "NFD") if self.odd_names else "NFC"
        other = self.chance(0.3, "endings")
        return [(self.stem(at), self.rng.choice(ENDINGS) if other else ".jpg") for at in range(count)]

    def finish(self) -> str:
        """Adds clutter, packs; returns the root to read."""
        if self.chance(0.4, "clutter"):
            for name in self.rng.sample(CLUTTER, 3):
                self.put(name, b"\0\1clutter")
        kind = self.pick("folder", "zip", "zip with backslashes", "link loop")
        if kind == "link loop":
            (self.root / "loop").symlink_to(self.root, target_is_directory=True)
        if not kind.startswith("zip"):
            return str(self.root)
        archive = self.root.parent / f"{self.root.name}.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            for path in sorted(self.root.rglob("*")):
                if path.is_file():
                    name = path.relative_to(self.root).as_posix()
                    info = zipfile.ZipInfo(name)
                    if "back" in kind:
                        info.filename = name.replace("/", "\\")
                    packed.writestr(info, path.read_bytes())
        return str(archive)


def key_of(name: str) -> str:
    """What names a picture in a truth: its file's name without ending, composed."""
    return unicodedata.normalize("NFC", re.sub(r"\.[A-Za-z]+$", "", name.rpartition("/")[2]))


def parts(make: Callable[[str], Any]) -> list[Any]:
    """Both parts of a set."""
    return [make(part) for part in ("train", "val")]


def compare(found: Any, truth: Any, what: str) -> None:
    """Raises AssertionError with both where they differ."""
    assert found == truth, f"{what}: read {str(found)[:600]}, truth {str(truth)[:600]}"
