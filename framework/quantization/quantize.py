"""quantize: a Program whose products and tables with constant weights are in 8 bits, and what was not and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from framework.errors import AttributeValueError
from framework.graph import passes
from framework.graph.ir import Operation, Program, Value
from framework.graph.passes.fusion import finish_convolutions
from framework.graph.passes.report import name_of, place_of
from framework.graph.reports import PassReport
from framework.ops import registry
from framework.quantization.calibration import Batch, observe
from framework.quantization.equalization import equalize
from framework.quantization.images import Images, separate
from framework.quantization.observers import METHODS, Observer, range_of
from framework.quantization.ranges import HEADROOM, LARGEST, SYMMETRIC, Known, Places, Range, Steps, not_held, weight_of
from framework.quantization.reconstruction import AdaRound, Written, reconstruct
from framework.quantization.weights import array_of, constant_of, rounded_rows, set_constant, widest

MODES = ("dynamic", "static")
SMALLEST_RANGE = 1e-30  # of an input: below, its steps leave the range of float32
MOST_DEPTH = 1 << 16  # products of a number in [0, 255] with one of at most 128 that 32 bits hold the sum of

_SHOWN = 8
_LAYERS = ("matmul", "conv2d", "separable_conv2d")

Keep = Sequence[str] | Callable[[Operation], bool]


def quantize(
    program: Program,
    *,
    mode: str = "dynamic",
    calibration: Iterable[Batch] = (),
    method: str = "abs_max",
    keep: Keep = (),
    sixteen: Keep = (),
    smallest: int = 4096,
    tables: bool = True,
    bias_correction: bool = True,
    equalization: str | None = None,
    adaround: AdaRound | None = None,
    flat: Program | None = None,
) -> Program:
    """A copy of a Program that computes its products and convolutions in 8 bits; see docs/howto/quantization.md.

    A `matmul` whose second factor is a constant matrix becomes a `quantized_matmul`: the weights are rounded to 8 bits,
    each column of the result with a scale of its own, and the float weights are dropped.
    In mode "static" a `conv2d` with constant weights becomes a `quantized_conv2d`, and values between such convolutions
    stay in 8 bits, through additions, max pooling, nearest resizing and concatenation too; see `images`.
    Layers that `sixteen` names read 16 bits, with weights of 8.
    An `embedding` of a constant table becomes a `quantized_embedding`, for the size: each row has a scale of its own.
    `framework.graph.explain(result)["quantize"]` says which these are, and of the others why not.

    Args:
        program: forward only, with constant weights: made with `INFERENCE_PASSES`, or `EXPORT_PASSES` for ONNX.
        mode: "dynamic" finds the scale of each row of activations while the model runs, "static" uses one for all rows
            of an input, which calibration finds. Products inside of control flow are dynamic in either mode,
            convolutions there and in mode "dynamic" stay in float32.
        calibration: batches of the Program's inputs, in order or by name, for mode "static".
        method: how calibration makes a range of what it sees: "abs_max", "average" (of the batches' maxima),
            "percentile" (99.99 %), "mse" or "kl". Values of images reach from their lowest to their highest number.
        keep: patterns, such as "*.pooler.*", of names of weights that stay in float32; or a function that says so of a
            `matmul`, `embedding` or `conv2d`.
        sixteen: the same of products and convolutions whose input is rounded to 16 bits in place of 8. It lies in
            memory as float32, is rounded by one scale (a row's own in mode "dynamic") as the layer reads it, and
            reaches twice as far as calibration saw.
        smallest: a product or table with fewer weights than this stays in float32.
        tables: round tables of embeddings too.
        bias_correction: take what rounding its weights adds to a convolution's mean result off its bias (Nagel et al.
            2019, arXiv:1906.04721, section 4.2).
        equalization: None, or by what neighbouring layers share their ranges in mode "static": "weights" or
            "activations", see `equalize`.
        adaround: for mode "static": learn which weights are rounded up and which down, see `AdaRound`.
        flat: for mode "static": the same network without control flow, such as of a head that looks at all rows at
            once. Layers inside of control flow have the ranges that calibration finds there, and nearest rounding.

    Raises:
        AttributeValueError: an argument is outside of its range, or the Program updates states.
        ShapeError, DTypeError, NumericsError: a batch does not fit the Program, or leads to values that are not finite.
    """
    _check(program, mode, method)
    expect_fits(program, keep)
    expect_fits(program, sixteen, "sixteen")
    static = mode == "static"
    for name, wanted in (("equalization", equalization), ("adaround", adaround)):
        if wanted is not None and not static:
            raise AttributeValueError(f"quantize: {name} is of mode 'static', which has calibration; leave it out")
    again = equalization is not None or adaround is not None or flat is not None
    batches = list(calibration) if again else calibration
    inner = _ranges_inside(program, flat, batches, method, [keep, sixteen], smallest) if static and flat else []
    if equalization is not None:
        program = equalize(program, batches, by=equalization)
    new = _copy(program, inner)
    dynamic = "dynamic" if mode == "dynamic" else "dynamic, being inside control flow"
    rewrite = _Rewrite(keep, smallest, tables, dynamic, sixteen, _Inner(inner, method))
    found = layers_of(new, rewrite, static=static)
    limits: dict[int, float] = {}
    if static and (found.products or found.images.convolutions):
        inputs = found.inputs()
        seen = observe(new, [*inputs.values(), *found.images.observed()], batches, Observer)
        wide = {i for i in inputs if rewrite.is_wide(new.block.ops[i])}
        limits = {i: HEADROOM * seen[v].largest if i in wide else range_of(seen[v], method) for i, v in inputs.items()}
        found.images.measure(seen, method)
    whole = new.clone() if adaround is not None else new
    same = dict(zip(new.values(), whole.values(), strict=True))
    layers = rewrite.run(new, found.chosen, limits, f"static ({method})" if static else "")
    layers += found.images.rewrite(rewrite.report, bias_correction)
    if adaround is not None:
        new.reports.append(reconstruct(whole, new, same, layers, list(batches), adaround))
    return _cleared(new, rewrite.report, static)


def ranges_of(
    program: Program,
    calibration: Iterable[Batch],
    *,
    method: str = "abs_max",
    keep: Keep = (),
    smallest: int = 4096,
) -> list[Range]:
    """The ranges that training in 8 bits begins with: those that `quantize` in mode "static" would take.

    Args:
        program, calibration, method, keep, smallest: as of `quantize`; the Program's weights have names.

    Raises:
        AttributeValueError, ShapeError, DTypeError, NumericsError: as `quantize`; or there is nothing to train so.
    """
    _check(program, "static", method)
    expect_fits(program, keep)
    new = program.clone()
    found = layers_of(new, _Rewrite(keep, smallest, False, ""))
    inputs = found.inputs()
    seen = observe(new, [*inputs.values(), *found.images.observed()], calibration, Observer)
    found.images.measure(seen, method)
    ranges = []
    for i, v in inputs.items():
        if SMALLEST_RANGE <= (limit := range_of(seen[v], method)) <= LARGEST:
            ranges.append(Range((f"{found.products[i]}:x",), Steps(float(np.float32(limit / SYMMETRIC)), 0)))
    for group in found.images.roles():
        if group.roles:
            steps = found.images.steps[group.values[0]]
            ranges.append(Range(group.roles, Steps(float(np.float32(steps.scale)), steps.zero)))
    if not ranges:
        raise AttributeValueError(
            "quantize: no product and no convolution of this network would be in 8 bits, so there is nothing to train; "
            "look at keep and smallest"
        )
    return ranges


def quantize_trained(program: Program, ranges: Sequence[Range], *, whole_biases: bool = True) -> Program:
    """A copy of a Program that computes in 8 bits what training found ranges for; all else stays in float32.

    Args:
        program: as of `quantize`, with the weights that training came to, which are rounded.
        ranges: see `simulation.trained`.
        whole_biases: biases of convolutions are rounded to whole steps of the sums, as QDQ files hold them; else they
            stay as they are, as training before 2026-11-30 had them.

    Raises:
        AttributeValueError: the Program updates states, or there is a value in 8 bits that no range is known of.
    """
    _expect_forward(program)
    alone, known = _alone(program, ranges, strict=True), Known(ranges)
    new = _copy(program, alone)
    correction = False if whole_biases else None
    inner = _Inner(alone, "trained", strict=True, bias_correction=correction)
    rewrite = _Rewrite((), 0, False, "", inner=inner)
    found = layers_of(new, rewrite, known)
    limits = found.limits(known)
    found.images.take(found.steps(known), "trained")
    rewrite.run(new, found.chosen, limits, "trained")
    found.images.rewrite(rewrite.report, correction)
    return _cleared(new, rewrite.report, True)


def _copy(program: Program, inner: Sequence[Range]) -> Program:
    """A copy whose blocks have their weights to themselves where layers inside of them have ranges."""
    new = program.clone()
    new.reports = list(program.reports)
    if inner:
        passes.run(new, ["own_captured_constants"])
        del new.reports[-1]
    return new


def _ranges_inside(
    program: Program, flat: Program, batches: Iterable[Batch], method: str, keep: Sequence[Keep], smallest: int
) -> list[Range]:
    """Ranges of the layers inside of a Program's control flow, by what calibration sees in `flat`."""
    names = {_weight(op).name for p in [*program.programs()][1:] for op in p.block if op.name in _LAYERS}

    def is_outside(op: Operation) -> bool:
        return _weight(op).name not in names or any(is_named(each, op) for each in keep)

    found = layers_of(flat.clone(), _Rewrite(is_outside, smallest, False, ""))
    if not found.products and not found.images.convolutions:
        return []
    return _alone(program, ranges_of(flat, batches, method=method, keep=is_outside, smallest=smallest))


def _alone(program: Program, ranges: Sequence[Range], *, strict: bool = False) -> list[Range]:
    """Of these ranges what is of layers that are called once, so that a block, too, knows them by their weights.

    Raises AttributeValueError where `strict` and another one is called inside of control flow.
    """
    outer, *blocks = ([_weight(op).name for op in p.block if op.name in _LAYERS] for p in program.programs())
    inside = Counter(name for names in blocks for name in names)
    calls = inside + Counter(outer)
    found = []
    for each in ranges:
        roles = tuple(r for r in each.roles if (name := weight_of(r)) is not None and calls[name] == 1)
        if strict and (again := next((n for n in map(weight_of, each.roles) if inside[n] and calls[n] > 1), None)):
            raise AttributeValueError(
                f"quantize: '{again}' was trained in 8 bits and is called {calls[again]} times, inside of control flow "
                "too, where its ranges cannot be told apart"
            )
        found += [Range(roles, each.steps)] if roles else []
    return found


def _cleared(program: Program, report: PassReport, static: bool) -> Program:
    program.reports.append(report)
    _share_weights(program)
    names = ["drop_dead_code", "fuse_separable"] if static else ["drop_dead_code"]
    passes.run(program, names)
    del program.reports[-len(names) :]  # of the clearing up: of no interest
    return program


def _share_weights(program: Program) -> None:
    """Keeps one of weights and scales that were rounded alike for layers that share them, as heads of levels do."""
    met: dict[tuple[str, str, tuple[int, ...]], list[tuple[Value, np.ndarray]]] = {}
    renamed: dict[Value, Value] = {}
    for v in program.constants:
        if not v.name:
            continue
        array, likes = array_of(program, v), met.setdefault((v.name, v.dtype, tuple(v.shape)), [])
        first = next((like for like, other in likes if np.array_equal(array, other)), None)
        if first is None:
            likes.append((v, array))
        else:
            renamed[v] = first
    for op in program.block:
        op.inputs = [renamed.get(v, v) if v is not None else None for v in op.inputs]


@dataclass(frozen=True)
class Layers:
    """What of a Program is to be in 8 bits.

    Attributes:
        chosen: numbers of products and tables.
        products: of those the products, with their places.
        images: the convolutions and what lies between them.
    """

    program: Program
    chosen: list[int]
    products: dict[int, str]
    images: Images

    def inputs(self) -> dict[int, Value]:
        """What the products read."""
        ops = self.program.block.ops
        return {i: v for i in self.products if (v := ops[i].inputs[0]) is not None}

    def limits(self, known: Known) -> dict[int, float]:
        """How far the input of each product with a range reaches."""
        return {i: known.ranges[n].steps.scale * SYMMETRIC for i, n in self.ranges_of_products(known).items()}

    def steps(self, known: Known, *, strict: bool = True) -> dict[Value, Steps]:
        """The steps of each value in 8 bits; see `ranges_of_images`."""
        return {v: known.ranges[n].steps for v, n in self.ranges_of_images(known, strict=strict).items()}

    def ranges_of_products(self, known: Known) -> dict[int, int]:
        """The number of each product's range."""
        found = {i: known.index([f"{place}:x"]) for i, place in self.products.items()}
        return {i: which for i, which in found.items() if which is not None}

    def ranges_of_images(self, known: Known, *, strict: bool = True) -> dict[Value, int]:
        """The number of the range of each value in 8 bits.

        Args:
            known: the ranges.
            strict: whether a value that none is known of is an error; else what it is a part of stays in float32, as
                where training puts dropout between a convolution and a sum.

        Raises AttributeValueError for such a value.
        """
        while True:
            groups = [(group, known.index(group.roles)) for group in self.images.roles() if group.roles]
            unknown = [group for group, which in groups if which is None]
            if not unknown:
                return {v: which for group, which in groups if which is not None for v in group.values}
            if strict:
                raise AttributeValueError(
                    f"quantize: training found no range for {unknown[0].roles[0]}; its network is another than this one"
                )
            self.images.leave([v for group in unknown for v in group.values])


def layers_of(program: Program, rewrite: _Rewrite | None, known: Known | None = None, *, static: bool = True) -> Layers:
    """Finds them, and gives convolutions their final form.

    Those that `rewrite` takes; where `known` is given, those with a range alone.
    """
    if static:
        separate(program)
        finish_convolutions(program)
    places = Places(program)
    chosen, products, convolutions = [], {}, []
    for i, op in enumerate(program.block):
        is_layer = op.name in ("matmul", "conv2d")
        place = places.of(op) if is_layer else ""
        if known is not None and f"{place}:x" not in known:
            continue
        if op.name == "conv2d" and static:
            if rewrite is None or rewrite.takes_image(program, op):
                convolutions.append(op)
        elif rewrite is None or rewrite.takes(program, op):
            chosen.append(i)
            if op.name == "matmul":
                products[i] = place
    wide = [op for op in convolutions if rewrite is not None and rewrite.is_wide(op)]
    return Layers(program, chosen, products, Images(program, convolutions, wide))


def _check(program: Program, mode: str, method: str) -> None:
    if mode not in MODES:
        raise AttributeValueError(f"quantize: mode is '{mode}'; takes {', '.join(map(repr, MODES))}")
    if method not in METHODS:
        raise AttributeValueError(f"quantize: method is '{method}'; takes {', '.join(map(repr, METHODS))}")
    _expect_forward(program)


def _expect_forward(program: Program) -> None:
    if program.updates:
        raise AttributeValueError(
            f"quantize: the Program updates {len(program.updates)} states, so it trains; give one that only runs "
            "forward"
        )


def expect_fits(program: Program, keep: Keep, who: str = "keep") -> None:
    """Refuses a pattern that fits nothing: it is mistyped, or of another network."""
    names = sorted({v.name for p in program.programs() for v in (*p.constants, *p.states) if v.name})
    for pattern in () if callable(keep) else keep:
        if not fnmatchcase("", pattern) and not any(fnmatchcase(name, pattern) for name in names):
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            raise AttributeValueError(f"quantize: {who} has '{pattern}', which fits no weight; there are {shown}")


class _Inner:
    """How layers inside of control flow are rounded.

    Attributes:
        known: their ranges.
        method: where those are from.
        strict: whether what has none stays in float32, and a value in 8 bits without one is an error; else products
            are dynamic then.
        bias_correction: as of `Images.rewrite`.
    """

    def __init__(
        self, ranges: Sequence[Range], method: str, *, strict: bool = False, bias_correction: bool | None = False
    ) -> None:
        self.known, self.method, self.strict = Known(ranges), method, strict
        self.bias_correction = bias_correction


class _Rewrite:
    """Chooses products and tables and rewrites them, in a Program and its blocks; `report` says what and why not."""

    def __init__(
        self,
        keep: Keep,
        smallest: int,
        tables: bool,
        dynamic: str,
        sixteen: Keep = (),
        inner: _Inner | None = None,
    ) -> None:
        self.report = PassReport("quantize")
        self._inner = inner or _Inner((), "")
        self._keep, self._smallest, self._tables, self._dynamic = keep, smallest, tables, dynamic
        self._sixteen = sixteen

    def is_wide(self, op: Operation) -> bool:
        """Whether a product or convolution is to read 16 bits."""
        return op.name in ("matmul", "conv2d") and is_named(self._sixteen, op)

    def takes(self, program: Program, op: Operation) -> bool:
        """Whether a product or table is to be in 8 bits; notes why not where it nearly is."""
        why = self._why_not(program, op)
        if why:
            self.report.missed.append(f"{_label(op)} stays in float32: {why}")
        return why == ""

    def takes_image(self, program: Program, op: Operation) -> bool:
        """Whether a convolution is to be in 8 bits; notes why not."""
        weight = _weight(op)
        if weight not in program.constants:
            why = "its weights are computed, not a constant" if weight.kind != "state" else f"{weight} is not frozen"
        elif weight.dtype != "float32":
            why = f"it is {weight.dtype}"
        elif (depth := int(np.prod(weight.shape[1:]))) > MOST_DEPTH:
            why = f"it adds {depth} products, and 32 bits hold the sum of {MOST_DEPTH}"
        elif is_named(self._keep, op):
            why = "it is to be kept"
        else:
            why = "" if np.isfinite(array_of(program, weight)).all() else "its weights are not all finite"
        if why:
            self.report.missed.append(f"{_label(op)} stays in float32: {why}")
        return why == ""

    def _why_not(self, program: Program, op: Operation) -> str | None:
        """Empty where it is one; None where nothing is to be said."""
        if op.name == "matmul":
            return self._why_not_product(program, op) or self._why_not_weights(program, op)
        if op.name == "embedding":
            weight = op.inputs[0]
            if not self._tables or weight is None or weight.dtype != "float32" or weight not in program.constants:
                return None
            return self._why_not_weights(program, op)
        has_weights = any(v in program.constants and len(v.shape) > 1 for v in op.inputs)
        if op.info.family in ("conv", "recurrent") and has_weights:
            if op.name in ("conv2d", "separable_conv2d"):
                return "convolutions have ranges that calibration finds; take mode 'static'"
            return f"{op.name} has no 8-bit form, only matmul, embedding and conv2d have"
        return None

    def _why_not_product(self, program: Program, op: Operation) -> str:
        a, b = op.inputs[:2]
        assert a is not None and b is not None
        if b not in program.constants:
            return "its second factor is computed, not a constant" if b.kind != "state" else f"{b} is not frozen"
        if len(b.shape) != 2 or op.attr("transpose_a"):
            return "it is not rows times one matrix"
        return f"it is {a.dtype}" if a.dtype != "float32" else ""

    def _why_not_weights(self, program: Program, op: Operation) -> str:
        weight = _weight(op)
        if is_named(self._keep, op):
            return "it is to be kept"
        if (count := int(np.prod(weight.shape))) < self._smallest:
            return f"it has {count} weights only (smallest={self._smallest})"
        return "" if np.isfinite(array_of(program, weight)).all() else "its weights are not all finite"

    def run(self, program: Program, chosen: Sequence[int], limits: dict[int, float], static: str) -> list[Written]:
        """Rewrites the chosen operations; `limits` are the ranges of their inputs, for those that are static.

        Returns the static products.
        """
        written: list[tuple[Operation, Operation]] = []
        weights: dict[tuple[Value, bool], tuple[Value, Value]] = {}
        for i in chosen:
            op = program.block.ops[i]
            limit = limits.get(i)
            if limit is not None and not SMALLEST_RANGE <= limit <= LARGEST:
                self.report.missed.append(f"{_label(op)} stays in float32: its input {not_held(limit)}")
                continue
            key = (_weight(op), _has_rows(op))
            if key not in weights:
                weights[key] = _rounded_weights(program, *key)
            if op.name == "embedding":
                program.block.ops[i], how = _quantized_table(op, *weights[key]), "table"
            else:
                most = widest(array_of(program, weights[key][0])) if self.is_wide(op) else SYMMETRIC
                program.block.ops[i] = _quantized_product(program, op, *weights[key], limit, most)
                if limit is not None:
                    written.append((op, program.block.ops[i]))
                how = self._dynamic if limit is None else f"{static}, range {limit:.4g}"
                how += f", 16 bits to {most}" if self.is_wide(op) else ""
            self.report.match(f"{_label(op)}, {weights[key][0].type_text}: {how}")
        for op in program.block:
            for block in op.blocks:
                self._run_block(block, op)
        return [_product_of(program, *pair) for pair in written]

    def _run_block(self, block: Program, around: Operation) -> None:
        how = self._inner
        inner = _Rewrite(self._keep, self._smallest, self._tables, self._dynamic, self._sixteen, how)
        found = layers_of(block, inner, how.known, static=bool(how.known.ranges))
        if how.strict and any(op.name == "add" for op in found.images.held):
            raise AttributeValueError(
                f"quantize: {name_of(around)} has sums of layers that were trained in 8 bits; these are counted over "
                "the whole network, so their ranges cannot be told apart inside of control flow"
            )
        limits = found.limits(how.known)
        found.images.take(found.steps(how.known, strict=how.strict), how.method)
        taken = {*found.chosen, *(i for i, op in enumerate(block.block) if op in found.images.convolutions)}
        others = () if how.strict else [i for i, op in enumerate(block.block) if i not in taken]
        chosen = [*found.chosen, *(i for i in others if inner.takes(block, block.block.ops[i]))]
        inner.run(block, sorted(chosen), limits, how.method if how.strict else f"static ({how.method})")
        found.images.rewrite(inner.report, how.bias_correction)
        passes.run(block, ["drop_dead_code"])
        block.reports.clear()
        self.report.matched += [f"in {name_of(around)}: {line}" for line in inner.report.matched]
        self.report.missed += [f"in {name_of(around)}: {line}" for line in inner.report.missed]


def is_named(patterns: Keep, op: Operation) -> bool:
    """Whether `keep` or `sixteen` are of a product, table or convolution."""
    if callable(patterns):
        return bool(patterns(op))
    return any(fnmatchcase(_weight(op).name or "", pattern) for pattern in patterns)  # without a name: "*" is all


def _weight(op: Operation) -> Value:
    """The weights of a product or a table."""
    weight = op.inputs[0 if op.name == "embedding" else 1]
    assert weight is not None
    return weight


def _has_rows(op: Operation) -> bool:
    """Whether the weights are stored as [K, C], a scale for each row; otherwise as [C, K]."""
    return op.name == "embedding" or bool(op.attr("transpose_b"))


def _label(op: Operation) -> str:
    """Such as `matmul %5 'layers.0.out.weight' (linear.py:45)`."""
    name = _weight(op).name if op.name in ("matmul", "embedding", "conv2d") else None
    return name_of(op) + (f" {name!r}" if name else "") + place_of(op)


def _rounded_weights(program: Program, weight: Value, has_rows: bool) -> tuple[Value, Value]:
    """int8 [K, C] and the float32 scales [K]."""
    w = array_of(program, weight)
    q, scale = rounded_rows(w if has_rows else w.T)
    turned = "" if has_rows else ".turned"
    named = [None if weight.name is None else f"{weight.name}{turned}.{end}" for end in ("int8", "scale")]
    return constant_of(program, np.ascontiguousarray(q), named[0]), constant_of(program, scale, named[1])


def _quantized_product(
    program: Program, op: Operation, weight: Value, scale: Value, limit: float | None, most: int
) -> Operation:
    x_scale = None if limit is None else constant_of(program, np.array(limit / most, np.float32), None)
    info = registry.OPS["quantized_matmul"]
    attrs = info.attr_values({"activation": op.attr("activation"), "slope": op.attr("slope"), "x_most": most})
    inputs = [op.inputs[0], weight, scale, op.input("bias"), op.input("residual"), x_scale]
    return Operation(info, inputs, op.outputs, attrs, op.where)


def _product_of(program: Program, whole: Operation, small: Operation) -> Written:
    return Written(whole, small, None, lambda q: set_constant(program, small.inputs[1], q))


def _quantized_table(op: Operation, weight: Value, scale: Value) -> Operation:
    info = registry.OPS["quantized_embedding"]
    attrs = info.attr_values({"padding_idx": op.attr("padding_idx")})
    return Operation(info, [weight, scale, op.inputs[1]], op.outputs, attrs, op.where)
