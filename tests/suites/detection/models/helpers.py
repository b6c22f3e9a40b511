"""What tests of all detectors ask of them: a step traced as well as eager, batches without objects, export."""

import numpy as np
import pytest

import framework
from framework import no_grad, tensor
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.predictor import Predictor
from framework.random import seed
from suites.detection.models.base import MaskTargets, Targets
from suites.engine.contract.losses import Loss
from suites.vision.structures import encode, runs_of

SIZE = (64, 96)  # H, W


def images_of(count, size=SIZE, seed=0):
    return np.random.default_rng(seed).standard_normal((count, *size, 3)).astype(np.float32)


def arrays_of(count, objects, classes=3, size=SIZE, seed=0):
    """Boxes [N, 16, 4], classes and scores [N, 16] of `objects` objects an image, zeros behind."""
    rng = np.random.default_rng(seed)
    boxes, labels = np.zeros((count, 16, 4), np.float32), np.zeros((count, 16), np.int64)
    scores = np.zeros((count, 16), np.float32)
    for n in range(count):
        for m in range(objects):
            side = rng.uniform(12, 40, 2)
            corner = rng.uniform(0, np.array(size[::-1]) - side)
            boxes[n, m], labels[n, m], scores[n, m] = (*corner, *(corner + side)), rng.integers(classes), 1
    return boxes, labels, scores


def targets_of(count, objects, classes=3, size=SIZE, seed=0):
    return Targets(*(tensor(x) for x in arrays_of(count, objects, classes, size, seed)))


def mask_arrays(boxes, size):
    """Ellipses that fill boxes [N, M, 4], as run lengths and offsets of pictures of `size` (H, W)."""
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5
    runs, lengths = [np.zeros(0, np.int32)], []
    for x1, y1, x2, y2 in boxes.reshape(-1, 4):
        if x2 <= x1:
            lengths.append(0)
            continue
        inside = ((2 * columns - x1 - x2) / (x2 - x1)) ** 2 + ((2 * rows - y1 - y2) / (y2 - y1)) ** 2 <= 1
        runs.append(runs_of(encode(inside)))
        lengths.append(len(runs[-1]))
    lengths[-1] += 4096 - sum(lengths)  # runs without pixels
    return np.concatenate([*runs, np.zeros(4096, np.int32)])[:4096], np.concatenate([[0], np.cumsum(lengths)])


def assert_trains_as_a_program(model, classes, size=SIZE):
    """Losses and gradients are those of eager code, finite without objects; one trace for any batch and contents."""

    def step(images, boxes, labels, scores, runs, offsets):
        for parameter in model.parameters():
            parameter.grad = None
        targets = Targets(boxes, labels, scores, masks=MaskTargets(runs, offsets) if model.needs_masks else None)
        terms = model.losses(images, targets)
        means = {name: term.mean if isinstance(term, Loss) else term for name, term in terms.items()}
        total = sum(means.values(), start=tensor(np.float32(0)))
        total.backward()
        return means

    traced = framework.program(step)
    buffers = {name: b.numpy().copy() for name, b in model.named_buffers()}
    for objects in (2, 0):
        found = []
        for run in (step, traced):
            for name, buffer in model.named_buffers():
                buffer.set(tensor(buffers[name]))
            seed(3)  # what is sampled
            boxes, labels, scores = arrays_of(2, objects, classes, size)
            arrays = images_of(2, size), boxes, labels, scores, *mask_arrays(boxes, size)
            terms = {name: float(value) for name, value in run(*(tensor(a) for a in arrays)).items()}
            grads = {name: p.grad.numpy().copy() for name, p in model.named_parameters() if p.grad is not None}
            assert all(np.isfinite(v) for v in terms.values()) and all(np.isfinite(g).all() for g in grads.values())
            found.append((terms, grads))
        (eager, ours), (program, theirs) = found
        assert program == pytest.approx(eager, rel=1e-4, abs=1e-6)
        assert ours.keys() == theirs.keys() and len(ours) == len(model.parameters())
        for name, gradient in ours.items():
            np.testing.assert_allclose(theirs[name], gradient, rtol=2e-2, atol=1e-3 * np.abs(gradient).max() + 1e-7)
        assert (sum(eager.values()) > 0) or not objects
    assert traced.traces_made == 1


def assert_exports(model, folder, sizes=(SIZE,)):
    """A Predictor of the exported model gives what the model gives, at each image size, from one Program."""
    model.eval()

    def run(images, true_sizes):
        return model.detect(images, true_sizes).by_name()

    def inputs(size):
        return images_of(2, size, seed=5), np.array([size, size], np.int64)

    with no_grad():
        given = [tensor(x) for x in inputs(sizes[0])]
        exported = framework.program(run, pass_names=INFERENCE_PASSES).program_for(*given).program
        save_program(exported, folder)
        predictor = Predictor(folder)
        for size in sizes:
            expected = run(*(tensor(x) for x in inputs(size)))
            found = dict(zip(expected, predictor.run(inputs(size)), strict=True))
            assert expected["counts"].numpy().min() > 0
            for name, value in expected.items():
                np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-4, atol=1e-3, err_msg=name)


def assert_exports_to_onnx(model, folder, size=SIZE):
    """ONNX Runtime finds on an exported model what the model finds."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    from framework.onnx import EXPORT_PASSES, export

    model.eval()
    arrays = images_of(2, size, seed=5), np.array([size, size], np.int64)

    def run(images, sizes):
        return model.detect(images, sizes).by_name()

    with no_grad():
        given = [tensor(x) for x in arrays]
        exported = framework.program(run, pass_names=EXPORT_PASSES).program_for(*given).program
        expected = run(*given)
        export(exported, folder / "model.onnx", output_names=list(expected))
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    named = {i.name: x for i, x in zip(session.get_inputs(), arrays, strict=True)}
    for found, (name, value) in zip(session.run(None, named), expected.items(), strict=True):
        np.testing.assert_allclose(found, value.numpy(), rtol=1e-4, atol=1e-3, err_msg=name)


def assert_anchors_are_scored(model, scores_of, boxes_of):
    """A RetinaNet's logits and codes of each anchor are those of another's formulas, whose anchors are ordered by size,
    then ratio, as Detectron2's `generate_cell_anchors`.

    `scores_of` and `boxes_of` give [9 K] and [9 * 4] of a pixel's features [C].
    """
    rng, width = np.random.default_rng(0), model.neck.channels[0]
    maps = [rng.normal(size=(1, 1, 1, width)).astype(np.float32) for _ in range(5)]  # 3x3 kernels see their centre only
    with no_grad():
        logits, deltas = model.head([tensor(x) for x in maps])
    for level, (x, anchors) in enumerate(zip(maps, model.head.anchors.levels, strict=True)):
        cells = _by_size(32 * 2**level)
        scores, boxes = scores_of(x[0, 0, 0]).reshape(9, -1), boxes_of(x[0, 0, 0]).reshape(9, 4)
        found = np.abs(np.array(anchors.cells)[:, None] - cells[None]).max(axis=2)
        same = found.argmin(axis=1)
        assert found.min(axis=1).max() < 1e-9 * 512 and sorted(same) == list(range(9))
        np.testing.assert_allclose(logits[level].numpy()[0], scores[same], atol=1e-5)
        np.testing.assert_allclose(deltas[level].numpy()[0], boxes[same], atol=1e-5)


def _by_size(size, octaves=3, ratios=(0.5, 1.0, 2.0)):
    """[9, 4]: for each size and ratio a box around (0, 0)."""
    sides = [size * 2 ** (i / octaves) for i in range(octaves)]
    areas = [(side**2, ratio) for side in sides for ratio in ratios]
    halves = [((area / ratio) ** 0.5 / 2, ratio * (area / ratio) ** 0.5 / 2) for area, ratio in areas]
    return np.array([(-w, -h, w, h) for w, h in halves])
