"""Colours change as their definitions say, mixup weighs boxes as it weighs pixels, normalisation is exact."""

import colorsys

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError, DTypeError
from suites.detection.transforms import ColorDistort, Mixup, Normalize
from suites.vision.augmentation.colour import hue_matrix
from tests.suites.detection.transforms.helpers import painted

OFF = {"brightness": (1, 1), "contrast": (1, 1), "saturation": (1, 1), "hue": (0, 0), "prob": 1.0}
# Half a level, and three coefficients that OpenCV rounds to 10 bits for uint8 images.
ROUNDING = 0.5 + 3 * 255 * 2**-11
LUMA = np.array([0.299, 0.587, 0.114])


def rng(seed=0):
    return np.random.default_rng(seed)


def distorted(image, **options):
    sample = painted([]).recoloured(image)
    return ColorDistort(**{**OFF, **options})(sample, rng()).image


@pytest.fixture
def image():
    return rng(1).integers(60, 180, (20, 30, 3)).astype(np.uint8)


def test_brightness_is_a_factor(image):
    np.testing.assert_allclose(distorted(image, brightness=(1.25, 1.25)), image * 1.25, atol=ROUNDING)


def test_contrast_is_a_factor_on_the_distance_from_the_mean_grey(image):
    grey = (image @ LUMA).mean()
    np.testing.assert_allclose(distorted(image, contrast=(0.5, 0.5)), grey + (image - grey) * 0.5, atol=ROUNDING)


def test_saturation_is_a_factor_on_the_distance_from_grey(image):
    grey = (image @ LUMA)[..., None]
    np.testing.assert_allclose(distorted(image, saturation=(0.0, 0.0)), np.repeat(grey, 3, 2), atol=ROUNDING)
    np.testing.assert_allclose(distorted(image, saturation=(1.3, 1.3)), grey + (image - grey) * 1.3, atol=ROUNDING)


def test_hue_turns_colours_and_keeps_luma(image):
    np.testing.assert_allclose(distorted(image, hue=(30, 30)) @ LUMA, image @ LUMA, atol=ROUNDING)
    turned = hue_matrix(30.0) @ [0.7, 0.4, 0.4]
    before, after = colorsys.rgb_to_yiq(0.7, 0.4, 0.4), colorsys.rgb_to_yiq(*turned)
    angle = np.degrees(np.arctan2(after[2], after[1]) - np.arctan2(before[2], before[1]))
    # colorsys rounds its coefficients to two digits.
    assert abs(angle - 30) < 1.0
    np.testing.assert_allclose(hue_matrix(360.0), np.eye(3), atol=1e-12)


def test_nothing_drawn_changes_nothing(image):
    sample = painted([]).recoloured(image)
    assert ColorDistort(prob=0.0)(sample, rng()) is sample
    np.testing.assert_array_equal(distorted(image), image)


def test_each_of_the_four_happens_as_often_as_asked():
    sample = painted([(0, 0, 40, 60)])
    unchanged = sum(ColorDistort(prob=0.5)(sample, rng(seed)) is sample for seed in range(400))
    assert 8 <= unchanged <= 42  # 400 / 2^4 = 25 +- 3.5 standard deviations of 4.8


def test_mixup_weighs_pixels_and_boxes_alike():
    sample, other = painted([(0, 0, 10, 10)], size=(20, 40)), painted([(5, 5, 20, 30)], size=(50, 30))
    out = Mixup().mix(sample, rng(2), lambda: other)
    weight = out.instances.scores[0]
    assert out.size == (50, 40) and 0 < weight < 1
    np.testing.assert_allclose(out.instances.scores, [weight, 1 - weight], rtol=1e-6)
    assert out.instances.boxes.array.tolist() == [[0, 0, 10, 10], [5, 5, 20, 30]]
    np.testing.assert_allclose(out.image[2, 2], 100 * weight, atol=0.51)
    np.testing.assert_allclose(out.image[25, 10], 100 * (1 - weight), atol=0.51)
    np.testing.assert_allclose(out.image[7, 7], 100, atol=0.51)
    assert (out.image_id, out.original_size) == (5, (20, 40))


def test_mixup_weights_follow_the_beta_distribution():
    sample = painted([(0, 0, 1, 1)], size=(2, 2))
    weights = [Mixup(1.5, 1.5).mix(sample, rng(seed), lambda: sample).instances.scores[0] for seed in range(800)]
    assert abs(np.mean(weights) - 0.5) < 0.04  # standard deviation 0.25 / sqrt(800) = 0.009
    assert abs(np.std(weights) - 0.25) < 0.02


def test_mixup_draws_nothing_when_it_does_not_mix():
    sample = painted([(0, 0, 1, 1)])
    assert Mixup(prob=0.0).mix(sample, rng(), lambda: pytest.fail("drawn for nothing")) is sample


def test_mixup_outside_of_training_is_an_error():
    with pytest.raises(ConfigError, match="Mixup: mixes samples of a training set"):
        Mixup()(painted([(0, 0, 1, 1)]), rng())


def test_normalize_matches_its_formula(image):
    sample = painted([]).recoloured(image)
    out = Normalize((0.1, 0.2, 0.3), (0.5, 0.25, 2.0))(sample, rng()).image
    expected = (image / 255.0 - [0.1, 0.2, 0.3]) / [0.5, 0.25, 2.0]
    assert out.dtype == np.float32
    # Two roundings of values up to 4: 2 * 4 * 2^-24.
    np.testing.assert_allclose(out, expected, atol=1e-6)


def test_normalize_gives_blue_green_red_where_weights_want_it():
    sample = painted([])
    plain, turned = (
        Normalize((0.1, 0.2, 0.3), (0.5, 0.25, 2.0), bgr=bgr)(sample, rng()).image for bgr in (False, True)
    )
    np.testing.assert_array_equal(turned, plain[..., ::-1])
    assert turned.flags.c_contiguous


def test_what_needs_uint8_says_so():
    sample = Normalize()(painted([]), rng())
    with pytest.raises(DTypeError, match="Normalize: the image is float32; it takes uint8, so use it once"):
        Normalize()(sample, rng())
    with pytest.raises(DTypeError, match="put ColorDistort before Normalize"):
        ColorDistort()(sample, rng())


def test_wrong_arguments_are_named():
    with pytest.raises(AttributeValueError, match=r"brightness is \[-1, 1\]"):
        ColorDistort(brightness=(-1, 1))
    with pytest.raises(AttributeValueError, match="alpha is 0 and beta 1"):
        Mixup(0, 1)
    with pytest.raises(AttributeValueError, match="each needs 3 numbers"):
        Normalize(std=(1, 1))
