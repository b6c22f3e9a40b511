"""Schedules give the rates their formulas say, at the start, in between and at the end."""

import math
from dataclasses import replace

import pytest

from framework import optim
from framework.errors import AttributeValueError


def rates(schedule, *steps):
    return [schedule(step) for step in steps]


def test_constant_with_warmup_grows_in_a_line_to_the_full_rate():
    schedule = optim.Constant(base_lr=0.1, total_steps=100, warmup_steps=4)
    assert rates(schedule, 0, 1, 3, 4, 99) == pytest.approx([0.025, 0.05, 0.1, 0.1, 0.1])
    schedule = optim.Constant(base_lr=0.1, total_steps=100, warmup_steps=4, warmup_from=0.5)
    assert rates(schedule, 0, 3) == pytest.approx([0.0625, 0.1])


def test_cosine_falls_from_the_warmups_end_to_the_last_step():
    schedule = optim.Cosine(base_lr=0.2, total_steps=110, warmup_steps=10, final_share=0.1)
    expected = [0.2, 0.2 * (0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2), 0.11, 0.02, 0.02]
    assert rates(schedule, 10, 35, 60, 110, 500) == pytest.approx(expected)


def test_polynomial():
    schedule = optim.Polynomial(base_lr=1.0, total_steps=100, power=2)
    assert rates(schedule, 0, 50, 100) == pytest.approx([1, 0.25, 0])


def test_milestones_are_steps_or_shares_of_the_run():
    for milestones in ((50, 75), (0.5, 0.75)):
        schedule = optim.MultiStep(base_lr=1.0, total_steps=100, milestones=milestones)
        assert rates(schedule, 49, 50, 74, 75) == pytest.approx([1, 0.1, 0.1, 0.01])


def test_piecewise():
    schedule = optim.Piecewise(base_lr=2.0, total_steps=100, boundaries=(10, 50), shares=(1, 0.5, 0.25))
    assert rates(schedule, 9, 10, 50) == pytest.approx([2, 1, 0.5])


def test_the_rate_is_scaled_to_the_batch():
    schedule = optim.Constant(base_lr=0.1, total_steps=10, reference_batch=64, batch_size=16)
    assert schedule.scale == replace(schedule, scaling="linear").scale == 0.25
    assert replace(schedule, scaling="sqrt").scale == 0.5 and replace(schedule, scaling="none").scale == 1
    assert schedule(5) == pytest.approx(0.025)
    assert optim.Constant(base_lr=0.1, total_steps=10, batch_size=16).scale == 1


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: optim.Constant(base_lr=0.0, total_steps=1), "base_lr is 0.0; it must be positive"),
        (lambda: optim.Constant(base_lr=1.0, total_steps=1, warmup_steps=-1), "warmup_steps is -1"),
        (lambda: optim.Constant(base_lr=1.0, total_steps=1, reference_batch=0), "reference_batch is 0"),
        (
            lambda: optim.Constant(base_lr=1.0, total_steps=1, scaling="cubic"),
            "'cubic'; it must be one of linear, sqrt",
        ),
        (lambda: optim.MultiStep(base_lr=1.0, total_steps=1, milestones=(5, 5)), r"\[5, 5\]; they must be positive"),
        (
            lambda: optim.Piecewise(base_lr=1.0, total_steps=1, boundaries=(5,), shares=(1,)),
            "1 shares for 1 boundaries; it needs one more share",
        ),
    ],
)
def test_wrong_values_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()


def test_inverse_sqrt_falls_with_the_root_of_the_update_after_the_warm_up():
    schedule = optim.InverseSqrt(base_lr=2.0, total_steps=1000, warmup_steps=100)
    assert [schedule(step) for step in (49, 99, 399)] == pytest.approx([1.0, 2.0, 1.0])
    assert schedule(899) == pytest.approx(2.0 / 3)
    assert optim.InverseSqrt(base_lr=2.0, total_steps=9)(3) == pytest.approx(1.0)
