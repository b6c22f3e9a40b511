"""Losses equal their formulas in NumPy, know nothing of ignored pixels, and are traced for every size."""

import numpy as np
import pytest

from framework import from_numpy, ops, program, tensor
from framework.errors import AttributeValueError, DataError, StateError
from framework.nn import parameter
from suites.segmentation.losses import (
    BalancedCrossEntropy,
    BinaryCrossEntropy,
    ClassCounts,
    CrossEntropy,
    Dice,
    Focal,
    LovaszHinge,
    LovaszSoftmax,
    OhemCrossEntropy,
)
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
ONE_HOT = np.eye(IGNORE + 1)[LABELS][..., :K]
BINARY = np.where(KNOWN, LABELS % 2, IGNORE).astype(np.int32)


def value(loss, logits=LOGITS, labels=LABELS):
    return float(loss(from_numpy(logits), from_numpy(labels)).mean)


def test_cross_entropy_is_the_mean_over_labelled_pixels():
    assert value(CrossEntropy()) == pytest.approx(-np.log(OF_LABEL[KNOWN]).mean(), rel=1e-5)
    smoothed = 0.9 * -np.log(OF_LABEL[KNOWN]) + 0.1 * -np.log(PROBABILITY[KNOWN]).mean(-1)
    assert value(CrossEntropy(label_smoothing=0.1, weight=2.0)) == pytest.approx(2 * smoothed.mean(), rel=1e-5)


def test_balanced_cross_entropy_is_the_papers_over_the_labelled_pixels_of_each_image():
    """Eq. 2 of HED: edges count by the share of what is none, and the other way round, image by image."""
    logits = RNG.standard_normal((2, 8, 6)).astype(np.float32)
    wanted = 0.0
    for z, labels in zip(logits.astype(np.float64), BINARY, strict=True):
        edges, others = labels == 1, labels == 0
        of_no_edge = others.sum() / (edges.sum() + others.sum())
        wanted += of_no_edge * np.log1p(np.exp(-z[edges])).sum()
        wanted += (1 - of_no_edge) * np.log1p(np.exp(z[others])).sum()
    both = np.stack([np.zeros_like(logits), logits], axis=-1)
    assert value(BalancedCrossEntropy(), both, BINARY) == pytest.approx(wanted / KNOWN.sum(), rel=1e-5)


@pytest.mark.parametrize("focal", [False, True])
def test_class_weights_weigh_the_mean(focal):
    weights = np.array([1, 2, 0, 0.5, 3])
    share, loss = weights[LABELS[KNOWN]], -np.log(OF_LABEL[KNOWN])
    loss = loss * (1 - OF_LABEL[KNOWN]) ** 1.5 if focal else loss
    found = Focal(1.5, weights.tolist()) if focal else CrossEntropy(class_weights=weights.tolist())
    assert value(found) == pytest.approx((loss * share).sum() / share.sum(), rel=1e-5)


def test_focal_loss_is_its_formula_and_cross_entropy_at_gamma_0():
    wanted = ((1 - OF_LABEL[KNOWN]) ** 2 * -np.log(OF_LABEL[KNOWN])).mean()
    assert value(Focal()) == pytest.approx(wanted, rel=1e-5)
    assert value(Focal(0.0)) == pytest.approx(value(CrossEntropy()), rel=1e-6)


@pytest.mark.parametrize("positive", [1.0, 3.0])
def test_binary_cross_entropy_is_a_sigmoid_a_class(positive):
    sigmoid = 1 / (1 + 1 / EXP)
    each = -(positive * ONE_HOT * np.log(sigmoid) + (1 - ONE_HOT) * np.log(1 - sigmoid))
    assert value(BinaryCrossEntropy(positive)) == pytest.approx(each[KNOWN].mean(), rel=1e-5)


@pytest.mark.parametrize("min_kept", [1, 30, 130000])
def test_hard_examples_alone_count(min_kept):
    loss = -np.log(OF_LABEL[KNOWN])
    bound = min(np.sort(loss)[-min(min_kept, len(loss))], -np.log(0.2))
    assert value(OhemCrossEntropy(0.2, min_kept)) == pytest.approx(loss[loss >= bound].mean(), rel=1e-5)


def test_dice_is_its_formula():
    found = PROBABILITY * KNOWN[..., None]
    both, either = (found * ONE_HOT).sum((0, 1, 2)), found.sum((0, 1, 2)) + ONE_HOT.sum((0, 1, 2))
    assert value(Dice(smooth=1.0)) == pytest.approx(1 - ((2 * both + 1) / (either + 1)).mean(), rel=1e-5)


def lovasz(errors, truth):
    """The extension by its definition: sum of sorted errors times the growth of 1 - IoU of the set of wrong pixels."""
    order = np.argsort(-errors, kind="stable")
    total, before = 0.0, 0.0
    for n in range(1, len(order) + 1):
        wrong = np.zeros(len(order), bool)
        wrong[order[:n]] = True
        found = truth ^ wrong
        jaccard = 1 - (truth & found).sum() / max((truth | found).sum(), 1)
        total += max(errors[order[n - 1]], 0) * (jaccard - before)
        before = jaccard
    return total


def test_lovasz_softmax_is_its_definition_over_the_classes_that_are_there():
    wanted = [lovasz(np.abs((LABELS[KNOWN] == k) - PROBABILITY[KNOWN][:, k]), LABELS[KNOWN] == k) for k in range(K)]
    assert value(LovaszSoftmax()) == pytest.approx(np.mean(wanted), rel=1e-5)
    fewer = np.where(np.isin(LABELS, (1, 3)), 2, LABELS)
    wanted = [lovasz(np.abs((fewer[KNOWN] == k) - PROBABILITY[KNOWN][:, k]), fewer[KNOWN] == k) for k in (0, 2, 4)]
    assert value(LovaszSoftmax(), labels=fewer) == pytest.approx(np.mean(wanted), rel=1e-5)


@pytest.mark.parametrize("foreground", [True, False])
def test_lovasz_hinge_is_its_definition(foreground):
    labels = BINARY if foreground else np.where(KNOWN, 0, IGNORE).astype(np.int32)
    margin = (LOGITS[..., 1] - LOGITS[..., 0]).astype(np.float64)
    truth = labels[KNOWN] == 1
    wanted = lovasz(1 - margin[KNOWN] * (2 * truth - 1), truth)
    assert value(LovaszHinge(), LOGITS[..., :2], labels) == pytest.approx(wanted, rel=1e-5)


def test_lovasz_keeps_its_digits_over_many_pixels():
    """Over many pixels a step of 1 - IoU is a millionth, of which differences of shares would know one digit."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, (1, 512, 512)).astype(np.int32)
    logits = rng.standard_normal((1, 512, 512, 2)).astype(np.float32)
    x = parameter(logits)
    LovaszSoftmax()(x, from_numpy(labels)).mean.backward()
    p = 1 / (1 + np.exp((logits[..., 0] - logits[..., 1]).astype(np.float64).reshape(-1)))
    truth = labels.reshape(-1) == 1
    gradient = np.zeros(len(p))
    for own, sign in ((truth, 1), (~truth, -1)):
        order = np.argsort(-np.abs(own - (p if sign == 1 else 1 - p)), kind="stable")
        jaccard = 1 - (own.sum() - np.cumsum(own[order])) / (own.sum() + np.cumsum(~own[order]))
        steps = np.empty(len(p))
        steps[order] = np.diff(jaccard, prepend=0)
        gradient += steps * np.where(own, -1, 1) * sign * p * (1 - p) / 2
    np.testing.assert_allclose(x.grad.numpy()[..., 1].reshape(-1), gradient, rtol=1e-2, atol=1e-4 * abs(gradient).max())


LOSSES = [
    CrossEntropy(),
    CrossEntropy(class_weights=[1.0] * K),
    CrossEntropy(class_weights="batch"),
    Focal(),
    Focal(0.5),
    BinaryCrossEntropy(2.0),
    OhemCrossEntropy(0.7, 10),
    BalancedCrossEntropy(),
    Dice(),
    LovaszSoftmax(),
    LovaszHinge(),
]


def fitting(loss, logits=LOGITS, labels=LABELS):
    """Logits and labels of as many classes as the loss takes."""
    return (logits[..., :2], np.where(labels == IGNORE, IGNORE, labels % 2)) if _two(loss) else (logits, labels)


def _two(loss):
    return isinstance(loss, LovaszHinge)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_ignored_pixels_have_no_gradient_and_others_have(loss):
    given, labels = fitting(loss)
    logits = parameter(given)
    loss(logits, from_numpy(labels)).mean.backward()
    gradient = np.abs(logits.grad.numpy()).max(-1)
    assert (gradient[~KNOWN] == 0).all() and (gradient[KNOWN] > 0).mean() > 0.3


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_nothing_to_learn_is_no_loss_of_no_weight_and_no_nan(loss):
    logits = parameter(fitting(loss)[0])
    found = loss(logits, from_numpy(np.full_like(LABELS, IGNORE)))
    assert float(found.mean) == 0 and float(found.weight) == 0
    found.mean.backward()
    assert (logits.grad.numpy() == 0).all()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_one_program_takes_any_size_and_interpolates_to_the_labels(loss):
    traced = program(lambda x, y: loss(x, y).mean)
    for size in ((4, 4), (9, 13)):
        logits, labels = fitting(loss, LOGITS[:, :4, :3], RNG.integers(0, K, (2, *size)).astype(np.int32))
        large = ops.resize_bilinear(tensor(logits), size=size).numpy()
        assert float(traced(logits, labels)) == pytest.approx(value(loss, large, labels), rel=1e-5)
    assert not traced.program_for(from_numpy(logits), from_numpy(labels)).program.shape_reads


def test_weights_by_the_training_set():
    maps = [np.array([[0, 0, 0, 1]], np.uint8), np.array([[0, 0, 2, IGNORE]], np.uint8)]
    counts = ClassCounts(maps, 4)
    assert counts.pixels.tolist() == [5, 1, 1, 0] and counts.beside.tolist() == [7, 4, 3, 0]
    frequency = np.array([5 / 7, 1 / 4, 1 / 3])
    np.testing.assert_allclose(counts.weights("median_frequency"), [*(1 / 3) / frequency, 0], rtol=1e-6)
    share = np.array([5, 1, 1]) / 7
    np.testing.assert_allclose(counts.weights("inverse_log"), [*1 / np.log(1.02 + share), 0], rtol=1e-6)
    with pytest.raises(DataError, match="the training set has no labelled pixel"):
        ClassCounts([], 4).weights("inverse_log")


def test_a_rule_over_the_training_set_is_counted_once_before_training():
    loss = CrossEntropy(class_weights="inverse_log")
    with pytest.raises(StateError, match=r"class_weights 'inverse_log' are computed from the training set, which was"):
        value(loss)
    loss.prepare(lambda: ClassCounts([np.arange(K, dtype=np.uint8)], K))
    assert value(loss) == pytest.approx(value(CrossEntropy()), rel=1e-6)  # all classes are as frequent
    plain = CrossEntropy(class_weights=[1.0] * K)
    plain.prepare(lambda: pytest.fail("nothing to count"))


def test_weights_by_the_batch_make_each_class_count_as_much():
    loss = -np.log(OF_LABEL)
    wanted = np.mean([loss[k == LABELS].mean() for k in range(K)])
    assert value(CrossEntropy(class_weights="batch")) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: CrossEntropy(weight=0), "CrossEntropy: weight is 0; it must be positive"),
        (lambda: CrossEntropy(label_smoothing=1), "label_smoothing is 1"),
        (lambda: CrossEntropy(class_weights=[-1, 2]), r"class_weights is \[-1, 2\]; it needs a number of 0 or more"),
        (lambda: Focal(class_weights="median"), r"Focal: class_weights is 'median'; a rule is one of \['median_freq"),
        (lambda: Focal(-1), "gamma is -1; it must be 0 or more"),
        (lambda: BinaryCrossEntropy(0), "positive_weight is 0; it must be positive"),
        (lambda: OhemCrossEntropy(threshold=0), "threshold is 0 and min_kept 10000"),
        (lambda: Dice(smooth=0), "smooth is 0; it must be positive"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
