"""The network on whose features drawn pictures are compared with real ones.

FID is by its paper on Inception-v3. Here it is on a network that is at hand, so figures compare runs of one such
network with each other, and never with published ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from framework import no_grad, ops, program, tensor
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.config import Factory, OfRole
from suites.engine.weights import load_wanted, loaded_names
from suites.vision.augmentation.pixels import IMAGENET_MEAN, IMAGENET_STD
from suites.vision.backbones import Backbone
from suites.vision.backbones.mobilenet_v2 import MobileNetV2

_BATCH = 16  # pictures at a time


def _mobilenet() -> Factory[Backbone]:
    return Factory.of(MobileNetV2, out_strides=[32], pretrained="mobilenetv2_imagenet")


@dataclass(kw_only=True)
class Features:
    """How pictures become vectors: the means over the coarsest map of a backbone.

    Args:
        backbone: a network of the weights' name that it is `pretrained` with; MobileNetV2 of ImageNet by default, whose
            320 channels at stride 32 a few hundred pictures suffice for. Without `pretrained` its weights are drawn,
            and figures only tell that something changed.
        size: side in pixels that pictures are brought to.
        subsets: of KID, how many are drawn.
        subset_size: pictures of each kind in one, or as many as there are.
        most: pictures of each kind whose features KID keeps; FID takes all.
        seed: of KID's subsets.
    """

    backbone: Annotated[Factory[Backbone], OfRole("backbone")] = field(default_factory=_mobilenet)
    size: int = 224
    subsets: int = 100
    subset_size: int = 1000
    most: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size < 32 or self.subsets < 1 or min(self.subset_size, self.most) < 2:
            raise AttributeValueError(
                f"features: size is {self.size}, subsets {self.subsets}, subset_size {self.subset_size} and most "
                f"{self.most}; size must be 32 or more, subsets 1, the others 2"
            )


class FeatureNet:
    """Pictures [N, H, W, 3] in [-1, 1] to vectors [N, D].

    The vectors of real pictures are kept by content: an evaluation set is looked at again and again.

    Args:
        features: the settings.

    Attributes:
        name: of the network with its weights, the map and the size, which figures belong to.
        width: D.
    """

    def __init__(self, features: Features) -> None:
        self._network = features.backbone()
        init.initialize(self._network, 0, keep=loaded_names(self._network))
        load_wanted(self._network)
        self._network.eval()
        self._size = features.size
        self.width = self._network.channels[-1]
        weights = features.backbone.arguments.get("pretrained") or "random weights"
        stride = self._network.strides[-1]
        self.name = f"{type(self._network).__name__} ({weights}), stride {stride} at {features.size} pixels"
        self._run = program(self._vectors)
        self._known: dict[bytes, np.ndarray] = {}

    def _vectors(self, images: Tensor) -> Tensor:
        mean, std = (np.array(numbers, np.float32) for numbers in (IMAGENET_MEAN, IMAGENET_STD))
        scale, shift = tensor(0.5 / std), tensor((0.5 - mean) / std)  # of [-1, 1], in place of [0, 1]
        x = ops.resize_bilinear(images, size=self._size) * scale + shift
        return ops.mean(self._network(x)[-1], axes=(1, 2))

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """images: float32 [N, H, W, 3]; y: float32 [N, D]."""
        with no_grad():
            parts = [self._run(images[at : at + _BATCH]).numpy().copy() for at in range(0, len(images), _BATCH)]
        return np.concatenate(parts) if parts else np.zeros((0, self.width), np.float32)

    def of_real(self, images: np.ndarray) -> np.ndarray:
        """The same of real pictures, each looked at once."""
        keys = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
        new = [at for at, key in enumerate(keys) if key not in self._known]
        self._known |= {keys[at]: row for at, row in zip(new, self(images[new]), strict=True)}
        rows = [self._known[key] for key in keys]
        return np.stack(rows) if rows else np.zeros((0, self.width), np.float32)
