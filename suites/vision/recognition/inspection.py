"""What is wrong with a set of labelled images or clips: unreadable ones, copies with other labels, rare classes."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np

from framework.errors import DataError
from suites.engine.contract.inspection import Finding, Inspected, class_findings, copies_within, finding_at
from suites.vision.inspection import VisualInspector, left_out_findings
from suites.vision.pictures.glances import Glance
from suites.vision.recognition.datasets import RecognitionDataset
from suites.vision.recognition.processor import put_classes
from suites.vision.recognition.sample import LabelledImage

RARE = 10  # samples of a class below which its figures are chance


@dataclass(frozen=True)
class Seen:
    """What was seen of a sample.

    Attributes:
        digest: of its content.
        labels: names of its classes.
        length: frames, or rows of a sequence; 1 of an image.
        size: (H, W); (0, 0) of sequences.
    """

    digest: str
    labels: tuple[str, ...]
    length: int = 1
    size: tuple[int, int] = (0, 0)


def names_of(dataset: RecognitionDataset, labels: np.ndarray) -> tuple[str, ...]:
    """The names of classes, int64 [L]."""
    return tuple(dataset.class_names[k] for k in labels.tolist())


def _names_at(dataset: RecognitionDataset) -> Callable[[int], tuple[str, ...]]:
    """What gives the names of the classes of a sample."""
    if dataset.multi_label:
        return lambda at: names_of(dataset, dataset.labels_of(at))
    single, labels = [(name,) for name in dataset.class_names], dataset.labels.tolist()
    return lambda at: single[labels[at]]


def _seen(file: Glance | DataError, labels: tuple[str, ...]) -> Seen:
    if isinstance(file, DataError):
        raise file
    return Seen(file.digest, labels, size=file.size)


class RecognitionInspector(VisualInspector):
    """Reads every sample; a suite says how.

    Attributes:
        noun: what samples are called.
    """

    noun: ClassVar[str]

    @abstractmethod
    def look(self, dataset: Any, at: int) -> Seen:
        """What there is to see of a sample that is decoded; a DataError says why it cannot be read."""

    def more(self, dataset: Any, seen: Sequence[Seen | None], names: Sequence[str]) -> list[Finding]:
        """Further findings of the suite's own."""
        return []

    def look_at(self, dataset: RecognitionDataset, decode: bool) -> Inspected:
        """What `dataset` holds, and what is wrong with it."""
        names = dataset.names()
        seen: list[Seen | None] = []
        broken = []
        files, labels_at = repeat(None, len(dataset)) if decode else dataset.glances(), _names_at(dataset)
        for at, file in enumerate(files):
            try:
                seen.append(_seen(file, labels_at(at)) if file else self.look(dataset, at))
            except (DataError, OSError) as error:
                seen.append(None)
                broken.append((at, str(error)))
        findings = left_out_findings(dataset)
        advice = "mend them or take them out; training skips and counts them, up to runtime.data.max_skipped"
        findings += finding_at("error", f"{self.noun} cannot be read", broken, advice)
        digests = [one.digest if one else "" for one in seen]
        findings += copies_within(names, digests, [", ".join(one.labels) if one else "" for one in seen])
        findings += self.more(dataset, seen, names)
        counts = dict(zip(dataset.class_names, dataset.class_counts().tolist(), strict=True))
        findings += class_findings(counts, self.noun, RARE)
        return Inspected(self._summary(dataset, seen), findings, digests, names)

    def _summary(self, dataset: RecognitionDataset, seen: Sequence[Seen | None]) -> list[str]:
        lines = [f"{len(dataset)} {self.noun}"]
        lengths = [one.length for one in seen if one]
        heights, widths = ([one.size[axis] for one in seen if one and one.size[0]] for axis in (0, 1))
        if lengths and max(lengths) > 1:
            lines.append(f"frames: {min(lengths)} to {max(lengths)}, median {np.median(lengths):.0f}")
        if heights:
            lines.append(f"pixels: {min(widths)} to {max(widths)} wide, {min(heights)} to {max(heights)} high")
        width = max(map(len, dataset.class_names))
        counts = zip(dataset.class_names, dataset.class_counts(), strict=True)
        return [*lines, *(f"  {name:<{width}} {count:>7}" for name, count in counts)]


class LabelledImageInspector(RecognitionInspector):
    """Of images: copies are of equal pixels, or where these are not decoded equal files."""

    noun: ClassVar[str] = "images"

    def look(self, dataset: RecognitionDataset, at: int) -> Seen:
        """The digest of an image, its classes and its size."""
        sample = dataset[at]
        pixels = sample.pixels
        content = f"{pixels.shape}".encode() + pixels.tobytes()
        height, width = pixels.shape[:2]
        return Seen(hashlib.sha256(content).hexdigest(), names_of(dataset, sample.labels), size=(height, width))

    def picture(self, sample: LabelledImage, class_names: Sequence[str]) -> np.ndarray:
        """The image with its classes."""
        canvas = sample.pixels.copy()
        put_classes(canvas, [{"class": class_names[k]} for k in sample.labels.tolist()], class_names)
        return canvas
