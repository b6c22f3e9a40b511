"""What strangers' data sets hold: each gives the right result, or one error that says what, where and what to do."""

import base64
import json

import numpy as np
import pytest

from framework import tensor
from framework.errors import ConfigError, DataError
from framework.random import seed
from suites.detection.datasets import CocoDetection
from suites.detection.models.rcnn import MaskRCNN
from suites.detection.task import DetectionTask
from suites.detection.transforms import Normalize, RandomFlip, ResizeKeepRatio
from suites.engine.config import Factory
from suites.engine.contract.losses import Loss
from suites.vision.pictures.images import encode_image
from suites.vision.settings import EvalData, TrainData
from suites.vision.task import VisionTask
from tests.suites.detection.datasets.helpers import SIZE, image, write_coco
from tests.suites.detection.models.test_rcnn import tiny
from tests.suites.vision.pictures.test_images import with_exif_orientation

CMYK = (  # a JPEG of 8 x 8 pixels of (200, 30, 60), in cyan, magenta, yellow and black
    "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwAQCwwODAoQDg0OEhEQExgoGhgWFhgxIyUdKDozPTw5Mzg3QEhcTkBEV0U3OFBtUVdfYmdo"
    "Zz5NcXlwZHhcZWdj/8AAFAgACAAIBEMRAE0RAFkRAEsRAP/EABUAAQEAAAAAAAAAAAAAAAAAAAYH/8QAFBABAAAAAAAAAAAAAAAA"
    "AAAAAP/aAA4EQwBNAFkASwAAPwBIHDqgP//Z"
)
SQUARE = [[5, 6, 20, 6, 20, 30, 5, 30]]


def row(image_id=10, category=3, box=(5, 6, 15, 24), shape=SQUARE, **more):
    return {"image_id": image_id, "category_id": category, "bbox": list(box), "segmentation": shape, **more}


def task_of(root, rows, classes=2, **given):
    """A tiny Mask R-CNN on what `rows` say of two pictures of 40 x 60."""
    path = write_coco(root, rows, **given)
    dataset = Factory.of(CocoDetection, annotations=path, images=root / "images", masks=True)
    transforms = [RandomFlip(), ResizeKeepRatio(64, 128), Normalize()]
    train = TrainData(dataset=dataset, transforms=transforms, batch_size=2)
    evaluation = EvalData(dataset=dataset, transforms=transforms[1:], batch_size=1)
    return DetectionTask(tiny(MaskRCNN, classes=classes), train, evaluation)


def losses_of(task, loader=DetectionTask.train_loader):
    """The loss terms of the first batch, and whether all gradients are finite."""
    (batch, *_) = loader(task, seed=0, workers=0)
    seed(0)
    terms = task.train_step({name: tensor(batch[name]) for name in task.train_inputs})
    assert all(isinstance(term, Loss) for term in terms.values())
    values = {name: float(term.mean) for name, term in terms.items()}
    sum((term.mean for term in terms.values()), start=tensor(np.float32(0))).backward()
    gradients = [p.grad.numpy() for p in task.model.parameters() if p.grad is not None]
    assert gradients and all(np.isfinite(g).all() for g in gradients) and all(map(np.isfinite, values.values()))
    return values


def test_a_good_set_trains(tmp_path):
    assert losses_of(task_of(tmp_path, [row(), row(11, 7)]))["loss_mask"] > 0


@pytest.mark.parametrize(
    ("rows", "message"), [([], "no objects"), ([row(iscrowd=1)], r"its 1 objects are all crowd regions \(iscrowd\)")]
)
def test_a_set_that_teaches_nothing_is_refused_before_the_first_step(tmp_path, rows, message):
    with pytest.raises(DataError, match=f"data.train.dataset: nothing can be learnt from it: {message}"):
        task_of(tmp_path, rows).train_loader(seed=0, workers=0)


def test_a_batch_without_any_object_trains_background(tmp_path):
    values = losses_of(task_of(tmp_path, []), VisionTask.train_loader)
    assert values["loss_mask"] == values["loss_box"] == values["loss_rpn_box"] == 0 < values["loss_rpn_cls"]


def test_a_batch_of_crowd_regions_alone_trains_no_object(tmp_path):
    values = losses_of(task_of(tmp_path, [row(iscrowd=1), row(11, 7, iscrowd=1)]), VisionTask.train_loader)
    assert values["loss_mask"] == values["loss_box"] == 0


@pytest.mark.parametrize("box", [(5, 6, 1, 1), (59.5, 39.5, 0.5, 0.5), (-20, -20, 40, 40), (50, 30, 500, 500)], ids=str)
def test_boxes_of_a_pixel_and_across_the_border_train(tmp_path, box):
    losses_of(task_of(tmp_path, [row(box=box), row(11, 7)]))


def test_boxes_outside_of_their_picture_are_left_out_and_counted(tmp_path):
    task = task_of(tmp_path, [row(box=(100, 100, 5, 5)), row(11, 7)])
    losses_of(task)
    dataset = task.train_data.dataset()
    assert dataset.counts["dropped"] == 1 and len(dataset[0].instances) == 0


def test_category_ids_with_holes_become_labels_in_order(tmp_path):
    task = task_of(tmp_path, [row(category=90), row(11, 3)], categories=((90, "zebra"), (3, "cat")))
    dataset = task.train_data.dataset()
    assert dataset.class_names == ("cat", "zebra") and dataset[0].instances.classes.tolist() == [1]
    losses_of(task)


def test_more_classes_than_the_network_has_are_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"is 1 but data.train.dataset has 2 classes \(cat, dog\)"):
        task_of(tmp_path, [row()], classes=1).train_loader(seed=0, workers=0)


def test_a_label_of_no_category_is_refused_by_name(tmp_path):
    with pytest.raises(DataError, match="annotation 0 has category_id 81, which is not among the categories"):
        task_of(tmp_path, [row(category=81)]).train_loader(seed=0, workers=0)


@pytest.mark.parametrize(
    ("shape", "match"),
    [
        ([[1, 2, 3, 4]], "annotation 0: its segmentation has no polygon of three points or more"),
        ({"size": [40, 61], "counts": [2440]}, r"run-length code is of a picture of 61x40, but image 10 is 60x40"),
        ({"size": [40, 60], "counts": [1]}, "a run-length code covers 1 pixels; its picture of 60x40 has 2400"),
        (None, "neither a list of polygons nor a run-length code"),
    ],
)
def test_shapes_that_are_none_are_refused_by_name(tmp_path, shape, match):
    with pytest.raises(DataError, match=match):
        task_of(tmp_path, [row(shape=shape)]).train_loader(seed=0, workers=0)


def test_an_annotation_without_a_shape_is_refused_by_name(tmp_path):
    bare = row()
    del bare["segmentation"]
    with pytest.raises(DataError, match="annotation 0 has no 'segmentation'"):
        task_of(tmp_path, [bare]).train_loader(seed=0, workers=0)


def test_a_data_set_without_masks_is_refused_before_training(tmp_path):
    task = task_of(tmp_path, [row()])
    path = tmp_path / "annotations.json"
    task.train_data.dataset = Factory.of(CocoDetection, annotations=path, images=tmp_path / "images")
    with pytest.raises(ConfigError, match=r"MaskRCNN learns from masks, and this data set reads none; .*masks: true"):
        task.train_loader(seed=0, workers=0)


def test_a_polygon_that_crosses_itself_trains(tmp_path):
    bow = [[5, 6, 20, 30, 20, 6, 5, 30]]
    assert losses_of(task_of(tmp_path, [row(shape=bow), row(11, 7)]))["loss_mask"] > 0


def one_picture(root, size, file):
    """A set of one picture, of which the annotation states `size` (H, W)."""
    (root / "images").mkdir(parents=True)
    (root / "images" / "0.jpg").write_bytes(file)
    document = {
        "images": [{"id": 1, "file_name": "0.jpg", "height": size[0], "width": size[1]}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [row(1, 1, (0, 0, 10, size[0])) | {"id": 1, "iscrowd": 0}],
    }
    (root / "annotations.json").write_text(json.dumps(document))
    return CocoDetection(root / "annotations.json", root / "images")


def test_a_picture_of_one_row_goes_through_the_transforms(tmp_path):
    sample = one_picture(tmp_path, (1, 5000), encode_image(image(0, (1, 5000))))[0]
    seen = Normalize()(ResizeKeepRatio(64, 128)(sample, np.random.default_rng(0)), np.random.default_rng(0))
    assert seen.size == (1, 128) and np.isfinite(seen.image).all() and len(seen.instances) == 1


def test_a_cmyk_jpeg_is_read_as_rgb(tmp_path):
    sample = one_picture(tmp_path, (8, 8), base64.b64decode(CMYK))[0]
    np.testing.assert_allclose(sample.image, np.broadcast_to([200, 30, 60], (8, 8, 3)), atol=2)


def test_a_turned_photo_whose_annotation_is_not_turned_is_named(tmp_path):
    turned = with_exif_orientation(encode_image(image(), ".jpg"), 6)
    dataset = one_picture(tmp_path, SIZE, turned)
    with pytest.raises(DataError, match=r"the image is 40x60 but its annotation says 60x40 .*before its EXIF rotation"):
        dataset[0]


def test_a_data_set_of_one_picture_trains(tmp_path):
    task = task_of(tmp_path, [row()], images=1)
    assert len(task.train_loader(seed=0, workers=0)) == 1
    assert losses_of(task)["loss_mask"] > 0
