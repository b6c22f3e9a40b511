"""Each loss against its formula written out sample by sample in float64, and its gradient against differences."""

import math

import numpy as np
import pytest

from framework import program, tensor
from framework.autograd.check import check_gradients
from framework.errors import AttributeValueError
from suites.retrieval.losses import (
    ArcFace,
    BatchHard,
    ClassVectors,
    CosFace,
    MultiSimilarity,
    NPair,
    ProxyAnchor,
    SemiHard,
)

K, D = 4, 6
LABELS = np.array([0, 0, 1, 1, 2, 2, 2, 3])  # the last is alone
RNG = np.random.default_rng(3)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


VECTORS, CLASSES = unit(RNG.normal(size=(len(LABELS), D))), RNG.normal(size=(K, D))


def others(i):
    """Numbers of the samples of i's class without itself, and of those of other classes."""
    return [j for j in range(len(LABELS)) if LABELS[j] == LABELS[i] and j != i], np.flatnonzero(LABELS[i] != LABELS)


def batch_hard(v, margin=0.2, soft=False):
    found = []
    for i in range(len(v)):
        same, apart = others(i)
        if same:
            gap = max(np.linalg.norm(v[i] - v[p]) for p in same) - min(np.linalg.norm(v[i] - v[n]) for n in apart)
            found.append(math.log1p(math.exp(gap)) if soft else max(gap + margin, 0))
    return np.mean(found)


def semi_hard(v, margin=0.2):
    found = []
    for i in range(len(v)):
        same, apart = others(i)
        far = [np.sum((v[i] - v[n]) ** 2) for n in apart]
        for p in same:
            own = np.sum((v[i] - v[p]) ** 2)
            beyond = [d for d in far if d > own]
            found.append(max(own - (min(beyond) if beyond else max(far)) + margin, 0))
    return np.mean(found)


def n_pair(v, scale=16.0):
    found = []
    for i in range(len(v)):
        same, apart = others(i)
        for p in same:
            found.append(math.log(1 + sum(math.exp(scale * (v[i] @ v[n] - v[i] @ v[p])) for n in apart)))
    return np.mean(found)


def multi_similarity(v, alpha=2.0, beta=50.0, base=0.5, epsilon=0.1):
    total = 0.0
    for i in range(len(v)):
        same, apart = others(i)
        if not same:
            continue
        similar = v @ v[i]
        negative = [n for n in apart if similar[n] + epsilon > min(similar[same])]
        positive = [p for p in same if similar[p] - epsilon < max(similar[apart])]
        if negative and positive:
            total += math.log(1 + sum(math.exp(-alpha * (similar[p] - base)) for p in positive)) / alpha
            total += math.log(1 + sum(math.exp(beta * (similar[n] - base)) for n in negative)) / beta
    return total / len(v)


def softmax_of(smaller, scale):
    def loss(v, classes=CLASSES):
        found = []
        for x, label in zip(v, LABELS, strict=True):
            logits = unit(classes) @ x
            logits[label] = smaller(logits[label])
            logits = logits * scale
            found.append(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[label])
        return np.mean(found)

    return loss


def turned(margin):
    def smaller(cosine):
        angle = math.acos(cosine)
        return math.cos(angle + margin) if angle + margin < math.pi else cosine - margin * math.sin(margin)

    return smaller


def proxy_anchor(v, classes=CLASSES, alpha=32.0, margin=0.1):
    similar, present = v @ unit(classes).T, sorted(set(LABELS.tolist()))
    alike = [math.log(1 + sum(np.exp(-alpha * (similar[k == LABELS, k] - margin)))) for k in present]
    apart = [math.log(1 + sum(np.exp(alpha * (similar[k != LABELS, k] + margin)))) for k in range(K)]
    return sum(alike) / len(present) + sum(apart) / K


CASES = {
    "BatchHard": (BatchHard(), batch_hard),
    "BatchHard soft": (BatchHard(soft=True), lambda v: batch_hard(v, soft=True)),
    "SemiHard": (SemiHard(), semi_hard),
    "NPair": (NPair(), n_pair),
    "MultiSimilarity": (MultiSimilarity(), multi_similarity),
    "ArcFace": (ArcFace(scale=8.0, margin=0.5), softmax_of(turned(0.5), 8.0)),
    "ArcFace wide": (ArcFace(scale=8.0, margin=1.5), softmax_of(turned(1.5), 8.0)),  # some angles pass pi
    "CosFace": (CosFace(scale=8.0), softmax_of(lambda c: c - 0.35, 8.0)),
    "ProxyAnchor": (ProxyAnchor(), proxy_anchor),
}


def classes_of(weight):
    layer = ClassVectors(K, D)
    layer.weight.set(tensor(np.asarray(weight, np.float32)))
    return layer


def value(loss, vectors, labels=LABELS, weight=CLASSES):
    (term,) = loss(tensor(vectors.astype(np.float32)), tensor(labels), classes_of(weight)).values()
    return float(term.mean), float(term.weight)


@pytest.mark.parametrize("name", CASES)
def test_a_loss_is_its_formula(name):
    loss, formula = CASES[name]
    # float32: cosines are right to 1e-6, which scales and sharpnesses of up to 50 carry on.
    assert value(loss, VECTORS)[0] == pytest.approx(formula(VECTORS), rel=5e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_differences(name):
    loss, _ = CASES[name]

    def function(vectors, weight):
        layer = ClassVectors(K, D)
        layer.weight = weight
        (term,) = loss(vectors, tensor(LABELS), layer).values()
        return term.mean + 0.0 * weight.sum()

    check_gradients(function, [VECTORS, CLASSES])


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_the_numbers_of_eager(name):
    loss, _ = CASES[name]
    layer = classes_of(CLASSES)

    @program
    def traced(vectors, labels):
        (term,) = loss(vectors, labels, layer).values()
        return term.mean, term.weight

    for count in (8, 5):  # another number of samples too
        vectors, labels = VECTORS[:count].astype(np.float32), LABELS[:count]
        found = [float(x) for x in traced(tensor(vectors), tensor(labels))]
        assert found == pytest.approx(value(loss, vectors, labels), rel=1e-6)


@pytest.mark.parametrize("loss", [BatchHard(), SemiHard(), NPair()], ids=lambda loss: type(loss).__name__)
def test_a_batch_without_a_pair_counts_for_nothing(loss):
    assert value(loss, VECTORS[:3], np.array([0, 1, 2])) == (0.0, 0.0)
    assert value(loss, VECTORS[:3], np.array([1, 1, 1])) == (0.0, 0.0)  # and without another class


def test_a_sample_that_is_alone_in_its_class_has_no_triplet():
    assert value(BatchHard(), VECTORS)[1] == 7 and value(SemiHard(), VECTORS)[1] == 10


def test_vectors_that_are_equal_have_a_finite_gradient():
    vectors = tensor(np.repeat(VECTORS[:2], 2, axis=0).astype(np.float32), requires_grad=True)
    BatchHard()(vectors, tensor(np.array([0, 0, 1, 1])))["triplet"].mean.backward()
    assert np.isfinite(vectors.grad.numpy()).all()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: BatchHard(margin=0.0), "BatchHard: margin is 0.0; it must be above 0"),
        (lambda: NPair(scale=-1.0), "NPair: scale is -1.0"),
        (lambda: MultiSimilarity(alpha=0.0), "MultiSimilarity: alpha is 0.0 and beta 50.0"),
        (lambda: ArcFace(margin=2.0), "ArcFace: scale is 64.0 and margin 2.0"),
        (lambda: ProxyAnchor(alpha=0.0), "ProxyAnchor: alpha is 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(make, said):
    with pytest.raises(AttributeValueError, match=said):
        make()
