"""What a student learns from a teacher: each term by its formula, in float64 with NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from framework import from_numpy, nn, tensor
from framework.errors import AttributeValueError, ConfigError
from framework.nn import init
from suites.engine.slim.lessons import FSP, Features, Logits, MaskedFeatures

RNG = np.random.default_rng(0)
NAMES = {"a": "b"}
# Sums of a few hundred float32 terms of size 1: 2^-23 each, and those of exponentials that are a few units off.
TOLERANCE = 1e-5


def drawn(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def term(lesson, *pairs):
    """The term of pairs of arrays, and what the lesson needs for it."""
    helpers = lesson.helpers([(a.shape, b.shape) for a, b in pairs])
    init.initialize(helpers, 0)
    found = lesson.term([(from_numpy(a), from_numpy(b)) for a, b in pairs], helpers)
    assert found.shape == ()
    return float(found), helpers


def divergence(ours, theirs):
    """KL(teacher || student), a mean over rows."""
    return (softmax(theirs, -1) * (log_softmax(theirs, -1) - log_softmax(ours, -1))).sum(-1).mean()


def test_logits_are_compared_as_probabilities_at_a_temperature():
    ours, theirs = drawn(5, 7), drawn(5, 7)
    found, _ = term(Logits(layers=NAMES, temperature=4.0), (ours, theirs))
    assert found == pytest.approx(16 * divergence(ours / 4.0, theirs / 4.0), rel=TOLERANCE)


def test_places_and_groups_of_classes_count_alike():
    ours, theirs = drawn(2, 3, 4, 6), drawn(2, 3, 4, 6)
    assert term(Logits(layers=NAMES), (ours, theirs))[0] == pytest.approx(divergence(ours, theirs), rel=TOLERANCE)
    by_two = [x.reshape(-1, 2) for x in (ours, theirs)]
    found, _ = term(Logits(layers=NAMES, classes=2), (ours, theirs))
    assert found == pytest.approx(divergence(*by_two), rel=TOLERANCE)


def test_sigmoids_are_compared_one_by_one_and_numbers_by_their_squares():
    ours, theirs = drawn(4, 3), drawn(4, 3)
    p, q = (1 / (1 + np.exp(-x.astype(np.float64) / 2)) for x in (theirs, ours))
    wanted = 4 * (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean()
    found, _ = term(Logits(layers=NAMES, activation="sigmoid", temperature=2.0), (ours, theirs))
    assert found == pytest.approx(wanted, rel=TOLERANCE)
    found, _ = term(Logits(layers=NAMES, activation="none"), (ours, theirs))
    assert found == pytest.approx(((ours - theirs) ** 2).mean(), rel=TOLERANCE)


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "none"])
def test_nothing_is_left_to_learn_from_an_equal(activation):
    x = drawn(4, 3)
    assert term(Logits(layers=NAMES, activation=activation, temperature=3.0), (x, x))[0] == pytest.approx(0, abs=1e-6)


def test_features_of_one_width_need_nothing_between_and_others_a_convolution():
    ours, theirs, wide = drawn(2, 4, 4, 3), drawn(2, 4, 4, 3), drawn(2, 4, 4, 5)
    found, helpers = term(Features(layers=NAMES), (ours, theirs))
    assert found == pytest.approx(((ours - theirs) ** 2).mean(), rel=TOLERANCE) and not list(helpers.parameters())
    found, helpers = term(Features(layers=NAMES), (ours, wide))
    (between,) = helpers.children
    seen = ours @ between.weight.numpy().T + between.bias.numpy()
    assert found == pytest.approx(((seen - wide) ** 2).mean(), rel=TOLERANCE)
    assert list(term(Features(layers=NAMES, adapt=True), (ours, theirs))[1].parameters())


def test_fsp_compares_gram_matrices_of_each_two_layers():
    pairs = [(drawn(2, 4, 3, c), drawn(2, 4, 3, c)) for c in (3, 5, 2)]
    found, _ = term(FSP(layers={"a": "a", "b": "b", "c": "c"}), *pairs)
    wanted = []
    for (a, b), (c, d) in pairwise(pairs):
        ours, theirs = (np.einsum("nhwi,nhwj->nij", *both) / 12 for both in ((a, c), (b, d)))
        wanted.append(((ours - theirs) ** 2).mean())
    assert found == pytest.approx(np.mean(wanted), rel=TOLERANCE)


def test_masked_features_hide_whole_places_from_what_makes_the_teacher_s():
    lesson = MaskedFeatures(layers=NAMES, hidden=0.75)
    ours, theirs = drawn(2, 16, 16, 3), drawn(2, 16, 16, 5)
    _, helpers = term(lesson, (ours, theirs))
    (maker,) = helpers.children
    seen = []
    maker.first.register_forward_pre_hook(lambda layer, given: seen.append(given[0].numpy()))
    maker.train()
    maker(from_numpy(ours))
    hidden = (seen[0] == 0).all(axis=-1)
    adapted = ours @ maker.adapter.weight.numpy().T + maker.adapter.bias.numpy()
    assert np.abs(seen[0] - adapted)[~hidden].max() < TOLERANCE
    # 512 places: the share is within five standard deviations of a binomial one.
    assert abs(hidden.mean() - 0.75) < 5 * (0.75 * 0.25 / 512) ** 0.5


@pytest.mark.parametrize(
    ("lesson", "shapes", "said"),
    [
        (Logits(layers=NAMES), [((2, 5), (2, 6))], r"gives \[2, 5\] and the teacher's \[2, 6\]; both must be alike"),
        (Logits(layers=NAMES, classes=4), [((2, 6), (2, 6))], "classes 4 divides neither"),
        (Features(layers=NAMES), [((2, 8, 8, 3), (2, 4, 4, 3))], "name layers of one stride"),
        (MaskedFeatures(layers=NAMES), [((2, 3), (2, 3))], "both must be maps"),
        (FSP(layers={"a": "a", "b": "b"}), [((2, 8, 8, 3),) * 2, ((2, 4, 4, 3),) * 2], "all must have one height"),
    ],
)
def test_shapes_that_cannot_be_compared_are_told(lesson, shapes, said):
    with pytest.raises(ConfigError, match=said):
        lesson.helpers(shapes)


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (Logits, {"layers": {}}, "layers is empty"),
        (Logits, {"layers": NAMES, "weight": 0}, "weight is 0; it must be above 0"),
        (Logits, {"layers": NAMES, "temperature": 0.0}, "temperature is 0.0; it must be above 0"),
        (Logits, {"layers": NAMES, "classes": 0}, "classes is 0"),
        (FSP, {"layers": NAMES}, "name two"),
        (MaskedFeatures, {"layers": NAMES, "hidden": 1.0}, "hidden is 1.0"),
    ],
)
def test_settings_that_cannot_be_are_told(kind, arguments, said):
    with pytest.raises(AttributeValueError, match=said):
        kind(**arguments)


def test_gradients_reach_the_student_and_what_is_between():
    for lesson in (Logits(layers=NAMES), Features(layers=NAMES, adapt=True), MaskedFeatures(layers=NAMES)):
        x = nn.layer.parameter(drawn(2, 4, 4, 3))
        y = tensor(drawn(2, 4, 4, 3))
        helpers = lesson.helpers([(x.shape, y.shape)])
        init.initialize(helpers, 0)
        lesson.term([(x * 1.0, y)], helpers).backward()
        assert np.abs(x.grad.numpy()).max() > 0 and y.grad is None
        assert all(p.grad is not None for p in helpers.parameters())
