"""Random steps over states, called in random ways: eagerly, as a plain Program and as one with all passes.

What recipes do not reach: states that are set, snapshots and views that are held meanwhile, inputs that share a state's
memory, NaN and infinity, casts that somebody wrote, labels and ids out of range, shapes and ranks that change, several
optimizers, files and threads. After each call, results, states and whatever was held must agree.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import framework
from framework import nn, ops, optim
from framework.errors import PaddockError
from framework.graph import passes
from framework.graph.compiled import CompiledProgram
from framework.graph.files import load_program, save_program
from framework.graph.function import TracedFunction
from framework.tensors import Tensor
from tests.framework.fuzz.checks import Mismatch, same_bits

WIDTH, ROWS = 4, 6  # columns of all values, rows of the table
# Passes may round in another order; the half types' casts and the optimizers' roots enlarge that.
TOLERANCE = 4e-2
Step = Callable[["World", dict[str, Tensor], list[Tensor], float], Tensor]


@dataclass
class Call:
    """Inputs of a call."""

    x: np.ndarray
    z: np.ndarray
    ids: np.ndarray
    labels: np.ndarray
    share: str = ""  # "snapshot" or "view": x is a row that shares the running state's memory


class World:
    """States and optimizers of one way to run a scenario, and what is held of them."""

    def __init__(self, scenario: Scenario, wrap: Callable[[Any], Any]) -> None:
        self.scenario = scenario
        rng = np.random.default_rng(scenario.seed)
        shapes = {"w": (WIDTH, WIDTH), "b": (WIDTH,), "table": (ROWS, WIDTH), "running": (WIDTH,), "other": (WIDTH,)}
        self.states = {n: _state(rng.standard_normal(s).astype(np.float32) * 0.5, n) for n, s in shapes.items()}
        self.states["count"] = _state(np.array(0, np.int64), "count")
        self.params = [self.states[n] for n in ("w", "b", "table")]
        for p in self.params:
            p.requires_grad = True
        self.optimizers = [make([(str(p.name), p)]) for make, p in zip(scenario.optimizers, self.params, strict=False)]
        self.function = wrap(self.step)
        self.held: list[tuple[Any, np.ndarray]] = []

    def step(self, x: Tensor, z: Tensor, ids: Tensor, labels: Tensor) -> list[Tensor]:
        """The scenario's step on one batch."""
        given = {"x": x, "z": z, "ids": ids, "labels": labels}
        values = [x]
        for statement, at in self.scenario.statements:
            values.append(statement(self, given, values, at))
        loss = ops.mean(values[-1])
        for v in values:  # all are read: a Program does not compute, and so does not refuse, what nobody reads
            loss = loss + ops.mean(ops.where(ops.isfinite(v), ops.tanh(v), 0.0))
        if self.optimizers and loss.requires_grad:
            loss.backward()
            if self.scenario.clip:
                optim.clip_by_global_norm(self.params, self.scenario.clip)
            for o in self.optimizers:
                o.step()
            for p in self.params:
                p.grad = None
        return [loss, values[-1] * 1.0, self.states["running"] * 1.0]

    def all_states(self) -> dict[str, Tensor]:
        """States by name, those of optimizers too."""
        slots = {f"{i}/{n}": t for i, o in enumerate(self.optimizers) for n, t in o.state_dict().items()}
        return self.states | slots

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all states."""
        return {n: np.array(t.numpy()) for n, t in self.all_states().items()}

    def take(self, arrays: dict[str, np.ndarray]) -> None:
        """Sets all states."""
        for n, t in self.all_states().items():
            t.set(framework.tensor(arrays[n]))

    def hold(self, kind: str) -> None:
        """Keeps something that shares the memory of a state."""
        t = self.states["running"]
        shared = {"snapshot": t.detach, "numpy": t.numpy, "view": lambda: ops.reshape(t, shape=(1, WIDTH))}[kind]()
        self.held.append((shared, np.array(t.numpy())))

    def run(self, call: Call) -> list[np.ndarray] | type[PaddockError]:
        """Results of a call, or how it was refused."""
        try:
            return [np.array(t.numpy()) for t in self.function(*self.inputs(call))]
        except PaddockError as e:
            return type(e)
        finally:
            for p in self.params:
                p.grad = None

    def inputs(self, call: Call) -> list[Tensor]:
        """The tensors of a call."""
        x = framework.tensor(call.x)
        if call.share:
            row = self.states["running"].detach() if call.share == "snapshot" else self.states["running"]
            x = ops.reshape(row, shape=(1, WIDTH)).detach()
        return [x, *(framework.tensor(a) for a in (call.z, call.ids, call.labels))]


def _state(array: np.ndarray, name: str) -> Tensor:
    t = framework.tensor(array)
    t.persistable, t.name = True, name
    return t


# -- what a step does: each statement reads the values so far, of which `at` in [0, 1) picks one
def _value(values: list[Tensor], at: float) -> Tensor:
    return values[int(at * len(values))]


def _update(state: str) -> Step:
    def statement(world: World, given: dict[str, Tensor], values: list[Tensor], at: float) -> Tensor:
        v, t = _value(values, at), world.states[state]
        mean = ops.mean(ops.reshape(v, shape=(-1, WIDTH)), axes=(0,))
        before = t.detach()
        t.set(t * 0.75 + mean.detach() * 0.25)
        return v + before * 0.5

    return statement


def _count(world: World, given: dict[str, Tensor], values: list[Tensor], at: float) -> Tensor:
    count = world.states["count"]
    count.set(count + 1)
    return values[-1] * ops.cast(count, dtype="float32")


def _swap(world: World, given: dict[str, Tensor], values: list[Tensor], at: float) -> Tensor:
    a, b = world.states["running"], world.states["other"]
    old = a.detach()
    a.set(b)
    b.set(old)
    return _value(values, at) - b


def _cast(half: str) -> Step:
    return lambda world, given, values, at: ops.cast(ops.cast(_value(values, at), dtype=half), dtype="float32")


def _taken(logs: Callable[[Tensor], Tensor]) -> Step:
    def statement(world: World, given: dict[str, Tensor], values: list[Tensor], at: float) -> Tensor:
        v = _value(values, at)
        picked = ops.take_along_axis(logs(v), ops.expand_dims(given["labels"], axis=-1), axis=-1)
        return values[-1] - picked * 0.1

    return statement


def _one_hot(world: World, given: dict[str, Tensor], values: list[Tensor], at: float) -> Tensor:
    hot = ops.one_hot(given["labels"], depth=WIDTH)
    return values[-1] - ops.sum(hot * ops.log_softmax(_value(values, at)), axes=(-1,), keepdims=True) * 0.1


def _norm(v: Tensor) -> Tensor:
    one = ops.full_like(v[..., 0:1] if v.ndim == 1 else ops.reshape(v, shape=(-1, WIDTH))[0], value=1.0)
    return ops.layer_norm(v, one, one * 0.0)[0]


STATEMENTS: dict[str, Step] = {
    "product": lambda w, g, vs, at: ops.matmul(_value(vs, at), w.states["w"]) + w.states["b"],
    "product and residual": lambda w, g, vs, at: ops.matmul(_value(vs, at), w.states["w"]) + vs[-1],
    "product and activation": lambda w, g, vs, at: ops.gelu(ops.matmul(_value(vs, at), w.states["w"])),
    "sum": lambda w, g, vs, at: _value(vs, at) + g["z"],
    "norm of a sum": lambda w, g, vs, at: _norm(_value(vs, at) + g["z"]) + _norm(vs[-1]),
    "norm of two": lambda w, g, vs, at: _norm(_value(vs, at) + vs[-1] * 1.5),
    "activations": lambda w, g, vs, at: ops.sigmoid(_value(vs, at)) * ops.relu(vs[-1]) - 0.25,
    "logarithm": lambda w, g, vs, at: ops.log(_value(vs, at)),
    "quotient": lambda w, g, vs, at: vs[-1] / (_value(vs, at) - 0.5),
    "where": lambda w, g, vs, at: ops.where(ops.isfinite(_value(vs, at)), vs[-1], 0.0),
    "lookup": lambda w, g, vs, at: _value(vs, at) + ops.embedding(w.states["table"], g["ids"]),
    "bfloat16": _cast("bfloat16"),
    "float16": _cast("float16"),
    "update": _update("running"),
    "update of another": _update("other"),
    "swap": _swap,
    "count": _count,
    "log_softmax": _taken(ops.log_softmax),
    "log of softmax": _taken(lambda v: ops.log(ops.softmax(v))),
    "one-hot": _one_hot,
}
RARE = ("logarithm", "quotient")  # what makes most of what follows NaN
OPTIMIZERS: list[Callable[[Any], optim.Optimizer]] = [
    lambda ps: optim.SGD(ps, lr=0.05),
    lambda ps: optim.Momentum(ps, lr=0.05),
    lambda ps: optim.AdamW(ps, lr=0.05, eps=1e-2),
]


@dataclass
class Scenario:
    """A random step, and the random calls of it."""

    seed: Any
    names: list[str] = field(default_factory=list)
    statements: list[tuple[Step, float]] = field(default_factory=list)
    optimizers: list[Callable[[Any], optim.Optimizer]] = field(default_factory=list)
    clip: float = 0.0

    def __post_init__(self) -> None:
        self.rng = rng = np.random.default_rng(self.seed)
        pool = [n for n in STATEMENTS if n not in RARE or rng.random() < 0.2]
        self.names = [str(n) for n in rng.choice(pool, int(rng.integers(2, 9)))]
        self.statements = [(STATEMENTS[n], float(rng.random())) for n in self.names]
        if rng.random() < 0.6:
            self.optimizers = [OPTIMIZERS[int(rng.integers(3))] for _ in range(int(rng.integers(1, 4)))]
        self.clip = 0.5 if rng.random() < 0.4 else 0.0

    def calls(self) -> Iterator[tuple[str, Call]]:
        """What happens between calls, and their inputs."""
        kinds = ["", "hold snapshot", "hold numpy", "hold view", "set", "file", "thread", "drop"]
        for _ in range(int(self.rng.integers(4, 9))):
            yield str(self.rng.choice(kinds)), self._call()

    def _call(self) -> Call:
        rng, rows = self.rng, int(self.rng.choice([1, 2, 3, 5]))
        lead = (2, rows) if rng.random() < 0.15 else (rows,)
        x = rng.standard_normal((*lead, WIDTH)).astype(np.float32)
        fault = str(rng.choice(["none", "ids", "labels", "shape"], p=[0.75, 0.1, 0.1, 0.05]))  # one: shapes come first
        few = (*(1 for _ in lead), WIDTH) if rng.random() < 0.3 else x.shape
        z = rng.standard_normal(few if fault != "shape" else (rows + 1, WIDTH)).astype(np.float32)
        if rng.random() < 0.2:
            x.flat[int(rng.integers(x.size))] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -300.0])
        lowest = -WIDTH if rng.random() < 0.2 and fault == "none" else 0
        ids, labels = rng.integers(0, ROWS, lead), rng.integers(lowest, WIDTH, lead)
        if fault == "ids":
            ids.flat[0] = rng.choice([ROWS, -1, 2**40])
        if fault == "labels":
            labels.flat[0] = rng.choice([WIDTH, -WIDTH - 1, -(2**63), 2**40])
        share = str(rng.choice(["snapshot", "view"])) if lead == (1,) and rng.random() < 0.5 else ""
        return Call(x, z, ids, labels, share)


def check(seed: Any) -> None:
    """Runs the scenario of a seed in all ways.

    Raises:
        Mismatch: two ways differ; the message says in which call.
    """
    scenario = Scenario(seed)
    eager = World(scenario, lambda f: f)
    plain = World(scenario, lambda f: framework.program(f, pass_names=()))
    full = World(scenario, framework.program)
    for i, (between, call) in enumerate(scenario.calls()):
        what = f"call {i} ({between or 'plain'}{call.share and ', shares ' + call.share}) of {scenario.names}"
        for world in (eager, plain, full):
            _between(world, between)
        _run_all(what, eager, plain, full, call, between)
        full.take(eager.arrays())


def _between(world: World, what: str) -> None:
    if what.startswith("hold "):
        world.hold(what.removeprefix("hold "))
    if what == "drop":
        world.held.clear()
    if what == "set":
        world.states["running"].set(world.states["other"] * 0.5)


def _run_all(what: str, eager: World, plain: World, full: World, call: Call, between: str) -> None:
    before = eager.arrays()
    loaded = [_from_file(w, call) if between == "file" else None for w in (plain, full)]
    expected = eager.run(call)
    if isinstance(expected, type):
        eager.take(before)  # an eager step that fails halfway leaves what it has set
    for world, copy in ((plain, loaded[0]), (full, loaded[1])):
        got = in_threads(lambda w=world: w.run(call))[0] if between == "thread" else world.run(call)
        exact = world is plain
        if isinstance(expected, type) or isinstance(got, type):
            if got != expected:
                raise Mismatch(f"{what}, passes {not exact}: {_text(got)} where eager gives {_text(expected)}")
        else:
            _expect(f"{what}, passes {not exact}: result", expected, got, exact)
            if copy is not None:
                _expect(f"{what}, passes {not exact}: result of the file", got, copy, True)
        states, own = eager.arrays(), world.arrays()
        _expect(f"{what}, passes {not exact}: states {list(own)}", [*states.values()], [*own.values()], exact)
        for shared, then in world.held:
            now = np.asarray(shared if isinstance(shared, np.ndarray) else shared.numpy()).reshape(then.shape)
            _expect(f"{what}, passes {not exact}: what was held", [then], [now], True)


def _text(found: Any) -> str:
    return found.__name__ if isinstance(found, type) else "results"


def _from_file(world: World, call: Call) -> list[np.ndarray] | None:
    """What the Program for a call gives when it was written and read again; None where it cannot run."""
    assert isinstance(world.function, TracedFunction)
    inputs = world.inputs(call)
    try:
        program = world.function.program_for(*inputs).program
        with tempfile.TemporaryDirectory() as folder:
            save_program(program, folder)
            again = CompiledProgram(load_program(folder)[0])
        return [np.array(t.numpy()) for t in again.run(inputs)]
    except PaddockError:
        return None


def _expect(what: str, expected: list[np.ndarray], got: list[np.ndarray], exact: bool) -> None:
    for i, (a, b) in enumerate(zip(expected, got, strict=True)):
        if same_bits(a, b) or (not exact and _close(a, b)):
            continue
        raise Mismatch(f"{what}: array {i}:\n{a}\nagainst\n{b}")


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    """Finite in the same places, and close there."""
    finite = np.isfinite(a)
    if (a.shape, a.dtype) != (b.shape, b.dtype) or not np.array_equal(finite, np.isfinite(b)):
        return False
    x, y = a[finite].astype(np.float64), b[finite].astype(np.float64)
    return bool((np.abs(x - y) <= TOLERANCE * max(1.0, np.abs(x).max(initial=0))).all())


# -- threads
def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Calls each in a thread of its own, all from one start; their results. Raises what the first failed with."""
    barrier, errors = threading.Barrier(len(functions)), list[BaseException]()
    results: list[Any] = [None] * len(functions)

    def run(i: int) -> None:
        try:
            barrier.wait()
            results[i] = functions[i]()
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # seconds: so that they meet everywhere
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    sys.setswitchinterval(interval)
    if errors:
        raise errors[0]
    return results


def check_threads(seed: Any) -> None:
    """Scenarios side by side in threads, and the first calls of one Program that sets nothing."""
    in_threads(*[lambda k=k: check([*np.atleast_1d(seed), k]) for k in range(3)])
    model = nn.Linear(WIDTH, WIDTH)

    def step(x: Tensor) -> Tensor:
        return ops.log_softmax(model(ops.relu(model(x))) + x)

    x = framework.tensor(np.random.default_rng(seed).standard_normal((3, WIDTH)).astype(np.float32))
    expected = step(x).numpy()
    program = framework.program(step, pass_names=passes.TRAINING_PASSES)
    for got in in_threads(*[lambda: program(x).numpy()] * 4, lambda: step(x).numpy()):
        _expect("first calls by threads", [expected], [got], False)
    if program.traces_made != 1:
        raise Mismatch(f"first calls by threads made {program.traces_made} traces")
