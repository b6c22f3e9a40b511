"""Tally: what a set of samples held, counted in what is read anyway, and the file of a run that keeps it."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from framework.atomic import write_text
from framework.data import Source
from framework.errors import CheckpointError

FILE = "data.json"
TRAIN, EVAL = "train", "eval"  # sets of the file; a further evaluation set is "eval NAME"
_MOST_NAMES = 10_000  # counted of a kind
_MOST_REASONS = 50  # kept of what was skipped
_MOST_CHARACTERS = 300  # of a reason


@dataclass
class Count:
    """How often each name was seen, in how many samples.

    Attributes:
        samples: how many were looked at.
        whole: whether they are all of the set, as its files have them; else they are some, as they were read.
        counts: by name; of sizes by `size_bin`.
    """

    samples: int = 0
    whole: bool = True
    counts: Counter[str] = field(default_factory=Counter)


class Tally:
    """Counts of a set: names, such as its classes; sizes, such as those of its boxes; and what was skipped, and why.

    Its memory is bounded: 10,000 names of a kind, half octaves of sizes, the first 50 reasons.

    Attributes:
        names, sizes: by kind, which is a few words for people.
        skipped: samples that could not be used, or anything else that was left out.
        reasons: (source, why) of the first of them.
        notes: what a reader of the figures should know, such as that training knows some of the samples.
    """

    def __init__(self) -> None:
        self.names: dict[str, Count] = {}
        self.sizes: dict[str, Count] = {}
        self.skipped = 0
        self.reasons: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep something that a reader of the figures should know of the set, once."""
        if text not in self.notes and len(self.notes) < _MOST_REASONS:
            self.notes.append(text)

    def add(self, kind: str, counts: Mapping[str, int], samples: int, *, whole: bool = False) -> None:
        """Count names in `samples` more samples; see `Count` for `whole`."""
        self._count(self.names, kind, counts, samples, whole)

    def measure(self, kind: str, values: np.ndarray, samples: int, *, whole: bool = False) -> None:
        """Count sizes, numbers of 0 or more of any shape, in `samples` more samples."""
        found, counts = np.unique(_bins(values), return_counts=True)
        named = {str(at): count for at, count in zip(found.tolist(), counts.tolist(), strict=True)}
        self._count(self.sizes, kind, named, samples, whole)

    def skip(self, source: str, why: str, count: int = 1) -> None:
        """Note what was left out: where it stands, why, and how many."""
        self.skipped += count
        if len(self.reasons) < _MOST_REASONS:
            self.reasons.append((source[:_MOST_CHARACTERS], why[:_MOST_CHARACTERS]))

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add what another tally of other samples counted, given by its `state`; CheckpointError for anything else."""
        try:
            for own, kinds in ((self.names, state["names"]), (self.sizes, state["sizes"])):
                for kind, (samples, whole, counts) in kinds.items():
                    numbers = {str(name): int(count) for name, count in counts.items()}
                    self._count(own, str(kind), numbers, int(samples), bool(whole))
            reasons = [(str(source), str(why)) for source, why in state["reasons"]]
            self.skipped += int(state["skipped"])
            for text in state.get("notes", ()):  # older files have none
                self.note(str(text))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise CheckpointError(f"{FILE}: holds no tally ({type(error).__name__}: {error})") from None
        self.reasons = (self.reasons + reasons)[:_MOST_REASONS]

    def state(self) -> dict[str, Any]:
        """All of it as plain data, fit for JSON."""
        kinds = [
            {kind: [count.samples, count.whole, dict(count.counts)] for kind, count in each.items()}
            for each in (self.names, self.sizes)
        ]
        reasons = [list(reason) for reason in self.reasons]
        return {"names": kinds[0], "sizes": kinds[1], "skipped": self.skipped, "reasons": reasons, "notes": self.notes}

    @staticmethod
    def _count(own: dict[str, Count], kind: str, counts: Mapping[str, int], samples: int, whole: bool) -> None:
        count = own.setdefault(kind, Count(whole=whole))
        count.samples, count.whole = count.samples + samples, count.whole and whole
        for name, number in counts.items():
            if name in count.counts or len(count.counts) < _MOST_NAMES:
                count.counts[name] += number


def size_of_bin(at: int) -> float:
    """The least size of a bin: 2 ** (at / 2)."""
    return math.pow(2.0, at / 2)


def _bins(values: np.ndarray) -> np.ndarray:
    sizes = np.maximum(np.asarray(values, np.float64).reshape(-1), 1.0)
    return np.floor(2 * np.log2(sizes) + 1e-9).astype(np.int64)


def write_tally(run: Path, name: str, tally: Tally) -> None:
    """Replace what a run says of one of its sets."""
    found: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):  # none yet, or a damaged one, which is replaced
        found = dict(json.loads((run / FILE).read_text(encoding="utf-8")))
    found[name] = tally.state()
    write_text(run / FILE, json.dumps(found) + "\n")


def add_skipped(tally: Tally, loader: Source) -> None:
    """Note the samples that a loader could not use."""
    name_of = getattr(getattr(loader, "dataset", None), "name_of", "sample {}".format)
    reasons = loader.skipped.reasons()
    for place, reason in reasons.items():
        tally.skip(str(name_of(place)) if isinstance(place, int) else place, reason)
    tally.skipped += max(0, len(loader.skipped) - len(reasons))


def set_name(evaluation: str) -> str:
    """What the evaluation set of that name, "" for the main one, is called in the file."""
    return f"{EVAL} {evaluation}" if evaluation else EVAL
