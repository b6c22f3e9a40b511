"""Operators: one function for each entry of the native registry, and the few that are compositions of others.

`conv2d(x, weight, bias, stride=2)` takes inputs first, then attributes. Shapes, types and gradients are documented at
each function (`help(ops.conv2d)`) and, by family, in docs/operators/. The static types are in `__init__.pyi`, which
`tools/op_docs.py` writes from the registry.
"""

from framework.ops import dispatch as _dispatch

globals().update({name: _dispatch.make_function(info) for name, info in _dispatch.OPS.items()})

from framework.ops.compositions import stack, unstack  # noqa: E402  (they are made of the functions above)
from framework.ops.indexing import getitem  # noqa: E402

__all__ = [*_dispatch.OPS, "getitem", "stack", "unstack"]
