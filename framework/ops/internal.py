"""The operators that users do not call: gradients, optimizer steps, and forms that passes and layers make.

Their blocks say `.internal()`. They are operators like all others, in Programs, profiles and files; what they are
called and what they take may change with any version.
"""

from framework.ops.dispatch import make_function as _make_function
from framework.ops.registry import OPS as _OPS

__all__ = [name for name, info in _OPS.items() if info.internal]

globals().update({name: _make_function(_OPS[name], __name__) for name in __all__})
