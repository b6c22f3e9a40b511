"""Several pictures in one: Mosaic (four of them), CopyPaste (objects of another with their shapes)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from framework.errors import AttributeValueError
from suites.detection.sample import Sample
from suites.detection.transforms.geometry import cropped
from suites.engine.registry import register
from suites.vision.augmentation.pipeline import MixingTransform
from suites.vision.augmentation.pixels import IMAGENET_MEAN, check_prob, check_range, pair
from suites.vision.structures import Instances, Masks

_QUARTERS = ((0, 0), (0, 1), (1, 0), (1, 1))  # row and column


@register("transform")
class Mosaic(MixingTransform):
    """Four samples around a random point of one canvas (Bochkovskiy et al. 2020, YOLOv4, arXiv:2004.10934).

    Each sample is scaled so that its longer side is `size` times a drawn factor, put with a corner at the point, and
    cut at the canvas. Needs `Augmented`, which draws the other samples.

    Args:
        size: Side of the canvas, or [height, width], in pixels.
        centre: Where the point may lie, as shares of the canvas.
        scale: Smallest and largest factor.
        prob: How often; otherwise the sample stays as it is.
        fill: RGB of the canvas, in [0, 1].
    """

    def __init__(
        self,
        size: int | Sequence[int],
        centre: Sequence[float] = (0.25, 0.75),
        scale: Sequence[float] = (0.5, 1.0),
        prob: float = 1.0,
        fill: Sequence[float] = IMAGENET_MEAN,
    ) -> None:
        self._size = pair(size, "Mosaic")
        self._centre = check_range("Mosaic", "centre", centre, 0.0)
        self._scale = check_range("Mosaic", "scale", scale, 0.01)
        self._prob = check_prob("Mosaic", prob)
        self._fill = tuple(fill)
        if self._centre[1] > 1:
            raise AttributeValueError(f"Mosaic: centre is {list(centre)}; shares of the canvas lie in [0, 1]")

    def mix(self, sample: Sample, rng: np.random.Generator, draw: Callable[[], Sample]) -> Sample:
        """Returns the canvas; `image_id` stays that of `sample`."""
        if rng.random() >= self._prob:
            return sample
        height, width = self._size
        y, x = (int(side * share) for side, share in zip(self._size, rng.uniform(*self._centre, 2), strict=True))
        canvases: list[Sample] = []
        image = np.zeros(0)
        for (row, column), one in zip(_QUARTERS, (sample, draw(), draw(), draw()), strict=True):
            room = y if row == 0 else height - y, x if column == 0 else width - x
            part = self._part(one, row, column, room, rng)
            top, left = y if row else y - part.size[0], x if column else x - part.size[1]
            canvases.append(part.padded(self._size, top, left, self._fill))
            image = image if len(canvases) > 1 else canvases[0].image.copy()
            image[top : top + part.size[0], left : left + part.size[1]] = part.image
        instances = Instances.joined([canvas.instances for canvas in canvases])
        return replace(canvases[0], image=image, instances=instances)

    def _part(self, sample: Sample, row: int, column: int, room: tuple[int, int], rng: np.random.Generator) -> Sample:
        """A sample scaled, and cut to the room (H, W) on its side of the point; the corner at the point stays."""
        factor = rng.uniform(*self._scale) * max(self._size) / max(sample.size)
        scaled = sample.scaled((max(1, round(sample.size[0] * factor)), max(1, round(sample.size[1] * factor))))
        height, width = (max(1, min(a, b)) for a, b in zip(scaled.size, room, strict=True))
        top = 0 if row else scaled.size[0] - height
        left = 0 if column else scaled.size[1] - width
        return cropped(scaled, np.array([left, top, left + width, top + height]))


@register("transform")
class CopyPaste(MixingTransform):
    """Pastes some objects of another sample, by their masks, onto this one (Ghiasi et al. 2021, arXiv:2012.07177).

    What they cover is taken from the masks below; objects of which less than `least_seen` remains are left out. Boxes
    of the others are those of what is left. Needs masks, and `Augmented`, which draws the other sample.

    Args:
        most: Objects pasted at most.
        least_seen: Share of an object that must stay in sight.
        prob: How often.
    """

    def __init__(self, most: int = 10, least_seen: float = 0.3, prob: float = 0.5) -> None:
        if most < 1 or not 0 <= least_seen <= 1:
            raise AttributeValueError(
                f"CopyPaste: most is {most} and least_seen {least_seen}; most must be 1 or more, the other in [0, 1]"
            )
        self._most, self._least_seen = most, least_seen
        self._prob = check_prob("CopyPaste", prob)

    def mix(self, sample: Sample, rng: np.random.Generator, draw: Callable[[], Sample]) -> Sample:
        """Returns the sample with what was pasted; the sample itself where there is nothing to paste."""
        if rng.random() >= self._prob:
            return sample
        other = draw()
        if sample.instances.masks is None or other.instances.masks is None:
            if len(sample.instances) and len(other.instances):
                raise AttributeValueError("CopyPaste: the samples have no masks; read them with `masks: true`")
            return sample
        other = other.resized(sample.size, 1) if other.size != sample.size else other
        chosen = np.flatnonzero(~other.instances.crowd)
        chosen = rng.permutation(chosen)[: rng.integers(1, self._most + 1)]
        if not len(chosen):
            return sample
        pasted = other.instances[chosen]
        assert pasted.masks is not None
        shapes = pasted.masks.bitmaps()
        cover = np.asarray(shapes.any(axis=0))
        image = np.where(cover[..., None], other.image, sample.image)
        kept = self._uncovered(sample.instances, cover)
        return replace(sample, image=image, instances=Instances.joined([kept, pasted]) if len(kept) else pasted)

    def _uncovered(self, instances: Instances, cover: np.ndarray) -> Instances:
        """The objects without what lies below `cover`."""
        assert instances.masks is not None
        if not len(instances):
            return instances
        before = instances.masks.bitmaps()
        after = before & ~cover
        seen = after.sum(axis=(1, 2)) >= np.maximum(1, self._least_seen * before.sum(axis=(1, 2)))
        masks = Masks.of_bitmaps(after[seen])
        touched = (before & cover).any(axis=(1, 2))[seen]
        kept = replace(instances[seen], masks=masks)
        boxes = np.where(touched[:, None], masks.boxes().array, kept.boxes.array).astype(np.float32)
        return replace(kept, boxes=type(kept.boxes)(boxes))
