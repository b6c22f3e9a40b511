"""The deep-learning core: tensors, operators, gradients, programs, layers, optimizers. It knows no task."""

from framework import errors as errors
from framework import ops as ops
from framework._core import num_threads as num_threads
from framework._core import set_num_threads as set_num_threads
from framework.autograd import rules as _rules
from framework.autograd.tape import gradients as gradients
from framework.autograd.tape import no_grad as no_grad
from framework.graph import program as program
from framework.ops.algorithm import conv_algorithm as conv_algorithm
from framework.profiler import Profile as Profile
from framework.tensor import Tensor as Tensor
from framework.tensor import from_dlpack as from_dlpack
from framework.tensor import from_numpy as from_numpy
from framework.tensor import tensor as tensor

del _rules
