"""RetinaFace: its published file, a step, export, and with its weights the faces that its formulas find."""

from pathlib import Path

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError
from suites.detection.anchor_boxes import SSDPriors
from suites.detection.models.base import PostProcess
from suites.detection.models.faces import ContextPyramid, RetinaFace
from suites.detection.models.ssd import SSDHead
from suites.engine.config import Factory
from suites.engine.config.building import read_config
from suites.engine.weights import load_wanted
from suites.vision.backbones import MobileNetV1
from tests.suites.detection.models.helpers import assert_exports, assert_exports_to_onnx, assert_trains_as_a_program

PRIORS = SSDPriors(((16, 32), (64, 128), (256, 512)), ((), (), ()), (8, 16, 32))
ALL = PostProcess(0.0, 60, 0.4, 10)


def drawn(landmarks=0, pretrained=None, **head):
    head = Factory.of(SSDHead, num_classes=1, priors=PRIORS, landmarks=landmarks, convolution="1x1", **head)
    model = RetinaFace(MobileNetV1(0.25, act="leaky_relu"), head, pretrained=pretrained)
    if pretrained is None:
        nn.init.initialize(model, 0)
    return model


def published(shared_data):
    path = shared_data("weights/retinaface/mobilenet0.25_Final.pth")
    model = drawn(5, str(path))
    load_wanted(model)
    return model.eval(), path


def test_the_published_file_fills_the_configs_network(shared_data):
    model = read_config(Path("detection/retinaface_mobilenetv1_wider"), ["model.pretrained=null"]).build("model")
    names = model.names_in("retinaface")
    assert set(names.sources) == set(model.state_dict())
    assert sum(t.size for t in model.state_dict().values()) == 433296
    published(shared_data)


def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_faces():
    assert_trains_as_a_program(drawn(), classes=1)


def test_an_exported_model_finds_the_same_in_pictures_of_any_size(tmp_path):
    assert_exports(drawn(5, postprocess=ALL), tmp_path, [(64, 96), (75, 50)])


def test_onnx_runtime_finds_the_same(tmp_path):
    assert_exports_to_onnx(drawn(5, postprocess=ALL), tmp_path)


def test_a_width_that_has_no_quarter_is_an_error():
    with pytest.raises(AttributeValueError, match="width is 30; it must be a multiple of 4"):
        ContextPyramid((8,), (8,), width=30)


@pytest.mark.peers
def test_published_weights_give_what_the_formulas_give_in_pytorch(shared_data):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    f = torch.nn.functional
    model, path = published(shared_data)
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = {name.removeprefix("module."): value for name, value in state.items()}

    def layer(x, name, slope, stride=1, norm=None):
        weight, norm = state[f"{name}.weight"], norm or f"{name[:-1]}{int(name[-1]) + 1}"
        groups = x.shape[1] // weight.shape[1]
        x = f.conv2d(x, weight, None, stride, weight.shape[2] // 2, groups=groups)
        mean, var = state[f"{norm}.running_mean"], state[f"{norm}.running_var"]
        x = f.batch_norm(x, mean, var, state[f"{norm}.weight"], state[f"{norm}.bias"])
        return x if slope is None else f.leaky_relu(x, slope)

    image = np.random.default_rng(0).uniform(-100, 140, (2, 90, 110, 3)).astype(np.float32)  # RGB
    x = torch.from_numpy(image[..., ::-1].copy()).permute(0, 3, 1, 2)
    x = layer(x, "body.stage1.0.0", 0.1, 2)
    maps = []
    for stage, blocks in ((1, range(1, 6)), (2, range(6)), (3, range(2))):
        for k in blocks:
            halved = (stage, k) in ((1, 2), (1, 4), (2, 0), (3, 0))
            x = layer(x, f"body.stage{stage}.{k}.0", 0.1, 2 if halved else 1)
            x = layer(x, f"body.stage{stage}.{k}.3", 0.1)
        maps.append(x)
    levels = [layer(x, f"fpn.output{i + 1}.0", 0.1) for i, x in enumerate(maps)]
    for i in (1, 0):
        wider = f.interpolate(levels[i + 1], size=levels[i].shape[2:], mode="nearest")
        levels[i] = layer(levels[i] + wider, f"fpn.merge{i + 1}.0", 0.1)
    wanted = []
    for i, x in enumerate(levels):
        ssh = f"ssh{i + 1}"
        reduced = layer(x, f"{ssh}.conv5X5_1.0", 0.1)
        far = layer(layer(reduced, f"{ssh}.conv7X7_2.0", 0.1), f"{ssh}.conv7x7_3.0", None)
        x = torch.cat([layer(x, f"{ssh}.conv3X3.0", None), layer(reduced, f"{ssh}.conv5X5_2.0", None), far], 1).relu()
        for part, width in (("Class", 2), ("Bbox", 4), ("Landmark", 10)):
            name = f"{part}Head.{i}.conv1x1"
            out = f.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"])
            wanted.append(out.permute(0, 2, 3, 1).reshape(2, -1, width))
    with no_grad():
        found = model.maps(tensor(image))
        logits, deltas = model.head(found)
        marks = model.head._marks(found)
    for ours, part in ((logits, 0), (deltas, 1), (marks, 2)):
        theirs = torch.cat(wanted[part::3], 1).numpy()
        ours = ours.numpy().reshape(theirs.shape)
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max())
