"""Views of a picture find their way back to it, and what several of them find is one object."""

import weakref

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.detection.processor import DetectionProcessor
from suites.detection.sample import Sample
from suites.detection.views import Slices, Views
from suites.engine.predict.items import predict_items
from suites.vision.augmentation.transforms import Normalize, ResizeKeepRatio
from suites.vision.structures import Boxes, Instances

OBJECTS = np.array([[10, 12, 26, 30], [90, 60, 118, 78]], np.float32)  # on a picture of 80 x 120
MEAN = np.array([0.485, 0.456, 0.406], np.float32)


def picture():
    image = np.zeros((80, 120, 3), np.uint8)
    for x1, y1, x2, y2 in OBJECTS.astype(int):
        image[y1:y2, x1:x2] = 255
    return image


def bright(arrays):
    """Finds the light parts of each image, as a perfect detector would."""
    import cv2

    n, most = len(arrays["images"]), 4
    boxes, counts = np.zeros((n, most, 4), np.float32), np.zeros(n, np.int32)
    for i, image in enumerate(arrays["images"]):
        light = (image[..., 0] > 0.5).astype(np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(light)
        for x, y, w, h, area in stats[1:]:
            if area > 9:
                boxes[i, counts[i]] = x, y, x + w, y + h
                counts[i] += 1
    scores = np.full((n, most), 0.9, np.float32)
    return {"boxes": boxes, "scores": scores, "classes": np.zeros((n, most), np.int64), "counts": counts}


@pytest.mark.parametrize(
    "views",
    [
        Views(flip=True),
        Views(scales=(1.0, 1.5), together=1),
        Views(slices=Slices(64, overlap=0.5)),
        Views(flip=True, scales=(0.75, 1.0), slices=Slices(64, overlap=0.5, whole=False), together=3),
    ],
)
@pytest.mark.parametrize("padded_to", [None, 32])
def test_each_object_is_found_once_where_it_is(views, padded_to):
    transforms = [ResizeKeepRatio(160, 400), Normalize()]
    processor = DetectionProcessor(transforms, ("spot",), 0.1, padded_to, views)
    processor = DetectionProcessor.from_metadata(processor.metadata())
    (found,) = predict_items(processor, ("images",), bright, [picture()])
    boxes = np.array(sorted(row["box"] for row in found))
    whole = [box for box in boxes if np.abs(OBJECTS - box).max(axis=1).min() < 1.5]
    assert len(whole) == 2  # parts of an object that a slice cuts may remain beside it


def test_outputs_of_the_views_before_are_not_held():
    """So a picture of many slices needs no more memory than those that are predicted on together."""
    processor = DetectionProcessor([Normalize()], ("spot",), 0.1, None, Views(slices=Slices(32, overlap=0), together=2))
    before, held = [], []

    def watched(arrays):
        held.append(sum(one() is not None for one in before))
        outputs = bright(arrays)
        before.extend(weakref.ref(array) for array in (*arrays.values(), *outputs.values()))
        return outputs

    predict_items(processor, ("images",), watched, [picture()])
    assert len(held) > 5 and max(held) <= len(before) // len(held)  # at most those of one call


def test_slices_cover_the_picture_and_overlap():
    sample = Sample(image=np.zeros((100, 250, 3), np.uint8))
    parts = list(Slices(100, overlap=0.2, whole=False).of(sample))
    assert [part.placement.bx for part in parts] == [0, -75, -150] and all(part.size == (100, 100) for part in parts)
    assert list(Slices(300).of(sample)) == [sample]
    with pytest.raises(DataError, match=r"a picture of 250x100 makes .* slices of 1; at most 4096 are made"):
        list(Slices(1, overlap=0).of(sample))


def test_objects_of_different_classes_do_not_hide_each_other():
    same = Boxes(np.array([[0, 0, 10, 10], [0, 0, 10, 10], [1, 0, 10, 10]], np.float32))
    found = Views().merged([Instances(same, np.array([0, 1, 0]), np.array([0.5, 0.6, 0.7]))])
    assert found.scores.tolist() == [0.7, 0.6] and found.classes.tolist() == [0, 1]
    assert len(Views().merged([Instances.none(), Instances.none()])) == 0
    assert len(Views(keep=1).merged([Instances(same, np.array([0, 1, 0]), np.array([0.5, 0.6, 0.7]))])) == 1


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Slices(0), "size is 0"),
        (lambda: Slices(5, overlap=1.0), "overlap 1.0"),
        (lambda: Views(scales=()), r"scales are \[\]"),
        (lambda: Views(iou=0), "iou 0"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
