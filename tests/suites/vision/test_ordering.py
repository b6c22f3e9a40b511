"""Orders draw rare classes as often as they say, by (seed, epoch) alone; batches of like shapes hold together."""

import numpy as np
import pytest

from framework.data import ShuffledSampler
from framework.errors import AttributeValueError, DataError
from suites.vision.ordering import ClassAware, LikeShapes, RepeatFactor


class Kinds:
    def __init__(self, kinds):
        self._kinds = [np.array(kind, np.int64) for kind in kinds]

    def __len__(self):
        return len(self._kinds)

    def classes_of_samples(self):
        return self._kinds


RARE = Kinds([[0]] * 90 + [[0, 1]] * 8 + [[2]] * 2)  # shares 0.98, 0.08, 0.02


def counts(sampler, epochs=400):
    return sum(np.bincount(sampler.order(epoch), minlength=len(sampler)) for epoch in range(epochs)) / epochs


def test_repeat_factors_are_those_of_the_paper():
    found = counts(RepeatFactor(threshold=0.32).sampler(RARE, 0))
    factor = np.repeat([1.0, 2.0, 4.0], [90, 8, 2])
    np.testing.assert_allclose(found, factor * 100 / factor.sum(), rtol=0.15)


def test_every_class_has_the_same_share():
    found = counts(ClassAware().sampler(RARE, 0))
    of_class = np.array([(found[:98]).sum(), found[90:98].sum(), found[98:].sum()])
    assert of_class[2] == pytest.approx(100 / 3, rel=0.1)
    assert found[90:98].mean() > 5 * found[:90].mean()


@pytest.mark.parametrize("order", [RepeatFactor(), ClassAware()])
def test_an_epoch_has_as_many_samples_as_the_set_and_is_drawn_by_seed_and_epoch(order):
    sampler = order.sampler(RARE, 3)
    assert len(sampler.order(0)) == len(sampler) == 100
    np.testing.assert_array_equal(sampler.order(5), order.sampler(RARE, 3).order(5))
    assert (sampler.order(5) != sampler.order(6)).any()


def test_samples_without_objects_count_once_or_not_at_all():
    some = Kinds([[0], []])
    assert set(RepeatFactor().sampler(some, 0).order(0)) == {0, 1}
    assert set(ClassAware().sampler(some, 0).order(0)) == {0}
    with pytest.raises(DataError, match="no sample has an object"):
        ClassAware().sampler(Kinds([[], []]), 0)
    with pytest.raises(AttributeValueError, match="threshold is 0"):
        RepeatFactor(0)


def test_batches_hold_like_shapes_and_every_sample_at_most_once():
    wide = np.arange(37) % 3 == 0
    batches = LikeShapes(ShuffledSampler(37, seed=1), wide, 4, seed=1)
    assert len(batches) == 9
    for epoch in range(3):
        found = np.stack([batches.batch(epoch, i) for i in range(9)])
        assert len(np.unique(found)) == 36
        mixed = [len(set(wide[batch])) > 1 for batch in found]
        assert sum(mixed) <= 1
    np.testing.assert_array_equal(batches.batch(0, 2), LikeShapes(ShuffledSampler(37, seed=1), wide, 4, 1).batch(0, 2))
