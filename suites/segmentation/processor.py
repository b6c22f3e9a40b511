"""What stands around a segmentation network when it predicts: preprocessing, labels of the own pixels, pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from suites.engine.config import build_value, plain
from suites.engine.contract.batch import Batch, Found
from suites.segmentation.labels import encode_labels
from suites.segmentation.sample import IGNORE, Sample, labels_to_original, soft_to_original
from suites.segmentation.transforms import Transform, collate
from suites.segmentation.visualize import draw_labels, draw_soft, shrunk
from suites.segmentation.windows import Windows, stitched, window_batch
from suites.vision.geometry import Placement
from suites.vision.pictures.images import encode_image
from suites.vision.processor import ImageProcessor

_HALF = 0.5  # a probability from which a pixel counts as the second class


class SegmentationProcessor(ImageProcessor):
    """Images to batches, label maps to pictures.

    Args:
        transforms: those of evaluation.
        class_names: K names.
        palette: RGB of each class.
        windows: a window that is slid over each image; None for whole images.
    """

    suite: ClassVar[str] = "segmentation"

    def __init__(
        self,
        transforms: Sequence[Transform],
        class_names: Sequence[str],
        palette: Sequence[Sequence[int]],
        windows: Windows | dict[str, Any] | None = None,
    ) -> None:
        super().__init__(transforms, class_names)
        self._windows: Windows | None = (
            build_value(windows, Windows, suite=self.suite) if isinstance(windows, dict) else windows
        )
        self._palette = [(int(red), int(green), int(blue)) for red, green, blue in palette]

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> SegmentationProcessor:
        """The processor that `metadata` describes, for soft maps where it says so; see `VisualProcessor`."""
        given = dict(metadata)
        made = SoftMapProcessor if given.pop("soft", False) else cls
        return super(SegmentationProcessor, made).from_metadata(given)

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor."""
        windows = {} if self._windows is None else {"windows": plain(self._windows, suite=self.suite)}
        return {**super().metadata(), "palette": [list(colour) for colour in self._palette], **windows}

    def sample_of(self, item: np.ndarray, number: int) -> Sample:
        """An image [H, W, 3] with nothing labelled."""
        return Sample(image=item, labels=np.full(item.shape[:2], IGNORE, np.uint8), image_id=number)

    def collate(self, samples: Sequence[Sample]) -> Batch:
        """The batch."""
        return collate(samples)

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """The images as a batch, or all windows of all of them."""
        if self._windows is None:
            return super().prepare(items)
        return window_batch([list(self._windows.of(sample, self._transforms)) for sample in self._samples(items)])

    def batches(self, items: Sequence[np.ndarray]) -> Iterable[Batch]:
        """A batch of each size; where a window is slid, as many as keep within `windows.together`."""
        if self._windows is None:
            yield from super().batches(items)
            return
        yield from self._windows.batches(self._samples(items), self._transforms)

    def joined(self, found: Iterable[Found]) -> list[np.ndarray]:
        """The label maps, of all windows of an image together."""
        return super().joined(found) if self._windows is None else list(stitched(found))

    def _samples(self, items: Sequence[np.ndarray]) -> list[Sample]:
        return [self.sample_of(item, number) for number, item in enumerate(items)]

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
        """For each image, the class of each of its own pixels: uint8 [H, W]."""
        return label_maps(outputs, batch)

    def summary(self, result: np.ndarray) -> dict[str, float]:
        """The share of the image that each class covers, largest first."""
        shares = np.bincount(result.reshape(-1), minlength=256)[: len(self._class_names)] / max(result.size, 1)
        order = [label for label in np.argsort(-shares, kind="stable") if shares[label] > 0]
        return {self._class_names[label]: round(float(shares[label]), 5) for label in order}

    def served(self, result: np.ndarray) -> dict[str, Any]:
        """`classes`, names by number; `label_map`, the PNG that `files` has, in base64; `shares`, the summary."""
        label_map = base64.b64encode(self.files(result)[".png"]).decode()
        return {"classes": list(self._class_names), "label_map": label_map, "shares": self.summary(result)}

    def files(self, result: np.ndarray) -> dict[str, bytes]:
        """The label map as a PNG: class ids, shown in the classes' colours."""
        return {".png": encode_labels(result, self._palette)}

    def draw(self, item: np.ndarray, result: np.ndarray) -> np.ndarray:
        """The image under its classes' colours, with their names; sides beyond 4096 pixels are scaled down."""
        item, result = shrunk(item, result)
        return draw_labels(item, result, self._class_names, self._palette)


class SoftMapProcessor(SegmentationProcessor):
    """Images to batches, probabilities of the second of two classes to grey pictures.

    Args:
        transforms: those of evaluation.
        class_names: 2 names.
        palette: RGB of each class.
    """

    def metadata(self) -> dict[str, Any]:
        """All arguments of the constructor, and that maps are soft."""
        return {**super().metadata(), "soft": True}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
        """For each image, the probability of each of its own pixels: float32 [H, W], 0 to 1."""
        return soft_maps(outputs, batch)

    def summary(self, result: np.ndarray) -> dict[str, float]:
        """The share of the pixels at a half or more, under the class's name; the mean and the largest probability."""
        share = float(np.mean(result >= _HALF))
        return {
            self._class_names[1]: round(share, 5),
            "mean": round(float(result.mean()), 5),
            "max": round(float(result.max()), 5),
        }

    def served(self, result: np.ndarray) -> dict[str, Any]:
        """`classes`, names by number; `probabilities`, the PNG that `files` has, in base64; `shares`, the summary."""
        grey = base64.b64encode(self.files(result)[".png"]).decode()
        return {"classes": list(self._class_names), "probabilities": grey, "shares": self.summary(result)}

    def files(self, result: np.ndarray) -> dict[str, bytes]:
        """The probabilities as a grey PNG, 255 for 1."""
        return {".png": encode_image(grey_map(result))}

    def draw(self, item: np.ndarray, result: np.ndarray) -> np.ndarray:
        """The image, pale, under the class's colour, the stronger the likelier; large ones are scaled down."""
        item, result = shrunk(item, result)
        return draw_soft(item, result, self._palette[1])


def grey_map(probabilities: np.ndarray) -> np.ndarray:
    """uint8 [H, W] of numbers from 0 to 1."""
    found: np.ndarray = np.rint(np.clip(probabilities, 0, 1) * 255).astype(np.uint8)
    return found


def soft_maps(outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
    """For each image, float32 [H_i, W_i] of its own pixels.

    Args:
        outputs: `probabilities` float32 [N, H, W].
        batch: `placements` [N, 4] and `truth`, N label maps of the original sizes.
    """
    rows = zip(outputs["probabilities"], batch["placements"], batch["truth"], strict=True)
    return [soft_to_original(found, Placement(*placement.tolist()), truth.shape) for found, placement, truth in rows]


def label_maps(outputs: Mapping[str, np.ndarray], batch: Batch) -> list[np.ndarray]:
    """For each image, uint8 [H_i, W_i] of its own pixels.

    Args:
        outputs: `labels` uint8 [N, H, W]; or `scores` of windows, see `stitched`; or `probabilities`, of which a half
            and more is class 1.
        batch: `placements` [N, 4] and `truth`, N label maps of the original sizes; or one of windows.
    """
    if "scores" in outputs:
        return list(stitched([(outputs, batch)]))
    if "probabilities" in outputs:
        return [(found >= _HALF).astype(np.uint8) for found in soft_maps(outputs, batch)]
    rows = zip(outputs["labels"], batch["placements"], batch["truth"], strict=True)
    return [
        labels_to_original(labels, Placement(*placement.tolist()), truth.shape) for labels, placement, truth in rows
    ]
