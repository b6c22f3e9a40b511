"""What every segmentation network offers: logits of each of its heads, and the logits at the image's own size.

Letters: N batch, H W image size, s a head's stride, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register_role


class Segmenter(nn.Layer):
    """A whole segmentation network: what the segmentation task trains.

    Attributes:
        num_classes: K.
        loss_weights: of each output's loss; the first output is what is predicted, others only help in training.
    """

    num_classes: int
    loss_weights: tuple[float, ...] = (1.0,)

    def outputs(self, images: Tensor) -> list[Tensor]:
        """Logits [N, ceil(H/s), ceil(W/s), K] for images [N, H, W, 3], one for each of `loss_weights`."""
        raise NotImplementedError(f"{type(self).__name__} defines no outputs()")

    def forward(self, images: Tensor) -> Tensor:
        """Logits [N, H, W, K] of every pixel of images [N, H, W, 3], interpolated between those of the first output."""
        return ops.resize_bilinear(self.outputs(images)[0], images)


register_role("segmenter", Segmenter, doc="A whole segmentation network.")
