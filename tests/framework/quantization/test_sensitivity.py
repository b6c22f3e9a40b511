"""What each layer alone loses in 8 bits."""

import numpy as np
import pytest

from framework import ops
from framework.errors import AttributeValueError
from framework.quantization import sensitivity
from tests.framework.quantization.test_images import constant, filters, normal, traced


def test_the_layer_that_8_bits_suit_least_comes_first_by_its_name():
    """Its input has an outlier, so that all else of it has few of the 256 numbers."""
    x = normal(1, 12, 12, 8)
    wide = np.eye(8, dtype=np.float32).reshape(8, 1, 1, 8)
    wide[0, 0, 0, 0] = 3000.0
    first, second = constant(wide, "first"), filters(8, 1, 8, seed=1, name="second")
    narrow = constant(np.linalg.inv(wide[:, 0, 0]).reshape(8, 1, 1, 8).astype(np.float32), "narrow")

    def f(x):
        return ops.softmax(ops.conv2d(ops.conv2d(ops.conv2d(x, first), narrow), second))

    rows = sensitivity(traced(f, x), [[x]])
    assert rows[0].name == "narrow" and {row.name for row in rows} == {"first", "narrow", "second"}
    assert rows[0].error > 10 * rows[1].error > 0 and rows[0].weights == 64


def test_layers_that_share_weights_count_together():
    x, w = normal(1, 6, 6, 8), filters(8, 1, 8, name="w")
    rows = sensitivity(traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, w)), w), x), [[x]])
    assert [row.layer for row in rows] == ["conv2d 0"]


def test_what_is_kept_has_no_row():
    x, a, b = normal(1, 6, 6, 8), filters(8, 1, 8, name="a.w"), filters(8, 1, 8, name="b.w")
    whole = traced(lambda x: ops.conv2d(ops.relu(ops.conv2d(x, a)), b), x)
    assert [row.name for row in sensitivity(whole, [[x]], keep=["a.*"])] == ["b.w"]
    with pytest.raises(AttributeValueError, match=r"keep has 'c\.\*', which fits no weight"):
        sensitivity(whole, [[x]], keep=["c.*"])


def test_a_program_without_layers_has_no_rows():
    x = normal(1, 6, 6, 8)
    assert sensitivity(traced(ops.relu, x), [[x]]) == []
