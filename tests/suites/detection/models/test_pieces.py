"""Rows that are looked at in pieces get what they get all at once; pieces without a row are left out."""

import numpy as np
import pytest

import framework
from framework import no_grad, ops, tensor
from framework.precision import autocast
from suites.detection.models.base import Detections
from suites.detection.models.pieces import in_pieces, of_detections
from suites.engine.pieces import whole


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(("rows", "together"), [(7, 3), (6, 3), (2, 5), (4, 1), (5, 5)])
def test_what_is_said_of_a_row_does_not_depend_on_the_pieces(rows, together, traced):
    rng = np.random.default_rng(rows)
    boxes, there = rng.random((2, rows, 4)).astype(np.float32), rng.random((2, rows)) < 0.3

    def part(boxes, real):
        flat = ops.reshape(boxes, shape=(-1, 4))
        return [ops.sum(flat, axes=(1,)) + 1.0, ops.reshape(flat, shape=(-1, 2, 2)) * 2.0]

    def run(boxes, there):
        return in_pieces(part, [(), (2, 2)], [boxes], there, rows, together)

    with no_grad():
        sums, twice = (framework.program(run) if traced else run)(tensor(boxes), tensor(there))
    pieces = [there[:, k : k + together].any() for k in range(0, rows, together)]
    seen = np.repeat(pieces, together)[:rows]
    np.testing.assert_allclose(sums.numpy(), np.where(seen, boxes.sum(axis=2) + 1, 0), rtol=1e-6)
    np.testing.assert_array_equal(twice.numpy(), np.where(seen[:, None, None], boxes.reshape(2, rows, 2, 2) * 2, 0))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_results_are_float32_in_half_precision_too(precision):
    weight = tensor(np.ones((4, 4), np.float32))

    def run(boxes, there):
        return in_pieces(lambda b, _: [ops.matmul(ops.reshape(b, shape=(-1, 4)), weight)], [(4,)], [boxes], there, 3, 2)

    boxes, there = tensor(np.ones((1, 3, 4), np.float32)), tensor(np.array([[True, False, False]]))
    with no_grad(), autocast(precision):
        (found,) = framework.program(run)(boxes, there)
    assert found.dtype == "float32" and found.numpy()[0, :, 0].tolist() == [4, 4, 0]


def test_a_piece_without_a_row_is_not_looked_at():
    looked = []

    def part(boxes, real):
        looked.append(real.numpy().tolist())
        return [ops.reshape(boxes, shape=(-1, 4))]

    there = np.array([[False, False, True, False], [False, False, True, True]])
    with no_grad():
        in_pieces(part, [(4,)], [tensor(np.ones((2, 4, 4), np.float32))], tensor(there), 4, 2)
    assert looked == [[[True, False], [True, True]]]


def found_of(rows, counts):
    rng = np.random.default_rng(rows)
    scores = np.ones((len(counts), rows), np.float32)
    boxes, classes = rng.random((len(counts), rows, 4)).astype(np.float32), rng.integers(-1, 3, (len(counts), rows))
    return Detections(*map(tensor, (boxes, scores, classes, np.array(counts, np.int32))))


def of_row(boxes, classes, counts):
    return ops.reshape(boxes, shape=(-1, 4)) + ops.cast(ops.reshape(classes, shape=(-1, 1)), "float32")


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("together", [1, 2, 3, 9, None])
def test_a_head_says_the_same_of_each_detection_however_many_it_looks_at(together, traced):
    found = found_of(5, [3, 1])
    right = found.boxes.numpy() + np.maximum(found.classes.numpy(), 0)[:, :, None].astype(np.float32)

    def run(*columns):
        return of_detections(of_row, (4,), Detections(*columns), 5, together)

    with no_grad():
        columns = found.boxes, found.scores, found.classes, found.counts
        said = (framework.program(run) if traced else run)(*columns).numpy()
    for n, count in enumerate([3, 1]):
        np.testing.assert_array_equal(said[n, :count], right[n, :count])


def test_what_follows_all_layers_meets_no_control_flow():
    found = found_of(5, [3, 1])

    def blocks():
        def run(*columns):
            return of_detections(of_row, (4,), Detections(*columns), 5, 2)

        columns = found.boxes, found.scores, found.classes, found.counts
        with no_grad():
            made = framework.program(run).program_for(*columns).program
        return [op.name for op in made.block if op.blocks]

    with whole():
        assert blocks() == []
    assert blocks() == ["scan"]
