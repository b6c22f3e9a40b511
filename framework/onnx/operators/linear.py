"""Matrix products of ONNX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from framework import ops
from framework.onnx.interpreter import Node
from framework.onnx.operators.common import extents, is_float
from framework.onnx.operators.shapes import flatten, prod
from framework.onnx.registry import onnx_op
from framework.tensor import Tensor


@onnx_op("MatMul", compute="number")
def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """NumPy's matmul."""
    return product(a, b)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b for any rank from 1; whole numbers are multiplied in float64, exact up to 2^53."""
    if not is_float(a):
        y = product(ops.cast(a, dtype="float64"), ops.cast(b, dtype="float64"))
        return ops.cast(y, dtype=a.dtype)
    row, column = a.ndim == 1, b.ndim == 1
    y = ops.matmul(
        ops.expand_dims(a, axis=0) if row else a,
        ops.expand_dims(b, axis=1) if column else b,
    )
    if column:
        y = ops.squeeze(y, axis=-1)
    return ops.squeeze(y, axis=-1 if column else -2) if row else y


@onnx_op("Gemm", compute="number")
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha * a' @ b' + beta * c."""
    if node.version < 7 and a.ndim > 2:
        a = flatten(node, a)
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    turn_a, turn_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))
    if not is_float(a):
        a, b = ops.transpose(a) if turn_a else a, ops.transpose(b) if turn_b else b
        return product(a, b) if c is None else product(a, b) + c
    y = ops.matmul(a, b, transpose_a=turn_a, transpose_b=turn_b)
    y = y if alpha == 1.0 else y * alpha
    if c is None or beta == 0.0:
        return y
    return y + (c if beta == 1.0 else c * beta)


@onnx_op("Einsum", compute="float")
def einsum(node: Node, *xs: Tensor) -> Tensor:
    """Sums of products by index letters: operands are joined two at a time, each pair by one matrix product."""
    equation = node.attr("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = [_letters(t, x.ndim) for t, x in zip(left.split(","), xs, strict=True)]
    if not arrow:
        everything = "".join(terms)
        right = "".join(sorted(c for c in set(everything) if everything.count(c) == 1 and not c.isdigit()))
        right = "".join(sorted({c for c in everything if c.isdigit()})) + right
    else:
        dots = "".join(sorted({c for t in terms for c in t if c.isdigit()}))
        right = right.replace("...", dots)
    operands = [_without_repeats(x, t) for x, t in zip(xs, terms, strict=True)]
    x, have = operands[0]
    for i, (y, other) in enumerate(operands[1:], 1):
        needed = set(right) | {c for _, t in operands[i + 1 :] for c in t}
        x, have = _pair(x, have, y, other, needed)
    x, have = _summed(x, have, set(right))
    return ops.transpose(x, perm=[have.index(c) for c in right]) if len(right) > 1 else x


def _letters(term: str, rank: int) -> str:
    """A term with its dots as digits, counted from the last."""
    named = len(term.replace("...", ""))
    dots = "".join(str(i) for i in range(10 - (rank - named), 10)) if "..." in term else ""
    if not re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", term) or named + len(dots) != rank:
        raise ValueError(f"term '{term}' for {rank} axes")
    return term.replace("...", dots)


def _without_repeats(x: Tensor, term: str) -> tuple[Tensor, str]:
    """The diagonal where a letter stands twice."""
    for c in sorted(set(term)):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            n = extents(x)[i]
            rest = [a for a in range(x.ndim) if a not in (i, j)]
            flat = ops.reshape(ops.transpose(x, perm=[*rest, i, j]), shape=[*(extents(x)[a] for a in rest), n * n])
            x = ops.slice(flat, starts=[0], ends=[n * n], axes=[len(rest)], steps=[n + 1])
            term = "".join(term[a] for a in rest) + c
    return x, term


def _summed(x: Tensor, have: str, needed: set[str]) -> tuple[Tensor, str]:
    gone = [i for i, c in enumerate(have) if c not in needed]
    if gone:
        x = ops.sum(x, axes=gone)
    return x, "".join(c for c in have if c in needed)


def _pair(x: Tensor, a: str, y: Tensor, b: str, needed: set[str]) -> tuple[Tensor, str]:
    x, a = _summed(x, a, needed | set(b))
    y, b = _summed(y, b, needed | set(a))
    batch = [c for c in a if c in b and c in needed]
    joined = [c for c in a if c in b and c not in needed]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    size = dict(zip(a, extents(x), strict=True))
    for c, n in zip(b, extents(y), strict=True):
        size[c] = max(n, size.get(c, 1)) if n else 0
    x = _arranged(x, a, [batch, rows, joined], size)
    y = _arranged(y, b, [batch, joined, columns], size)
    z = ops.matmul(x, y)
    kept = [*batch, *rows, *columns]
    return ops.reshape(z, shape=[size[c] for c in kept]), "".join(kept)


def _arranged(x: Tensor, letters: str, groups: Sequence[Sequence[str]], size: dict[str, int]) -> Tensor:
    """[product of each group's extents], in order."""
    order = [c for g in groups for c in g]
    x = ops.transpose(x, perm=[letters.index(c) for c in order]) if order else x
    wanted = [size[c] for c in order]
    if list(extents(x)) != wanted:
        x = ops.broadcast_to(x, shape=wanted)
    return ops.reshape(x, shape=[prod([size[c] for c in g]) for g in groups])
