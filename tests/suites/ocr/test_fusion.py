"""DB++: adaptive scale fusion against an independent reading, and in a network that is trained."""

import numpy as np
import pytest

from framework import from_numpy, no_grad
from suites.ocr.models.dbnet import DBNet, ScaleFusion
from suites.ocr.settings import EvalData, TrainData
from suites.ocr.task import OcrTask
from suites.ocr.transforms import RandomTextCrop
from tests.suites.ocr.test_readers import stirred
from tests.suites.ocr.test_training import page_data


def convolved(x, weight, bias=0.0):
    """A convolution of stride 1 with zeros around.  x: [N, H, W, C], weight: [K, R, S, C]."""
    reach = weight.shape[1] // 2
    padded = np.pad(x, ((0, 0), (reach, reach), (reach, reach), (0, 0)))
    height, width = x.shape[1:3]
    parts = (
        np.einsum("nhwc,kc->nhwk", padded[:, i : i + height, j : j + width], weight[:, i, j])
        for i in range(weight.shape[1])
        for j in range(weight.shape[2])
    )
    return sum(parts) + bias


def test_maps_are_weighed_at_each_place():
    layer, w = stirred(ScaleFusion(16, 4))
    maps = [np.random.default_rng(k).normal(size=(2, 5, 6, 4)).astype(np.float32) for k in range(4)]
    x = convolved(np.concatenate(maps, axis=-1), w["conv.weight"], w["conv.bias"])
    near = np.maximum(convolved(x.mean(axis=-1, keepdims=True), w["near.weight"]), 0)
    places = 1 / (1 + np.exp(-convolved(near, w["place.weight"])))
    shares = 1 / (1 + np.exp(-convolved(x + places, w["scale.weight"])))
    wanted = np.concatenate([own * shares[..., k : k + 1] for k, own in enumerate(maps)], axis=-1)
    with no_grad():
        found = layer([from_numpy(own) for own in maps]).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)
    assert np.ptp(shares) > 0.05


def test_a_detector_with_it_gives_a_gradient_to_every_weight(tmp_path):
    data = page_data(tmp_path)
    train = TrainData(dataset=data, batch_size=1, transforms=[RandomTextCrop(64, scale=(1.0, 1.0))])
    task = OcrTask(DBNet(fusion=True), train, EvalData(dataset=data))
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    task.model.train()
    terms = task.train_step({name: from_numpy(batch[name]) for name in task.train_inputs})
    (terms["binary"].mean + terms["text"].mean + terms["threshold"].mean).backward()
    grads = {name: parameter.grad for name, parameter in task.model.named_parameters()}
    assert all(grad is not None for grad in grads.values())
    assert np.abs(grads["neck.fusion.scale.weight"].numpy()).max() > 0


@pytest.mark.parametrize("fusion", [False, True])
def test_it_is_asked_for(fusion):
    names = [name for name, _ in DBNet(fusion=fusion).named_parameters()]
    assert any(name.startswith("neck.fusion.") for name in names) == fusion
