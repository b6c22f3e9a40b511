#!/usr/bin/env python3
"""Claims: an eager operator costs under 2 microseconds; a 500-operator Program is planned anew in under 1 ms.

    python benchmarks/core_overhead.py

Prints medians with the 10th and 90th percentile. PyTorch, where installed, runs the same eager call in turns with ours.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framework
from framework import ops

try:
    import torch
except ImportError:
    torch = None

CALLS = 2000
ROUNDS = 15
OPERATORS = 500


def call_us(function: Callable[[], object]) -> float:
    """Microseconds of one call, from a loop of CALLS."""
    start = time.perf_counter()
    for _ in range(CALLS):
        function()
    return (time.perf_counter() - start) / CALLS * 1e6


def summary(times: list[float]) -> str:
    """Median with the 10th and 90th percentile."""
    ordered = sorted(times)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    return f"{statistics.median(ordered):8.3f}  [{low:.3f}, {high:.3f}]"


def eager_overhead() -> None:
    """Times one call of small operators, ours and PyTorch's in turns."""
    a, b = (framework.tensor(np.ones(4, np.float32)) for _ in range(2))
    g = framework.tensor(np.ones(4, np.float32), requires_grad=True)
    cases = {
        "paddock add": lambda: ops.add(a, b),
        "paddock relu": lambda: ops.relu(a),
        "paddock add, remembered for a gradient": lambda: ops.add(g, b),
    }
    if torch is not None:
        torch.set_num_threads(1)
        ta, tb, tg = torch.ones(4), torch.ones(4), torch.ones(4, requires_grad=True)
        cases |= {
            f"torch {torch.__version__} add": lambda: torch.add(ta, tb),
            f"torch {torch.__version__} relu": lambda: torch.relu(ta),
            f"torch {torch.__version__} add, remembered": lambda: torch.add(tg, tb),
        }
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):  # in turns, so that a slow moment hits all alike
        for name, function in cases.items():
            times[name].append(call_us(function))
    print("eager call, 4 elements, microseconds: median [p10, p90]")
    for name, values in times.items():
        print(f"  {name:42} {summary(values)}")


def make_parameter(*shape: int) -> framework.Tensor:
    """A zero-valued trainable tensor."""
    t = framework.tensor(np.zeros(shape, np.float32), requires_grad=True)
    t.persistable = True
    return t


def replanning() -> None:
    """Times planning of a chain of matmul, bias and relu with its gradient for 200 new batch sizes."""
    layers = [(make_parameter(16, 16), make_parameter(16)) for _ in range(OPERATORS // 10)]

    def step(x: framework.Tensor) -> list[framework.Tensor | None]:
        y = x
        for w, b in layers:
            y = ops.relu(ops.matmul(y, w) + b)
        return framework.gradients([ops.mean(y)], [p for layer in layers for p in layer])

    compiled = framework.program(step, pass_names=("drop_dead_code",)).program_for(np.zeros((2, 16), np.float32))
    operations = len(compiled.program.block)
    times = []
    for n in range(3, 203):
        x = framework.tensor(np.zeros((n, 16), np.float32))
        start = time.perf_counter()
        compiled.plan([x])
        times.append((time.perf_counter() - start) * 1e3)
    print(f"planning a Program of {operations} operations for new shapes, milliseconds: median [p10, p90]")
    print(f"  {'paddock':42} {summary(times)}   per 500 operations: {statistics.median(times) * 500 / operations:.3f}")


def main() -> None:
    """Measure and print both claims."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    eager_overhead()
    replanning()


if __name__ == "__main__":
    main()
