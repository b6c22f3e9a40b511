"""Gradients of framework/native/ops/regions.cc: linear in the maps, and its adjoint."""

from typing import Any

from framework import ops
from framework.autograd.rule_table import held, rule
from framework.ops import internal

_HELD = "regions are chosen, and detectors learn nothing through where they lie"


def _roi_align(
    dy: Any, boxes: Any, count: Any, maps: Any, size: Any, strides: Any, sampling: Any, aligned: Any,
    canonical_size: Any, canonical_level: Any,
) -> Any:  # fmt: skip
    return internal.roi_align_grad(
        dy, boxes, count, maps, size=size, strides=strides, sampling=sampling, aligned=aligned,
        canonical_size=canonical_size, canonical_level=canonical_level,
    )  # fmt: skip


def _roi_align_grad(
    ddmaps: Any, boxes: Any, count: Any, size: Any, strides: Any, sampling: Any, aligned: Any, canonical_size: Any,
    canonical_level: Any,
) -> Any:  # fmt: skip
    return ops.roi_align(
        boxes, count, ddmaps, size=size, strides=strides, sampling=sampling, aligned=aligned,
        canonical_size=canonical_size, canonical_level=canonical_level,
    )  # fmt: skip


rule("roi_align", maps=_roi_align)
rule("roi_align_grad", dy=_roi_align_grad)
held("roi_align", boxes=_HELD)
held("roi_align_grad", boxes=_HELD)
