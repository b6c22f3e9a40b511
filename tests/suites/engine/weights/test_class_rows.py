"""Heads keep what fits: rows of no class, and of the classes that a file's network names too."""

import numpy as np
import pytest

from framework import nn
from suites.engine.weights.matching import Classes, ClassRows, Source, load_mapped

NAMES = ("cat", "horse", "dog")


def rows(layout, count, width=2):
    """A tensor whose number at [r, c] is 10 r + c."""
    extent = layout.groups * (layout.before + layout.each * count + layout.after)
    return 10.0 * np.arange(extent)[:, None] + np.arange(width)


@pytest.mark.parametrize(
    "layout", [ClassRows(), ClassRows(3, before=5), ClassRows(after=1), ClassRows(2, before=1), ClassRows(each=4)]
)
def test_rows_of_no_class_and_of_the_same_name_are_kept_and_others_are_as_they_were(layout):
    own, theirs = -rows(layout, 2) - 1, rows(layout, 3)
    made = layout.kept(own, theirs, ("dog", "hare"), NAMES)
    ours, mine, given = (a.reshape(layout.groups, -1, 2) for a in (made, own, theirs))
    first, each, last = layout.before, layout.each, layout.after
    np.testing.assert_array_equal(ours[:, :first], given[:, :first])
    np.testing.assert_array_equal(ours[:, ours.shape[1] - last :], given[:, given.shape[1] - last :])
    np.testing.assert_array_equal(ours[:, first : first + each], given[:, first + 2 * each : first + 3 * each])
    np.testing.assert_array_equal(ours[:, first + each : first + 2 * each], mine[:, first + each : first + 2 * each])


def test_without_names_the_rows_of_classes_are_as_they_were():
    layout = ClassRows(before=1)
    own, theirs = -rows(layout, 2) - 1, rows(layout, 3)
    made = layout.kept(own, theirs, (), ())
    np.testing.assert_array_equal(made, np.concatenate([theirs[:1], own[1:]]))


@pytest.mark.parametrize("shape", [(7, 2), (5, 2), (12, 3)])
def test_a_tensor_of_another_layout_is_left_alone(shape):
    layout = ClassRows(2, before=5)
    assert layout.kept(rows(layout, 1), np.zeros(shape), (), ()) is None


class Named(nn.Layer):
    def __init__(self, count):
        super().__init__()
        self.fc = nn.Linear(2, count)


def load(ours, theirs, count):
    model = Named(len(ours))
    model.fc.weight.set(model.fc.weight * 0.0)
    arrays = {"fc.weight": rows(ClassRows(), count).astype(np.float32), "fc.bias": np.arange(count, dtype=np.float32)}
    report = load_mapped(
        model, arrays, {name: Source((name,)) for name in arrays}, file="w", resized=[r"^fc\."],
        rows={r"^fc\.": ClassRows()}, classes=Classes(tuple(ours), tuple(theirs)),
    )  # fmt: skip
    return model.fc.weight.numpy()[:, 0].tolist(), report


def test_as_many_classes_in_another_order_take_the_rows_of_their_names():
    found, report = load(("dog", "cat", "hare"), NAMES, 3)
    assert found == [20.0, 0.0, 0.0] and report.shared == ["dog", "cat"] and report.loaded == []
    assert str(report) == "0 tensors loaded; 2 in part, for other classes: fc.weight, fc.bias; of the classes dog, cat"
    same, report = load(NAMES, NAMES, 3)
    assert same == [0.0, 10.0, 20.0] and report.partly == [] and len(report.loaded) == 2
