"""Losses of vectors and of scores: numpy, row by row from the papers' formulas, gives the same numbers.

Tolerances: float32 vectors of 8 numbers and exponents below 20 / 0.05; the sums of a few tens of terms of size 1 to 20
round to 1e-5 of them at most.
"""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from suites.nlp.matching.losses import (
    CoSENT,
    CosineError,
    Hinge,
    InBatchNegatives,
    Listwise,
    MarginError,
    Matryoshka,
    Pointwise,
    TeacherVectors,
)

RNG = np.random.default_rng(3)
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def value(loss, vectors, **known):
    """The sum of a loss's terms."""
    found = loss(tensor(vectors), {name: tensor(array) for name, array in known.items()})
    return sum(float(term.mean.numpy()) for term in found.values())


def vectors(batch=5, texts=4, width=8):
    return RNG.normal(size=(batch, texts, width)).astype(np.float32)


def cos(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return a @ b / np.sqrt((a @ a) * (b @ b))


def in_batch(v, groups, matches, others, t, symmetric=False):
    """By loops over anchors and candidates."""
    terms = []
    for i in range(len(v)):
        kept = [j for j in range(len(v)) if j == i or (groups[i] != groups[j] and matches[i] != matches[j])]
        scores = [cos(v[i, 0], v[j, 1]) / t for j in kept]
        scores += [
            cos(v[i, 0], v[j, 2 + n]) / t
            for j in range(len(v))
            for n in range(v.shape[1] - 2)
            if others[j, n] >= 0 and others[j, n] != matches[i]
        ]
        right = cos(v[i, 0], v[i, 1]) / t
        one = np.log(np.exp(scores).sum()) - right
        if symmetric:
            back = np.log(sum(np.exp(cos(v[j, 0], v[i, 1]) / t) for j in kept)) - right
            one = (one + back) / 2
        terms.append(one)
    return np.mean(terms)


@pytest.mark.parametrize("symmetric", [False, True])
def test_in_batch_negatives_leave_out_what_fits_and_what_is_not_there(symmetric):
    v = vectors()
    groups, matches = np.array([0, 1, 0, 2, 3]), np.array([10, 11, 12, 13, 11])
    others = np.array([[20, 21], [-1, -1], [11, 22], [23, -1], [24, 25]])
    loss = InBatchNegatives(temperature=0.1, symmetric=symmetric)
    found = value(loss, v, groups=groups, matches=matches, others=others)
    np.testing.assert_allclose(found, in_batch(v, groups, matches, others, 0.1, symmetric), **NEAR)
    plain = value(loss, v[:, :2], groups=groups, matches=matches)
    np.testing.assert_allclose(plain, in_batch(v[:, :2], groups, matches, np.zeros((5, 0)), 0.1, symmetric), **NEAR)


def test_cosent_compares_each_pair_with_each_of_a_lower_score():
    v, scores = vectors(texts=2), np.array([1.0, 0.5, 0.5, 0.0, 1.0], np.float32)
    c = [cos(*row) for row in v]
    terms = [np.exp(20 * (c[j] - c[i])) for i in range(5) for j in range(5) if scores[i] > scores[j]]
    np.testing.assert_allclose(value(CoSENT(), v, targets=scores), np.log(1 + np.sum(terms)), **NEAR)
    assert value(CoSENT(), v, targets=np.ones(5, np.float32)) == 0.0  # nothing to compare


def test_cosine_error_is_of_the_cosine():
    v, scores = vectors(texts=2), RNG.random(5).astype(np.float32)
    wanted = np.mean([(cos(*row) - score) ** 2 for row, score in zip(v, scores, strict=True)])
    np.testing.assert_allclose(value(CosineError(), v, targets=scores), wanted, **NEAR)


def test_matryoshka_sums_the_loss_over_first_numbers():
    v, scores = vectors(texts=2), RNG.random(5).astype(np.float32)
    loss = Matryoshka(CosineError(), widths=(2, 5), weights=(1.0, 2.0, 0.5))
    parts = [value(CosineError(), v[:, :, :width], targets=scores) for width in (2, 5, 8)]
    np.testing.assert_allclose(value(loss, v, targets=scores), np.dot(parts, [1.0, 2.0, 0.5]), **NEAR)


def test_a_teacher_gives_vectors_or_margins():
    v, taught = vectors(), vectors()
    wanted = np.mean([1 - cos(a, b) for a, b in zip(v.reshape(-1, 8), taught.reshape(-1, 8), strict=True)])
    np.testing.assert_allclose(value(TeacherVectors(teacher="x"), v, taught=taught), wanted, **NEAR)
    squared = value(TeacherVectors(teacher="x", measure="squared"), v, taught=taught)
    np.testing.assert_allclose(squared, np.mean((v.astype(np.float64) - taught) ** 2), **NEAR)
    scores, others = RNG.normal(size=(5, 3)).astype(np.float32), np.array([[1, 2]] * 4 + [[3, -1]])
    terms = [
        (cos(v[i, 0], v[i, 1]) - cos(v[i, 0], v[i, 2 + n]) - scores[i, 0] + scores[i, 1 + n]) ** 2
        for i in range(5)
        for n in range(2)
        if others[i, n] >= 0
    ]
    np.testing.assert_allclose(value(MarginError(teacher="x"), v, taught=scores, others=others), np.mean(terms), **NEAR)


def test_losses_of_scores_follow_their_formulas():
    scores, others = RNG.normal(size=(4, 3)).astype(np.float32), np.array([[1, 2], [3, -1], [4, 5], [-1, -1]])
    kept = [[scores[i, 0], *(scores[i, 1 + n] for n in range(2) if others[i, n] >= 0)] for i in range(4)]
    listwise = np.mean([np.log(np.exp(row).sum()) - row[0] for row in kept])
    np.testing.assert_allclose(value(Listwise(), scores, others=others), listwise, **NEAR)
    hinge = np.mean([max(0, 0.3 - row[0] + x) for row in kept for x in row[1:]])
    np.testing.assert_allclose(value(Hinge(margin=0.3), scores, others=others), hinge, **NEAR)
    targets = np.array([1.0, 0.0, 0.5, 0.0], np.float32)
    p = 1 / (1 + np.exp(-scores[:, 0].astype(np.float64)))
    binary = -np.mean(targets * np.log(p) + (1 - targets) * np.log(1 - p))
    np.testing.assert_allclose(value(Pointwise(), scores[:, 0], targets=targets), binary, **NEAR)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: InBatchNegatives(temperature=0.0), "temperature is 0.0; it must be above 0"),
        (lambda: CoSENT(scale=-1.0), "scale is -1.0; it must be above 0"),
        (lambda: Matryoshka(CoSENT(), widths=(64, 32)), "they must rise"),
        (lambda: Matryoshka(CoSENT(), widths=(8,), weights=(1.0,)), "needed is one each"),
        (lambda: Matryoshka(TeacherVectors(teacher="x"), widths=(8,)), "does not go round TeacherVectors"),
        (lambda: TeacherVectors(), "teacher is empty"),
        (lambda: MarginError(teacher="x", scale=0.0), "scale is 0.0"),
        (lambda: Hinge(margin=0.0), "margin is 0.0; it must be above 0"),
    ],
)
def test_senseless_options_are_refused(make, message):
    with pytest.raises(AttributeValueError, match=message):
        make()
