"""The deep-learning core: tensors, operators, gradients, programs, layers, optimizers. It knows no task.

Its names are imported when they are asked for: an error's text or a list of published weights needs no operator.
"""

from typing import TYPE_CHECKING

from framework.lazy import exports

if TYPE_CHECKING:
    from framework import anomaly as anomaly
    from framework import autograd as autograd
    from framework import control as control
    from framework import creation as creation
    from framework import custom as custom
    from framework import devices as devices
    from framework import errors as errors
    from framework import extend as extend
    from framework import graph as graph
    from framework import limits as limits
    from framework import ops as ops
    from framework import outside as outside
    from framework import precision as precision
    from framework import profiler as profiler
    from framework import random as random
    from framework._core import flushes_subnormals as flushes_subnormals
    from framework._core import num_threads as num_threads
    from framework._core import set_cached_memory_limit as set_cached_memory_limit
    from framework._core import set_flush_subnormals as set_flush_subnormals
    from framework._core import set_num_threads as set_num_threads
    from framework.anomaly import detect_anomaly as detect_anomaly
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
    from framework.extend.py_func import py_func as py_func
    from framework.graph import program as program
    from framework.ops import concat as concat
    from framework.ops import stack as stack
    from framework.ops import where as where
    from framework.ops.algorithm import conv_algorithm as conv_algorithm
    from framework.precision import autocast as autocast
    from framework.profiler import Profile as Profile
    from framework.tensors import Tensor as Tensor
    from framework.tensors import from_dlpack as from_dlpack
    from framework.tensors import from_numpy as from_numpy
    from framework.tensors import tensor as tensor

_MODULES = {
    "": "anomaly autograd control creation custom devices errors extend graph limits ops outside precision "
    "profiler random",
    "_core": "flushes_subnormals num_threads set_cached_memory_limit set_flush_subnormals set_num_threads",
    "anomaly": "detect_anomaly",
    "autograd.tape": "gradients no_grad",
    "control": "cond scan while_loop",
    "creation": "arange full linspace load manual_seed ones ones_like save zeros zeros_like",
    "devices": "current_device device set_device",
    "extend": "Function TensorType include_dir library_dir load_operators operator_gradient py_func",
    "graph": "program",
    "ops": "concat stack where",
    "ops.algorithm": "conv_algorithm",
    "precision": "autocast",
    "profiler": "Profile",
    "tensors": "Tensor from_dlpack from_numpy tensor",
}

__getattr__, __dir__ = exports(__name__, {name: module for module, names in _MODULES.items() for name in names.split()})
