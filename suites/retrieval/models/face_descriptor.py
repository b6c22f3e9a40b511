"""dlib's network that gives a face 128 numbers, as face-api.js published it.

Source: King's `dlib_face_recognition_resnet_model_v1` (http://dlib.net, a ResNet of 29 convolutions; He et al. 2016,
arXiv:1512.03385), by the network and file of face-api.js (https://github.com/vladmandic/face-api).

Letters: N faces, H W image size, C K channels.
"""

from __future__ import annotations

import numpy as np

from framework import nn, ops
from framework.tensors import Tensor
from suites.engine.registry import register
from suites.engine.weights import Names, Source, start_from
from suites.retrieval.models.embedding import Embedder
from suites.vision.face_api import SCHEME, drawn_face, expect_side

SIDE = 150  # pixels
# Blocks by their names in the file: channels out, whether the block halves the map.
_BLOCKS = (
    *((f"conv32_{k}", 32, False) for k in (1, 2, 3)),
    *(("conv64_down", 64, True), *((f"conv64_{k}", 64, False) for k in (1, 2, 3))),
    *(("conv128_down", 128, True), *((f"conv128_{k}", 128, False) for k in (1, 2))),
    *(("conv256_down", 256, True), *((f"conv256_{k}", 256, False) for k in (1, 2)), ("conv256_down_out", 256, True)),
)


class _Scaled(nn.Layer):
    """scale * conv(x) + shift, dlib's norm with its statistics gone.  x: [N, H, W, C], y: [N, H', W', K]."""

    scale: Tensor
    shift: Tensor

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, 0 if stride == 2 else kernel // 2)
        self.add_parameter("scale", (out,), nn.init.Constant(1.0))
        self.add_parameter("shift", (out,), nn.init.Constant(0.0))

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        return self.conv(x) * self.scale + self.shift


class _Block(nn.Layer):
    """relu(second(relu(first(x))) + shortcut).  x: [N, H, W, C], y: [N, H', W', K].

    Where it halves the map the shortcut is the mean of 2x2 pixels, with zeros for further channels, and the branch,
    which is not padded, gets a row and a column of zeros where it is smaller.
    """

    def __init__(self, channels: int, out: int, halves: bool) -> None:
        super().__init__()
        self.first, self.second = _Scaled(channels, out, 3, 2 if halves else 1), _Scaled(out, out, 3)
        self.halves, self.wider = halves, out - channels

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]."""
        y = self.second(ops.relu(self.first(x)))
        if not self.halves:
            return ops.relu(y + x)
        short = ops.avg_pool2d(x, kernel=2, stride=2)
        if self.wider:
            short = ops.pad(short, pads=(0, 0, 0, 0, 0, 0, 0, self.wider))
        below, beside = (short.shape[axis] - y.shape[axis] for axis in (1, 2))
        if below or beside:
            y = ops.pad(y, pads=(0, 0, 0, below, 0, beside, 0, 0))
        return ops.relu(y + short)


@register("embedder")
class FaceDescriptor(Embedder):
    """dlib's ResNet-29 of faces, 5.6 million parameters, for squares of 150 pixels around one face.

    Its own vectors, `features`, have no fixed length; face-api.js takes two pictures for one person where they lie
    nearer than 0.6. As every embedder it gives them at length 1.

    Args:
        pretrained: name or file of published weights; see docs/howto/pretrained.md.
    """

    schemes: tuple[str, ...] = (SCHEME,)
    size = 128

    def __init__(self, pretrained: str | None = None) -> None:
        super().__init__()
        self.stem, self.blocks, width = _Scaled(3, 32, 7, 2), nn.LayerList(), 32
        for _, out, halves in _BLOCKS:
            self.blocks.append(_Block(width, out, halves))
            width = out
        self.fc = nn.Linear(width, self.size, bias=False)
        start_from(self, pretrained)

    def features(self, images: Tensor) -> Tensor:
        """The descriptors [N, 128] of images [N, 150, 150, 3].

        The images are (pixel - mean) / 255, of face-api.js' mean colour.

        Raises ShapeError for images of another size.
        """
        expect_side("FaceDescriptor", images, SIDE)
        x = ops.max_pool2d(ops.relu(self.stem(images)), kernel=3, stride=2)
        for block in self.blocks:
            x = block(x)
        return self.fc(ops.mean(x, axes=(1, 2)))

    def forward(self, images: Tensor) -> Tensor:
        """images: [N, 150, 150, 3]; vectors of length 1, [N, 128]."""
        return nn.unit(self.features(images))

    def answers(self) -> dict[str, np.ndarray]:
        """The first numbers for a drawn image; see `suites.engine.weights.answers`."""
        return {"descriptor": self.features(drawn_face(SIDE)).numpy()[0]}

    def names_in(self, scheme: str) -> Names:
        """Names in face-api.js' `face_recognition_model-weights_manifest.json`."""
        pairs = {"stem": "conv32_down"}
        for i, (theirs, _, _) in enumerate(_BLOCKS):
            pairs |= {f"blocks.{i}.first": f"{theirs}/conv1", f"blocks.{i}.second": f"{theirs}/conv2"}
        sources = {"fc.weight": Source(("fc",), (1, 0))}
        for ours, theirs in pairs.items():
            sources[f"{ours}.conv.weight"] = Source((f"{theirs}/conv/filters",), (3, 0, 1, 2))
            sources[f"{ours}.conv.bias"] = Source((f"{theirs}/conv/bias",))
            sources |= {f"{ours}.scale": Source((f"{theirs}/scale/weights",))}
            sources |= {f"{ours}.shift": Source((f"{theirs}/scale/biases",))}
        return Names(sources)
