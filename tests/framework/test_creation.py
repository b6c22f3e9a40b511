"""framework.zeros and the like: shapes, types and values as NumPy's; files; the seed."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, CheckpointError, DTypeError


def test_shapes_are_given_one_by_one_or_as_one():
    for made in (framework.zeros(2, 3), framework.zeros((2, 3)), framework.ones([2, 3]) * 0.0):
        assert made.shape == (2, 3) and made.dtype == "float32" and not made.numpy().any()
    assert framework.ones().shape == () and framework.zeros(0, 4).shape == (0, 4)


def test_full_takes_its_type_from_the_number_and_ints_are_exact():
    assert framework.full([2], 2**53 + 1).tolist() == [2**53 + 1] * 2
    assert [framework.full(1, v).dtype for v in (1.5, 1, True)] == ["float32", "int64", "bool"]
    assert framework.full((), 1, "bfloat16").dtype == "bfloat16"


@pytest.mark.parametrize("args", [(5,), (2, 9), (2, 9, 3), (5, 0, -2), (0.5, 2.0, 0.25), (3, 1)])
def test_arange_counts_as_numpy(args):
    np.testing.assert_array_equal(framework.arange(*args).numpy(), np.arange(*args))


def test_linspace_holds_both_ends():
    np.testing.assert_array_equal(framework.linspace(-1, 2, 7).numpy(), np.linspace(-1, 2, 7).astype(np.float32))
    assert framework.linspace(0, 1, 0).shape == (0,)


def test_likes_have_no_history():
    x = framework.ones(3, requires_grad=True)
    assert not framework.zeros_like(x).requires_grad and framework.ones_like(x).tolist() == [1.0] * 3


def test_bad_arguments_are_refused_by_name():
    for make, message in (
        (lambda: framework.zeros(2, -1), r"zeros: shape \[2, -1\]"),
        (lambda: framework.ones(2.5), r"ones: shape \[2.5\]"),
        (lambda: framework.arange(0, 5, 0), "arange: step is 0"),
        (lambda: framework.linspace(0, 1, -1), "linspace: num is -1"),
    ):
        with pytest.raises(AttributeValueError, match=message):
            make()
    with pytest.raises(DTypeError, match="int64 has no gradient"):
        framework.tensor([1, 2], requires_grad=True)


def test_a_layer_and_a_dict_are_saved_and_loaded(tmp_path):
    layer, other = nn.Linear(3, 2), nn.Linear(3, 2)
    nn.init.initialize(layer, seed=1)
    framework.save(layer, tmp_path / "layer.safetensors")
    other.load_state_dict(framework.load(tmp_path / "layer.safetensors"))
    np.testing.assert_array_equal(other.weight.numpy(), layer.weight.numpy())
    framework.save({"a": framework.arange(3)}, tmp_path / "a.safetensors")
    assert framework.load(tmp_path / "a.safetensors")["a"].tolist() == [0, 1, 2]
    with pytest.raises(CheckpointError, match="'a' is list; a file holds tensors only"):
        framework.save({"a": [1.0]}, tmp_path / "b.safetensors")


def test_the_seed_repeats_what_dropout_draws():
    drop = nn.Dropout(0.5)
    framework.manual_seed(7)
    first = drop(framework.ones(64)).tolist()
    framework.manual_seed(7)
    assert drop(framework.ones(64)).tolist() == first


def test_a_program_may_make_tensors():
    made = framework.program(lambda x: x + framework.ones(3) * framework.arange(3) + ops.extent(x, axis=0))
    assert made(framework.zeros(3)).tolist() == [3.0, 4.0, 5.0]


def test_whole_numbers_of_numpy_are_whole():
    assert framework.arange(np.int64(3)).dtype == "int64" == framework.full(2, np.int32(7)).dtype
    big = 2**40 + 1
    assert framework.full(2, np.int64(big)).tolist() == [big, big]
    assert framework.full(1, np.bool_(True)).dtype == "bool" and framework.arange(np.float64(2)).dtype == "float32"
