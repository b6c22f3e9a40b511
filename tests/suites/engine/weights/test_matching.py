"""Tensors of other files into a model: what a model has once, and numbers that are none."""

import numpy as np
import pytest

from framework import nn
from framework.errors import CheckpointError
from suites.engine.weights.matching import Names, Source, load_mapped


def files(**more):
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    return {"a.weight": weight, "a.bias": np.ones(3, np.float32), **more}


NAMES = Names({"weight": Source(("a.weight",)), "bias": Source(("a.bias",))}, (), {r"^out\.weight$": "weight"})


def load(arrays, names=NAMES):
    model = nn.Linear(2, 3)
    return load_mapped(model, arrays, names.sources, file="w", unused=names.unused, copies=names.copies)


def test_a_copy_of_a_tensor_has_to_equal_it():
    same = files()["a.weight"]
    assert load(files(**{"out.weight": same})).unused == ["out.weight"]
    assert load(files(**{"out.weight": same * np.float32(1 + 2.0**-9)})).unused  # as bfloat16 rounds
    for other in (same + 0.1, same.T.copy(), same[:2]):
        with pytest.raises(CheckpointError, match=r"not known which is meant .*: out\.weight \(weight\)"):
            load(files(**{"out.weight": other}))


def test_copies_follow_prefixes_on_both_sides():
    moved = NAMES.inside("net.").below("part.") | Names({"x": Source(("y",))})
    assert moved.copies == {r"^net\.out\.weight$": "part.weight"} and "x" in moved.sources


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_no_numbers_are_refused(number):
    arrays = files()
    arrays["a.bias"][1] = number
    with pytest.raises(CheckpointError, match="1 not of finite numbers, as after a training that diverged: bias"):
        load(arrays)
    large = np.full(3, 3e38, np.float32)  # whose sum is infinite
    assert len(load(files(**{"a.bias": large})).loaded) == 2
