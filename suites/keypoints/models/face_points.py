"""The 68 points of a face in one pass, as face-api.js published it: no heatmaps, a linear layer gives the places.

Source: the network and file of face-api.js (https://github.com/vladmandic/face-api), blocks of separable convolutions
whose sums reach each later one, as in DenseNet (Huang et al. 2017, arXiv:1608.06993).

Letters: N faces, H W image size, C K channels, L points.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.keypoints.models.base import KNOWN_POSES, PoseModel
from suites.vision.face_api import SCHEME, drawn_face, expect_side

SIDE = 112  # pixels
_WIDTHS = (32, 64, 128, 256)
_CONV, _DEPTHWISE = (3, 0, 1, 2), (2, 0, 1, 3)  # their axes [R, S, C, K] and [R, S, C, 1]


class _Separable(nn.Layer):
    """1x1(depthwise 3x3(x)), nothing between.  x: [N, H, W, C], y: [N, H/stride, W/stride, K]."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        padding = (0, 1, 0, 1) if stride == 2 else 1
        self.depthwise = nn.Conv2d(channels, channels, 3, stride, padding, groups=channels, bias=False)
        self.pointwise = nn.Conv2d(channels, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return self.pointwise(self.depthwise(x))


class _Block(nn.Layer):
    """Four convolutions, the first halves the map; each later one sees the sum of all before.

    x: [N, H, W, C], y: [N, H/2, W/2, K].
    """

    def __init__(self, channels: int, out: int, first: nn.Layer) -> None:
        super().__init__()
        self.convs = nn.LayerList([first, *(_Separable(out, out) for _ in range(3))])

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        total = ops.relu(self.convs[0](x))
        seen = total
        for conv in list(self.convs)[1:]:
            total = total + conv(seen)
            seen = ops.relu(total)
        return seen


@register("pose_model")
class FacePoints(PoseModel):
    """face-api.js' network of 68 points, 0.4 million parameters, for squares of 112 pixels around one face.

    It gives points, not heatmaps that others could read: `points`. It is not trained here.

    Args:
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    gives_points: ClassVar[bool] = True
    num_classes: ClassVar[int] = 1
    stride = 16
    schemes: tuple[str, ...] = (SCHEME,)

    def __init__(self, pretrained: str | None = None) -> None:
        super().__init__()
        self.pose = KNOWN_POSES["face_68"]
        self.blocks, width = nn.LayerList(), 3
        for i, out in enumerate(_WIDTHS):
            first = _Separable(width, out, 2) if i else nn.Conv2d(width, out, 3, 2, (0, 1, 0, 1))
            self.blocks.append(_Block(width, out, first))
            width = out
        self.fc = nn.Linear(width, 2 * len(self.pose.names))
        start_from(self, pretrained)

    def forward(self, images: Tensor) -> Tensor:
        """Places [N, 2 L] of images [N, 112, 112, 3], x and y of each point in turn, as shares of the side.

        The images are (pixel - mean) / 255, of face-api.js' mean colour.

        Raises ShapeError for images of another size.
        """
        expect_side("FacePoints", images, SIDE)
        x = images
        for block in self.blocks:
            x = block(x)
        return self.fc(ops.mean(x, axes=(1, 2)))

    def points(self, images: Tensor) -> Tensor:
        """Points in pixels of the images, [N, L, 3]; the network has no score of its own, so each has 1."""
        places = ops.reshape(self(images), shape=(0, -1, 2)) * float(SIDE)
        return ops.concat([places, ops.full_like(places[:, :, :1], value=1.0)], axis=2)

    def answers(self) -> dict[str, np.ndarray]:
        """The first places for a drawn image; see `suites.engine.weights.answers`."""
        return {"places": self(drawn_face(SIDE)).numpy()[0]}

    def names_in(self, scheme: str) -> Names:
        """Names in face-api.js' `face_landmark_68_model-weights_manifest.json`."""
        sources = {"fc.weight": Source(("fc/weights",), (1, 0)), "fc.bias": Source(("fc/bias",))}
        for i in range(len(_WIDTHS)):
            for k in range(4):
                ours, theirs = f"blocks.{i}.convs.{k}", f"dense{i}/conv{k}"
                if i == k == 0:
                    sources[f"{ours}.weight"] = Source((f"{theirs}/filters",), _CONV)
                    sources[f"{ours}.bias"] = Source((f"{theirs}/bias",))
                    continue
                sources[f"{ours}.depthwise.weight"] = Source((f"{theirs}/depthwise_filter",), _DEPTHWISE)
                sources[f"{ours}.pointwise.weight"] = Source((f"{theirs}/pointwise_filter",), _CONV)
                sources[f"{ours}.pointwise.bias"] = Source((f"{theirs}/bias",))
        return Names(sources)
