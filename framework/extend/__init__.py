"""Operators from outside of the tree: Python functions, gradients of the user's own, and C++ libraries.

docs/howto/custom_operators.md has an example of each.
"""

from framework.extend.function import Context as Context
from framework.extend.function import Function as Function
from framework.extend.libraries import include_dir as include_dir
from framework.extend.libraries import library_dir as library_dir
from framework.extend.libraries import load_operators as load_operators
from framework.extend.libraries import operator_gradient as operator_gradient
from framework.extend.py_func import TensorType as TensorType
from framework.extend.py_func import py_func as py_func
