"""Several looks at one picture: mirrored, larger, in slices; what is found in each is merged on the picture.

Letters: H W picture size, V views of a picture.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from framework import no_grad, ops, tensor
from framework.errors import AttributeValueError, DataError
from suites.detection.sample import Sample
from suites.detection.transforms import Transform
from suites.engine.contract.batch import Batch
from suites.vision.alike import alike
from suites.vision.structures import Instances

_MOST_SLICES = 4096


@dataclass(frozen=True)
class Slices:
    """Overlapping parts of a picture, each predicted on as if it were one (Akyon et al. 2022, SAHI, arXiv:2202.06934).

    Args:
        size: Side of a part, in pixels of the picture; one that has fewer is one part.
        overlap: Share of a part that its neighbour has too; objects up to that size lie in one part wholly.
        whole: Whether the whole picture is looked at too, for objects larger than a part.
    """

    size: int
    overlap: float = 0.2
    whole: bool = True

    def __post_init__(self) -> None:
        if self.size < 1 or not 0 <= self.overlap < 1:
            raise AttributeValueError(
                f"Slices: size is {self.size} and overlap {self.overlap}; size must be 1 or more, overlap in [0, 1)"
            )

    def of(self, sample: Sample) -> Iterator[Sample]:
        """The parts, row by row, and the whole.

        Raises:
            DataError: There are more than 4096.
        """
        tops, lefts = self._places(sample.size)
        count = len(tops) * len(lefts)
        size = min(self.size, sample.size[0]), min(self.size, sample.size[1])
        if count == 1:
            yield sample
            return
        for top in tops:
            for left in lefts:
                yield sample.cropped(size, top, left)
        if self.whole:
            yield sample

    def expect_few(self, size: tuple[int, int]) -> None:
        """Raise DataError where a picture of this size (H, W) makes more than 4096."""
        self._places(size)

    def _places(self, size: tuple[int, int]) -> tuple[list[int], list[int]]:
        """Tops and lefts of the parts."""
        tops, lefts = (self._starts(side) for side in size)
        count = len(tops) * len(lefts)
        if count > _MOST_SLICES:
            raise DataError(
                f"Slices: a picture of {size[1]}x{size[0]} makes {count} slices of {self.size}; at most {_MOST_SLICES} "
                "are made: take larger ones"
            )
        return tops, lefts

    def _starts(self, side: int) -> list[int]:
        """Where parts begin along a side, evenly, the last at its end."""
        if side <= self.size:
            return [0]
        count = int(np.ceil((side - self.size) / max(1.0, self.size * (1 - self.overlap)))) + 1
        return np.linspace(0, side - self.size, count).round().astype(int).tolist()


@dataclass(frozen=True)
class Views:
    """How a picture is looked at when it is predicted on.

    Args:
        flip: Mirrored from left to right too.
        scales: Factors on the size that the transforms give; for networks that take images of any size.
        slices: In overlapping parts, for large pictures with small objects.
        iou: Overlap from which on two detections of a class, of different views, are one; the better one stays.
        keep: Detections of a picture at most.
        together: Views that are predicted on at a time, which bounds the memory.
    """

    flip: bool = False
    scales: tuple[float, ...] = (1.0,)
    slices: Slices | None = None
    iou: float = 0.5
    keep: int = 300
    together: int = 8

    def __post_init__(self) -> None:
        if not self.scales or min(self.scales) <= 0 or not 0 < self.iou <= 1 or min(self.keep, self.together) < 1:
            raise AttributeValueError(
                f"Views: scales are {list(self.scales)}, iou {self.iou}, keep {self.keep}, together {self.together}; "
                "scales, keep and together must be positive, iou in (0, 1]"
            )

    def of(self, sample: Sample, transforms: Sequence[Transform]) -> Iterator[Sample]:
        """V samples, each through `transforms` (those of evaluation)."""
        rng = np.random.default_rng(0)
        for part in self.slices.of(sample) if self.slices else [sample]:
            for mirrored in (False, True)[: 1 + self.flip]:
                seen = part.mirrored(horizontal=True) if mirrored else part
                for transform in transforms:
                    seen = transform(seen, rng)
                for scale in self.scales:
                    size = max(1, round(seen.size[0] * scale)), max(1, round(seen.size[1] * scale))
                    yield seen if scale == 1 else seen.scaled(size)

    def batches(
        self,
        samples: Sequence[Sample],
        transforms: Sequence[Transform],
        collate: Callable[[list[Sample]], Batch],
        shape_of: Callable[[Sample], Hashable],
    ) -> Iterator[Batch]:
        """Batches of the views of each sample in turn, of at most `together`, made when they are asked for.

        Args:
            samples: N pictures.
            transforms: those of evaluation.
            collate: makes a batch.
            shape_of: what the views of a batch have in common.

        Yields:
            What `collate` gives, and `owners` int64 [V], the number of the sample.
        """
        for number, sample in enumerate(samples):
            seen = self.of(sample, transforms)
            while part := list(itertools.islice(seen, self.together)):
                for group in alike(map(shape_of, part)):
                    yield {**collate([part[k] for k in group]), "owners": np.full(len(group), number, np.int64)}

    def merged(self, parts: Sequence[Instances]) -> Instances:
        """What was found in all views of a picture, each object once, best first."""
        every = Instances.joined([part for part in parts if len(part)] or [Instances.none()])
        if not len(every):
            return every
        # One call for all classes: boxes of different classes are moved apart.
        apart = every.classes[:, None] * (2 + 2 * np.abs(every.boxes.array).max())
        with no_grad():
            kept, count = ops.nms(
                tensor((every.boxes.array + apart).astype(np.float32)),
                tensor(every.scores.astype(np.float32)),
                iou_threshold=self.iou,
                score_threshold=-1.0,
                max_outputs=self.keep,
            )
        return every[kept.numpy()[: int(count)]]


class Sliceable(Transform):
    """Leaves a picture as it is; one that makes too many slices is an error here, so that a loader leaves it out.

    Args:
        views: how pictures are looked at.
    """

    def __init__(self, views: Views) -> None:
        self._slices = views.slices

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Raises as `Slices.of` does."""
        if self._slices is not None:
            self._slices.expect_few(sample.size)
        return sample
