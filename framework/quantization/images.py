"""Convolutions in 8 bits: which values of a Program are held in 8 bits, their steps, and the Program rewritten so.

A convolution reads 8-bit numbers. It gives 8-bit numbers too where another 8-bit operation reads them; else float32.
What moves numbers or picks among them (max pooling, nearest resizing, concatenation, views) does so in 8 bits, and all
that it reads and gives have one range. Sums of two 8-bit values are 8-bit values with a range of their own.
A convolution with 16 bits reads float32, which it rounds itself, and gives what others give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.report import name_of, place_of
from framework.graph.passes.rewriter import Rewriter, shape_only
from framework.graph.reports import PassReport
from framework.ops import registry
from framework.quantization.observers import Observer, bounds_of
from framework.quantization.ranges import HEADROOM, LARGEST, SMALLEST, Places, Roles, Steps, not_held
from framework.quantization.reconstruction import Written
from framework.quantization.weights import (
    array_of,
    by_channel,
    constant_of,
    rounded_bias,
    rounded_rows,
    set_constant,
    widest,
)

MOST_ROUNDED = 1 << 22  # steps of a bias that float32 holds so that they are found again


def separate(program: Program) -> None:
    """Makes two conv2d of each separable_conv2d: its parts have ranges of their own."""
    info = registry.OPS["conv2d"]
    ops = []
    for op in program.block:
        if op.name != "separable_conv2d":
            ops.append(op)
            continue
        window = {name: op.attr(name) for name in ("stride", "padding", "dilation", "groups")}
        first = info.attr_values(window | {"activation": op.attr("depth_activation"), "slope": op.attr("depth_slope")})
        inputs = [op.input("x"), op.input("depth_weight"), op.input("depth_bias"), None]
        depth = program.make_operation(info, inputs, first, op.where)
        last = info.attr_values({name: op.attr(name) for name in ("activation", "slope", "residual_last")})
        inputs = [depth.outputs[0], op.input("weight"), op.input("bias"), op.input("residual")]
        ops += [depth, Operation(info, inputs, op.outputs, last, op.where)]
    program.block.ops = ops


class Images:
    """The 8-bit part of a Program's images.

    Attributes:
        convolutions: those that are to be in 8 bits.
        wide: of those the ones that read 16 bits.
        held: operations that give 8 bits.
        steps: how values are held, once they are known.
    """

    def __init__(self, program: Program, convolutions: Sequence[Operation], wide: Sequence[Operation] = ()) -> None:
        self.convolutions, self.wide = set(convolutions), set(wide)
        self.held: set[Operation] = set()
        self.steps: dict[Value, Steps] = {}
        self._program = program
        self._producers = program.producers()
        self._never_held: set[Operation] = set()
        self._seen: Mapping[Value, Observer] = {}
        self._notes: list[str] = []
        self._method = ""
        self._plan()

    def observed(self) -> list[Value]:
        """What calibration has to look at."""
        read = [v for op in self._program.block if self._is_eight(op) for v in (*data_of(op), *op.outputs)]
        return list(dict.fromkeys(v for v in read if not self._passes(self._producers.get(v)) or self._is_read(v)))

    def measure(self, seen: Mapping[Value, Observer], method: str) -> None:
        """Chooses steps by what was seen; what 8 bits have no steps for stays in float32."""
        self._seen, self._method = seen, method
        for op in [op for op in self._program.block if op in self.convolutions]:
            largest = seen[image_of(op)].largest
            if not SMALLEST <= largest <= LARGEST:
                self._notes.append(f"{_label(op)} stays in float32: its input {not_held(largest)}")
                self.convolutions.remove(op)
        self._plan()
        self.leave([v for v, observer in seen.items() if observer.largest > LARGEST])
        bounds = {v: bounds_of(observer, method) for v, observer in seen.items()}
        for group in self._groups():
            known = [bounds[v] for v in group if v in bounds]
            steps = Steps.of(min((low for low, _ in known), default=0), max((high for _, high in known), default=0))
            self.steps |= dict.fromkeys(group, steps)

    def leave(self, values: Sequence[Value]) -> None:
        """Lets no operation that reads or gives one of these values give 8 bits."""
        self._never_held |= {op for op in self.held if not {*data_of(op), *op.outputs}.isdisjoint(values)}
        self._plan()

    def take(self, steps: Mapping[Value, Steps], method: str) -> None:
        """Takes steps that were found elsewhere; `method` says how."""
        self.steps, self._method = dict(steps), method

    def roles(self) -> list[Roles]:
        """What values of one range do, in the Program's order, and the values."""
        does: dict[Value, list[str]] = {}
        places, sums = Places(self._program), 0
        for op in self._program.block:
            if op in self.convolutions:
                place = places.of(op)
                does.setdefault(image_of(op), []).append(f"{place}:x")
                if op in self.held:
                    does.setdefault(op.outputs[0], []).append(f"{place}:y")
                    residual = op.input("residual")
                    if residual is not None:
                        does.setdefault(residual, []).append(f"{place}:residual")
            elif op in self.held and op.name == "add":
                for v, what in zip((*op.inputs[:2], op.outputs[0]), "aby", strict=True):
                    assert v is not None
                    does.setdefault(v, []).append(f"sum {sums}:{what}")
                sums += 1
        return [Roles(tuple(role for v in group for role in does.get(v, ())), tuple(group)) for group in self._groups()]

    def rewrite(self, report: PassReport, bias_correction: bool | None) -> list[Written]:
        """Puts 8-bit operations in the place of those that were chosen, which it gives back; says so in `report`.

        `bias_correction`: see `quantize`; biases are rounded to steps of the sums too. None leaves them as they are.
        """
        report.missed += self._notes
        writer = _Writer(self, self._program, report, bias_correction)
        if self.convolutions:
            writer.run()
        return writer.written

    # -- which operations
    def _plan(self) -> None:
        able: set[Operation] = set()  # could give 8 bits
        for op in self._program.block:
            joins = _may_join(self._program, op) and any(self._producers.get(v) in able for v in data_of(op))
            if (joins or op in self.convolutions) and op not in self._never_held:
                able.add(op)
        self.held = set()
        wanted: set[Value] = set()
        for op in reversed(self._program.block.ops):
            held = op in able and any(v in wanted for v in op.outputs)
            if held:
                self.held.add(op)
            if op in self.convolutions:
                if op not in self.wide:
                    wanted.add(image_of(op))
                wanted.update(v for v in [op.input("residual")] if held and v is not None)
            elif held:
                wanted.update(data_of(op))

    def _is_eight(self, op: Operation) -> bool:
        return op in self.convolutions or op in self.held

    def _passes(self, op: Operation | None) -> bool:
        return op is not None and op in self.held and op.info.picks

    def _is_read(self, v: Value) -> bool:
        return any(image_of(op) is v for op in self.convolutions)

    def _groups(self) -> list[list[Value]]:
        """Values that 8-bit operations read or give, those with one range together."""
        group: dict[Value, list[Value]] = {}
        for op in self._program.block:
            for v in (*data_of(op), *op.outputs) if self._is_eight(op) else ():
                group.setdefault(v, [v])
            if not self._passes(op):
                continue
            first, *others = (*data_of(op), *op.outputs)
            for v in others:
                if group[v] is not group[first]:
                    group[first] += group[v]
                    for moved in group[v]:
                        group[moved] = group[first]
        return list({id(members): members for members in group.values()}.values())


def _may_join(program: Program, op: Operation) -> bool:
    """Whether an operation other than a convolution has an 8-bit form."""
    if not op.outputs or any(v.dtype != "float32" for v in op.outputs):
        return False
    if op.name == "add":
        a, b = op.inputs[:2]
        return a is not None and a is not b and a.kind != "constant" and program.equal_shapes(a, b)
    return bool(op.info.picks)


def data_of(op: Operation) -> list[Value]:
    """The images that an operation reads."""
    if op.name == "conv2d":
        return [v for v in (op.inputs[0], op.input("residual")) if v is not None]
    read = zip(op.inputs, shape_only(op), strict=True)
    return [v for v, shape in read if v is not None and not shape and v.dtype == "float32"]


def image_of(op: Operation) -> Value:
    """What a convolution reads."""
    x = op.inputs[0]
    assert x is not None
    return x


def _label(op: Operation) -> str:
    weight = op.inputs[1]
    name = f" {weight.name!r}" if weight is not None and weight.name else ""
    return name_of(op) + name + place_of(op)


class _Writer(Rewriter):
    """Emits the Program with 8-bit operations; a value is rounded, or made float32 again, where it is first read so."""

    def __init__(self, images: Images, program: Program, report: PassReport, bias_correction: bool | None) -> None:
        super().__init__(program)
        self._images, self._report, self._correct = images, report, bias_correction
        self._eight: dict[Value, Value] = {}  # float32 value -> the same in 8 bits
        self._missing: set[Value] = set()  # float32 values that only their 8-bit form stands for so far
        self._wide: dict[Operation, tuple[float, int]] = {}  # steps of what is read in 16 bits
        self.written: list[Written] = []

    def run(self) -> None:
        for op in self.program.block.ops:
            if op in self._images.convolutions:
                self._convolution(op)
            elif op in self._images.held:
                self._other(op)
            else:
                for v in op.inputs:
                    self._float(v, op.where)
                self.ops.append(op)
        for v in self.program.results:
            self._float(v, "")
        self.program.block.ops = self.ops

    def _bytes(self, v: Value, where: str) -> Value:
        if v not in self._eight:
            self._eight[v] = self.emit("quantize_linear", [v], where, **self._images.steps[v].attrs("y"))
        return self._eight[v]

    def _float(self, v: Value | None, where: str) -> None:
        """Makes sure that a float32 value is there."""
        if v is None or v not in self._missing:
            return
        self._missing.remove(v)
        info = registry.OPS["dequantize_linear"]
        attrs = info.attr_values(self._images.steps[v].attrs("x"))
        self.ops.append(Operation(info, [self._eight[v]], [v], attrs, where))

    def _given(self, op: Operation, eights: Sequence[Value]) -> None:
        for v, eight in zip(op.outputs, eights, strict=True):
            self._eight[v] = eight
            self._missing.add(v)

    def _other(self, op: Operation) -> None:
        steps = self._images.steps
        data = set(data_of(op))
        inputs = [self._bytes(v, op.where) if v is not None and v in data else v for v in op.inputs]
        if op.name == "add":
            a, b = (v for v in op.inputs if v is not None)
            self.program.assume_equal_shapes(a, b)
            attrs = steps[a].attrs("a") | steps[b].attrs("b") | steps[op.outputs[0]].attrs("y")
            self._given(op, [self.emit("quantized_add", inputs, op.where, **attrs)])
            return
        for i, shape in enumerate(shape_only(op)):
            v = op.inputs[i]
            inputs[i] = self._eight.get(v, v) if shape and v is not None else inputs[i]
        new = self.program.make_operation(op.info, inputs, op.attrs, op.where)
        self.ops.append(new)
        self._given(op, new.outputs)

    def _convolution(self, op: Operation) -> None:
        steps, held = self._images.steps, op in self._images.held
        x, residual, y = image_of(op), op.input("residual"), op.outputs[0]
        info = registry.OPS["quantized_conv2d"]
        names = ("stride", "padding", "dilation", "groups", "activation", "slope", "residual_last")
        weight, scale, bias = self._weights(op)
        attrs = {name: op.attr(name) for name in names}
        if op in self._wide:
            x_scale, most = self._wide[op]
            self._float(x, op.where)
            attrs |= {"x_scale": x_scale, "x_most": most}
            low, high = -x_scale * most, x_scale * most
        else:
            attrs |= steps[x].attrs("x")
            low, high = (steps[x].scale * (q - steps[x].zero) for q in (0, 255))
        attrs |= steps[y].attrs("y") | {"dtype": "uint8"} if held else {"dtype": "float32"}
        if residual is not None and (held or residual in self._missing):
            attrs |= steps[residual].attrs("residual")
            residual = self._bytes(residual, op.where)
        read = x if op in self._wide else self._bytes(x, op.where)
        inputs = [read, weight, scale, bias, residual]
        new = self.program.make_operation(info, inputs, info.attr_values(attrs), op.where)
        self.ops.append(new)
        self._remember(op, new)
        bits = f"16 bits to {most}" if op in self._wide else self._images._method
        self._report.match(
            f"{_label(op)}, {weight.type_text}: static ({bits}), x in [{low:.4g}, {high:.4g}], y is {attrs['dtype']}"
        )
        if held:
            self._given(op, new.outputs)
        else:
            new.outputs = op.outputs

    def _weights(self, op: Operation) -> tuple[Value, Value, Value | None]:
        """int8 weights, their scales, and the bias without what rounding adds to it, on steps of the sums."""
        weight, bias = op.inputs[1], op.input("bias")
        assert weight is not None
        q, scale = rounded_rows(array_of(self.program, weight))
        if op in self._images.wide:
            self._wide[op] = self._steps_of_words(op, q)
        named = [None if weight.name is None else f"{weight.name}.{end}" for end in ("int8", "scale", "bias")]
        if self._correct is None or not (bias is None or bias in self.program.constants):
            self._float(bias, op.where)
        elif bias is not None or self._correct:
            bias = constant_of(self.program, self._bias(op, q, scale), named[2])
        return constant_of(self.program, q, named[0]), constant_of(self.program, scale, named[1]), bias

    def _steps_of_words(self, op: Operation, q: np.ndarray) -> tuple[float, int]:
        """What a step of the input in 16 bits stands for, and the largest number of steps."""
        most = widest(q)
        return float(np.float32(HEADROOM * self._images._seen[image_of(op)].largest / most)), most

    def _x_scale(self, op: Operation) -> float:
        return self._wide[op][0] if op in self._wide else self._images.steps[image_of(op)].scale

    def _bias(self, op: Operation, q: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """A constant bias [K] for weights that are rounded to q."""
        weight, bias = op.inputs[1], op.input("bias")
        assert weight is not None
        w = array_of(self.program, weight)
        b = np.zeros(len(w)) if bias is None else array_of(self.program, bias)
        if self._correct:
            error = q * scale[:, None, None, None] - w
            b = b - _mean_error(error, self._images._seen[image_of(op)].means, op.attr("groups"))
        return self._on_steps(op, b, scale)

    def _remember(self, op: Operation, new: Operation) -> None:
        weight, scale, bias = new.inputs[1], new.inputs[2], new.input("bias")
        made = bias is not None and bias is not op.input("bias")

        def put(q: np.ndarray) -> None:
            assert weight is not None and scale is not None
            set_constant(self.program, weight, q)
            if made:
                set_constant(self.program, bias, self._bias(op, q, array_of(self.program, scale)))

        means = self._images._seen[image_of(op)].means if made and self._correct else None
        self.written.append(Written(op, new, means, put))

    def _on_steps(self, op: Operation, bias: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """A bias [K] on steps of the sums: as QDQ files hold it, so that one read back has the same bits."""
        rounded = rounded_bias(bias, self._x_scale(op), scale)
        if rounded is None:
            return bias.astype(np.float32)
        whole, steps = rounded
        return np.where(np.abs(whole) < MOST_ROUNDED, whole.astype(np.float32) * steps, bias).astype(np.float32)


def _mean_error(error: np.ndarray, means: np.ndarray, groups: int) -> np.ndarray:
    """[K] what an error of the weights [K, R, S, C/groups] adds to the mean result; means: [C] of the input."""
    return np.asarray((error * by_channel(means, error, groups)).sum(axis=(1, 2, 3)))
