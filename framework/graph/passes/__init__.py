"""Passes: named rewrites of a Program, each in a file of its own, run in a given order.

A pass takes a Program, changes it, and returns a list of lines that say what it matched. Passes never look at sizes:
shapes may change from call to call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from framework.errors import AttributeValueError
from framework.graph.ir import Program
from framework.graph.passes.cleanup import drop_dead_code, fold_constants, merge_equal_operations
from framework.graph.passes.fusion import fold_batch_norm, freeze_states, fuse_activation, fuse_bias

Pass = Callable[[Program], list[str]]

PASSES: dict[str, Pass] = {
    p.__name__: p
    for p in (
        fold_constants,
        merge_equal_operations,
        drop_dead_code,
        freeze_states,
        fold_batch_norm,
        fuse_bias,
        fuse_activation,
    )
}

# For a model that only runs forward: weights become constants, so that what depends on them alone is computed now.
INFERENCE_PASSES = (
    "freeze_states",
    "fold_batch_norm",
    "fold_constants",
    "merge_equal_operations",
    "drop_dead_code",
    "fuse_bias",
    "fuse_activation",
    "drop_dead_code",
)


def run(program: Program, names: Sequence[str]) -> dict[str, list[str]]:
    """Runs passes in order and returns what each of them matched.

    Raises:
        AttributeValueError: a name is not a pass.
    """
    report: dict[str, list[str]] = {}
    for name in names:
        if name not in PASSES:
            raise AttributeValueError(f"passes: there is no pass '{name}'; there are {', '.join(PASSES)}")
        report.setdefault(name, []).extend(PASSES[name](program))
    return report
