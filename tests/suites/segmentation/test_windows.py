"""A window slid over an image: every pixel is covered, overlaps add up, and the memory is that of a band."""

import tracemalloc

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import train
from suites.segmentation.labelling import Labelling
from suites.segmentation.processor import SegmentationProcessor
from suites.segmentation.sample import Sample
from suites.segmentation.windows import Windows, starts, stitched, window_batch
from suites.vision.augmentation.transforms import Normalize, Resize
from suites.vision.pictures.images import write_image
from tests.suites.segmentation.test_task import config_file, root  # noqa: F401  (fixtures)


def test_windows_cover_an_axis_and_end_with_it():
    assert starts(10, 4, 3) == [0, 3, 6]
    assert starts(11, 4, 3) == [0, 3, 6, 7]
    assert starts(4, 4, 3) == [0]
    with pytest.raises(AttributeValueError, match="stride <= window"):
        Labelling(stride=0)
    with pytest.raises(AttributeValueError, match="together of 1 or more"):
        Windows(8, 8, 0)


def processor(windows, transforms=()):
    return SegmentationProcessor([*transforms, Normalize()], ("a", "b", "c"), [(0, 0, 0)] * 3, windows)


def predicted(made, items, seed=0):
    """Labels by the processor's way, and by adding up random scores of windows over the whole image."""
    rng = np.random.default_rng(seed)
    sums = {}

    def outputs(batch):
        scores = rng.random((*batch["images"].shape[:3], 3), np.float32)
        for part, owner, (top, left) in zip(scores, batch["owners"], batch["corners"], strict=True):
            whole = sums.setdefault(int(owner), np.zeros((*batch["wholes"][int(owner)].size, 3), np.float32))
            whole[top : top + part.shape[0], left : left + part.shape[1]] += part
        return {"scores": scores}

    found = made.joined((outputs(batch), batch) for batch in made.batches(items))
    return found, [whole.argmax(-1) for whole in sums.values()]


@pytest.mark.parametrize(("size", "stride", "together"), [(8, 8, 1), (8, 5, 3), (16, 3, 100), (64, 64, 2), (7, 7, 4)])
def test_stitched_windows_are_the_sum_over_the_whole_image(size, stride, together):
    images = [np.zeros((h, w, 3), np.uint8) for h, w in ((23, 31), (8, 8), (5, 40), (16, 16))]
    found, expected = predicted(processor(Windows(size, stride, together)), images)
    assert len(found) == 4
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(own, other)


def test_labels_come_back_to_the_pixels_of_the_original():
    image = np.zeros((20, 30, 3), np.uint8)
    found, expected = predicted(processor(Windows(16, 8), [Resize((40, 60))]), [image])
    assert found[0].shape == (20, 30)
    np.testing.assert_array_equal(found[0], expected[0][1::2, 1::2])


def test_transforms_that_change_the_size_stand_before_normalize():
    windows = Windows(8, 8)
    sample = Sample(image=np.zeros((20, 30, 3), np.uint8), labels=np.zeros((20, 30), np.uint8))
    with pytest.raises(ConfigError, match="with windows, Normalize is the last"):
        list(windows.of(sample, [Normalize(), Resize(4)]))


def test_the_memory_of_stitching_is_that_of_a_band():
    """A column of 400 windows; all scores at once would be 64 MB."""
    windows = Windows(64, 32, 4)
    image = np.zeros((12832, 100, 3), np.uint8)
    made = processor(windows)
    tracemalloc.start()
    found = made.joined(
        ({"scores": np.ones((*batch["images"].shape[:3], 12), np.float32)}, batch) for batch in made.batches([image])
    )
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found[0].shape == (12832, 100)
    assert peak < 12832 * 100 * (1 + 2) + 12e6  # labels and their way back, a few windows


def test_a_batch_of_windows_has_the_truth_of_each_image():
    windows = Windows(16, 16)
    samples = [Sample(image=np.zeros((16, w, 3), np.uint8), labels=np.full((16, w), 1, np.uint8)) for w in (32, 48)]
    batch = window_batch([list(windows.of(sample, [Normalize()])) for sample in samples])
    assert batch["images"].shape == (5, 16, 16, 3) and batch["owners"].tolist() == [0, 0, 1, 1, 1]
    assert [truth.shape for truth in batch["truth"]] == [(16, 32), (16, 48)]
    labels = list(stitched([({"scores": np.ones((5, 16, 16, 2), np.float32)}, batch)]))
    assert [each.shape for each in labels] == [(16, 32), (16, 48)]


def test_a_run_and_its_export_label_images_of_any_size_in_windows(config_file, tmp_path):  # noqa: F811
    settings = ["inference={mode: slide, window: 32, stride: 16, flip: true, together: 3}", "runtime.steps=2"]
    train(config_file, settings, runs=tmp_path, name="slid")
    run, exported = tmp_path / "slid", tmp_path / "exported"
    assert export_run(run, exported).largest_difference < 1e-5
    rng = np.random.default_rng(0)
    for at, size in enumerate(((40, 70), (100, 33))):
        write_image(tmp_path / "in" / f"{at}.png", rng.integers(0, 256, (*size, 3), np.uint8))
    paths = sorted((tmp_path / "in").iterdir())
    for model in (open_model(run), open_model(exported)):
        report = infer_files(model, paths, tmp_path / "out")
        assert not report.skipped and len(report.pictures) == 2
    a, b = ([p.value for p in open_model(where)([str(path) for path in paths])] for where in (run, exported))
    assert [x.shape for x in a] == [(40, 70), (100, 33)]
    for own, other in zip(a, b, strict=True):
        assert (own != other).mean() < 1e-3  # a tie of scores may fall either way
