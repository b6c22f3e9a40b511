"""Non-local networks: every place of a clip looks at all others (Wang et al. 2018, arXiv:1711.07971).

Letters: N clips, T frames, H W height and width of a map, C channels, D = C / 2, P = T * H * W places, Q of which are
looked at.
"""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.video.models.base import FrameClassifier
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import Block, Place
from suites.vision.backbones.walk import places, walk

_NARROW = init.Normal(0.01)


class NonLocalBlock(nn.Layer):
    """x + norm(out(softmax(theta phi^T / sqrt(D)) g)), keys and values pooled 2 x 2 (embedded Gaussian, section 3.2).

    The norm's scale starts at 0, so that the block starts as the identity. The authors' code, unlike the paper, divides
    the scores by sqrt(D).

    Parameters: `theta`, `phi`, `g`, `out` (1x1 convolutions with bias), `norm`.

    Args:
        channels: C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = channels // 2
        self.theta = nn.Conv2d(channels, inner, 1, initializer=_NARROW)
        self.phi = nn.Conv2d(channels, inner, 1, initializer=_NARROW)
        self.g = nn.Conv2d(channels, inner, 1, initializer=_NARROW)
        self.pool = nn.MaxPool2d(2, 2)
        self.out = nn.Conv2d(inner, channels, 1, initializer=_NARROW)
        self.norm = nn.BatchNorm(channels)
        self.norm.add_parameter("scale", (channels,), init.Constant(0.0))
        self._scale = inner**-0.5

    def forward(self, x: Tensor, clips: Tensor) -> Tensor:
        """x: [N * T, H, W, C], the frames of `clips` [N, T, ...]; y as x."""
        theta, phi, g = self.theta(x), self.pool(self.phi(x)), self.pool(self.g(x))
        queries, keys, values = (_by_clip(part, clips) for part in (theta, phi, g))  # [N, P, D], [N, Q, D] twice
        weights = ops.softmax(ops.matmul(queries, keys, transpose_b=True) * self._scale, axis=2)
        seen = ops.reshape_like(ops.matmul(weights, values), theta)
        return x + self.norm(self.out(seen))


def _by_clip(x: Tensor, clips: Tensor) -> Tensor:
    """[N * T, H, W, D] to [N, T * H * W, D]."""
    return ops.flatten(ops.unflatten_like(x, clips, axis=0), start=1, end=3)


@register("video_classifier")
class NonLocal(FrameClassifier):
    """An image network with non-local blocks behind every second block of some stages ("C2D" with 5 blocks).

    Args:
        backbone: image to feature maps, made of blocks: a ResNet, ResNeXt, MobileNetV2, V3 or EfficientNetLite.
        num_classes: K.
        dropout: share of the features set to 0 in training.
        fc_std: standard deviation of the linear layer's starting weights.
        top: see `FrameClassifier`.
        at: strides of the stages that get such blocks; 2 + 3 of them in a ResNet-50 with 8 and 16.
        every: behind every so many blocks of those stages.
    """

    def __init__(
        self,
        backbone: Backbone,
        num_classes: int,
        dropout: float = 0.0,
        fc_std: float = 0.01,
        top: bool = False,
        at: tuple[int, ...] = (8, 16),
        every: int = 2,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, fc_std, top)
        chosen = [place for place in places(backbone) if place.stride in at and place.index % every == every - 1]
        if every < 1 or not chosen:
            raise AttributeValueError(
                f"NonLocal: at is {list(at)} and every {every}; no block of {type(backbone).__name__} is chosen, whose "
                f"strides are {sorted({place.stride for place in places(backbone)})}"
            )
        self._at = {(place.stride, place.index): i for i, place in enumerate(chosen)}
        self.non_local = nn.LayerList([NonLocalBlock(place.channels) for place in chosen])

    def maps(self, frames: Tensor, clips: Tensor) -> list[Tensor]:
        """The backbone's maps of frames [N * T, H, W, 3], which look at each other."""

        def visit(place: Place, block: Block, x: Tensor) -> Tensor:
            x, at = block(x), self._at.get((place.stride, place.index))
            return x if at is None else self.non_local[at](x, clips)

        return walk(self.backbone, frames, visit)
