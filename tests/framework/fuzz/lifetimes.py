"""Programs with random lifetimes, for the memory planner: blocks of all sizes that live long, short or not at all."""

from __future__ import annotations

import numpy as np

import framework
from framework import _core
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program, Value
from framework.ops import registry
from tests.framework.fuzz.plan_model import check_plan

KEPT = 6  # values that the next operation may read: the rest is dead, unless it is handed out


class _Maker:
    def __init__(self, rng: np.random.Generator, largest: int) -> None:
        self.rng = rng
        self.largest = largest
        self.program = Program()
        self.pool: list[Value] = [self.program.add_input((min(self.size(), 1 << 16),), "float32")]
        for _ in range(int(rng.integers(1, 4))):
            t = framework.tensor(rng.standard_normal(int(rng.integers(1, 40))).astype(np.float32))
            t.persistable = True
            self.pool.append(self.program.add_state(t))

    def size(self) -> int:
        """Few elements or many, each order of magnitude as likely; now and then none."""
        return 0 if self.rng.random() < 0.03 else int(self.largest ** self.rng.random())

    def pick(self) -> Value:
        """A value that is still in reach."""
        return self.pool[int(self.rng.integers(len(self.pool)))]

    def add(self, name: str, inputs: list[Value], **attrs: object) -> None:
        """Appends an operation and forgets a random value where too many are in reach."""
        info = registry.OPS[name]
        op = self.program.add_operation(info, inputs, info.attr_values(attrs))
        self.pool += op.outputs
        while len(self.pool) > KEPT:
            self.pool.pop(int(self.rng.integers(len(self.pool))))

    def step(self) -> None:
        """One random operation: a new block, one in place, a view, parts of a block, or a reader of several."""
        kind, x = self.rng.random(), self.pick()
        if kind < 0.3:
            self.add("full", [], shape=(self.size(),), value=float(self.rng.standard_normal()))
        elif kind < 0.5:
            self.add(str(self.rng.choice(["tanh", "neg", "relu", "copy"])), [x])
        elif kind < 0.6:
            self.add("add", [x, x] if self.rng.random() < 0.3 else [x, self.like(x)])
        elif kind < 0.7:
            self.add("reshape_like", [x, self.like(x)])
        elif kind < 0.8 and x.shape:
            cut = int(self.rng.integers(x.shape[0] + 1))
            self.add("split", [x], axis=0, sizes=(cut, x.shape[0] - cut))
        else:
            self.add("sum_of_squares", [self.pick() for _ in range(int(self.rng.integers(1, 5)))])

    def like(self, x: Value) -> Value:
        """A value of the same shape, `x` itself where there is no other."""
        alike = [v for v in self.pool if v.shape == x.shape]
        return alike[int(self.rng.integers(len(alike)))]

    def finish(self) -> Program:
        """Hands out some values and stores others into states."""
        made = [v for op in self.program.block for v in op.outputs]
        self.program.results = [made[int(self.rng.integers(len(made)))] for _ in range(int(self.rng.integers(1, 5)))]
        for s in self.program.states:
            alike = [v for v in (*made, *self.program.states) if v.shape == s.shape]
            if self.rng.random() < 0.5:
                self.program.updates[s] = alike[int(self.rng.integers(len(alike)))]
        return self.program


def random_program(rng: np.random.Generator, largest: int) -> Program:
    """A Program of up to 80 operations on blocks of up to `largest` elements."""
    maker = _Maker(rng, largest)
    for _ in range(int(rng.integers(3, 80))):
        maker.step()
    return maker.finish()


def check_planned(rng: np.random.Generator) -> None:
    """Plans a Program of blocks of up to 16 GB, without memory for them, and judges the plan."""
    program = random_program(rng, 1 << 32)
    compiled = CompiledProgram(program)
    compiled.plan([framework.tensor(np.zeros(v.shape, np.float32)) for v in program.inputs])
    check_plan(compiled)
    report = compiled.memory_report()
    blocks = sum(op.outputs[0].shape != () for op in program.block) + len(program.block)
    assert report.lower_bound_bytes <= report.arena_bytes <= report.naive_bytes + 64 * 2 * blocks


def check_run(rng: np.random.Generator) -> None:
    """Runs a Program of small blocks twice and compares with operations that run one by one in memory of their own."""
    program = random_program(rng, 1 << 10)
    compiled = CompiledProgram(program)
    inputs = [framework.tensor(rng.standard_normal(v.shape).astype(np.float32)) for v in program.inputs]
    states = {v: framework.tensor(t.numpy().copy()).array() for v, t in program.states.items()}
    for _ in range(2):
        expected, states = _interpret(program, [t.array() for t in inputs], states)
        got = compiled.run(inputs)
        check_plan(compiled)
        for a, b in zip(expected, got, strict=True):
            assert a.numpy().tobytes() == b.numpy().tobytes()
        for v, t in program.states.items():
            assert states[v].numpy().tobytes() == t.numpy().tobytes()


def _interpret(program: Program, inputs: list, states: dict) -> tuple[list, dict]:
    """Results and new states, with fresh memory for each operation."""
    values = dict(zip(program.inputs, inputs, strict=True)) | states
    for op in program.block:
        out = _core.call(op.info.native, tuple(values[v] for v in op.inputs if v is not None), op.attrs)
        values.update(zip(op.outputs, out if op.info.many_outputs else [out], strict=True))
    return [values[v] for v in program.results], {s: values[program.updates.get(s, s)] for s in states}
