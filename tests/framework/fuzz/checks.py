"""What must hold for every recipe: each check runs it in two ways and compares.

Bits must agree where nothing is computed in another order. Where a pass may change the order of sums, the error
allowed is measured: the recipe runs a few times with every kernel's results disturbed by their own rounding error, and
two programs may differ by a multiple of what that changes. So a tolerance grows with the condition of the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import framework
from framework.errors import PaddockError
from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.files import from_json, tensors_of, to_json
from framework.graph.function import TracedFunction
from framework.ops import dispatch, registry
from framework.tensors import Tensor
from tests.framework.fuzz.plan_model import check_plan
from tests.framework.fuzz.recipe import Instance, Recipe

# Passes that promise the same bits: they move, merge, drop or repeat operations, or join their loops.
SAME_BITS = {"fold_constants", "merge_equal_operations", "drop_dead_code", "freeze_states", "fuse_activation"}
SAME_BITS |= {"update_early", "recompute_activations", "group_optimizer_steps", "fuse_chains"}
DISTURBED_RUNS = 3
SLACK = 64.0  # what the error may be, in terms of the largest change in the disturbed runs: roundings may add up
# Roundings of one result, relative to the largest result of the same call, where sums are taken in some order.
SUM_FAMILIES = {"conv": 32.0, "matmul": 8.0, "norm": 8.0, "reduce": 4.0, "softmax": 4.0, "optim": 2.0}


class Mismatch(AssertionError):
    """Two ways to run a recipe differ."""


@dataclass
class Run:
    """Results and gradients of some runs one after the other, and the states after each."""

    arrays: list[np.ndarray]


def eager(recipe: Recipe, runs: int = 1) -> Run:
    """Operator by operator."""
    instance = Instance(recipe)
    arrays: list[np.ndarray] = []
    for _ in range(runs):
        arrays += _copied(instance.calculate())
        arrays += _copied(instance.states())
    return Run(arrays)


def _copied(tensors: Sequence[Tensor]) -> list[np.ndarray]:
    return [np.array(t.numpy()) for t in tensors]


class Traced:
    """A recipe as a Program under some passes."""

    def __init__(self, recipe: Recipe, pass_names: Sequence[str]) -> None:
        self.instance = Instance(recipe)
        self._given = recipe.of_kind("input")
        self.inputs = [self.instance.leaves[n] for n in self._given]

        def function(*inputs: Tensor) -> list[Tensor]:
            return self.instance.calculate(dict(zip(self._given, inputs, strict=True)))

        self.function: TracedFunction = framework.program(function, pass_names=pass_names)

    @property
    def compiled(self) -> CompiledProgram:
        """The Program for the inputs at hand."""
        return self.function.program_for(*self.inputs)

    def take_inputs_of(self, recipe: Recipe) -> None:
        """From now on runs on the inputs of another recipe."""
        self.inputs = [recipe.leaves[n].tensor() for n in self._given]

    def run(self, runs: int = 1) -> Run:
        """Runs one after the other; the plan is judged after each."""
        arrays: list[np.ndarray] = []
        for _ in range(runs):
            arrays += _copied(self.function(*self.inputs))
            arrays += _copied(self.instance.states())
            check_plan(self.compiled)
        return Run(arrays)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal type, shape and bits; what is no number need not be the same no-number."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind != "f":
        return False
    nan = np.isnan(a)
    return bool((nan == np.isnan(b)).all()) and a[~nan].tobytes() == b[~nan].tobytes()


def expect_same_bits(what: str, expected: Run, got: Run) -> None:
    """Raises Mismatch where the runs differ."""
    if len(expected.arrays) != len(got.arrays):
        raise Mismatch(f"{what}: {len(expected.arrays)} arrays against {len(got.arrays)}")
    for i, (a, b) in enumerate(zip(expected.arrays, got.arrays, strict=True)):
        if not same_bits(a, b):
            raise Mismatch(f"{what}: array {i} differs, {_difference(a, b)}")


def _difference(a: np.ndarray, b: np.ndarray) -> str:
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
    wrong = np.flatnonzero((a != b).reshape(-1) & ~(np.isnan(a) & np.isnan(b)).reshape(-1))
    return f"{wrong.size} of {a.size} elements" + (
        f", first {a.flat[wrong[0]]} against {b.flat[wrong[0]]}" if wrong.size else " (signs of zeros)"
    )


# -- how much rounding matters
@contextmanager
def disturbed(seed: int) -> Iterator[None]:
    """Inside, every kernel's floating point results are changed by about their rounding error."""
    rng = np.random.default_rng(seed)
    before = dispatch._call

    def call(native: Any, inputs: Any, attrs: Any) -> Any:
        out = before(native, inputs, attrs)
        info = registry.OPS[native.name]
        given = [x.numpy() for x in inputs if x is not None]
        for array in out if isinstance(out, (list, tuple)) else (out,):
            x = array.numpy()
            if x.dtype.kind == "f" and x.size and not any(np.shares_memory(x, g) for g in given):
                x += _noise(x, given, info, rng).astype(x.dtype)
        return out

    dispatch._call = call
    try:
        yield
    finally:
        dispatch._call = before


def _noise(x: np.ndarray, given: Sequence[np.ndarray], info: registry.OpInfo, rng: np.random.Generator) -> Any:
    if info.family in ("shape", "movement", "indexing") or info.name in ("relu", "where", "full_like", "cast", "clip"):
        return np.zeros(())  # they move numbers, they do not round
    eps = float(np.finfo(x.dtype).eps)
    relative = x * eps * rng.uniform(-1, 1, x.shape)
    finite = np.abs(x[np.isfinite(x)])
    share = SUM_FAMILIES.get(info.family, 0.0) * eps * float(finite.max(initial=0))
    if info.name in ("add", "sub") and all(g.shape in (x.shape, ()) for g in given):
        return relative + eps * rng.uniform(-1, 1, x.shape) * sum(np.abs(g) for g in given)
    return relative + share * rng.uniform(-1, 1, x.shape)


class Tolerance:
    """The error that a recipe's own rounding explains, by array; worked out when it is asked for."""

    def __init__(self, recipe: Recipe, expected: Run, runs: int) -> None:
        self._recipe, self._expected, self._runs = recipe, expected, runs
        self._allowed: list[float] | None = None

    def allowed(self) -> list[float]:
        """The largest difference allowed, for each array; infinite where a disturbed run is not finite."""
        if self._allowed is None:
            change = np.zeros(len(self._expected.arrays))
            for seed in range(DISTURBED_RUNS):
                with disturbed(seed):
                    arrays = eager(self._recipe, self._runs).arrays
                change = np.maximum(
                    change, [_largest(a - b) for a, b in zip(_floats(arrays), self._floats, strict=True)]
                )
            scale = [_largest(a) * 4 * _eps(a) for a in self._expected.arrays]
            self._allowed = [SLACK * c + s for c, s in zip(change, scale, strict=True)]
        return self._allowed

    @property
    def _floats(self) -> list[np.ndarray]:
        return _floats(self._expected.arrays)

    def expect_close(self, what: str, got: Run) -> None:
        """Raises Mismatch where `got` is further from the expected arrays than allowed."""
        for i, (a, b) in enumerate(zip(self._expected.arrays, got.arrays, strict=True)):
            if same_bits(a, b):
                continue
            if (a.dtype, a.shape) != (b.dtype, b.shape):
                raise Mismatch(f"{what}: array {i} is {_difference(a, b)}")
            error = _largest(_floats([a])[0] - _floats([b])[0])
            if not error <= self.allowed()[i]:
                raise Mismatch(f"{what}: array {i} differs by {error:.3g}, allowed {self.allowed()[i]:.3g}")

    def is_loose(self) -> bool:
        """Whether some array may differ by more than a thousandth of its size: the comparison says little."""
        return any(
            t > 1e-3 * max(_largest(a), 1e-30) for t, a in zip(self.allowed(), self._expected.arrays, strict=True)
        )


def _floats(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


def _largest(x: np.ndarray) -> float:
    """The largest magnitude; infinite where something is not finite."""
    x = np.abs(np.asarray(x, np.float64))
    return float(x.max(initial=0)) if np.isfinite(x).all() else float("inf")


def _eps(x: np.ndarray) -> float:
    return float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 0.0


# -- the checks
@contextmanager
def threads(count: int) -> Iterator[None]:
    """Inside, kernels use so many threads."""
    before = framework.num_threads()
    framework.set_num_threads(count)
    try:
        yield
    finally:
        framework.set_num_threads(before)


@dataclass
class Coverage:
    """What fuzzing has come across."""

    recipes: int = 0
    operators: dict[str, int] = field(default_factory=dict)
    passes: dict[str, dict[str, int]] = field(default_factory=dict)  # pass that matched -> operators of the Program
    loose: int = 0

    def note_recipe(self, recipe: Recipe) -> None:
        """Counts a recipe's operators."""
        self.recipes += 1
        for name in {step.operator for step in recipe.steps}:
            self.operators[name] = self.operators.get(name, 0) + 1

    def note_pass(self, name: str, operators: set[str]) -> None:
        """Counts a pass that rewrote a Program of these operators."""
        seen = self.passes.setdefault(name, {})
        for op in operators:
            seen[op] = seen.get(op, 0) + 1

    def add(self, other: Coverage) -> None:
        """Counts in what another one has seen."""
        self.recipes += other.recipes
        self.loose += other.loose
        for name, n in other.operators.items():
            self.operators[name] = self.operators.get(name, 0) + n
        for name, seen in other.passes.items():
            mine = self.passes.setdefault(name, {})
            for op, n in seen.items():
                mine[op] = mine.get(op, 0) + n

    def text(self) -> str:
        """How often each pass matched, and with how many operators."""
        drawn = set(self.operators) & set(registry.OPS)  # beside them, steps of control flow
        lines = [f"{self.recipes} recipes, {len(drawn)} of {len(registry.OPS)} operators drawn"]
        missing = sorted(set(registry.OPS) - drawn)
        lines += [f"never drawn: {', '.join(missing)}"] if missing else []
        lines.append(f"{self.loose} recipes too ill-conditioned to compare passes that change the order of sums")
        for name in passes.PASSES:
            seen = self.passes.get(name, {})
            lines.append(f"  {name:24} matched beside {len(seen):3} operators, {sum(seen.values())} pairs")
        return "\n".join(lines)


def with_required(name: str) -> list[str]:
    """A pass alone, behind those it needs."""
    return [*(n for required in passes.PASSES[name].requires for n in with_required(required)), name]


def check_recipe(recipe: Recipe, coverage: Coverage | None = None, only: str = "") -> None:
    """Runs all checks, or the one called `only`.

    Raises:
        AssertionError, PaddockError: what does not hold.
    """
    for name, check in CHECKS.items():
        if only in ("", name):
            check(recipe, coverage or Coverage())


def eager_and_program(recipe: Recipe, coverage: Coverage) -> None:
    """The untouched Program gives the bits of the eager run, and again after its states were updated.

    Gradients of control flow are summed in another order by a block than by the tape.
    """
    expected, got = eager(recipe, 2), Traced(recipe, ()).run(2)
    if recipe.order and recipe.has_control_flow():
        Tolerance(recipe, expected, 2).expect_close("program against eager", got)
    else:
        expect_same_bits("program against eager", expected, got)


def one_and_two_threads(recipe: Recipe, coverage: Coverage) -> None:
    """Two threads give the bits of one, eagerly and as a Program with all passes."""
    with threads(1):
        alone, program_alone = eager(recipe), Traced(recipe, passes.TRAINING_PASSES).run()
    with threads(2):
        expect_same_bits("two threads, eager", alone, eager(recipe))
        expect_same_bits("two threads, program", program_alone, Traced(recipe, passes.TRAINING_PASSES).run())


def passes_on_and_off(recipe: Recipe, coverage: Coverage) -> None:
    """Each pass alone, and the lists for training and inference, give what no pass gives."""
    off = Traced(recipe, ()).run(2)
    tolerance = Tolerance(recipe, off, 2)
    lists = {name: with_required(name) for name in passes.PASSES}
    lists |= {"training": list(passes.TRAINING_PASSES), "inference": list(passes.INFERENCE_PASSES)}
    changed_sums = False
    for what, names in lists.items():
        traced = Traced(recipe, names)
        compiled = traced.compiled
        matched = {r.name for r in compiled.explain() if r.matched}
        for name in matched:
            coverage.note_pass(name, {op.name for op in compiled.program.block})
        if not matched:
            continue
        assert str(compiled.program) and compiled.explain().text()
        if matched <= SAME_BITS:
            expect_same_bits(f"passes {what}", off, traced.run(2))
        else:
            changed_sums = True
            tolerance.expect_close(f"passes {what}", traced.run(2))
    coverage.loose += changed_sums and tolerance.is_loose()


def other_batches(recipe: Recipe, coverage: Coverage) -> None:
    """A Program that is not tied to its shapes is right for inputs twice as long, without a new trace."""
    longer, with_passes = _twice_as_long(recipe), Traced(recipe, passes.TRAINING_PASSES)
    if longer is None or with_passes.compiled.program.shape_reads:
        return
    try:
        expected = eager(longer)
    except PaddockError:
        return  # the recipe's own attributes or states tie it to its shapes
    plain = Traced(recipe, ())
    for traced in (plain, with_passes):
        traced.compiled  # noqa: B018  (traces with the shorter inputs)
        traced.take_inputs_of(longer)
    tolerance = Tolerance(longer, expected, 1)
    if recipe.order and recipe.has_control_flow():
        tolerance.expect_close("longer inputs", plain.run())
    else:
        expect_same_bits("longer inputs", expected, plain.run())
    assert plain.function.traces_made == 1, "longer inputs were traced again"
    tolerance.expect_close("longer inputs with passes", with_passes.run())


def _twice_as_long(recipe: Recipe) -> Recipe | None:
    """The inputs of the commonest first extent doubled along it."""
    extents = [recipe.leaves[n].array.shape[0] for n in recipe.of_kind("input") if recipe.leaves[n].array.ndim > 1]
    if not extents:
        return None
    chosen = max(set(extents), key=extents.count)
    leaves = dict(recipe.leaves)
    for n in recipe.of_kind("input"):
        x = leaves[n].array
        if x.ndim > 1 and x.shape[0] == chosen:
            leaves[n] = replace(leaves[n], array=np.concatenate([x, x]))
    return replace(recipe, leaves=leaves)


def written_and_read(recipe: Recipe, coverage: Coverage) -> None:
    """A Program written as JSON and read again gives the same bits."""
    traced = Traced(recipe, passes.TRAINING_PASSES)
    program = traced.compiled.program
    tensors = {name: framework.tensor(t.numpy().copy()) for name, t in tensors_of(program).items()}
    data = to_json(program)
    named = [d["tensor"] for d in (*data["states"], *data["constants"])]
    assert len({*named}) == len(named), "two tensors are written under one name"
    again = CompiledProgram(from_json(data, tensors))
    got = Run(_copied(again.run(traced.inputs)))
    expected = Run(_copied(traced.function(*traced.inputs)))
    expect_same_bits("written and read", expected, got)


CHECKS: dict[str, Callable[[Recipe, Coverage], None]] = {
    f.__name__: f for f in (eager_and_program, one_and_two_threads, passes_on_and_off, other_batches, written_and_read)
}
