"""The public operators as functions, made from the registry, one each: below the compositions, which call them.

`framework.ops` offers them together with what is composed of them. Static types are in `functions.pyi`, which
`tools/op_docs.py` writes.
"""

from framework.ops.dispatch import make_function as _make_function
from framework.ops.registry import OPS as _OPS

__all__ = [name for name, info in _OPS.items() if not info.internal]

globals().update({name: _make_function(_OPS[name]) for name in __all__})
