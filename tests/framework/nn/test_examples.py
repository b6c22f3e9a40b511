"""Each layer has its formula and an example in its docstring, and the example prints what it says."""

import doctest

import numpy as np
import pytest

import framework
from framework import nn, tensor

CONTAINERS = {"Layer", "LayerDict", "LayerList"}  # compute nothing themselves
LAYERS = sorted(
    (cls for cls in vars(nn).values() if isinstance(cls, type) and issubclass(cls, nn.Layer)), key=lambda c: c.__name__
)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda cls: cls.__name__)
def test_the_example_of_a_layer_prints_what_it_says(layer):
    names = {**vars(nn), "framework": framework, "nn": nn, "np": np, "tensor": tensor}
    (found,) = doctest.DocTestFinder(recurse=False).find(layer, layer.__name__, globs=names)
    assert found.examples, f"{layer.__name__} has no example"
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(found, out=said.append)
    assert said == []


@pytest.mark.parametrize("layer", [c for c in LAYERS if c.__name__ not in CONTAINERS], ids=lambda cls: cls.__name__)
def test_a_layer_that_computes_has_its_formula(layer):
    told = layer.__doc__.partition("Args:")[0].partition("Example:")[0]
    assert " = " in told or "norm(x + dropout" in told or "norm1(x + dropout" in told


def test_all_layers_are_looked_at():
    assert len(LAYERS) > 30
