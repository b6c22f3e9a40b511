"""Losses equal their formulas in NumPy, know nothing of ignored pixels, and are traced for every size."""

import numpy as np
import pytest

from framework import from_numpy, ops, program, tensor
from framework.errors import AttributeValueError
from framework.nn import parameter
from suites.segmentation.losses import CrossEntropy, Dice, OhemCrossEntropy
from suites.segmentation.sample import IGNORE

RNG = np.random.default_rng(0)
K = 5
LOGITS = RNG.standard_normal((2, 8, 6, K)).astype(np.float32) * 2
LABELS = RNG.integers(0, K, (2, 8, 6)).astype(np.int32)
LABELS[0, :3] = IGNORE
KNOWN = LABELS != IGNORE
EXP = np.exp(LOGITS.astype(np.float64))
PROBABILITY = EXP / EXP.sum(-1, keepdims=True)
OF_LABEL = np.take_along_axis(PROBABILITY, np.where(KNOWN, LABELS, 0)[..., None], -1)[..., 0]


def value(loss, logits=LOGITS, labels=LABELS):
    return float(loss(from_numpy(logits), from_numpy(labels)).mean)


def test_cross_entropy_is_the_mean_over_labelled_pixels():
    assert value(CrossEntropy()) == pytest.approx(-np.log(OF_LABEL[KNOWN]).mean(), rel=1e-5)
    smoothed = 0.9 * -np.log(OF_LABEL[KNOWN]) + 0.1 * -np.log(PROBABILITY[KNOWN]).mean(-1)
    assert value(CrossEntropy(label_smoothing=0.1, weight=2.0)) == pytest.approx(2 * smoothed.mean(), rel=1e-5)


def test_class_weights_weigh_the_mean():
    weights = np.array([1, 2, 0, 0.5, 3])
    share = weights[LABELS[KNOWN]]
    wanted = (-np.log(OF_LABEL[KNOWN]) * share).sum() / share.sum()
    assert value(CrossEntropy(class_weights=weights.tolist())) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("min_kept", [1, 30])
def test_hard_examples_alone_count(min_kept):
    loss = -np.log(OF_LABEL[KNOWN])
    bound = min(np.sort(loss)[-min_kept], -np.log(0.2))
    assert value(OhemCrossEntropy(0.2, min_kept)) == pytest.approx(loss[loss >= bound].mean(), rel=1e-5)


def test_dice_is_its_formula():
    found, wanted = PROBABILITY * KNOWN[..., None], np.eye(IGNORE + 1)[LABELS][..., :K]
    both, either = (found * wanted).sum((0, 1, 2)), found.sum((0, 1, 2)) + wanted.sum((0, 1, 2))
    assert value(Dice(smooth=1.0)) == pytest.approx(1 - ((2 * both + 1) / (either + 1)).mean(), rel=1e-5)


LOSSES = [CrossEntropy(), CrossEntropy(class_weights=[1.0] * K), OhemCrossEntropy(0.7, 10), Dice()]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_ignored_pixels_have_no_gradient_and_others_have(loss):
    logits = parameter(LOGITS)
    loss(logits, from_numpy(LABELS)).mean.backward()
    gradient = np.abs(logits.grad.numpy()).max(-1)
    assert (gradient[~KNOWN] == 0).all() and (gradient[KNOWN] > 0).mean() > 0.3


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_nothing_to_learn_is_no_loss_and_no_nan(loss):
    empty = value(loss, labels=np.full_like(LABELS, IGNORE))
    assert np.isfinite(empty) and (isinstance(loss, Dice) or empty == 0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_one_program_takes_any_size_and_interpolates_to_the_labels(loss):
    traced = program(lambda x, y: loss(x, y).mean)
    for size in ((4, 4), (9, 13)):
        labels = RNG.integers(0, K, (2, *size)).astype(np.int32)
        logits = LOGITS[:, :4, :3]
        large = ops.resize_bilinear(tensor(logits), size=size).numpy()
        assert float(traced(logits, labels)) == pytest.approx(value(loss, large, labels), rel=1e-5)
    assert not traced.program_for(from_numpy(logits), from_numpy(labels)).program.shape_reads


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: CrossEntropy(weight=0), "CrossEntropy: weight is 0; it must be positive"),
        (lambda: CrossEntropy(label_smoothing=1), "label_smoothing is 1"),
        (lambda: CrossEntropy(class_weights=[-1, 2]), r"class_weights is \[-1, 2\]; it needs a number of 0 or more"),
        (lambda: OhemCrossEntropy(threshold=0), "threshold is 0 and min_kept 10000"),
        (lambda: Dice(smooth=0), "smooth is 0; it must be positive"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
