"""MediaPipe's BlazeFace: its published files, its means of overlapping boxes, a step, export."""

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError
from framework.optim import Adam
from framework.tflite import Session, open_model
from suites.detection.models.base import PostProcess
from suites.detection.models.faces import BlazeFace
from suites.engine.weights import load_wanted
from suites.engine.weights.records import get_record
from tests.suites.detection.models.helpers import (
    assert_exports,
    assert_exports_to_onnx,
    assert_trains_as_a_program,
    images_of,
    targets_of,
)
from tests.zoo import fetched

SIZE = (64, 96)
ALL = PostProcess(0.01, 60, 0.3, 10)
FILES = {"front": ("blazeface.pth", "anchors.npy", 128), "back": ("blazefaceback.pth", "anchorsback.npy", 256)}


def drawn(camera="front", **arguments):
    model = BlazeFace(camera, **arguments)
    nn.init.initialize(model, 0)
    return model


def merged(boxes, points, scores, least, iou):
    """Faces (box, points, score) as the paper's blending makes them, one after the other."""
    order = [i for i in np.argsort(-scores, kind="stable") if scores[i] > least]
    found = []
    while order:
        a = boxes[order[0]]
        b = boxes[order]
        inner = np.clip(np.minimum(a[2:], b[:, 2:]) - np.maximum(a[:2], b[:, :2]), 0, None).prod(axis=1)
        union = (a[2:] - a[:2]).prod() + (b[:, 2:] - b[:, :2]).prod(axis=1) - inner
        near = inner / union > iou
        group = np.array(order)[near]
        share = scores[group] / scores[group].sum()
        found.append((share @ boxes[group], share @ points[group], scores[group].mean()))
        order = [i for i, taken in zip(order, near, strict=True) if not taken]
    return found


def test_overlapping_boxes_become_their_mean_by_score():
    rng = np.random.default_rng(0)
    centres = np.array([[20, 20], [70, 30], [40, 80]])[rng.integers(0, 3, 60)] + rng.normal(0, 4, (60, 2))
    sides = rng.uniform(20, 30, (60, 1))
    boxes = np.concatenate([centres - sides / 2, centres + sides / 2], axis=1).astype(np.float32)
    points, scores = rng.uniform(0, 100, (60, 12)).astype(np.float32), rng.uniform(0, 1, 60).astype(np.float32)
    head = drawn(postprocess=PostProcess(0.3, 896, 0.3, 20)).head
    found = head._blended(*(tensor(x[None]) for x in (boxes, points, scores[:, None])))
    wanted = merged(boxes, points, scores, 0.3, 0.3)
    assert int(found.counts.numpy()[0]) == len(wanted) >= 3
    for i, (box, marks, score) in enumerate(wanted):
        np.testing.assert_allclose(found.boxes.numpy()[0, i], box, rtol=1e-5)
        np.testing.assert_allclose(found.landmarks.numpy()[0, i].ravel(), marks, rtol=1e-5)
        assert found.scores.numpy()[0, i] == pytest.approx(score, rel=1e-5)


@pytest.mark.parametrize("camera", ["front", "back"])
def test_a_published_file_fills_the_network_whose_cells_are_its_anchors(camera, shared_data):
    file, anchors, side = FILES[camera]
    folder = shared_data("weights/blazeface")
    model = BlazeFace(camera, pretrained=str(folder / file))
    load_wanted(model)
    with no_grad():
        maps = model.maps(tensor(np.zeros((1, side, side, 3), np.float32)))
        priors = np.concatenate([grid.numpy() for grid in model.head.anchors.grids(maps)])
    theirs = np.load(folder / anchors)
    np.testing.assert_allclose((priors[:, :2] + priors[:, 2:]) / 2 / side, theirs[:, :2], atol=1e-6)
    assert (theirs[:, 2:] == 1).all()  # their codes are in shares of the picture, so in pixels of these sides


@pytest.mark.parametrize("camera", ["front", "back", "full_range"])
def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_faces(camera):
    assert_trains_as_a_program(drawn(camera), classes=1, size=SIZE)


def test_it_learns_two_faces():
    model, images, targets = drawn(), tensor(images_of(2, SIZE)), targets_of(2, 2, classes=1, size=SIZE)
    optimizer = Adam(model.named_parameters(), 2e-3)
    totals = []
    for _ in range(60):
        for parameter in model.parameters():
            parameter.grad = None
        terms = model.losses(images, targets)
        total = terms["loss_cls"].mean + terms["loss_box"].mean
        total.backward()
        optimizer.step()
        totals.append(float(total))
    assert totals[-1] < 0.2 * totals[0]


def test_an_exported_model_finds_the_same(tmp_path):
    assert_exports(drawn(postprocess=ALL), tmp_path, [(64, 96), (128, 128)])


def test_onnx_runtime_finds_the_same(tmp_path):
    model = drawn(postprocess=ALL)
    for out in model.head.cls_outs:  # scores apart from each other, so that roundings do not change their order
        out.weight.set(out.weight * 20.0)
    assert_exports_to_onnx(model, tmp_path)


def test_a_camera_that_there_is_not_is_an_error():
    with pytest.raises(AttributeValueError, match="camera is 'side'; it must be one of front, back, full_range"):
        BlazeFace("side")


def test_the_full_range_has_the_boxes_of_its_file(monkeypatch):
    """The published network by our reader of its file, which `tests/framework/tflite` compares with its runtime."""
    name = fetched("blazeface_full_range", monkeypatch)
    model = BlazeFace("full_range", pretrained=name)
    load_wanted(model)
    images = np.random.default_rng(0).uniform(-1, 1, (1, 192, 192, 3)).astype(np.float32)
    with no_grad():
        scores, codes = model.head(model.maps(tensor(images)))
    file = Session(open_model(get_record(name).weights()))
    for ours, theirs in zip((codes, scores), file.run([images]), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=3e-6 * np.abs(theirs).max())


@pytest.mark.peers
@pytest.mark.parametrize("camera", ["front", "back"])
def test_published_weights_give_what_the_formulas_give_in_pytorch(camera, shared_data):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    f = torch.nn.functional
    file, _, side = FILES[camera]
    path = shared_data(f"weights/blazeface/{file}")
    state = torch.load(path, map_location="cpu", weights_only=True)

    def conv(x, name, stride=1, padding=0, groups=1):
        return f.conv2d(x, state[f"{name}.weight"], state[f"{name}.bias"], stride, padding, groups=groups)

    def block(x, name, shortcut=True):
        width = state[f"{name}.convs.0.weight"].shape[0]
        halved = name.removeprefix("backbone") in ("1.4", "1.7", "2.0", ".9", ".17", ".25", "final")
        inner = f.pad(x, (0, 2, 0, 2)) if halved else x
        inner = conv(inner, f"{name}.convs.0", 2 if halved else 1, 0 if halved else 1, width)
        inner = conv(inner, f"{name}.convs.1")
        if not shortcut:
            return f.relu(inner)
        x = f.max_pool2d(x, 2) if halved else x
        return f.relu(inner + f.pad(x, (0, 0, 0, 0, 0, inner.shape[1] - width)))

    image = np.random.default_rng(0).uniform(-1, 1, (2, side, side, 3)).astype(np.float32)
    first, count, second = ("backbone1", 11, "backbone2") if camera == "front" else ("backbone", 31, None)
    x = f.relu(conv(f.pad(torch.from_numpy(image).permute(0, 3, 1, 2), (1, 2, 1, 2)), f"{first}.0", 2))
    for i in range(count):
        x = block(x, f"{first}.{i + 2}")
    y = x
    for i in range(5 if second else 0):
        y = block(y, f"{second}.{i}")
    if not second:
        y = block(x, "final", shortcut=False)
    wanted = [
        torch.cat([conv(m, f"{part}_{s}").permute(0, 2, 3, 1).reshape(2, -1, n) for m, s in ((x, 8), (y, 16))], 1)
        for part, n in (("classifier", 1), ("regressor", 16))
    ]
    model = BlazeFace(camera, pretrained=str(path))
    load_wanted(model)
    with no_grad():
        found = model.head(model.maps(tensor(image)))
    for ours, theirs in zip(found, wanted, strict=True):
        theirs = theirs.numpy()
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-4 * np.abs(theirs).max())
