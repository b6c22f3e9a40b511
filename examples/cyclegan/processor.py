"""What stands around the generators when they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import Processor
from suites.vision.pictures.images import encode_image, read_image

from .data import to_array, to_picture


class StyleProcessor(Processor):
    """Pictures of one style to batches, and what was made of them to pictures.

    Args:
        size: side in pixels that pictures are brought to.
    """

    def __init__(self, size: int) -> None:
        self._size = size

    def metadata(self) -> dict[str, Any]:
        """The argument of the constructor."""
        return {"size": self._size}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> StyleProcessor:
        """The processor that `metadata` describes."""
        return cls(**metadata)

    def read(self, path: Path) -> np.ndarray:
        """A picture file as uint8 RGB [H, W, 3]."""
        return read_image(path)

    def prepare(self, items: Sequence[np.ndarray]) -> Batch:
        """`images` float32 [N, S, S, 3] in [-1, 1]."""
        sized = [cv2.resize(item, (self._size, self._size), interpolation=cv2.INTER_AREA) for item in items]
        return {"images": np.stack([to_array(item) for item in sized])}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[dict[str, Any]]:
        """For each picture: `made`, in the other style, and `back`, redrawn from that; uint8 [S, S, 3]."""
        pairs = zip(outputs["made"], outputs["back"], strict=True)
        return [{"made": to_picture(made), "back": to_picture(back)} for made, back in pairs]

    def summary(self, result: dict[str, Any]) -> Any:
        """The size of what was made; the picture itself is a file beside it."""
        return {"height": result["made"].shape[0], "width": result["made"].shape[1]}

    def files(self, result: dict[str, Any]) -> dict[str, bytes]:
        """The picture in the other style."""
        return {".made.png": encode_image(result["made"], ".png")}

    def draw(self, item: np.ndarray, result: dict[str, Any]) -> np.ndarray:
        """The picture, the one made of it, and the one made of that again, side by side."""
        own = cv2.resize(item, result["made"].shape[1::-1], interpolation=cv2.INTER_AREA)
        row = np.concatenate([own, result["made"], result["back"]], axis=1)
        return cv2.resize(row, None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)

    def picture(self, drawing: np.ndarray, ending: str) -> bytes:
        """A drawing as a picture file."""
        return encode_image(drawing, ending)
