"""A window slid over an image: parts that are predicted on one by one, and their scores stitched to a label map.

Only a band of the image, one window high, has scores at a time, so the memory grows with the image's width and not with
its area. Letters: N images, V windows of all of them, H W image size, h w window size, K classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import AttributeValueError, ConfigError
from suites.engine.contract.batch import Batch, Found
from suites.segmentation.sample import Sample, labels_to_original
from suites.segmentation.transforms import Transform, collate
from suites.vision.augmentation.transforms import Normalize
from suites.vision.geometry import Placement


@dataclass(frozen=True)
class Windows:
    """Where windows lie, and how many are predicted on at a time.

    Args:
        size: side of the square window in pixels; an image that has fewer is one window along that axis.
        stride: step from window to window, at most `size`.
        together: windows that are predicted on at a time, which bounds the memory.
    """

    size: int
    stride: int
    together: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.stride <= self.size or self.together < 1:
            raise AttributeValueError(
                f"inference: window is {self.size}, stride {self.stride} and together {self.together}; needed is "
                "1 <= stride <= window, and together of 1 or more"
            )

    def corners(self, size: tuple[int, int]) -> list[tuple[int, int]]:
        """(top, left) of each window of an image of `size` (H, W), row by row."""
        tops, lefts = (starts(side, min(self.size, side), self.stride) for side in size)
        return [(top, left) for top in tops for left in lefts]

    def of(self, sample: Sample, transforms: Sequence[Transform]) -> Iterator[Window]:
        """The windows of what `transforms` (those of evaluation) make of a sample, row by row.

        Raises:
            ConfigError: the transforms behind `Normalize` change the size.
        """
        rng = np.random.default_rng(0)
        last = next((at for at, each in enumerate(transforms) if isinstance(each, Normalize)), len(transforms))
        for transform in transforms[:last]:
            sample = transform(sample, rng)
        whole = Whole(sample.size, sample.placement, sample.truth.shape)
        size = min(self.size, sample.size[0]), min(self.size, sample.size[1])
        for top, left in self.corners(sample.size):
            part = sample.cropped(size, top, left)
            for transform in transforms[last:]:  # of a part alone: a whole image in float32 is four times as large
                part = transform(part, rng)
            if part.size != size:
                raise ConfigError(
                    "data.eval.transforms: with windows, Normalize is the last; move the others before it"
                )
            yield Window(part, (top, left), whole)

    def batches(self, samples: Sequence[Sample], transforms: Sequence[Transform]) -> Iterator[Batch]:
        """Batches of the windows of each sample in turn, of at most `together`, made when they are asked for."""
        for number, sample in enumerate(samples):
            windows = self.of(sample, transforms)
            while part := list(itertools.islice(windows, self.together)):
                yield window_batch([part], first=number)


@dataclass(frozen=True)
class Whole:
    """An image that windows are of.

    Attributes:
        size: (H, W), transformed.
        placement: where the original lies in it.
        original: (H, W) of the original.
    """

    size: tuple[int, int]
    placement: Placement
    original: tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A part of an image, whose corner lies at (top, left) of it."""

    sample: Sample
    corner: tuple[int, int]
    whole: Whole


def window_batch(images: Sequence[Sequence[Window]], first: int = 0) -> Batch:
    """The windows of some images as one batch.

    Returns:
        What `collate` gives of the V windows, but `truth` of the N images; and `owners` int64 [V], the image of each
        window, counted from `first`; `corners` int64 [V, 2]; `wholes`, each image by its number.
    """
    every = [window for windows in images for window in windows]
    owners = [first + number for number, windows in enumerate(images) for _ in windows]
    return {
        **collate([window.sample for window in every]),
        "truth": [windows[0].sample.truth for windows in images],
        "owners": np.array(owners, np.int64),
        "corners": np.array([window.corner for window in every], np.int64),
        "wholes": {first + number: windows[0].whole for number, windows in enumerate(images)},
    }


def stitched(found: Iterable[Found]) -> Iterator[np.ndarray]:
    """The label map of each image, uint8 at its original size, out of the windows of one batch or more, in order.

    Args:
        found: `scores` [V, h, w, K] and the batch they are of.
    """
    owner, open_one, whole = -1, None, None
    for outputs, batch in found:
        rows = zip(outputs["scores"], batch["owners"].tolist(), batch["corners"].tolist(), strict=True)
        for scores, number, (top, left) in rows:
            if number != owner:
                if open_one is not None and whole is not None:
                    yield labels_to_original(open_one.labels(), whole.placement, whole.original)
                owner, whole = number, batch["wholes"][number]
                open_one = _Stitcher(whole.size, scores.shape)
            assert open_one is not None
            open_one.add(scores, top, left)
    if open_one is not None and whole is not None:
        yield labels_to_original(open_one.labels(), whole.placement, whole.original)


class _Stitcher:
    """Adds the scores of windows that come row by row; of what no later window reaches, only the labels are kept."""

    def __init__(self, size: tuple[int, int], window: tuple[int, ...]) -> None:
        self._labels = np.empty(size, np.uint8)
        self._band = np.zeros((window[0], size[1], window[2]), np.float32)
        self._top = 0  # the band's first row in the image

    def add(self, scores: np.ndarray, top: int, left: int) -> None:
        """Takes in a window, [h, w, K]."""
        if top > self._top:
            self._settle(top)
        self._band[: scores.shape[0], left : left + scores.shape[1]] += scores

    def labels(self) -> np.ndarray:
        """The label map; there are no more windows."""
        self._settle(self._labels.shape[0])
        return self._labels

    def _settle(self, to: int) -> None:
        done = to - self._top
        self._labels[self._top : to] = self._band[:done].argmax(axis=-1)
        self._band[: len(self._band) - done] = self._band[done:].copy()
        self._band[len(self._band) - done :] = 0
        self._top = to


def starts(length: int, window: int, stride: int) -> list[int]:
    """Where windows begin along an axis: every `stride` pixels, the last one at the end."""
    return sorted({min(at, length - window) for at in range(0, max(length - window, 0) + stride, stride)})
