"""What `paddock data` asks of a suite: what is wrong with data sets, before hours are spent on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from framework.errors import AttributeValueError, NotSupportedError
from suites.engine.data.copies import copies_text
from suites.engine.registry import register_role

if TYPE_CHECKING:
    from suites.engine.config import Config

_SHOWN = 5  # places listed of each kind of finding


@dataclass(frozen=True)
class Finding:
    """Something that a user should know of a data set.

    Attributes:
        level: "error", training would fail or learn wrong; "warning", it may; "note".
        text: what, such as "12 boxes narrower than 2 pixels".
        places: names of samples, as far as it is about some.
        samples: their indices, in the same order.
        advice: what to do.
    """

    level: Literal["error", "warning", "note"]
    text: str
    places: tuple[str, ...] = ()
    samples: tuple[int, ...] = ()
    advice: str = ""

    def lines(self) -> list[str]:
        """The finding as lines of text."""
        shown = [f"    {place}" for place in self.places[:_SHOWN]]
        more = [f"    ... and {len(self.places) - _SHOWN} more"] if len(self.places) > _SHOWN else []
        return [f"  {self.level}: {self.text}", *([f"    -> {self.advice}"] if self.advice else []), *shown, *more]


@dataclass(frozen=True)
class Inspected:
    """One data set, looked at.

    Attributes:
        summary: lines of what it holds.
        findings: what is noteworthy, the worst first.
        digests: of each sample its content, by which copies are found, also in other sets.
        names: of each sample.
    """

    summary: list[str]
    findings: list[Finding]
    digests: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class Inspector(ABC):
    """Looks at the data sets of a suite.

    Attributes:
        formats: names of the formats that `convert` writes.
    """

    formats: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def inspect(self, dataset: Any) -> Inspected:
        """Read every sample and say what is wrong."""

    def glance(self, dataset: Any) -> Inspected:
        """Say what can be said of a set of many thousand samples in the time of reading its files; by default all.

        Digests are equal for copies among sets that were glanced at, not between these and others.
        """
        return self.inspect(dataset)

    @abstractmethod
    def picture(self, sample: Any, class_names: Sequence[str]) -> np.ndarray:
        """Return a sample with its truth drawn on it, uint8 RGB [H, W, 3]."""

    @abstractmethod
    def augmented(self, config: Config, name: str, dataset: Any) -> Any:
        """Return data set `name` of a config as the network sees it, as far as a person can look at it."""

    @abstractmethod
    def write_picture(self, path: Path, picture: np.ndarray) -> None:
        """Write what `picture` gave as a file, whole or not at all; folders are made."""

    def opened(self, config: Config, place: str) -> Any:
        """Return the data set that stands at a place of a config, such as `data.train.dataset`."""
        return config.build(place)

    def item(self, dataset: Any, at: int) -> Any:
        """Return what a model that gives vectors takes of sample `at`, such as its picture."""
        raise NotSupportedError(f"{type(self).__name__}: its samples have no vectors, so near copies are not found")

    def between(self, sets: Mapping[str, Any]) -> list[Finding]:
        """Return what data sets, by name, know of each other besides copies of samples; by default nothing."""
        return []

    def parts(self, dataset: Any) -> Sequence[Any]:
        """Return the data sets that `dataset` is joined of, which are looked at one by one; by default itself."""
        return (dataset,)

    def write(self, dataset: Any, indices: Sequence[int], folder: Path, part: str, kind: str) -> Path:
        """Write samples as one part, such as "train", of a set of format `kind`; return what a config names."""
        raise NotSupportedError(f"{type(self).__name__}: writes no data sets")


def named_parts(name: str, parts: Sequence[Any]) -> dict[str, Any]:
    """Return the data sets that set `name` is joined of, by names such as "train part 0"; alone it keeps its name."""
    return {name: parts[0]} if len(parts) == 1 else {f"{name} part {i}": part for i, part in enumerate(parts)}


def shared_samples(sets: Mapping[str, Mapping[str, Inspected]]) -> list[Finding]:
    """Return a finding for each two data sets that hold copies of the same samples, such as training and evaluation.

    It is an error, but between two parts of one set a warning.

    Args:
        sets: By set, the parts that it is joined of by name (`named_parts`).
    """
    found = []
    items = [(whole, name, part) for whole, parts in sets.items() for name, part in parts.items()]
    for at, (set_one, one, a) in enumerate(items):
        first = {digest: name for digest, name in zip(reversed(a.digests), reversed(a.names), strict=True) if digest}
        for set_two, two, b in items[at + 1 :]:
            pairs = zip(b.digests, b.names, strict=True)
            copies = [f"{first[digest]} = {name}" for digest, name in pairs if digest and digest in first]
            if copies:
                text = copies_text(len(copies), two, one)
                if set_one == set_two:
                    found.append(Finding("warning", f"{text}, so they count twice", tuple(copies)))
                    continue
                text += ", so its figures are too good"
                found.append(Finding("error", text, tuple(copies), advice="take them out of one of the sets"))
    return found


def copies_within(
    names: Sequence[str], digests: Sequence[str], labels: Sequence[Hashable] | None = None
) -> list[Finding]:
    """Return a warning where samples of a set are copies of each other, an error where their truth differs.

    Args:
        names: Of each sample.
        digests: Of each sample's content; "" is like no other.
        labels: Of each sample its truth, shown where it is a text; None for a set without.
    """
    seen: dict[str, int] = {}
    copies: list[tuple[int, str]] = []
    against: list[tuple[int, str]] = []
    for at, digest in enumerate(digests):
        first = seen.setdefault(digest, at)
        if not digest or first == at:
            continue
        differs = labels is not None and labels[at] != labels[first]
        said = f": {labels[at]}, {labels[first]}" if differs and labels and isinstance(labels[at], str) else ""
        (against if differs else copies).append((at, f"{names[at]} = {names[first]}{said}"))
    advice = "correct one of each two, or take both out"
    return [
        *finding_at("error", "samples are copies of others, with another truth", against, advice),
        *finding_at("warning", "samples are copies of others", copies),
    ]


def finding_at(
    level: Literal["error", "warning", "note"], text: str, places: Sequence[tuple[int | None, str]], advice: str = ""
) -> list[Finding]:
    """Return a finding on samples, `text` after their number; none where there are none.

    Args:
        places: index and name of each; no index of one that was left out of the set.
    """
    if not places:
        return []
    samples = tuple(at for at, _ in places if at is not None)
    return [Finding(level, f"{len(places)} {text}", tuple(place for _, place in places), samples, advice)]


def class_findings(counts: Mapping[str, int], noun: str, rare: int) -> list[Finding]:
    """Return warnings of classes without a sample, of those with fewer than `rare`, and of one class alone.

    `noun` names samples.
    """
    absent = [name for name, count in counts.items() if not count]
    there = {name: count for name, count in counts.items() if count}
    few = [f"{name}: {count}" for name, count in counts.items() if 0 < count < rare]
    findings = []
    if absent:
        text = f"{len(absent)} of {len(counts)} classes have no {noun}: {', '.join(absent[:10])}"
        findings.append(Finding("warning", text, advice="they cannot be learnt or measured here; correct `classes`"))
    if few:
        findings.append(Finding("warning", f"{len(few)} classes have fewer than {rare} {noun}", tuple(few)))
    if len(there) == 1:
        ((name, count),) = there.items()
        advice = "a classifier learns to tell classes apart: add samples of others, as training refuses such a set"
        findings.append(Finding("warning", f"all {count} {noun} are of one class, '{name}'", advice=advice))
    return findings


def split(digests: Sequence[str], shares: Mapping[str, float], seed: int) -> dict[str, list[int]]:
    """Deal out samples at random; copies of each other stay together. Each part is in the set's order.

    Args:
        digests: of each sample; equal ones are copies, "" is like no other.
        shares: of each part; they add up to 1.
        seed: of the draw.

    Raises:
        AttributeValueError: a share is not positive, or they do not add up to 1.
    """
    if min(shares.values(), default=0) <= 0 or abs(sum(shares.values()) - 1) > 1e-6:
        raise AttributeValueError(f"data: the shares {dict(shares)} must be positive and add up to 1")
    groups: dict[str, list[int]] = {}
    for at, digest in enumerate(digests):
        groups.setdefault(digest or f"#{at}", []).append(at)
    members = list(groups.values())
    order = [members[at] for at in np.random.default_rng(seed).permutation(len(members))]
    ends = np.rint(np.cumsum(list(shares.values())) * len(order)).astype(int)
    starts = [0, *ends[:-1]]
    parts = zip(shares, starts, ends, strict=True)
    return {name: sorted(at for group in order[a:b] for at in group) for name, a, b in parts}


register_role("inspector", Inspector, doc="Looks at data sets for `paddock data`.")
