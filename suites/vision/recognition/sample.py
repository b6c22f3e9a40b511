"""The nouns of recognition: an image or a clip with the classes it shows, and batches of them.

Letters: N samples, T frames of a clip, H W height and width, L labels of a sample, K classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from framework.errors import DataError
from suites.vision.sample import ClipSample, ImageSample, VisualSample, reclassed

Self = TypeVar("Self", bound="Labelled")


@dataclass(frozen=True, kw_only=True)
class Labelled(VisualSample):
    """Pixels with the classes they show.

    Attributes:
        labels: int64 [L], from 0 to K - 1: one, or two after `Mixup`; any number where samples have several classes.
        weights: float32 [L], their shares; they sum to 1, or are 1 each where samples have several classes.
        name: the file, for messages.
        number: of the sample in its data set, where somebody will ask; -1 where nobody does.
    """

    labels: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    weights: np.ndarray = field(default_factory=lambda: np.ones(1, np.float32))
    name: str = ""
    number: int = -1
    key: ClassVar[str]  # of the batch's array

    def reclassed(self: Self, classes: Mapping[int, int]) -> Self:
        """The sample with other classes in place of some."""
        return replace(self, labels=reclassed(self.labels, classes))

    @property
    def array(self) -> np.ndarray:
        """What a batch has of it."""
        return self.pixels

    @classmethod
    @abstractmethod
    def of(cls, pixels: np.ndarray, label: int = 0, name: str = "") -> Labelled:
        """The sample of these pixels with one label."""


@dataclass(frozen=True, kw_only=True)
class LabelledImage(Labelled, ImageSample):
    """An image [H, W, 3] with its classes."""

    key: ClassVar[str] = "images"

    @classmethod
    def of(cls, pixels: np.ndarray, label: int = 0, name: str = "") -> LabelledImage:
        """The sample of an image [H, W, 3]."""
        return cls(image=pixels, labels=np.array([label], np.int64), name=name)


@dataclass(frozen=True, kw_only=True)
class LabelledClip(Labelled, ClipSample):
    """A clip [T, H, W, 3] with its classes; or V clips and crops of one video, its views, [V * T, H, W, 3].

    Attributes:
        views: V, whose probabilities are averaged.
    """

    views: int = 1
    key: ClassVar[str] = "clips"

    @property
    def array(self) -> np.ndarray:
        """What a batch has of it: [T, H, W, 3], or [V, T, H, W, 3] of several views."""
        return self.frames if self.views == 1 else self.frames.reshape(self.views, -1, *self.frames.shape[1:])

    @classmethod
    def of(cls, pixels: np.ndarray, label: int = 0, name: str = "") -> LabelledClip:
        """The sample of a clip [T, H, W, 3]."""
        return cls(frames=pixels, labels=np.array([label], np.int64), name=name)


def collate(samples: Sequence[Labelled], num_classes: int) -> dict[str, Any]:
    """The batch of some samples.

    Args:
        samples: N images, or N clips, all of one size.
        num_classes: K.

    Returns:
        Arrays by name: "clips" [N, T, H, W, 3], of several views [N, V, T, H, W, 3], or "images" [N, H, W, 3];
        "targets" float32 [N, K], each row the shares of the classes, or which it has; "labels" int64 [N], the first
        label of each, -1 where it has none; "numbers" int64 [N] of the samples in their set; and the list "name".

    Raises:
        DataError: The pixels differ in size or type.
    """
    first = samples[0].array
    for sample in samples:
        pixels = sample.array
        if pixels.shape != first.shape or pixels.dtype != first.dtype:
            raise DataError(
                f"collate: {sample.name} is {pixels.dtype} {list(pixels.shape)} but the first of the batch "
                f"{first.dtype} {list(first.shape)}; end the transforms with a crop or Resize, then Normalize"
            )
    return {samples[0].key: np.stack([sample.array for sample in samples]), **targets_of(samples, num_classes)}


class Classed(Protocol):
    """Anything with classes: see `Labelled`."""

    @property
    def labels(self) -> np.ndarray:
        """int64 [L]."""

    @property
    def weights(self) -> np.ndarray:
        """float32 [L]."""

    @property
    def name(self) -> str:
        """For messages."""

    @property
    def number(self) -> int:
        """In the data set."""


def targets_of(samples: Sequence[Classed], num_classes: int) -> dict[str, Any]:
    """What a batch says of its samples' classes: "targets", "labels", "numbers" and "name", see `collate`."""
    targets = np.zeros((len(samples), num_classes), np.float32)
    for row, sample in zip(targets, samples, strict=True):
        np.add.at(row, sample.labels, sample.weights)
        np.minimum(row, 1, out=row)  # a class that both parts of a mixture have
    return {
        "targets": targets,
        "labels": np.array([sample.labels[0] if len(sample.labels) else -1 for sample in samples], np.int64),
        "numbers": np.array([sample.number for sample in samples], np.int64),
        "name": [sample.name for sample in samples],
    }
