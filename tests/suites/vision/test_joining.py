"""Joined data sets give every sample of their parts, and `Shares` draws from each as often as it says."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.classification.datasets import Digits
from suites.classification.datasets import Joined as JoinedImages
from suites.detection.datasets import CocoDetection, VocDetection
from suites.detection.datasets import Joined as JoinedDetection
from suites.engine.contract.inspection import Inspected, named_parts, shared_samples
from suites.segmentation.datasets import ImageLabelPairs
from suites.segmentation.datasets import Joined as JoinedSegmentation
from suites.segmentation.inspection import SegmentationInspector
from suites.vision.ordering import Shares
from suites.vision.pictures.images import write_image
from tests.suites.detection.datasets.helpers import write_coco, write_voc

BOX = (5, 6, 30, 35)


@pytest.fixture
def voc(tmp_path):
    return VocDetection(write_voc(tmp_path / "voc", {"a": [("cat", BOX, 0)], "b": []}), classes=["cat", "dog"])


@pytest.fixture
def coco(tmp_path):
    found = [{"image_id": 11, "category_id": 7, "bbox": [1, 2, 10, 12]} for _ in range(2)]
    annotations = write_coco(tmp_path / "coco", found)
    return CocoDetection(annotations, tmp_path / "coco" / "images", classes=["cat", "dog"])


def test_detection_sets_are_joined_with_their_ground_truth(voc, coco):
    both = JoinedDetection([voc, coco, voc])
    assert len(both) == 6 and both.class_names == ("cat", "dog")
    truth = both.ground_truth()
    assert truth.image_ids.tolist() == list(range(6))
    assert truth.offsets.tolist() == [0, 1, 1, 1, 3, 4, 4] and truth.classes.tolist() == [0, 1, 1, 0]
    for index in range(6):
        sample = both[index]
        rows = slice(truth.offsets[index], truth.offsets[index + 1])
        assert sample.image_id == index
        np.testing.assert_allclose(sample.instances.boxes.array, truth.boxes[rows])
        np.testing.assert_array_equal(sample.instances.classes, truth.classes[rows])
    assert both.name_of(4) == voc.name_of(0) and both.file_of(3) == coco.file_of(1)
    np.testing.assert_array_equal(both[2].image, coco[0].image)
    np.testing.assert_array_equal(both[-1].image, voc[1].image)
    with pytest.raises(IndexError):
        both[6]


def test_a_joined_set_has_masks_only_where_every_part_has_some(tmp_path, voc):
    square = {"image_id": 10, "category_id": 3, "bbox": [1, 2, 10, 12], "segmentation": [[1, 2, 11, 2, 11, 14, 1, 14]]}
    annotations = write_coco(tmp_path / "masks", [square])
    shapes = CocoDetection(annotations, tmp_path / "masks" / "images", classes=["cat", "dog"], masks=True)
    assert JoinedDetection([shapes, shapes]).has_masks
    assert len(JoinedDetection([shapes, shapes]).ground_truth().masks) == 4
    mixed = JoinedDetection([shapes, voc])
    assert not mixed.has_masks and mixed.ground_truth().masks is None and mixed[0].instances.masks is None


def test_parts_with_other_classes_are_refused(tmp_path, voc):
    other = VocDetection(write_voc(tmp_path / "other", {"a": [("dog", BOX, 0)]}), classes=["dog", "cat"])
    with pytest.raises(ConfigError, match="part 1 has the classes dog, cat but part 0 has cat, dog; give all parts"):
        JoinedDetection([voc, other])
    with pytest.raises(ConfigError, match="parts is empty"):
        JoinedDetection([])


def test_classification_sets_are_joined_with_their_labels():
    digits = Digits("train"), Digits("val")
    both = JoinedImages(list(digits))
    np.testing.assert_array_equal(both.labels, np.concatenate([part.labels for part in digits]))
    np.testing.assert_array_equal(both.class_counts(), sum(part.class_counts() for part in digits))
    at = len(digits[0]) + 3
    np.testing.assert_array_equal(both.load(at).pixels, digits[1].load(3).pixels)


def pairs(root, count, labels=2):
    rng = np.random.default_rng(count)
    for at in range(count):
        write_image(root / "images" / f"{at}.png", rng.integers(0, 256, (8, 9, 3), np.uint8))
        write_image(root / "labels" / f"{at}.png", rng.integers(0, labels, (8, 9), np.uint8))
    return ImageLabelPairs(root, "images", "labels", classes=["a", "b"])


def test_segmentation_sets_are_joined_and_inspected_part_by_part(tmp_path):
    parts = [pairs(tmp_path / "one", 2), pairs(tmp_path / "two", 3)]
    both = JoinedSegmentation(parts)
    assert [sample.image_id for sample in both] == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(both[3].labels, parts[1][1].labels)
    np.testing.assert_array_equal(both.image(3), parts[1].image(1))
    inspector = SegmentationInspector()
    assert list(named_parts("train", inspector.parts(both))) == ["train part 0", "train part 1"]
    assert list(named_parts("eval", inspector.parts(parts[0]))) == ["eval"]


def test_copies_between_parts_of_a_set_are_a_warning_and_between_sets_an_error():
    one, two = Inspected([], [], ["x", "y"], ["a", "b"]), Inspected([], [], ["y"], ["c"])
    (same,) = shared_samples({"train": {"train part 0": one, "train part 1": two}})
    (other,) = shared_samples({"train": {"train part 0": one}, "eval": {"eval": two}})
    assert (same.level, other.level) == ("warning", "error")


def test_shares_draw_from_each_part_as_often_as_they_say(voc, coco):
    both = JoinedDetection([voc] * 9 + [coco])  # 18 samples and 2 more
    sampler = Shares([1] * 9 + [9]).sampler(both, seed=3)
    assert len(sampler.order(0)) == len(both)
    drawn = np.concatenate([sampler.order(epoch) for epoch in range(400)])
    assert np.mean(drawn >= 18) == pytest.approx(0.5, abs=0.02)  # 8,000 draws: 3 deviations are 0.017
    np.testing.assert_array_equal(sampler.order(7), Shares([1] * 9 + [9]).sampler(both, seed=3).order(7))
    with pytest.raises(ConfigError, match="2 weights for 10 parts"):
        Shares([1, 2]).sampler(both, 0)
    with pytest.raises(ConfigError, match="VocDetection has no parts"):
        Shares([1]).sampler(voc, 0)
    with pytest.raises(AttributeValueError, match="must be above 0"):
        Shares([1, 0])
