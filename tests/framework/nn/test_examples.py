"""Each layer has an example in its docstring, and it prints what it says."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import framework
from framework import nn, tensor

MODULES = [importlib.import_module(f"framework.nn.{m.name}") for m in pkgutil.iter_modules(nn.__path__)]
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


def test_all_layers_are_looked_at():
    assert len(LAYERS) > 30 and len(MODULES) > 10
