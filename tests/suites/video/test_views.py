"""Tests over several clips and crops: the parts are where they should be, probabilities are averaged by hand alike."""

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import DataError
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.video.crops import TenCrop, ThreeCrop
from suites.video.processor import VideoProcessor
from suites.vision.augmentation.transforms import Normalize
from suites.vision.recognition.sample import LabelledClip, collate
from tests.suites.video.helpers import write_frame_folders
from tests.suites.video.test_task import CONFIG

RNG = np.random.default_rng(0)


def clip(height=6, width=10, frames=2, views=1):
    pixels = RNG.integers(0, 256, (views * frames, height, width, 3), np.uint8)
    return LabelledClip(frames=pixels, views=views)


def test_three_crops_lie_along_the_long_side():
    wide = clip()
    found = ThreeCrop(4)(wide, RNG)
    assert found.views == 3 and found.array.shape == (3, 2, 4, 4, 3)
    for part, left in zip(found.array, (0, 3, 6), strict=True):
        np.testing.assert_array_equal(part, wide.frames[:, 1:5, left : left + 4])
    high = clip(10, 6)
    for part, top in zip(ThreeCrop(4)(high, RNG).array, (0, 3, 6), strict=True):
        np.testing.assert_array_equal(part, high.frames[:, top : top + 4, 1:5])


def test_ten_crops_are_corners_middle_and_their_mirrors():
    sample = clip()
    found = TenCrop(4)(sample, RNG).array
    assert found.shape == (10, 2, 4, 4, 3)
    for pair, (top, left) in enumerate([(0, 0), (0, 6), (2, 0), (2, 6), (1, 3)]):
        part = sample.frames[:, top : top + 4, left : left + 4]
        np.testing.assert_array_equal(found[2 * pair], part)
        np.testing.assert_array_equal(found[2 * pair + 1], part[:, :, ::-1])


def test_crops_of_several_clips_keep_each_clip_whole():
    sample = clip(views=2)
    found = ThreeCrop(4)(sample, RNG)
    assert found.views == 6
    np.testing.assert_array_equal(found.array[3], sample.frames[2:, 1:5, 3:7])  # the middle of the second clip


def test_frames_smaller_than_the_crop_are_refused():
    with pytest.raises(DataError, match=r"TenCrop: .* is 6x10 .*, smaller than the crop 8x8"):
        TenCrop(8)(clip(), RNG)


@pytest.mark.parametrize("loss", ["{type: CrossEntropy}", "{type: BinaryCrossEntropy}"])
def test_probabilities_are_averaged_over_clips_and_crops(tmp_path, loss):
    from suites.engine.config import load_config
    from suites.engine.config.building import build_task

    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    task = build_task(load_config(path))
    if "Binary" in loss:
        from suites.vision.recognition.losses import BinaryCrossEntropy

        task._loss = BinaryCrossEntropy()
    task.model.eval()
    views = RNG.standard_normal((2, 3, 4, 32, 32, 3)).astype(np.float32)
    targets = np.eye(3, dtype=np.float32)[:2]
    with no_grad():
        found = task.eval_step({"clips": from_numpy(views)})["scores"].numpy()
        logits = task.model(from_numpy(views.reshape(6, 4, 32, 32, 3))).numpy().astype(np.float64)
        lost = task.train_step({"clips": from_numpy(views), "targets": from_numpy(targets)})
    if "Binary" in loss:
        by_hand = (1 / (1 + np.exp(-logits))).reshape(2, 3, 3).mean(axis=1)
        cost = -(targets * np.log(by_hand) + (1 - targets) * np.log(1 - by_hand)).mean()
    else:
        shares = np.exp(logits - logits.max(axis=1, keepdims=True))
        by_hand = (shares / shares.sum(axis=1, keepdims=True)).reshape(2, 3, 3).mean(axis=1)
        cost = -(targets * np.log(by_hand)).sum(axis=1).mean()
    # float32 logits of order 1, whose roundings are 1e-7, through a logarithm and back.
    np.testing.assert_allclose(found, by_hand, atol=2e-6)
    # A mean of 6 of these terms, and 1 - p loses a few digits of p near 1.
    assert abs(float(lost["cross_entropy"].mean.numpy()) - cost) < 1e-5


def test_a_run_evaluates_and_predicts_over_views_as_its_export_does(tmp_path):
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    views = [
        "data.eval.dataset.segments={count: 3, test_clips: 2}",
        "data.eval.transforms=[{type: ResizeShort, size: 32}, {type: ThreeCrop, size: 32}, {type: Normalize}]",
        "runtime.steps=2",
    ]
    train(path, views, runs=tmp_path, name="run")
    assert 0 <= evaluate_weights(tmp_path / "run")["top1"] <= 1
    report = export_run(tmp_path / "run", tmp_path / "export")
    assert report.largest_difference < 1e-4 and not report.fixed_shapes
    one = open_model(tmp_path / "run")(str(tmp_path / "set" / "left" / "00"))[0].value
    two = open_model(tmp_path / "export")(str(tmp_path / "set" / "left" / "00"))[0].value
    assert [found["class"] for found in one] == [found["class"] for found in two]
    np.testing.assert_allclose([f["score"] for f in one], [f["score"] for f in two], atol=1e-4)


def test_a_processor_makes_the_views_of_a_video(tmp_path):
    processor = VideoProcessor([ThreeCrop(24), Normalize()], ["a"], (2, 1, 1, 2))
    item = processor.read(write_frame_folders(tmp_path, per_class=1) / "left" / "00")
    assert item.shape == (4, 32, 48, 3)
    assert processor.prepare([item])["clips"].shape == (1, 6, 2, 24, 24, 3)
    with pytest.raises(DataError, match="has 3 frames, which is no multiple of the 2 test clips"):
        processor.prepare([item[:3]])


def test_a_batch_of_other_views_is_refused():
    with pytest.raises(DataError, match="collate"):
        collate([clip(views=2), clip()], 1)
