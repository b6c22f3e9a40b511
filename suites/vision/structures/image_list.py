"""ImageList: pictures of different size in one array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError


@dataclass(frozen=True)
class ImageList:
    """N pictures at the top left of canvases of one size, the largest of each side; the rest is 0.

    After `Normalize`, 0 is the mean colour.

    Attributes:
        images: [N, H, W, 3], float32 or uint8 as the pictures are.
        sizes: int64 [N, 2], the true (H, W) of each.
    """

    images: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, images: Sequence[np.ndarray], multiple: int = 1) -> ImageList:
        """From pictures [H_i, W_i, 3]; both sides of the canvas are rounded up to multiples of `multiple`.

        Raises:
            DataError: the pictures differ in type.
        """
        types = {image.dtype for image in images}
        if len(types) > 1:
            raise DataError(
                f"ImageList: the pictures of a batch are {' and '.join(sorted(map(str, types)))}; end the transforms "
                "with Normalize, of training and of evaluation alike"
            )
        sizes = np.array([image.shape[:2] for image in images], np.int64)
        height, width = (int(-(-side // multiple) * multiple) for side in sizes.max(axis=0))
        if all(image.shape[:2] == (height, width) for image in images):
            return cls(np.stack(images), sizes)
        canvas = np.zeros((len(images), height, width, 3), types.pop())
        for place, image in zip(canvas, images, strict=True):
            place[: image.shape[0], : image.shape[1]] = image
        return cls(canvas, sizes)
