"""The benchmark's networks: a training step has the same bits with 1 and 2 threads; every instruction set trains."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import framework
from framework import Profile, Tensor, _core, from_numpy
from suites.detection.models.fpn import FPN
from suites.detection.models.retinanet import RetinaNet, RetinaNetHead
from suites.detection.models.ssd import SSD, SSDHead, SSDNeck
from suites.engine.config import Factory
from suites.vision.backbones import VGG, DarkNet53, ResNet
from tools.bench_cases import common, detection, images, video

# Small images; each large enough for several tiles, tasks and slices in most layers.
NETWORKS = {
    "resnet50": lambda: common.labelled(images.resnet50, (2, 64, 64, 3)),
    "tsn": lambda: common.labelled(video.tsn_resnet50, (1, 2, 64, 64, 3)),
    "yolov3_mobilenet": lambda: common.dense(detection.yolov3_mobilenet, (2, 64, 64, 3)),
    "yolov3_darknet": lambda: common.dense(lambda: detection.yolov3(lambda: DarkNet53(width=16)), (1, 64, 64, 3)),
    "deeplab": lambda: common.labelled(images.deeplab_mobilenet, (2, 64, 64, 3)),
    "retinanet": lambda: detection.detector_training(small_retinanet, 2, 64),
    "ssd": lambda: detection.detector_training(small_ssd, 2, 300),
}


def small_retinanet():
    head = Factory.of(RetinaNetHead, num_classes=detection.DETECTION_CLASSES, convs=1)
    return RetinaNet(ResNet(18, width=8, out_strides=(8, 16, 32)), head, Factory.of(FPN, width=16, extra="conv_p5"))


def small_ssd():
    head = Factory.of(SSDHead, num_classes=detection.DETECTION_CLASSES)
    return SSD(VGG(width=4, out_strides=(8, 16), reduced_fc=True), head, Factory.of(SSDNeck, l2_norm=20.0))


@pytest.fixture(autouse=True)
def restore_settings():
    threads, isa = framework.num_threads(), _core.active_isa()
    yield
    framework.set_num_threads(threads)
    _core.use_isa(isa)


def one_step(network) -> tuple[Callable[[], Any], list[Tensor]]:
    """The step, run once so that it is traced, and its states: weights, optimizer, statistics."""
    step, _ = network()
    with Profile() as p:
        step()
    (compiled,) = p.programs
    return step, list(compiled.program.states.values())


@pytest.mark.parametrize("name", NETWORKS)
def test_one_and_two_threads_train_the_same_bits(name):
    step, states = one_step(NETWORKS[name])
    start = [state.numpy().copy() for state in states]
    results = []
    for threads in (1, 2):
        framework.set_num_threads(threads)
        for state, value in zip(states, start, strict=True):
            state.set(from_numpy(value))
        loss = step()
        results.append([loss.numpy().tobytes(), *(hash(state.numpy().tobytes()) for state in states)])
    assert len(states) > 50 and np.isfinite(float(loss))
    assert results[0] == results[1]
    assert any((state.numpy() != value).any() for state, value in zip(states, start, strict=True))


def test_every_instruction_set_trains():
    """Also with AVX2 switched off. The first loss is 50 layers of forward, each off by 1e-5 of the largest at most."""
    losses = {}
    for isa in _core.supported_isas():
        _core.use_isa(isa)
        step, _ = NETWORKS["deeplab"]()
        losses[isa] = [float(step()) for _ in range(2)]
    for isa, (first, second) in losses.items():
        assert first == pytest.approx(losses["baseline"][0], rel=50e-5), isa
        assert np.isfinite(second) and second != first, isa
