"""The deep-learning core: tensors, operators, gradients, programs, layers, optimizers. It knows no task."""

from framework import custom as custom
from framework import errors as errors
from framework import ops as ops
from framework._core import num_threads as num_threads
from framework._core import set_cached_memory_limit as set_cached_memory_limit
from framework._core import set_num_threads as set_num_threads
from framework.anomaly import detect_anomaly as detect_anomaly
from framework.autograd import rules as _rules
from framework.autograd.tape import gradients as gradients
from framework.autograd.tape import no_grad as no_grad
from framework.control import cond as cond
from framework.control import scan as scan
from framework.control import while_loop as while_loop
from framework.creation import arange as arange
from framework.creation import full as full
from framework.creation import linspace as linspace
from framework.creation import load as load
from framework.creation import manual_seed as manual_seed
from framework.creation import ones as ones
from framework.creation import ones_like as ones_like
from framework.creation import save as save
from framework.creation import zeros as zeros
from framework.creation import zeros_like as zeros_like
from framework.devices import current_device as current_device
from framework.devices import device as device
from framework.devices import set_device as set_device
from framework.extend import Function as Function
from framework.extend import TensorType as TensorType
from framework.extend import include_dir as include_dir
from framework.extend import library_dir as library_dir
from framework.extend import load_operators as load_operators
from framework.extend import operator_gradient as operator_gradient
from framework.extend import py_func as py_func
from framework.graph import program as program
from framework.ops import concat as concat
from framework.ops import stack as stack
from framework.ops import where as where
from framework.ops.algorithm import conv_algorithm as conv_algorithm
from framework.precision import autocast as autocast
from framework.profiler import Profile as Profile
from framework.tensor import Tensor as Tensor
from framework.tensor import from_dlpack as from_dlpack
from framework.tensor import from_numpy as from_numpy
from framework.tensor import tensor as tensor

del _rules
