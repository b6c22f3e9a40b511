"""PaDiM and PatchCore against plain readings of their papers in NumPy."""

import cv2
import numpy as np
import pytest

from framework import no_grad, tensor
from framework.errors import AttributeValueError, DataError
from framework.nn import init
from suites.anomaly.models.base import spread
from suites.anomaly.models.padim import Gaussians, PaDiM
from suites.anomaly.models.patchcore import Coreset, PatchCore, nearest, spread_out
from suites.vision.backbones import MobileNetV2

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(3, 64, 64, 3)).astype(np.float32)


def net(kind, strides, **more):
    model = kind(MobileNetV2(scale=0.25, out_strides=strides), size=64, **more)
    init.initialize(model, 0)
    return model.eval()


def given(model, arrays):
    for name, array in arrays.items():
        getattr(model, name).set(tensor(array))
    return model


def call(function, *arrays):
    with no_grad():
        found = function(*(tensor(array) for array in arrays))
    return found


@pytest.mark.parametrize("sigma", [0.0, 4.0])
def test_heat_maps_are_enlarged_and_smoothed_as_opencv_does(sigma):
    coarse = RNG.random((8, 6)).astype(np.float32)
    found = spread(8, 64, sigma) @ coarse @ spread(6, 48, sigma).T
    expected = cv2.resize(coarse, (48, 64), interpolation=cv2.INTER_LINEAR)
    if sigma:
        expected = cv2.GaussianBlur(expected, (33, 33), sigma, borderType=cv2.BORDER_REFLECT_101)
    assert found == pytest.approx(expected, abs=1e-5)


def test_gaussians_are_numpys_mean_and_covariance_however_pictures_come():
    rows = RNG.normal(2.0, 3.0, (13, 5, 4)).astype(np.float32)
    fit = Gaussians(5, 4, 0.01)
    for part in (rows[:1], rows[1:1], rows[1:9], rows[9:]):
        fit.add(part)
    found = fit.settle()
    for place in range(5):
        covariance = np.cov(rows[:, place].astype(np.float64), rowvar=False) + 0.01 * np.eye(4)
        white = found["whitening"][place].astype(np.float64)
        assert white.T @ white == pytest.approx(np.linalg.inv(covariance), rel=1e-4, abs=1e-6)
        assert found["mean"][place] == pytest.approx(rows[:, place].mean(axis=0), abs=1e-5)


def test_padim_gives_mahalanobis_distances_of_the_chosen_channels_of_all_maps():
    model = net(PaDiM, [4, 8, 16], dimensions=7, smooth=0.0)
    rows = call(model.embed, IMAGES).numpy()
    maps = [found.numpy() for found in call(model.backbone, IMAGES)]
    joined = np.concatenate(
        [found.repeat(16 // found.shape[1], 1).repeat(16 // found.shape[2], 2) for found in maps], 3
    )
    chosen = model.chosen.numpy()
    assert len(set(chosen.tolist())) == 7
    assert np.array_equal(rows.reshape(3, 16, 16, 7), joined[..., chosen])
    fit = model.fit(0)
    fit.add(rows)
    given(model, fit.settle())
    found = call(model, IMAGES * 1.1)
    asked = call(model.embed, IMAGES * 1.1).numpy().astype(np.float64)
    expected = np.zeros((3, 256))
    for place in range(256):
        inverse = np.linalg.inv(np.cov(rows[:, place].astype(np.float64), rowvar=False) + 0.01 * np.eye(7))
        away = asked[:, place] - rows[:, place].astype(np.float64).mean(axis=0)
        expected[:, place] = np.sqrt(np.einsum("nd,de,ne->n", away, inverse, away))
    enlarged = np.stack([cv2.resize(row.reshape(16, 16), (64, 64)) for row in expected])
    assert found["maps"].numpy() == pytest.approx(enlarged, rel=1e-3, abs=1e-4)
    assert found["scores"].numpy() == pytest.approx(found["maps"].numpy().max(axis=(1, 2)))


def test_patchcore_gives_the_nearest_distance_and_the_score_of_equation_7():
    model = net(PatchCore, [8, 16], bank=50, neighbours=4, smooth=0.0)
    rows = call(model.embed, IMAGES).numpy()
    assert rows.shape == (3, 64, sum(model.backbone.channels))
    fit = model.fit(0)
    fit.add(rows)
    arrays = fit.settle()
    given(model, arrays)
    asked = call(model.embed, IMAGES[::-1] * 1.3).numpy()
    scores, near = (found.numpy() for found in call(model.compare, asked))
    bank = arrays["bank"].astype(np.float64)
    apart = np.linalg.norm(asked[:, :, None].astype(np.float64) - bank, axis=3)
    assert near == pytest.approx(apart.min(axis=2), rel=1e-5)
    assert call(model.compare, bank[None, :5].astype(np.float32))[1].numpy().tolist() == [[0.0] * 5]  # exactly
    for picture in range(3):
        far = int(apart[picture].min(axis=1).argmax())
        closest = int(apart[picture, far].argmin())
        around = np.argsort(np.linalg.norm(bank - bank[closest], axis=1), kind="stable")[:4]
        raised = np.exp(apart[picture, far])
        expected = (1 - raised[closest] / raised[around].sum()) * apart[picture, far, closest]
        assert scores[picture] == pytest.approx(expected, rel=1e-3)


def test_a_position_is_the_mean_of_its_neighbourhood_on_each_map():
    model = net(PatchCore, [8, 16], bank=9)
    rows = call(model.embed, IMAGES).numpy().reshape(3, 8, 8, -1)
    fine, coarse = (found.numpy() for found in call(model.backbone, IMAGES))
    channels = fine.shape[3]
    assert rows[0, 3, 4, :channels] == pytest.approx(fine[0, 2:5, 3:6].mean(axis=(0, 1)), abs=1e-5)
    means = np.pad(coarse[0], ((1, 1), (1, 1), (0, 0)))
    means = np.stack([[means[i : i + 3, j : j + 3].mean(axis=(0, 1)) for j in range(4)] for i in range(4)])
    assert rows[0, ..., channels:] == pytest.approx(cv2.resize(means, (8, 8)), abs=1e-5)


def test_the_coreset_is_the_greedy_one():
    rows = RNG.normal(size=(60, 5)).astype(np.float32)
    chosen = spread_out(rows, 12, 3)
    apart = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    for count in range(1, 12):
        left = apart[:, chosen[:count]].min(axis=1)
        assert left[chosen[count]] == pytest.approx(left.max(), rel=1e-4)
    assert np.array_equal(spread_out(rows, 60, 0), np.arange(60))
    assert len(spread_out(np.repeat(np.eye(3, dtype=np.float32), 5, axis=0), 10, 0)) == 3


def test_neighbours_of_the_bank_begin_with_each_itself():
    rows = RNG.normal(size=(1100, 3)).astype(np.float32)
    found = nearest(rows, 1102, 4)
    apart = np.linalg.norm(rows[:, None] - rows[None, :], axis=2)
    assert np.array_equal(found[:1100, 0], np.arange(1100)) and not found[1100:].any()
    assert np.array_equal(found[:50], np.argsort(apart[:50], axis=1, kind="stable")[:, :4])
    assert nearest(rows[:2], 2, 4).tolist() == [[0, 1, 1, 1], [1, 0, 0, 0]]


def test_of_more_vectors_than_are_gathered_each_is_as_likely():
    counts = np.zeros(40)
    for seed in range(600):
        fit = Coreset(4, 1, 10, 1, 128, seed)
        for first in range(0, 40, 8):
            fit.add(np.arange(first, first + 8, dtype=np.float32).reshape(1, 8, 1))
        kept = fit.state_dict()["rows"][:, 0].astype(int)
        assert len(set(kept.tolist())) == 10
        counts[kept] += 1
    assert counts == pytest.approx(np.full(40, 150), abs=5 * np.sqrt(600 * 0.25 * 0.75))


def test_a_bank_with_room_left_is_compared_with_what_it_has():
    fit = Coreset(8, 2, 100, 2, 128, 0)
    fit.add(np.array([[[0.0, 0.0], [3.0, 4.0]]], np.float32))
    model = net(PatchCore, [16], bank=8, neighbours=2)
    model._width = 2
    for name, array in fit.settle().items():
        model.register_buffer(name, array)
    _, near = call(model.compare, np.array([[[0.0, 1.0], [6.0, 8.0]]], np.float32))
    assert near.numpy() == pytest.approx(np.array([[1.0, 5.0]]), abs=1e-5)


def test_vectors_are_projected_before_they_are_chosen_and_kept_whole():
    rows = RNG.normal(size=(2, 40, 300)).astype(np.float32)
    fit = Coreset(10, 300, 80, 3, 16, 0)
    fit.add(rows)
    bank = fit.settle()["bank"]
    assert all((np.abs(rows.reshape(-1, 300) - row).max(axis=1) == 0).any() for row in bank)


def test_too_few_pictures_and_wrong_sizes_are_said():
    fit = Gaussians(2, 3, 0.01)
    fit.add(np.ones((1, 2, 3), np.float32))
    with pytest.raises(DataError, match="1 good pictures were fitted; a covariance needs 2"):
        fit.settle()
    with pytest.raises(DataError, match="no good picture was fitted"):
        Coreset(4, 1, 10, 1, 128, 0).settle()
    with pytest.raises(AttributeValueError, match="size is 60x60; both must be multiples of 16"):
        PatchCore(MobileNetV2(out_strides=[8, 16]), size=60)
    with pytest.raises(AttributeValueError, match="neighbours is 9, bank 4"):
        net(PatchCore, [8, 16], bank=4)
    for wrong in ({"dimensions": 0}, {"epsilon": 0.0}, {"smooth": -1.0}):
        with pytest.raises(AttributeValueError):
            net(PaDiM, [8, 16], **wrong)
    assert "1,024 vectors of" in net(PatchCore, [8, 16]).memory(16)
    assert "256 positions of 7 numbers: 0.1 MB" in net(PaDiM, [4], dimensions=7).memory(3)
    assert not any(parameter.requires_grad for parameter in net(PaDiM, [8]).parameters())
