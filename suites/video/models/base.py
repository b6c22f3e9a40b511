"""What every video classifier is, and those that run an image network on frames.

Letters: N clips, T frames of a clip, H W height and width, C channels, K classes.
"""

from __future__ import annotations

from typing import ClassVar

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register_role
from suites.engine.weights import ClassRows, Names
from suites.video.models.openmmlab_names import frame_names
from suites.vision.backbones import Backbone, ResNet


class VideoClassifier(nn.Layer):
    """A whole video classifier: clips [N, T, H, W, 3], or sequences of features, to logits [N, K].

    Attributes:
        num_classes: K.
    """

    num_classes: int


register_role("video_classifier", VideoClassifier, doc="A whole video classifier.")


class FrameClassifier(VideoClassifier):
    """An image network on every frame, whose logits are averaged; any T.

    Args:
        backbone: image to feature maps; the last is used.
        num_classes: K.
        dropout: share of the features set to 0 in training.
        fc_std: standard deviation of the linear layer's starting weights.
        top: with the layers that the backbone's authors put before the linear layer, such as MobileNetV2's convolution
            to 1,280 channels.
    """

    class_tensors: ClassVar[tuple[str, ...]] = (r"^fc\.",)
    shifted: ClassVar[bool] = False  # whether files have TSM's shift around a convolution

    def __init__(
        self, backbone: Backbone, num_classes: int, dropout: float = 0.0, fc_std: float = 0.01, top: bool = False
    ) -> None:
        super().__init__()
        self.num_classes = check_classes(type(self).__name__, num_classes)
        self.backbone, self._topped = backbone, top
        self.pool, features = backbone.top() if top else (nn.GlobalAvgPool2d(), backbone.channels[-1])
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(features, num_classes, initializer=init.Normal(fc_std))

    @property
    def schemes(self) -> tuple[str, ...]:
        """Whose names of the whole network are known: MMAction2's, of a ResNet with a stem of one convolution."""
        backbone = self.backbone
        if not isinstance(backbone, ResNet) or type(backbone) is not ResNet or self._topped:
            return ()
        whole = backbone.as_published and backbone.strides[-1] == 32
        return ("openmmlab",) if whole and len(backbone.stem) == 1 else ()

    def names_in(self, scheme: str) -> Names:
        """What `scheme` calls the tensors."""
        assert isinstance(self.backbone, ResNet)  # else it knows no scheme
        return frame_names(self.backbone, self.shifted)

    def class_rows(self) -> dict[str, ClassRows]:
        """A row a class."""
        return {r"^fc\.": ClassRows()}

    def forward(self, clips: Tensor) -> Tensor:
        """clips: [N, T, H, W, 3]; logits [N, K]."""
        logits = self.fc(self.dropout(self.features(clips)))
        return ops.mean(ops.unflatten_like(logits, clips, axis=0), axes=1)

    def features(self, clips: Tensor) -> Tensor:
        """What the linear layer sees of each frame: [N * T, D] of clips [N, T, H, W, 3]."""
        return self.pool(self.maps(ops.flatten(clips, start=0, end=1), clips)[-1])

    def maps(self, frames: Tensor, clips: Tensor) -> list[Tensor]:
        """The backbone's maps of frames [N * T, H, W, 3], which are those of `clips`."""
        return self.backbone(frames)


def check_classes(who: str, num_classes: int) -> int:
    """`num_classes`; AttributeValueError unless there is one or more."""
    if num_classes < 1:
        raise AttributeValueError(f"{who}: num_classes is {num_classes}; it must be 1 or more")
    return num_classes
