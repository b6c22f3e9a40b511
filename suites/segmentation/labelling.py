"""From a network to a label map: the whole image at once or a window slid over it, in several sizes, mirrored.

Letters: N batch, H W size of an image or a window, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from framework import ops
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.segmentation.models.base import Segmenter
from suites.segmentation.windows import Windows


@dataclass(frozen=True)
class Labelling:
    """How a label is found for every pixel.

    Args:
        mode: "whole" gives the network the whole image; "slide" gives it windows and adds up where they overlap, for
            networks trained on crops of images much larger, and for images that are too large for the memory.
        window: side of the square window in pixels.
        stride: step from window to window, at most `window`.
        flip: also predict the mirrored image, and add the probabilities.
        scales: factors on the size; the probabilities of all are added. Sides times the factor must be 1 or more.
        together: windows that are predicted on at a time.
        soft: of two classes, the probability of the second one for every pixel in place of a label, such as that of an
            edge; with whole images.
    """

    mode: Literal["whole", "slide"] = "whole"
    window: int = 512
    stride: int = 341
    flip: bool = False
    scales: tuple[float, ...] = (1.0,)
    together: int = 8
    soft: bool = False

    def __post_init__(self) -> None:
        if self.soft and self.mode == "slide":
            raise AttributeValueError("inference: soft maps are of whole images; windows give labels (mode: whole)")
        if not self.scales or min(self.scales) <= 0:
            raise AttributeValueError(f"inference: scales are {list(self.scales)}; there must be one, all above 0")
        Windows(self.window, self.stride, self.together)

    @property
    def windows(self) -> Windows | None:
        """The windows; None where the image is taken whole."""
        return None if self.mode == "whole" else Windows(self.window, self.stride, self.together)

    def outputs(self, network: Segmenter, images: Tensor) -> dict[str, Tensor]:
        """What a network says of images, or windows, [N, H, W, 3].

        Returns:
            `labels` uint8 [N, H, W], the class of every pixel; of windows `scores` float32 [N, H, W, K], to be added;
            of soft maps `probabilities` float32 [N, H, W].

        Raises AttributeValueError for soft maps of more than two classes.
        """
        if self.mode == "slide":
            return {"scores": self._probabilities(network, images)}
        plain = self.scales == (1.0,) and not self.flip
        if self.soft:
            if network.num_classes != 2:
                raise AttributeValueError(
                    f"inference: soft maps are of 2 classes; the network has {network.num_classes}"
                )
            looks = len(self.scales) * (2 if self.flip else 1)
            found = self._probabilities(network, images)[..., 1]
            return {"probabilities": found if looks == 1 else found / looks}
        found = network(images) if plain else self._probabilities(network, images)
        return {"labels": ops.cast(ops.argmax(found, axis=-1), dtype="uint8")}

    def _probabilities(self, network: Segmenter, images: Tensor) -> Tensor:
        """The sum over all looks, [N, H, W, K]. A logit far below all others would outvote every look."""
        found = None
        for scale in self.scales:
            seen = images if scale == 1 else ops.resize_bilinear(images, scale=(scale, scale))
            look = ops.softmax(network(seen), axis=-1)
            if self.flip:
                look = look + ops.flip(ops.softmax(network(ops.flip(seen, axes=(2,))), axis=-1), axes=(2,))
            look = look if scale == 1 else ops.resize_bilinear(look, images)
            found = look if found is None else found + look
        assert found is not None
        return found
