"""The files that the items of a gallery were read from: which of them changed, went, or came since.

Letters: F files, N items.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from framework.errors import CheckpointError, PaddockError
from framework.io import load_tensors, save_tensors, sha256
from framework.tensors import tensor

FILE = "files.safetensors"
_COMPARED = 1 << 30  # bytes of touched files that are read to see whether they changed, each time


class Stamp(NamedTuple):
    """A file when it was read: bytes, nanoseconds of its last change, and the first 16 bytes of its SHA-256."""

    size: int
    time: int
    digest: bytes


def stamp_of(path: Path) -> Stamp | None:
    """A file as it is now; None where none can be read."""
    try:
        found = os.stat(path)  # before it is read: what is written meanwhile counts as changed later
        return Stamp(found.st_size, found.st_mtime_ns, bytes.fromhex(sha256(path))[:16])
    except OSError:
        return None


class Changes(NamedTuple):
    """What became of the files of a gallery since it was written, by the names that it has for them.

    Attributes:
        changed: hold something else now.
        gone: are not there.
        new: lie in its folders, or match its patterns, and were not there.
        moved: none of its files is where it was, so nothing is known of them.
    """

    changed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    new: tuple[str, ...] = ()
    moved: bool = False


@dataclass(frozen=True)
class Files:
    """Where the items of a gallery are from.

    Attributes:
        folder: the working folder in which it was built, from which relative names count.
        words: the files, folders and patterns that were named, without texts.
        stamps: of each of the F files that was read, also where it gave no item.
        owners: int64 [N], the file of each item by its place in `stamps`; -1 of texts that were named themselves.
    """

    folder: str
    words: tuple[str, ...]
    stamps: Mapping[str, Stamp]
    owners: np.ndarray

    def path(self, name: str) -> Path:
        """Where a file of the gallery lies."""
        return Path(self.folder, name)

    def of_items(self) -> list[str | None]:
        """The name of each item's file; None of a text."""
        names = [*self.stamps, None]  # the last is also the one at -1
        return [names[owner] for owner in self.owners.tolist()]

    def changes(self, expanded: Callable[[Sequence[str]], Iterable[str]] | None = None) -> Changes:
        """What became of the files.

        A file of the same size and time counts as the same. One that was only touched is compared by its content, up to
        1 GiB in all; beyond, it counts as changed.

        Args:
            expanded: gives the files that words stand for; None looks for no new ones.
        """
        changed, gone, left = set(), set(), _COMPARED
        for name, stamp in self.stamps.items():
            try:
                found = os.stat(self.path(name))
            except OSError:
                gone.add(name)
                continue
            if (found.st_size, found.st_mtime_ns) == stamp[:2]:
                continue
            left -= found.st_size
            now = stamp_of(self.path(name)) if found.st_size == stamp.size and left >= 0 else None
            if now is None or now.digest != stamp.digest:
                changed.add(name)
        if self.stamps and len(gone) == len(self.stamps):
            return Changes(moved=True)
        named = expanded([self.said(word) for word in self.words]) if expanded else ()
        there = (self.named(path) for path in named if os.path.isfile(path))
        new = dict.fromkeys(name for name in there if name not in self.stamps)
        return Changes(frozenset(changed), frozenset(gone), tuple(new))

    def said(self, word: str) -> str:
        """A word or name so that it means the same in any working folder."""
        plain = os.path.join(self.folder, word)
        return plain if os.path.exists(plain) else os.path.join(glob.escape(self.folder), word)

    def named(self, path: str) -> str:
        """The gallery's name of what `said` led to."""
        return path.removeprefix(os.path.join(self.folder, ""))

    def facts(self) -> dict[str, Any]:
        """What is saved as JSON; the numbers go to a file of their own."""
        return {"folder": self.folder, "words": list(self.words), "names": list(self.stamps)}

    def write(self, path: Path) -> None:
        """Write the numbers."""
        stamps = list(self.stamps.values())
        save_tensors(
            path,
            {
                "stamps": tensor(np.array([stamp[:2] for stamp in stamps], np.int64).reshape(-1, 2)),
                "digests": tensor(np.frombuffer(b"".join(s.digest for s in stamps), np.uint8).reshape(-1, 16)),
                "owners": tensor(np.asarray(self.owners, np.int64)),
            },
        )

    @classmethod
    def read(cls, path: Path, facts: Any, items: int) -> Files:
        """What `facts` and `write` saved of so many items; CheckpointError where it is damaged."""
        try:
            found = {name: each.numpy() for name, each in load_tensors(path).items()}
            names, owners = [str(name) for name in facts["names"]], found["owners"].astype(np.int64)
            shapes = (found["stamps"].shape, found["digests"].shape, owners.shape)
            if shapes != ((len(names), 2), (len(names), 16), (items,)) or len(set(names)) != len(names):
                raise ValueError(f"{len(names)} files, {items} items and arrays of {shapes}")
            if owners.size and not (owners.min() >= -1 and owners.max() < len(names)):
                raise ValueError("an item is of a file that is not there")
            rows = zip(names, found["stamps"].tolist(), found["digests"], strict=True)
            stamps = {name: Stamp(size, time, bytes(digest)) for name, (size, time), digest in rows}
            return cls(str(facts["folder"]), tuple(map(str, facts["words"])), stamps, owners)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, PaddockError) as error:
            raise CheckpointError(f"{path}: cannot be read ({error}); build the gallery again") from None


def told(changes: Changes, what: str) -> list[str]:
    """Lines on what changed, and what to do; none where nothing did."""
    if changes.moved:
        return [f"{what}: none of its files is where it was, so whether they changed is not known"]
    places = {"changed": sorted(changes.changed), "gone": sorted(changes.gone), "not in it yet": changes.new}
    said = [f"{len(names)} {how} ({names[0]}{', ...' if names[1:] else ''})" for how, names in places.items() if names]
    return [f"{what}: files since it was written: {', '.join(said)}; `paddock index update` mends it"] if said else []
