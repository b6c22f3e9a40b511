"""What stands around a segmentation network when it predicts: preprocessing, labels of the own pixels, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.task import Batch
from suites.segmentation.labels import encode_labels
from suites.segmentation.sample import IGNORE, Sample, labels_to_original
from suites.segmentation.transforms import Transform, collate
from suites.segmentation.visualize import draw_labels
from suites.vision.geometry import Placement
from suites.vision.processor import ImageProcessor


class SegmentationProcessor(ImageProcessor):
    """Images to batches, label maps to pictures.

    Args:
        transforms: those of evaluation.
        class_names: K names.
        palette: RGB of each class.
    """

    suite: ClassVar[str] = "segmentation"

    def __init__(
        self, transforms: Sequence[Transform], class_names: Sequence[str], palette: Sequence[Sequence[int]]
    ) -> None:
        super().__init__(transforms, class_names)
        self._palette = [(int(red), int(green), int(blue)) for red, green, blue in palette]

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        return {**super().metadata(), "palette": [list(colour) for colour in self._palette]}

    def sample_of(self, item: np.ndarray, number: int) -> Sample:
        """An image [H, W, 3] with nothing labelled."""
        return Sample(image=item, labels=np.full(item.shape[:2], IGNORE, np.uint8), image_id=number)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The batch."""
        return collate(samples)

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
        """For each image, the class of each of its own pixels: uint8 [H, W]."""
        return original_labels(outputs, batch)

    def summary(self, result: np.ndarray) -> dict[str, float]:
        """The share of the image that each class covers, largest first."""
        shares = np.bincount(result.reshape(-1), minlength=256)[: len(self._class_names)] / max(result.size, 1)
        order = [label for label in np.argsort(-shares, kind="stable") if shares[label] > 0]
        return {self._class_names[label]: round(float(shares[label]), 5) for label in order}

    def files(self, result: np.ndarray) -> dict[str, bytes]:
        """The label map as a PNG: class ids, shown in the classes' colours."""
        return {".png": encode_labels(result, self._palette)}

    def draw(self, item: np.ndarray, result: np.ndarray) -> np.ndarray:
        """The image under its classes' colours, with their names."""
        return draw_labels(item, result, self._class_names, self._palette)


def original_labels(outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
    """For each image, uint8 [H_i, W_i] of its own pixels.

    Args:
        outputs: `labels` uint8 [N, H, W].
        batch: `placements` [N, 4] and `truth`, N label maps of the original sizes.
    """
    rows = zip(outputs["labels"], batch["placements"], batch["truth"], strict=True)
    return [
        labels_to_original(labels, Placement(*placement.tolist()), truth.shape) for labels, placement, truth in rows
    ]
