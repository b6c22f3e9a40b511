"""The noun of recognition, a Sample (an image or a clip with its label), and batches of them.

Letters: N samples, T frames (1 for an image), H W height and width, L labels of a sample, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np

from framework.errors import DataError
from suites.vision.pixels import fill_colour
from suites.vision.sample import ImageSample


@dataclass(frozen=True)
class Sample(ImageSample):
    """An image or a clip, as datasets give it and transforms change it: all its frames alike.

    Attributes:
        frames: RGB [T, H, W, 3]: uint8 from a dataset, float32 after `Normalize`. An image has T = 1.
        labels: int64 [L], from 0 to K - 1: one, or two after `Mixup`.
        weights: float32 [L], their shares; they sum to 1.
        name: the file, for messages.
    """

    frames: np.ndarray
    labels: np.ndarray
    weights: np.ndarray = field(default_factory=lambda: np.ones(1, np.float32))
    name: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """(H, W) of the frames as they are now."""
        return self.frames.shape[1], self.frames.shape[2]

    @property
    def image(self) -> np.ndarray:  # type: ignore[override]
        """The frames one below the other, [T * H, W, 3], for what looks at pixels alone."""
        count, height, width, channels = self.frames.shape
        return np.ascontiguousarray(self.frames).reshape(count * height, width, channels)

    def recoloured(self, image: np.ndarray) -> Sample:
        """The sample with other pixels at the same places; image: [T * H, W, 3]."""
        return replace(self, frames=image.reshape(self.frames.shape))

    def resized(self, size: tuple[int, int], method: int) -> Sample:
        """The sample stretched to `size` (H, W); `method` is OpenCV's number of the interpolation."""
        if size == self.size:
            return self
        return self._framewise(lambda frame: cv2.resize(frame, size[::-1], interpolation=method))

    def scaled(self, size: tuple[int, int]) -> Sample:
        """The sample stretched to `size` (H, W): by the mean of the covered pixels where both sides shrink."""
        shrinks = size[0] <= self.size[0] and size[1] <= self.size[1]
        return self.resized(size, cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)

    def padded(self, size: tuple[int, int], top: int, left: int, fill: Sequence[float]) -> Sample:
        """The sample on a canvas of `size` (H, W) and colour `fill` (RGB in [0, 1]), its corner at (left, top)."""
        bottom, right = size[0] - self.size[0] - top, size[1] - self.size[1] - left
        colour = fill_colour(fill, self.frames)
        border = (top, bottom, left, right, cv2.BORDER_CONSTANT)
        return self._framewise(lambda frame: cv2.copyMakeBorder(frame, *border, value=colour))

    def mirrored(self, horizontal: bool) -> Sample:
        """The sample with left and right swapped, else top and bottom; the labels stay."""
        frames = self.frames[:, :, ::-1] if horizontal else self.frames[:, ::-1]
        return replace(self, frames=np.ascontiguousarray(frames))

    def cut(self, top: int, left: int, height: int, width: int) -> Sample:
        """The part of the sample with its corner at (left, top)."""
        return replace(self, frames=self.frames[:, top : top + height, left : left + width])

    def _framewise(self, change: Callable[[np.ndarray], np.ndarray]) -> Sample:
        return replace(self, frames=np.stack([change(frame) for frame in self.frames]))


def labelled(frames: np.ndarray, label: int, name: str = "") -> Sample:
    """The sample of frames [T, H, W, 3] with one label."""
    return Sample(frames, np.array([label], np.int64), name=name)


def collate(samples: Sequence[Sample], key: str, num_classes: int) -> dict[str, Any]:
    """The batch of some samples.

    Args:
        samples: N of them, all of one size.
        key: "images" for images, "clips" for clips.
        num_classes: K.

    Returns:
        Arrays by name: "clips" [N, T, H, W, 3], or "images" [N, H, W, 3]; "targets" float32 [N, K], each row the shares
        of the classes; "labels" int64 [N], the first label of each; and the list "name".

    Raises:
        DataError: The frames differ in number, size or type.
    """
    first = samples[0].frames
    for sample in samples:
        if sample.frames.shape != first.shape or sample.frames.dtype != first.dtype:
            raise DataError(
                f"collate: {sample.name} has frames {sample.frames.dtype} {list(sample.frames.shape)} but the first of "
                f"the batch {first.dtype} {list(first.shape)}; end the transforms with a crop or Resize, then Normalize"
            )
    frames = np.stack([sample.frames for sample in samples])
    targets = np.zeros((len(samples), num_classes), np.float32)
    for row, sample in zip(targets, samples, strict=True):
        np.add.at(row, sample.labels, sample.weights)
    return {
        key: frames[:, 0] if key == "images" else frames,
        "targets": targets,
        "labels": np.array([sample.labels[0] for sample in samples], np.int64),
        "name": [sample.name for sample in samples],
    }
