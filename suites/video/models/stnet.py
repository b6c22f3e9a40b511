"""StNet: super-images, temporal convolutions between stages, a temporal Xception block (arXiv:1811.01549).

The order of operations is that of PaddlePaddle's model (models 1.8, PaddleCV/video/models/stnet), which its published
figures belong to.

Letters: N clips, T super-images of a clip, M frames of a super-image, H W height and width, C channels, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.video.models.base import VideoClassifier, check_classes
from suites.vision.backbones import Backbone
from suites.vision.backbones.base import Block, Place
from suites.vision.backbones.walk import places, walk

_MODELLED = (8, 16)  # strides of the stages that a temporal block follows
_WIDTH = 1024


class TemporalBlock(nn.Layer):
    """x + norm(relu(conv(x))), the convolution over 3 frames at each place.  x, y: [N * T, H, W, C].

    Args:
        channels: C.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv3d(channels, channels, (3, 1, 1))
        self.norm = nn.BatchNorm(channels)

    def forward(self, x: Tensor, clips: Tensor) -> Tensor:
        """x: frames of `clips` [N, T, ...]."""
        y = ops.relu(self.conv(ops.unflatten_like(x, clips, axis=0)))
        return self.norm(ops.flatten(y, start=0, end=1)) + x


class TemporalXception(nn.Layer):
    """Two separable convolutions over time beside a 1x1 convolution.  x: [N, T, 1, C], y: [N, T, 1, K].

    Args:
        in_channels: C.
        channels: K.
    """

    def __init__(self, in_channels: int, channels: int = _WIDTH) -> None:
        super().__init__()
        self.norm = nn.BatchNorm(in_channels)
        self.depthwise1 = nn.Conv2d(in_channels, in_channels, (3, 1), groups=in_channels)
        self.pointwise1 = nn.Conv2d(in_channels, channels, 1)
        self.inner_norm = nn.BatchNorm(channels)
        self.depthwise2 = nn.Conv2d(channels, channels, (3, 1), groups=channels)
        self.pointwise2 = nn.Conv2d(channels, channels, 1)
        self.short = nn.Conv2d(in_channels, channels, 1)
        self.last_norm = nn.BatchNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, T, 1, C]; y: [N, T, 1, K]."""
        x = self.norm(x)
        y = ops.relu(self.inner_norm(self.pointwise1(self.depthwise1(x))))
        y = self.pointwise2(self.depthwise2(y))
        return ops.relu(self.last_norm(y + self.short(x)))


@register("video_classifier")
class StNet(VideoClassifier):
    """StNet on an image network whose first convolution takes `frames` frames at once.

    Clips hold T * M frames: `segments: {count: 7, length: 5}` with the paper's M of 5.

    Args:
        backbone: image to feature maps, made of blocks, with `in_channels` of 3 * M: a ResNet.
        num_classes: K.
        frames: M, frames of a super-image.
    """

    def __init__(self, backbone: Backbone, num_classes: int, frames: int = 5) -> None:
        super().__init__()
        self.num_classes = check_classes("StNet", num_classes)
        if frames < 1 or backbone.in_channels != 3 * frames:
            raise AttributeValueError(
                f"StNet: frames is {frames}, so its backbone must take {3 * frames} channels (backbone.in_channels); "
                f"this {type(backbone).__name__} takes {backbone.in_channels}"
            )
        self._frames = frames
        self.backbone = backbone
        last = {place.stride: place for place in places(backbone)}  # the last block of each stage
        missing = [stride for stride in _MODELLED if stride not in last]
        if missing:
            raise AttributeValueError(f"StNet: its backbone has no blocks of stride {missing[0]}")
        self._after = {(last[s].stride, last[s].index): i for i, s in enumerate(_MODELLED)}
        self.temporal = nn.LayerList([TemporalBlock(last[stride].channels) for stride in _MODELLED])
        self.pool = nn.GlobalAvgPool2d()
        features = backbone.channels[-1]
        self.xception = TemporalXception(features)
        self.fc = nn.Linear(_WIDTH, num_classes, initializer=init.Uniform(-(features**-0.5), features**-0.5))

    def forward(self, clips: Tensor) -> Tensor:
        """clips: [N, T * M, H, W, 3]; logits [N, K]."""
        supers = ops.unfold_frames(clips, size=self._frames, stride=self._frames)  # [N, T, H, W, 3 M]

        def visit(place: Place, block: Block, x: Tensor) -> Tensor:
            x, at = block(x), self._after.get((place.stride, place.index))
            return x if at is None else self.temporal[at](x, supers)

        last = walk(self.backbone, ops.flatten(supers, start=0, end=1), visit)[-1]
        features = ops.unflatten_like(self.pool(last), supers, axis=0)  # [N, T, C]
        y = self.xception(ops.expand_dims(features, axis=2))
        return self.fc(ops.max(ops.squeeze(y, axis=2), axes=1))
