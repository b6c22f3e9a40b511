"""ThinResNet: size and maps; with the published file it scores as ONNX Runtime does."""

import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, ops
from suites.classification.models.classifier import ImageClassifier
from suites.engine.weights import load_pretrained, rename, resolve
from suites.vision.backbones import ThinResNet
from tests.zoo import fetched


def classifier():
    return ImageClassifier(ThinResNet((32,)), 2)


def test_it_has_the_published_size_and_maps_at_four_strides():
    net = ThinResNet()
    nn.init.initialize(net, 0)
    with no_grad():
        maps = net.eval()(from_numpy(np.zeros((1, 64, 96, 3), np.float32)))
    assert [m.shape[1:] for m in maps] == [(16, 24, 128), (8, 12, 256), (4, 6, 512), (2, 3, 1024)]
    assert sum(p.size for p in classifier().parameters()) == 5_891_266
    assert [place.stride for place, _ in net.placed()] == [4] * 3 + [8] * 4 + [16] * 6 + [32] * 3


def test_a_shorter_network_takes_its_part_of_a_file():
    whole, short = classifier(), ThinResNet((8,))
    nn.init.initialize(whole, 3)
    file = rename(whole, whole.names_in("opennsfw").sources)
    names = short.names_in("opennsfw")
    assert {s.names[0] for s in names.sources.values()} < set(file)
    left = set(file) - names.theirs
    assert len(left) == len(names.unused) == len(file) - len(short.state_dict())


def test_it_scores_as_onnx_runtime_does(monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    name = fetched("open_nsfw", monkeypatch)
    model = classifier()
    report = load_pretrained(model, name)
    assert set(report.loaded) == set(model.state_dict()) and not report.new and not report.unused
    images = np.random.default_rng(0).uniform(-120, 150, (2, 224, 224, 3)).astype(np.float32)
    session = onnxruntime.InferenceSession(str(resolve(name)[0]), providers=["CPUExecutionProvider"])
    wanted = np.concatenate([session.run(None, {"input:0": image[None]})[0] for image in images])
    with no_grad():
        found = ops.softmax(model.eval()(from_numpy(images)), axis=-1).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert 1e-5 < wanted.min() < 0.01
