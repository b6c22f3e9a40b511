"""FID and KID against plain readings of their papers, and what they refuse."""

import numpy as np
import pytest
import scipy.linalg

from framework.errors import AttributeValueError, DataError
from suites.engine.config import Factory
from suites.generation.features import FeatureNet, Features
from suites.generation.metrics import GenerationMetric, Moments, frechet_distance, kernel_distances
from suites.vision.backbones.mobilenet_v2 import MobileNetV2

RNG = np.random.default_rng(0)
SMALL = Features(backbone=Factory.of(MobileNetV2, scale=0.25, out_strides=[8]), size=32, subsets=5, subset_size=6)


def moments(rows, parts=3):
    """Rows taken in by parts."""
    found = Moments(rows.shape[1])
    for part in np.array_split(rows, parts):
        found.add(part)
    return found


@pytest.mark.parametrize("count", [5, 400])
def test_fid_is_the_formula_of_its_paper(count):
    """By the root of the product itself, as in the authors' code; 5 rows of 8 numbers have a singular covariance."""
    a = RNG.normal(0.5, 1.0, (count, 8)).astype(np.float32)
    b = (RNG.normal(0.1, 1.0, (count, 8)) @ RNG.normal(0, 0.7, (8, 8))).astype(np.float32)
    wide = [rows.astype(np.float64) for rows in (a, b)]
    (m, s), (n, t) = ((rows.mean(0), np.cov(rows, rowvar=False)) for rows in wide)
    root = scipy.linalg.sqrtm(s @ t)
    expected = ((m - n) ** 2).sum() + np.trace(s + t) - 2 * np.trace(root).real
    # The root of a singular product is only known to the root of float64's rounding.
    assert frechet_distance(moments(a), moments(b)) == pytest.approx(expected, rel=1e-9 if count > 8 else 1e-5)
    assert frechet_distance(moments(a), moments(a)) == pytest.approx(0, abs=1e-6)


def test_fid_of_gaussians_on_one_axis_is_known():
    """|m - n|^2 + (s - t)^2 for standard deviations s and t."""
    a = np.array([[-1.0], [1.0]])  # variance 2
    b = np.array([[1.0], [7.0]])  # mean 4, variance 18
    assert frechet_distance(moments(a, 1), moments(b, 1)) == pytest.approx(16 + (np.sqrt(18) - np.sqrt(2)) ** 2)


def test_kid_is_the_unbiased_estimate_with_the_cubic_kernel():
    x, y = RNG.normal(0, 1, (6, 4)), RNG.normal(0.5, 1, (6, 4))

    def kernel(a, b):
        return (a @ b / 4 + 1) ** 3

    within = sum(kernel(p[i], p[j]) for p in (x, y) for i in range(6) for j in range(6) if i != j) / 30
    across = np.mean([[kernel(a, b) for b in y] for a in x])
    assert kernel_distances(x, y, SMALL) == pytest.approx([within - 2 * across])


def test_kid_of_two_samples_of_one_distribution_is_0_on_average_and_fid_is_not():
    found = [kernel_distances(*RNG.normal(0, 1, (2, 40, 4)), SMALL).mean() for _ in range(200)]
    spread = np.std(found) / np.sqrt(200)
    assert abs(np.mean(found)) < 4 * spread  # four standard errors
    assert np.mean([frechet_distance(*map(moments, RNG.normal(0, 1, (2, 40, 4)))) for _ in range(20)]) > 0.1


def test_subsets_depend_on_the_seed_alone():
    x, y = RNG.normal(0, 1, (2, 30, 4))
    first = kernel_distances(x, y, SMALL)
    np.testing.assert_array_equal(first, kernel_distances(x, y, SMALL))
    assert len(first) == 5 and np.std(first) > 0
    other = Features(backbone=SMALL.backbone, size=32, subsets=5, subset_size=6, seed=1)
    assert not np.array_equal(first, kernel_distances(x, y, other))


def batch(count, first=0, **more):
    images = RNG.uniform(-1, 1, (count, 16, 16, 3)).astype(np.float32)
    numbers = np.arange(first, first + count)
    return {
        "images": images, "numbers": numbers, "counts": np.ones((count, 2), bool),
        "name": [f"{n}.png" for n in numbers], **more,
    }  # fmt: skip


def test_figures_of_the_same_pictures_are_0_and_of_others_are_not():
    network = FeatureNet(SMALL)
    same, other = (GenerationMetric(network, SMALL) for _ in range(2))
    given = batch(8)
    same.update({"made": given["images"]}, given)
    other.update({"made": np.full_like(given["images"], 1.0)}, given)
    assert same.result()["FID"] == pytest.approx(0, abs=1e-6) and other.result()["FID"] > 1e-3
    assert "random weights" in same.report() and "8 drawn and 8 real pictures" in same.report()


def test_pictures_that_were_shown_twice_to_fill_a_batch_do_not_count():
    network = FeatureNet(SMALL)
    whole, filled = (GenerationMetric(network, SMALL) for _ in range(2))
    given = batch(6, others=RNG.uniform(-1, 1, (6, 16, 16, 3)).astype(np.float32))
    given["counts"][4:, 1] = False
    made = RNG.uniform(-1, 1, (6, 16, 16, 3)).astype(np.float32)
    filled.update({"made": made}, given)
    assert filled.report().startswith("FID and KID are of 6 drawn and 4 real pictures")
    whole.update({"made": made, "back": given["images"] + 0.5}, given)
    assert whole.result()["cycle_error"] == pytest.approx(0.5, abs=1e-6)
    assert filled.result()["L1"] == pytest.approx(np.abs(made - given["others"]).mean(), rel=1e-5)


def test_features_of_another_network_and_too_few_pictures_are_refused():
    metric = GenerationMetric(FeatureNet(SMALL), SMALL)
    larger = Features(backbone=SMALL.backbone, size=64)
    with pytest.raises(DataError, match=r"features of .* at 64 pixels cannot be joined with those of .* at 32 pixels"):
        metric.merge(GenerationMetric(FeatureNet(larger), larger).state())
    given = batch(1)
    metric.update({"made": given["images"]}, given)
    with pytest.raises(DataError, match=r"FID: 1 pictures were compared; a covariance needs 2"):
        metric.result()
    with pytest.raises(AttributeValueError, match="features: size is 8"):
        Features(size=8)
