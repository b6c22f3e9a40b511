"""AdaRound of one layer: near the best of all roundings, never worse than the nearest, the same again."""

import itertools

import numpy as np
import pytest

from framework.quantization.rounding import HELD, Places, learn


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def places(x, weight, *, groups=1, activation="none", wanted=None):
    """A layer without bias, of places [M, R, S, C]."""
    sums = plain(x, weight, groups) if wanted is None else wanted
    y = np.maximum(sums, 0) if activation == "relu" else sums
    return Places(x, y.astype(np.float32), None, np.zeros(len(weight), np.float32), groups, activation, 0.01, False)


def plain(x, weight, groups=1):
    """[M, 1, 1, K] by NumPy."""
    parts = x.reshape(*x.shape[:3], groups, -1)
    kernels = weight.reshape(groups, -1, *weight.shape[1:])
    return np.einsum("mrsgc,gkrsc->mgk", parts, kernels, dtype=np.float64).reshape(len(x), 1, 1, -1)


def scale_of(weight, coarse=1.0):
    return (np.abs(weight).max(axis=(1, 2, 3)) * coarse / 127).astype(np.float32)


def related(count, size, seed=0):
    """Inputs that go together, as a network's do: where they are independent nearest rounding is best already."""
    return np.maximum(
        normal(count, 1, 1, 3, seed=seed) @ normal(3, size, seed=seed) + 0.1 * normal(count, 1, 1, size), 0
    )


def learnt(weight, scale, given, **settings):
    how = {"steps": 400, "seed": 0, "more": lambda: True} | settings
    return learn(weight, scale, [given], **how)


def error(q, scale, given, weight_of=lambda q, scale: q * scale[:, None, None, None]):
    """Of places that judge."""
    held = np.arange(len(given.x)) % HELD == HELD - 1
    y = plain(given.x[held], weight_of(q.astype(np.float64), scale), given.groups)
    y = np.maximum(y, 0) if given.activation == "relu" else y
    return np.mean((y - given.target[held]) ** 2)


@pytest.mark.parametrize("activation", ["none", "relu"])
def test_small_layers_come_near_the_best_of_all_roundings(activation):
    """Ten weights have 1,024 roundings, and all are tried here: four fifths of what there is to gain are gained."""
    gained = possible = 0.0
    for seed in range(6):
        x, weight = related(1024, 10, seed=seed), normal(1, 1, 1, 10, seed=4 + seed)
        scale = scale_of(weight, coarse=8)
        given = places(x, weight, activation=activation)
        floor = np.floor(weight / scale)
        best = min(
            error(floor + np.reshape(up, weight.shape), scale, given) for up in itertools.product((0, 1), repeat=10)
        )
        found = learnt(weight, scale, given)
        assert found.error >= best * (1 - 1e-4)
        gained, possible = gained + found.nearest - found.error, possible + found.nearest - best
    assert gained > 0.8 * possible


@pytest.mark.parametrize(
    ("shape", "groups"), [((12, 3, 3, 6), 1), ((12, 3, 3, 1), 12), ((12, 3, 3, 3), 4), ((9, 1, 1, 20), 1)]
)
def test_errors_are_those_of_the_layer_and_learnt_rounding_is_better(shape, groups):
    channels = shape[3] * groups
    x = np.concatenate([related(512, channels, seed=i) for i in range(shape[1] * shape[2])], axis=2)
    x = x.reshape(512, *shape[1:3], channels)
    weight = normal(*shape, seed=2)
    scale = scale_of(weight, coarse=4)
    given = places(x, weight, groups=groups)
    found = learnt(weight, scale, given)
    nearest = np.rint(weight / scale[:, None, None, None])
    assert found.nearest == pytest.approx(error(nearest, scale, given), rel=1e-4)
    assert found.error == pytest.approx(error(found.q, scale, given), rel=1e-4)
    assert found.error < 0.9 * found.nearest
    assert found.q.dtype == np.int8 and np.abs(found.q - weight / scale[:, None, None, None]).max() < 1 + 1e-5


def test_what_the_rounded_network_before_gives_is_made_up_for():
    """Asymmetric: x is what 8 bits give, the target what float32 gives; rounding to the nearest cannot know of it."""
    x, weight = related(2048, 24), normal(6, 1, 1, 24, seed=1)
    scale = scale_of(weight, coarse=8)
    wanted = plain(x, weight)
    found = learnt(weight, scale, places(x * np.float32(1.01), weight, wanted=wanted))
    assert found.error < 0.5 * found.nearest


def test_it_repeats_bit_for_bit_and_a_seed_makes_another():
    weight = normal(6, 1, 1, 24, seed=1)
    scale, given = scale_of(weight, coarse=8), places(related(512, 24), weight)
    one, again, other = (learnt(weight, scale, given, steps=50, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.q, again.q)
    assert one.error == again.error and (one.q != other.q).any()


def test_weights_of_one_value_and_of_nothing_have_no_better_rounding():
    for value in (0.0, 0.7, -2.0):
        weight = np.full((3, 1, 1, 5), value, np.float32)
        found = learnt(weight, scale_of(weight), places(related(64, 5), weight), steps=5)
        assert found.error <= found.nearest + 1e-12 and np.abs(found.q).max() == (127 if value else 0)


def test_an_input_that_never_varies_is_no_error():
    weight = normal(3, 1, 1, 5)
    found = learnt(weight, scale_of(weight), places(np.full((64, 1, 1, 5), 2, np.float32), weight), steps=5)
    assert np.isfinite([found.error, found.nearest]).all()


def test_one_place_alone_has_nothing_to_judge_by_and_stays_nearest():
    weight = normal(3, 1, 1, 5)
    scale = scale_of(weight)
    found = learnt(weight, scale, places(related(1, 5), weight))
    np.testing.assert_array_equal(found.q, np.rint(weight / scale[:, None, None, None]))
    assert found.error == found.nearest


def test_it_ends_where_it_is_told_to():
    asked = iter([True] * 3 + [False])
    weight = normal(3, 1, 1, 5)
    assert learnt(weight, scale_of(weight), places(related(64, 5), weight), more=lambda: next(asked)) is None


def test_a_call_of_one_place_learns_beside_one_of_many():
    x, weight = related(65, 10), normal(1, 1, 1, 10, seed=4)
    scale, calls = scale_of(weight, coarse=8), [places(x[:64], weight), places(x[64:], weight)]
    found = learn(weight, scale, calls, steps=50, seed=0, more=lambda: True)
    assert found.error <= found.nearest and found.q.shape == weight.shape
    alone = learn(weight, scale, [places(x[:1], weight), places(x[1:2], weight)], steps=5, seed=0, more=lambda: True)
    assert np.isfinite([alone.nearest, alone.error]).all()
