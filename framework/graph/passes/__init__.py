"""Passes: named rewrites of a Program, run in a given order that their declarations check.

A pass is a function `(program, report) -> None` under `@graph_pass(...)`; it changes the Program and notes in its
report what it matched and what it nearly matched. Passes never look at sizes: shapes may change from call to call.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.errors import AttributeValueError
from framework.graph.ir import Program
from framework.graph.passes.batch_norm import fuse_batch_norm, fuse_batch_norm_grad
from framework.graph.passes.blocks import own_captured_constants
from framework.graph.passes.chain import fuse_chains
from framework.graph.passes.cleanup import drop_dead_code, fold_constants, merge_equal_operations
from framework.graph.passes.cross_entropy import fuse_cross_entropy
from framework.graph.passes.fusion import (
    fold_batch_norm,
    freeze_states,
    fuse_activation,
    fuse_bias,
    fuse_last_residual,
    fuse_residual,
    fuse_separable,
)
from framework.graph.passes.layer_norm import fuse_residual_layer_norm
from framework.graph.passes.layout import sink_transposes
from framework.graph.passes.optimizer import fold_gradient_scale, group_optimizer_steps
from framework.graph.passes.products import accumulate_products, fuse_activation_grad
from framework.graph.passes.qdq import fuse_qdq
from framework.graph.passes.recompute import recompute_activations
from framework.graph.passes.report import Pass
from framework.graph.passes.rows import keep_gradient_rows
from framework.graph.passes.schedule import update_early
from framework.graph.reports import Explanation

PASSES: dict[str, Pass] = {
    p.name: p
    for p in (
        fold_constants,
        merge_equal_operations,
        fuse_cross_entropy,
        drop_dead_code,
        freeze_states,
        own_captured_constants,
        sink_transposes,
        fuse_qdq,
        fold_batch_norm,
        fuse_batch_norm_grad,
        fuse_batch_norm,
        fuse_bias,
        fuse_residual,
        accumulate_products,
        fuse_residual_layer_norm,
        fuse_activation,
        fuse_last_residual,
        fuse_separable,
        fuse_activation_grad,
        fold_gradient_scale,
        keep_gradient_rows,
        update_early,
        recompute_activations,
        group_optimizer_steps,
        fuse_chains,
    )
}

# For a step that trains.
TRAINING_PASSES: tuple[str, ...] = (
    "fold_constants",
    "merge_equal_operations",
    "fuse_cross_entropy",
    "drop_dead_code",
    "fuse_batch_norm_grad",
    "fuse_batch_norm",
    "accumulate_products",
    "fuse_residual_layer_norm",
    "fuse_activation",
    "fuse_activation_grad",
    "fold_gradient_scale",
    "keep_gradient_rows",
    "update_early",
    "recompute_activations",
    "group_optimizer_steps",
    "fuse_chains",
)

# For a model that only runs forward: weights become constants, so that what depends on them alone is computed now.
INFERENCE_PASSES: tuple[str, ...] = (
    "freeze_states",
    "own_captured_constants",
    "fold_batch_norm",
    "merge_equal_operations",  # before folding: layers that are called twice would have weights each
    "fold_constants",
    "fuse_cross_entropy",
    "drop_dead_code",
    "fuse_batch_norm",
    "fuse_bias",
    "fuse_residual",
    "fuse_residual_layer_norm",
    "fuse_activation",
    "fuse_last_residual",
    "fuse_separable",
    "fuse_chains",
)


def run(program: Program, names: Sequence[str]) -> Explanation:
    """Runs passes in order; says what they found, which the Program remembers too (`framework.graph.explain`).

    Raises:
        AttributeValueError: a name is not a pass, or the order is not what a pass declares.
    """
    _check_order(names)
    reports = [PASSES[name](program) for name in names]
    program.reports += reports
    return Explanation(reports)


def _check_order(names: Sequence[str]) -> None:
    for i, name in enumerate(names):
        if name not in PASSES:
            raise AttributeValueError(f"passes: there is no pass '{name}'; there are {', '.join(PASSES)}")
        done, to_come, p = names[:i], names[i + 1 :], PASSES[name]
        for other in p.requires:
            if other not in done:
                raise AttributeValueError(f"passes: '{name}' needs '{other}' before it; put that into the list")
        for other in p.after:
            if other in to_come and other not in done:
                raise AttributeValueError(f"passes: '{name}' must run after '{other}'; swap them")
        for other in p.before:
            if other in done and other not in to_come:
                raise AttributeValueError(f"passes: '{name}' must run before '{other}'; swap them")
