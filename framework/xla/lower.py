"""From a Program to a function of JAX arrays: one rule an operator, applied in the order of the operations.

A rule is a function `(call, *inputs, **attrs)` under `@rule(name)`: inputs are JAX arrays in signature order (None for
an absent one), attributes come by name in one form each; it returns the outputs. An operator without a rule is lowered
through the composition that it stands for, or runs on the host.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from framework import _core
from framework.errors import PaddockError
from framework.graph.ir import Operation, Program, Value
from framework.graph.trace import Trace
from framework.ops.compositions import composition_of
from framework.ops.registry import OPS, OpInfo
from framework.tensors import Tensor, from_numpy

_log = logging.getLogger("paddock")

Array = Any  # a jax.Array, or a tracer of one
Type = tuple[tuple[int, ...], str]

RULES: dict[str, Callable[..., Any]] = {}
BLOCKS: dict[str, Callable[..., Any]] = {}  # rules of control flow, which lower blocks: (lowering, operation, inputs)


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the function as the rule of these operators."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in RULES, f"{name} has two rules"
            RULES[name] = function
        return function

    return declare


@dataclass
class Call:
    """One use of an operator: what its rule may ask.

    Attributes:
        info: the operator.
        types: shape and element type of each output, as the operator's shape rule has them.
        where: the user's line that caused it.
    """

    info: OpInfo
    types: list[Type]
    where: str
    lowering: Lowering

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first output."""
        return self.types[0][0]

    @property
    def dtype(self) -> str:
        """Of the first output."""
        return self.types[0][1]

    def refuse_where(self, bad: Array, values: Array, text: str) -> None:
        """Makes the run fail where an element of `bad` is true, as the native kernel does.

        `text` says what is wrong of the first of `values` there, which stands for `{}` in it. XLA itself would cut an
        index at the border without a word.
        """
        if not bad.size:
            return
        first = jnp.argmax(jnp.ravel(bad))
        value = jnp.ravel(jnp.broadcast_to(values, bad.shape))[first].astype(jnp.int64)
        self.lowering.faults.note(jnp.any(bad), value, f"{self.info.name}: {text}", self.where)

    def again(self, name: str, *inputs: Array | None, **attrs: Any) -> Any:
        """The output or outputs of another operator, by its rule."""
        info = OPS[name]
        outputs = self.lowering.apply(info, inputs, info.attr_values(attrs), self.where)
        return outputs if info.many_outputs else outputs[0]


@dataclass
class Faults:
    """What data can be refused for, and the first that was: its number (0 for none) and the value at fault."""

    messages: list[tuple[str, str]]  # shared by a Program and its blocks; fault i + 1 is message i
    state: Array = field(default_factory=lambda: jnp.zeros(2, jnp.int64))
    noted: bool = False

    def note(self, bad: Array, value: Array, text: str, where: str) -> None:
        """A fault that is there if `bad` is true."""
        self.messages.append((text, where))
        self.merge(jnp.where(bad, jnp.stack([jnp.int64(len(self.messages)), value]), jnp.zeros(2, jnp.int64)))

    def merge(self, other: Array) -> None:
        """What another part of the Program found, after what was found so far."""
        self.noted = True
        self.state = jnp.where(self.state[0] > 0, self.state, other)


class Lowering:
    """Lowers the operations of one Program or block while JAX traces."""

    def __init__(
        self,
        faults: Faults,
        platform: str,
        products: str = "float32",
        whole: Callable[[Array], Array] = lambda x: x,
    ) -> None:
        """For a kind of device.

        Args:
            faults: gets what data can be refused for.
            platform: of the device, as JAX calls it: cpu, gpu, tpu.
            products: see `framework.set_device`.
            whole: an array so that each of several devices has all of it.
        """
        self.faults = faults
        self.platform, self.products, self.whole = platform, products, whole
        self.longest: dict[int, int] = {}  # of offsets, by the id of their array: a bound of the sequences' lengths

    def inner(self) -> Lowering:
        """For a block, whose faults are merged by who lowers it."""
        return Lowering(Faults(self.faults.messages), self.platform, self.products, self.whole)

    def factor(self, x: Array) -> Array:
        """One factor of a product, as this device is asked to take it.

        XLA's CPU has not every product of half types, so there the rounded factors are float32.
        """
        if self.platform == "cpu":
            x = wide(x)
        if self.products != "bfloat16" or x.dtype != jnp.float32:
            return x
        return jax.lax.reduce_precision(x, 8, 7) if self.platform == "cpu" else x.astype(jnp.bfloat16)

    def contraction(self, pattern: str, a: Array, b: Array) -> Array:
        """The einsum of two factors; half types are summed in float32."""
        return jnp.einsum(pattern, self.factor(a), self.factor(b), preferred_element_type=wide(a).dtype)

    def run(self, program: Program, values: dict[Value, Array]) -> dict[Value, Array]:
        """Adds all values that the operations define; `values` holds inputs, states and constants."""
        for op in program.block:
            inputs = [None if v is None else values[v] for v in op.inputs]
            for v, array in zip(op.outputs, self.operation(op, inputs), strict=True):
                values[v] = array
        return values

    def block(self, program: Program, inputs: Sequence[Array]) -> list[Array]:
        """The results of a block."""
        values: dict[Value, Array] = dict(zip(program.inputs, inputs, strict=True))
        values |= {v: constant(a) for v, a in program.constants.items()}
        self.run(program, values)
        return [values[v] for v in program.results]

    def operation(self, op: Operation, inputs: Sequence[Array | None]) -> list[Array]:
        """The outputs of one operation."""
        if op.blocks:
            return list(BLOCKS[op.name](self, op, inputs))
        return self.apply(op.info, inputs, op.attrs, op.where)

    def apply(self, info: OpInfo, inputs: Sequence[Array | None], attrs: Sequence[Any], where: str) -> list[Array]:
        """The outputs of an operator, checked against its shape rule.

        An operator without a rule and a composition runs on the host, in the middle of the run.
        """
        types = types_of(info, inputs, attrs, where)
        function = RULES.get(info.name)
        with jax.named_scope(info.name):
            if function is not None:
                out = function(Call(info, types, where, self), *inputs, **plain_attrs(info, attrs))
                outputs = list(out) if isinstance(out, (tuple, list)) else [out]
            elif info.composition:
                outputs = self._composed(info, inputs, attrs)
            else:
                given = [None if x is None else self.whole(x) for x in inputs]
                outputs = [self.whole(x) for x in _on_host(info, given, attrs, types)]
        for i, (array, (shape, dtype)) in enumerate(zip(outputs, types, strict=True)):
            assert array.shape == shape, f"{info.name}: output {i} is {array.shape} and not {shape}"
            outputs[i] = array.astype(jnp_type(dtype))
        return outputs

    def _composed(self, info: OpInfo, inputs: Sequence[Array | None], attrs: Sequence[Any]) -> list[Array]:
        """The outputs of what a fused operator stands for, which is traced for these shapes."""
        trace = Trace()
        given = [x for x in inputs if x is not None]
        stand_ins = [_stand_in(x) for x in given]
        names = [a["name"] for a in info.attrs]

        def call(*tensors: Tensor) -> Any:
            left = iter(tensors)
            ordered = [None if x is None else next(left) for x in inputs]
            out = composition_of(info)(*ordered, **dict(zip(names, attrs, strict=True)))
            outs = out if isinstance(out, tuple) else (out,)
            trace.program.results = [trace.value_of(t) for t in outs]

        trace.run(call, stand_ins)
        return self.block(trace.program, given)


def _on_host(info: OpInfo, inputs: Sequence[Array | None], attrs: Sequence[Any], types: Sequence[Type]) -> list[Array]:
    """The outputs of the native kernel, for which the device waits."""
    _log.warning("%s: this operator runs on the host; the device waits for it at every run", info.name)
    there = [x is not None for x in inputs]

    def call(*arrays: Any) -> list[np.ndarray]:
        left = iter(arrays)
        given = [from_numpy(np.array(next(left))).array() if given else None for given in there]
        out = _core.call(info.native, tuple(given), tuple(attrs))
        return [np.array(Tensor(a).numpy()) for a in (out if info.many_outputs else (out,))]

    results = [jax.ShapeDtypeStruct(shape, jnp_type(dtype)) for shape, dtype in types]
    return list(jax.pure_callback(call, results, *(x for x in inputs if x is not None)))


def _stand_in(x: Array) -> Tensor:
    """A tensor of an array's type whose data is not read: its only element is repeated without being stored."""
    return from_numpy(np.zeros(x.shape, np.dtype(x.dtype)))


def types_of(info: OpInfo, inputs: Sequence[Array | None], attrs: Sequence[Any], where: str) -> list[Type]:
    """Shapes and element types of an operator's outputs.

    Raises:
        ShapeError, DTypeError, AttributeValueError: the shape rule refuses the inputs.
    """
    shapes = [None if x is None else tuple(x.shape) for x in inputs]
    dtypes = [None if x is None else str(x.dtype) for x in inputs]
    try:
        return [(tuple(shape), dtype) for shape, dtype in _core.infer(info.native, shapes, dtypes, tuple(attrs))]
    except PaddockError as e:
        raise type(e)(f"{e}" + (f" (traced at {where})" if where else "")) from None


def jnp_type(dtype: str) -> Any:
    """The type of JAX by the core's name for it."""
    return jnp.dtype(dtype)


def constant(array: Any) -> Array:
    """A native array as data of the function that is traced."""
    return jnp.asarray(np.array(Tensor(array).numpy()))


def plain_attrs(info: OpInfo, attrs: Sequence[Any]) -> dict[str, Any]:
    """Attributes by name; lists of numbers as tuples, whatever way the caller wrote them."""
    return {spec["name"]: _PLAIN[spec["type"]](value) for spec, value in zip(info.attrs, attrs, strict=True)}


def _numbers(convert: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def plain(value: Any) -> tuple[Any, ...]:
        return tuple(convert(v) for v in value) if isinstance(value, (tuple, list, np.ndarray)) else (convert(value),)

    return plain


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "ints": _numbers(int),
    "floats": _numbers(float),
}


def linear_transpose(function: Callable[[Array], Array], like: Array, dy: Array) -> Array:
    """The gradient of a linear function of an array shaped as `like`, in the forms that XLA knows to be gradients."""
    (dx,) = jax.linear_transpose(function, jax.ShapeDtypeStruct(like.shape, dy.dtype))(dy)
    return dx


def wide(x: Array) -> Array:
    """Half types as float32, in which the core computes with them."""
    return x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x
