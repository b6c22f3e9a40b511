"""Joined: several detection data sets as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from suites.detection.datasets.base import DetectionDataset
from suites.detection.sample import GroundTruth, Sample
from suites.engine.registry import register
from suites.vision.joining import Joining


@register("dataset")
class Joined(Joining[DetectionDataset], DetectionDataset):
    """Data sets one behind the other; `order: {type: Shares}` says how often each is drawn from.

    Images are numbered anew, from 0, as the parts' own ids may be the same.

    Args:
        parts: data sets with the same classes in the same order.
    """

    def __init__(self, parts: Sequence[DetectionDataset]) -> None:
        super().__init__(parts)
        self.has_masks = all(part.has_masks for part in parts)

    def __getitem__(self, index: int) -> Sample:
        part, place = self.place_of(index)
        sample = part[place]
        # Transforms that mix samples take them to have masks either all or none.
        instances = sample.instances if self.has_masks else replace(sample.instances, masks=None)
        return replace(sample, image_id=index % len(self), instances=instances)

    def file_of(self, index: int) -> bytes | None:
        """The bytes of its image file; None where there is no file."""
        part, place = self.place_of(index)
        return part.file_of(place)

    def ground_truth(self) -> GroundTruth:
        """Every box of all parts. Subsets stay where all parts have them."""
        truths = [part.ground_truth() for part in self.parts]

        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(truth, name) for truth in truths])

        counts = np.concatenate([np.diff(truth.offsets) for truth in truths])
        masks = None if any(t.masks is None for t in truths) else [m for t in truths for m in t.masks or ()]
        shared = set.intersection(*(set(truth.subsets) for truth in truths))
        return GroundTruth(
            class_names=self.class_names,
            image_ids=np.arange(len(self)),
            sizes=joined("sizes"),
            offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            boxes=joined("boxes"),
            classes=joined("classes"),
            areas=joined("areas"),
            difficult=joined("difficult"),
            crowd=joined("crowd"),
            category_ids=truths[0].category_ids,
            masks=masks,
            subsets={name: np.concatenate([truth.subsets[name] for truth in truths]) for name in sorted(shared)},
        )

    def left_out(self) -> dict[str, int]:
        """What was changed or left out of all parts."""
        found: Counter[str] = Counter()
        for part in self.parts:
            found.update(part.left_out())
        return dict(found)
