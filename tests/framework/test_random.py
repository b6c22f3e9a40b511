"""A generator's stream is repeatable, can be saved, and steps inside a Program too."""

import numpy as np
import pytest

import framework
from framework import nn, ops, random
from framework.errors import AttributeValueError


def draw(generator):
    return ops.random_uniform(generator.key(), shape=(5,)).numpy().copy()


def test_a_seed_repeats_its_stream_and_seeds_differ():
    a, b = random.Generator(3), random.Generator(3)
    first, second = draw(a), draw(a)
    np.testing.assert_array_equal(first, draw(b))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, draw(random.Generator(4)))
    a.seed(3)
    np.testing.assert_array_equal(first, draw(a))


def test_a_saved_state_continues():
    a, b = random.Generator(3), random.Generator(0)
    draw(a)
    b.set_state(a.get_state())
    np.testing.assert_array_equal(draw(a), draw(b))
    with pytest.raises(AttributeValueError, match=r"state \[1\] is not \[seed, counter\]"):
        b.set_state([1])


def test_a_program_draws_anew_at_each_run_and_as_eagerly():
    eager, traced = random.Generator(5), random.Generator(5)
    run = framework.program(lambda x: x + ops.random_uniform(traced.key(), shape=(5,)))
    x = framework.tensor(np.zeros(5, np.float32))
    for _ in range(3):
        np.testing.assert_array_equal(run(x).numpy(), draw(eager))
    assert traced.get_state() == [5, 3]


def test_dropout_keeps_the_mean_and_does_nothing_in_evaluation():
    layer = nn.Dropout(0.25, random.Generator(1))
    x = framework.tensor(np.ones(10000, np.float32))
    y = layer(x).numpy()
    # 10,000 draws: the share of zeros has a standard error of 0.0043; 5 of them are allowed.
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.022)
    assert np.allclose(y[y != 0], 1 / 0.75)
    assert layer.eval()(x) is x
    with pytest.raises(AttributeValueError, match="p is 1"):
        nn.Dropout(1.0)


def test_a_stream_of_its_own_leaves_the_default_one_where_it_was():
    def drawn():
        return random.default_generator.key().tolist()

    random.seed(5)
    expected = [drawn(), drawn()]
    random.seed(5)
    found = [drawn()]
    inside = []
    for _ in range(2):
        with pytest.raises(KeyError), random.own_stream(7):
            inside.append((drawn(), drawn()))
            raise KeyError
    assert inside[0] == inside[1] and inside[0] != tuple(expected)
    assert [*found, drawn()] == expected
