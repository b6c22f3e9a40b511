"""Sums of products by index letters, as matrix products and element-wise ones of two operands at a time.

A composition and no kernel of its own: the work lies in `matmul`, whose kernels, gradients, fusions and half types it
has so; what is left are transpositions, and none is made where the product can read an operand the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from framework.errors import AttributeValueError, ShapeError
from framework.ops import functions
from framework.ops.functions import expand_dims, flatten, matmul, mul, squeeze, transpose, tril, triu, unflatten_like
from framework.tensors import Tensor, tensor


class _Operand(NamedTuple):
    x: Tensor
    letters: str  # one an axis; digits stand for the axes under dots, counted from the last


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Sums of products of elements whose axes are named by letters, as NumPy's einsum.

    `einsum("bij,bjk->bik", a, b)` multiplies batches of matrices. Letters on the right stay, the others are summed;
    without `->` those that occur once stay, in alphabetical order. A letter that occurs twice in a term takes the
    diagonal (which reads extents, so a Program is tied to them). `...` stands for axes that broadcast. Operands are
    joined from the left to the right: put those first whose product is small.

    Args:
        equation: such as "ij,jk->ik".
        operands: floats of one type, one a term of the equation.

    Raises:
        AttributeValueError: the equation cannot be read, or does not fit the number of operands.
        ShapeError: a term does not fit its operand's axes, or a letter has two extents.
    """
    terms, right = _read(equation, len(operands))
    parts = [_operand(i, x, t) for i, (x, t) in enumerate(zip(operands, terms, strict=True))]
    right = _result(equation, right, parts)
    _check_extents(parts)
    result = _diagonal(parts[0])
    for i, other in enumerate(parts[1:], 1):
        later = {c for p in parts[i + 1 :] for c in p.letters}
        result = _joined(result, _diagonal(other), {*right, *later})
    result = _summed(result, set(right))
    return _transposed(result, right).x


def _fail(equation: str, what: str) -> AttributeValueError:
    return AttributeValueError(f"einsum: equation '{equation}': {what}")


def _read(equation: str, count: int) -> tuple[list[str], str | None]:
    """The terms, and what stands right of the arrow."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    for term in [*terms, right]:
        if not re.fullmatch(r"[A-Za-z]*(\.\.\.[A-Za-z]*)?", term):
            raise _fail(equation, f"'{term}' is no term; takes letters and one '...', as in 'ij,jk->ik'")
    if len(terms) != count:
        raise _fail(equation, f"it has {len(terms)} terms but there are {count} operands")
    return terms, right if arrow else None


def _operand(i: int, x: Tensor, term: str) -> _Operand:
    x = x if isinstance(x, Tensor) else tensor(x)
    dots = x.ndim - len(term.replace("...", ""))
    if dots < 0 or (dots > 0 and "..." not in term):
        raise ShapeError(f"einsum: term {i}, '{term}', does not fit an operand of {x.ndim} axes")
    return _Operand(x, term.replace("...", "".join(str(d) for d in reversed(range(dots)))))


def _result(equation: str, right: str | None, parts: Sequence[_Operand]) -> str:
    """The letters of the result."""
    everything = "".join(p.letters for p in parts)
    dots = "".join(sorted({c for c in everything if c.isdigit()}, reverse=True))
    if right is None:
        return dots + "".join(sorted(c for c in set(everything) if everything.count(c) == 1 and c.isalpha()))
    if dots and "..." not in right:
        raise _fail(equation, "the axes under '...' must stay; put '...' right of the arrow, or sum them by letters")
    right = right.replace("...", dots)
    for c in right:
        if c not in everything or right.count(c) > 1:
            raise _fail(equation, f"'{c}' right of the arrow must occur there once, and left of it")
    return right


def _extents(x: Tensor) -> tuple[int, ...]:
    """For checks: unlike `shape` this ties no Program to its extents, whose operators check again."""
    return x._value.shape if x._value is not None else x.shape


def _check_extents(parts: Sequence[_Operand]) -> None:
    known: dict[str, tuple[int, int]] = {}
    for i, p in enumerate(parts):
        for c, n in zip(p.letters, _extents(p.x), strict=True):
            before, first = known.setdefault(c, (n, i))
            if before != n and not (c.isdigit() and 1 in (before, n)):
                name = f"'{c}'" if c.isalpha() else "an axis under '...'"
                raise ShapeError(f"einsum: {name} has extent {before} in operand {first} but {n} in operand {i}")
            if c.isdigit() and before == 1:
                known[c] = (n, i)


def _diagonal(p: _Operand) -> _Operand:
    """The diagonal where a letter stands twice."""
    x, letters = p
    while twice := next((c for c in letters if letters.count(c) > 1), ""):
        i = letters.index(twice)
        j = letters.index(twice, i + 1)
        if x.shape[i] != x.shape[j]:
            raise ShapeError(f"einsum: '{twice}' has extents {x.shape[i]} and {x.shape[j]} in one operand")
        rest = [a for a in range(x.ndim) if a not in (i, j)]
        square = transpose(x, perm=[*rest, i, j])
        line = triu(tril(square))
        x, letters = functions.sum(line, axes=[-1]), "".join(letters[a] for a in rest) + twice
    return _Operand(x, letters)


def _summed(p: _Operand, needed: set[str]) -> _Operand:
    gone = [i for i, c in enumerate(p.letters) if c not in needed]
    x = functions.sum(p.x, axes=gone) if gone else p.x
    return _Operand(x, "".join(c for c in p.letters if c in needed))


def _transposed(p: _Operand, order: Iterable[str]) -> _Operand:
    wanted = "".join(order)
    if wanted == p.letters:
        return p
    return _Operand(transpose(p.x, perm=[p.letters.index(c) for c in wanted]), wanted)


def _joined(a: _Operand, b: _Operand, needed: set[str]) -> _Operand:
    """Both as one, without the letters that nothing needs."""
    a, b = _summed(a, needed | set(b.letters)), _summed(b, needed | set(a.letters))
    both = [c for c in a.letters if c in b.letters]
    batch, inner = [c for c in both if c in needed], [c for c in both if c not in needed]
    rows, columns = ([c for c in p.letters if c not in both] for p in (a, b))
    if inner:
        return _product(a, b, batch, rows, inner, columns)
    order = [*batch, *rows, *columns]
    return _Operand(mul(_spread(a, order), _spread(b, order)), "".join(order))


def _spread(p: _Operand, order: Sequence[str]) -> Tensor:
    """Its axes in order, with extents of 1 where it has none."""
    x = _transposed(p, [c for c in order if c in p.letters]).x
    for axis, c in enumerate(order):
        if c not in p.letters:
            x = expand_dims(x, axis=axis)
    return x


def _product(
    a: _Operand, b: _Operand, batch: list[str], rows: list[str], inner: list[str], columns: list[str]
) -> _Operand:
    """One matrix product: [batch, rows, inner] by [batch, inner, columns]."""
    turn_a = a.letters == "".join([*batch, *inner, *rows]) and bool(rows)
    turn_b = b.letters == "".join([*batch, *columns, *inner]) and bool(columns)
    groups_a, groups_b = [rows, inner], [inner, columns]
    a = _transposed(a, [*batch, *inner, *rows] if turn_a else [*batch, *rows, *inner])
    b = _transposed(b, [*batch, *columns, *inner] if turn_b else [*batch, *inner, *columns])
    left = _as_matrix(a.x, len(batch), [len(g) for g in (groups_a[::-1] if turn_a else groups_a)])
    right = _as_matrix(b.x, len(batch), [len(g) for g in (groups_b[::-1] if turn_b else groups_b)])
    y = matmul(left, right, transpose_a=turn_a, transpose_b=turn_b)
    y = _cut(y, y.ndim - 1, b, columns)
    y = _cut(y, len(batch), a, rows)
    return _Operand(y, "".join([*batch, *rows, *columns]))


def _as_matrix(x: Tensor, start: int, sizes: Sequence[int]) -> Tensor:
    """Two groups of axes from `start` on as one axis each."""
    first, second = sizes
    x = _as_axis(x, start + first, second)
    return _as_axis(x, start, first)


def _as_axis(x: Tensor, start: int, count: int) -> Tensor:
    if count == 0:
        return expand_dims(x, axis=start)
    return x if count == 1 else flatten(x, start=start, end=start + count - 1)


def _cut(y: Tensor, axis: int, p: _Operand, letters: Sequence[str]) -> Tensor:
    """One axis of y as those of `letters`, with the extents that they have in an operand."""
    if not letters:
        return squeeze(y, axis=axis)
    if len(letters) == 1:
        return y
    start = p.letters.index(letters[0])
    return unflatten_like(y, p.x, axis=axis, start=start, end=start + len(letters) - 1)
