"""Operators: one function for each entry of the native registry that users call, and the few that are compositions.

`conv2d(x, weight, bias, stride=2)` takes inputs first, then attributes. Shapes, types and gradients are documented at
each function (`help(ops.conv2d)`) and, by family, in docs/reference/operators/. The static types are in
`functions.pyi`, which `tools/op_docs.py` writes from the registry. What gradients, optimizers and passes call is in
`framework.ops.internal`.
"""

from framework.context import operators as _operators
from framework.ops import functions as _functions
from framework.ops.assignment import assign
from framework.ops.compositions import stack, unstack
from framework.ops.contraction import einsum
from framework.ops.functions import *  # noqa: F403  (each has a line in functions.pyi)
from framework.ops.indexing import getitem
from framework.ops.pixels import pixel_shuffle, pixel_unshuffle
from framework.ops.selection import nonzero, unique

__all__ = [
    "assign",
    "einsum",
    "getitem",
    "nonzero",
    "pixel_shuffle",
    "pixel_unshuffle",
    "stack",
    "unique",
    "unstack",
]
__all__ += _functions.__all__

vars(_operators).update({name: globals()[name] for name in __all__})
