"""A small network learns a few people by heart, and predicts through the same path; its forms are the papers'."""

import json
import re

import numpy as np
import pytest

from framework import from_numpy, no_grad, program
from framework.errors import AttributeValueError, ConfigError, PaddockError
from framework.nn import init
from suites.keypoints.datasets import CocoKeypoints
from suites.keypoints.models.heatmaps import HeatmapPose
from suites.keypoints.processor import PoseProcessor
from suites.keypoints.task import KeypointsTask, Targets
from suites.keypoints.transforms import Normalize, ObjectCrop
from suites.vision.backbones.hrnet import HRNet
from suites.vision.backbones.resnet import ResNet
from suites.vision.settings import EvalData, TrainData
from tests.suites.keypoints.helpers import coco, person
from tests.suites.learning import losses_by_heart


def task_of(root, model=None, flip=False, size=64):
    data = CocoKeypoints(*coco(root, [person(k) for k in range(2)]))
    transforms = [ObjectCrop(size), Normalize()]
    train = TrainData(dataset=data, transforms=transforms, batch_size=2)
    held = EvalData(dataset=data, transforms=transforms, batch_size=2)
    small = model or HeatmapPose(ResNet(18, width=8, out_strides=(8,)), deconvs=1, width=16)
    return KeypointsTask(small, train, held, targets=Targets(1.5, flip))


def test_a_network_learns_people_by_heart(tmp_path):
    task = task_of(tmp_path)
    init.initialize(task.model, 0)
    (batch,) = task.train_loader(seed=0, workers=0)
    losses = losses_by_heart(task, batch, "heatmap", 120, 1e-2)
    assert losses[-1] < losses[0] / 10
    metric = task.metric()
    task.model.train()  # two people are all that its batch norms have seen
    with no_grad():
        outputs = task.eval_step({"images": from_numpy(batch["images"])})
    found = {name: array.numpy() for name, array in outputs.items()}
    metric.update(found, batch)
    assert metric.result()["AP50"] == 1.0
    processor = task.processor()
    again = PoseProcessor.from_metadata(json.loads(json.dumps(processor.metadata())))
    result = again.results(found, batch)[0]
    np.testing.assert_allclose(result["keypoints"]["nose"][:2], [20, 12], atol=3)
    (_, item) = task.example(0)
    assert again.draw(item, result).any() and again.prepare([item])["images"].shape == (1, 64, 64, 3)


def test_a_mirrored_look_has_its_points_under_their_names(tmp_path):
    task = task_of(tmp_path, flip=True)
    init.initialize(task.model, 0)
    task.model.eval()
    images = np.random.default_rng(0).normal(size=(1, 64, 64, 3)).astype(np.float32)
    with no_grad():
        maps, mirrored = (
            task.eval_step({"images": from_numpy(np.ascontiguousarray(x))})["heatmaps"].numpy()
            for x in (images, images[:, :, ::-1])
        )
    np.testing.assert_allclose(mirrored[:, :, ::-1][..., task.model.pose.order], maps, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "millions"),
    [
        (lambda: HeatmapPose(HRNet(32, out_strides=(4,)), deconvs=0), 28.5),  # 28.5 in its paper
        (lambda: HeatmapPose(ResNet(50, out_strides=(32,))), 34.0),  # 34.0 in its paper
    ],
)
def test_a_network_has_as_many_parameters_as_its_paper_says(model, millions):
    unused = re.compile(r"backbone\.stages\.2\.2\.paths\.([3-9]|1[01])\.")  # to coarser maps, which nothing reads
    named = model().named_parameters()
    count = sum(int(np.prod(value.shape)) for name, value in named if not unused.match(name))
    assert count / 1e6 == pytest.approx(millions, abs=0.06)


def test_hrnet_small_has_half_the_blocks():
    full, small = HRNet(18), HRNet(18, size="small")
    assert [len(stage) for stage in full.stages] == [1, 4, 3] and [len(stage) for stage in small.stages] == [1, 3, 2]
    assert len(full.first) == 4 and len(small.first) == 2 == len(small.stages[0][0].branches[0])


def test_a_wrong_network_and_other_points_are_refused(tmp_path):
    with pytest.raises(AttributeValueError, match="deconvs is 4 and width 256 on a map of stride 8"):
        HeatmapPose(ResNet(18, out_strides=(8,)), deconvs=4)
    with pytest.raises(AttributeValueError, match="sigma is 0"):
        Targets(sigma=0)
    task = task_of(tmp_path, HeatmapPose(ResNet(18, width=8, out_strides=(8,)), deconvs=1, width=8, points="face_5"))
    with pytest.raises(ConfigError, match=r"its points are nose, .*set model.points or model.pose"):
        task.train_loader(seed=0, workers=0)


@pytest.mark.parametrize(("size", "multiple"), [(250, 8), ([60, 64], 8)])
def test_a_size_of_crops_that_the_maps_do_not_fit_is_refused_before_a_mirror_shifts_them(tmp_path, size, multiple):
    task = task_of(tmp_path, flip=True, size=size)
    for loader in (task.train_loader(seed=0, workers=0), task.eval_loader(workers=0)):
        with pytest.raises(PaddockError, match=f"give ObjectCrop sides that are multiples of {multiple}, which"):
            next(iter(loader))


def test_a_program_of_heatmaps_takes_crops_of_any_size_and_number(tmp_path):
    task = task_of(tmp_path, flip=True)
    init.initialize(task.model, 0)
    images = from_numpy(np.zeros((1, 64, 64, 3), np.float32))
    with no_grad():
        assert program(lambda x: task.eval_step({"images": x})).program_for(images).program.shape_reads == []
