"""Video classification; clips [N, T, H, W, 3] and sequences of features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.bench_cases.common import Cases, Step, labelled

if TYPE_CHECKING:
    from framework.nn import Layer

CLASSES = 400  # Kinetics'
TAGS, ROWS = 3862, 300  # classes of YouTube-8M, rows of a video


def tsn_resnet50() -> Layer:
    """TSN on ResNet-50."""
    from suites.video.models.tsn import TSN
    from suites.vision.backbones import ResNet

    return TSN(ResNet(50, out_strides=(32,)), num_classes=CLASSES)


def tsm_resnet50() -> Layer:
    """TSM on ResNet-50."""
    from suites.video.models.tsm import TSM
    from suites.vision.backbones import ResNet

    return TSM(ResNet(50, out_strides=(32,)), num_classes=CLASSES)


def stnet_resnet50() -> Layer:
    """StNet on ResNet-50, super-images of 5 frames."""
    from suites.video.models.stnet import StNet
    from suites.vision.backbones import ResNet

    return StNet(ResNet(50, in_channels=15, out_strides=(32,)), num_classes=CLASSES)


def nonlocal_resnet50() -> Layer:
    """ResNet-50 with 5 non-local blocks."""
    from suites.video.models.non_local import NonLocal
    from suites.vision.backbones import ResNet

    return NonLocal(ResNet(50, out_strides=(32,)), num_classes=CLASSES)


def i3d_resnet50() -> Layer:
    """I3D of ResNet-50."""
    from suites.video.models.resnet3d import I3D

    return I3D(num_classes=CLASSES, dropout=0.0)


def nextvlad_training(videos: int) -> tuple[Step, int]:
    """A training step of NeXtVLAD on videos of 300 rows, with Adam, and their number."""
    import numpy as np

    from framework import ops, program, tensor
    from framework.nn import init
    from framework.optim import Adam
    from suites.video.models.nextvlad import NeXtVLAD

    rng = np.random.default_rng(0)
    sizes = {"rgb": 1024, "audio": 128}
    model = NeXtVLAD(sizes, num_classes=TAGS, dropout=0.0)
    init.initialize(model, 0)
    features = {name: tensor(rng.standard_normal((videos * ROWS, size), np.float32)) for name, size in sizes.items()}
    offsets = tensor(np.arange(videos + 1, dtype=np.int64) * ROWS)
    targets = tensor((rng.random((videos, TAGS)) < 1e-3).astype(np.float32))
    optimizer = Adam(model.named_parameters(), lr=2e-4)

    @program
    def step(features: Any, offsets: Any, targets: Any) -> Any:
        loss = ops.mean(ops.sigmoid_cross_entropy(model(features, offsets), targets))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(features, offsets, targets), videos


CASES: Cases = {
    "tsn_resnet50_train_b2_t4_224": lambda: labelled(tsn_resnet50, (2, 4, 224, 224, 3)),
    "tsm_resnet50_train_b2_t8": lambda: labelled(tsm_resnet50, (2, 8, 224, 224, 3)),
    "stnet_resnet50_train_b1_t7x5": lambda: labelled(stnet_resnet50, (1, 35, 224, 224, 3)),
    "nonlocal_resnet50_train_b1_t8": lambda: labelled(nonlocal_resnet50, (1, 8, 224, 224, 3)),
    "i3d_resnet50_train_b1_t16": lambda: labelled(i3d_resnet50, (1, 16, 224, 224, 3)),
    "nextvlad_train_b32": lambda: nextvlad_training(32),
}
