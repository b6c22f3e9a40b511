"""Evaluation looks at a picture as `infer` does: in the same views and windows, in the same bounds."""

from types import SimpleNamespace

import numpy as np
import pytest

from suites.detection.datasets import DetectionDataset
from suites.detection.sample import GroundTruth
from suites.detection.sample import Sample as DetectionSample
from suites.detection.task import DetectionTask
from suites.detection.views import Slices, Views
from suites.engine.config import Factory
from suites.engine.config.building import limited
from suites.engine.config.settings import DataSettings
from suites.engine.predict.evaluation import evaluate
from suites.engine.predict.items import predict_items
from suites.engine.reporting import Tally
from suites.segmentation.datasets import SegmentationDataset
from suites.segmentation.labelling import Labelling
from suites.segmentation.metrics import ConfusionMatrix
from suites.segmentation.sample import Sample
from suites.segmentation.task import SegmentationTask
from suites.vision.augmentation.transforms import Normalize, ResizeKeepRatio
from suites.vision.settings import EvalData
from suites.vision.structures import Boxes, Instances
from tests.suites.detection.test_views import OBJECTS, bright, picture
from tests.suites.test_served_alike import pictures, shades

MOST = 3
IMAGES = pictures()


class Spots(DetectionDataset):
    class_names = ("spot",)

    def __len__(self):
        return 3

    def __getitem__(self, index):
        objects = Instances(Boxes(OBJECTS.copy()), np.zeros(2, np.int64))
        return DetectionSample(image=picture(), image_id=index, instances=objects)

    def name_of(self, index):
        return f"{index}.png"

    def ground_truth(self):
        return GroundTruth(
            image_ids=np.arange(3),
            sizes=np.array([[80, 120]] * 3),
            offsets=np.arange(0, 7, 2),
            boxes=np.tile(OBJECTS, (3, 1)).astype(np.float64),
            classes=np.zeros(6, np.int64),
            difficult=np.zeros(6, bool),
            crowd=np.zeros(6, bool),
            areas=np.ones(6),
            class_names=("spot",),
            category_ids=np.array([1]),
        )


class Shades(SegmentationDataset):
    class_names = ("a", "b", "c")
    palette = ((0, 0, 0), (9, 9, 9), (99, 9, 9))

    def __init__(self):
        self.images = IMAGES

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        truth = (self.images[index][..., 1] // 30 % 3).astype(np.uint8)
        return Sample(image=self.images[index], labels=truth, image_id=index)

    def image(self, index):
        return self.images[index]

    def name_of(self, index):
        return f"{index}.png"


def detection(views):
    model = SimpleNamespace(
        needs_masks=False, landmarks=0, pose=None, takes_padding=True, size_multiple=32, num_classes=1
    )
    data = EvalData(dataset=Factory.of(Spots), transforms=[ResizeKeepRatio(160, 400), Normalize()], batch_size=2)
    return DetectionTask(model, eval=data, views=views)


def segmentation():
    model = SimpleNamespace(num_classes=3)
    data = EvalData(dataset=Factory.of(Shades), transforms=[Normalize()], batch_size=2)
    return SegmentationTask(model, [], eval=data, inference=Labelling("slide", 24, 16, together=MOST))


def evaluated(task, network, workers):
    rows = []

    def predict(arrays):
        rows.append(len(arrays["images"]))
        return network(arrays)

    tally = Tally()
    with limited(task.eval_loader(workers=workers), DataSettings(max_skipped=0.5), "nothing") as loader:
        return evaluate(task, predict, loader, tally=tally), rows, tally


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("views", [Views(flip=True, together=1), Views(slices=Slices(64, overlap=0.5), together=MOST)])
def test_a_detector_is_evaluated_with_few_views_at_a_time(views, workers):
    figures, rows, _ = evaluated(detection(views), bright, workers)
    assert figures["AR10"] == 1.0 and figures["AP50"] > 0.5  # parts that a slice cuts are found beside the objects
    assert max(rows) == views.together and len(rows) > len(Spots())


def test_a_picture_of_too_many_slices_is_left_out_and_counted(monkeypatch, caplog):
    monkeypatch.setattr("suites.detection.views._MOST_SLICES", 6)
    task = detection(Views(slices=Slices(64, overlap=0.5), together=MOST))
    large = DetectionSample(image=np.zeros((400, 400, 3), np.uint8), image_id=1, instances=Instances.none())
    own = Spots.__getitem__
    monkeypatch.setattr(Spots, "__getitem__", lambda self, index: large if index == 1 else own(self, index))
    figures, _, _ = evaluated(task, bright, 0)
    assert figures["skipped"] == 1 and "slices of 64; at most 6 are made" in caplog.text


@pytest.mark.parametrize("workers", [0, 1])
def test_a_segmenter_is_evaluated_with_few_windows_at_a_time_and_says_what_infer_says(workers):
    task, dataset = segmentation(), Shades()
    figures, rows, tally = evaluated(task, shades, workers)
    assert max(rows) == MOST
    matrix = ConfusionMatrix(dataset.class_names)
    for index, image in enumerate(dataset.images):
        (labels,) = predict_items(task.processor(), task.eval_inputs, shades, [image])
        matrix.add(dataset[index].labels, labels)
    assert figures == pytest.approx(matrix.result())
    _, _, counts = tally.state()["names"]["pixels by class"]
    assert sum(counts.values()) == sum(image[..., 0].size for image in dataset.images)
