"""Drawn arrays and constants for tests of 8 bits."""

import numpy as np

import framework


def normal(*shape, seed=0, scale=1.0):
    """float32, of one drawing for each shape and seed."""
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * scale).astype(np.float32)


def constant(array, name=None):
    """A tensor that a Program keeps as a constant."""
    t = framework.tensor(array)
    t.persistable, t.name = True, name
    return t
