"""The detection task as the engine uses it: trains, evaluates, draws and exports from a config."""

import json
import re

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, DataError
from framework.io import load_tensors
from suites.detection.datasets import DigitScenes
from suites.detection.processor import DetectionProcessor, found_on_originals
from suites.engine.config import Config
from suites.engine.config.building import build_task
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.vision.augmentation.transforms import Normalize, Resize
from suites.vision.pictures.images import write_image
from tests.suites.detection.datasets.helpers import write_voc

pytestmark = pytest.mark.pages

CONFIG = """
suite: detection
model:
  type: YOLOv3
  backbone: {type: MobileNetV1, scale: 0.25, out_strides: [16, 32]}
  neck: {type: YOLOv3Neck, width: 16}
  head: {type: YOLOv3Head, num_classes: "${data.num_classes}", anchors: [[24, 40], [40, 62]]}
data:
  num_classes: 10
  train:
    dataset: {type: DigitScenes, split: train, length: 8, size: 96, max_side: 60}
    transforms: [{id: flip, type: RandomFlip}, {id: normalize, type: Normalize}]
    batch_size: 4
  eval:
    dataset: {type: DigitScenes, split: test, length: 3, size: 96, max_side: 60}
    transforms: [{id: resize, type: Resize, size: 96}, {id: normalize, type: Normalize}]
    batch_size: 2
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 1e-4}
metric: {type: CocoEvaluator}
runtime: {steps: 2, workers: 0, evaluation: {every: 0, pictures: 1}}
min_score: 0.0
"""


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG)
    return path


def load(config_file, *overrides):
    from suites.engine.config.building import read_config

    return read_config(config_file, overrides)


def test_a_run_leaves_weights_figures_and_pictures_and_can_be_exported(config_file, tmp_path):
    run = tmp_path / "run"
    train(config_file, runs=tmp_path, name="run")
    figures = evaluate_weights(run)
    assert 0 <= figures["AP50"] <= 1
    assert "head.outs.0.weight" in load_tensors(run / "weights" / "last.safetensors")
    assert len(list((run / "pictures").glob("*.jpg"))) == 1
    report = export_run(run, tmp_path / "export")
    # Batch norm is folded into the convolutions: a few roundings of float32 on numbers of the size of the image, 96.
    assert report.largest_difference < 0.01
    assert not report.fixed_shapes
    pictures = list((run / "pictures").glob("*.jpg"))
    drawn = [infer_files(open_model(p), pictures, tmp_path / p.name / "out") for p in (run, tmp_path / "export")]
    assert [len(d.pictures) for d in drawn] == [1, 1]


def test_a_run_passes_over_a_damaged_annotation_and_its_log_and_report_name_it(tmp_path):
    stems = [f"{at:03}" for at in range(100)]
    root = write_voc(tmp_path / "voc", {stem: [("cat", (5, 5, 30, 35), False)] for stem in stems}, {"val": stems[:2]})
    (root / "ImageSets/Main/train.txt").write_text("\n".join(stems))
    damaged = root / "Annotations/042.xml"
    damaged.write_text(damaged.read_text().replace("bndbox>", "bbox>"))
    path = tmp_path / "tiny.yml"
    text = CONFIG.replace("num_classes: 10", "num_classes: 1").replace(
        "{id: flip", "{id: resize, type: Resize, size: 96}, {id: flip"
    )
    for split, name in (("train", "train"), ("test", "val")):
        text = re.sub(
            rf"{{type: DigitScenes, split: {split}.*}}", f"{{type: VocDetection, root: {root}, split: {name}}}", text
        )
    path.write_text(text)
    run = tmp_path / "run"
    train(path, runs=tmp_path, name="run")
    assert "head.outs.0.weight" in load_tensors(run / "weights" / "last.safetensors")
    log = (run / "log.txt").read_text()
    assert "1 of 100 images are wrong and were left out" in log
    assert f"{damaged}: an object has no <bndbox>" in log and "99 images, 99 boxes (cat 99); 1 unusable images" in log
    assert "042.xml: an object has no &lt;bndbox&gt;" in (run / "report.html").read_text()


def test_a_wrong_number_of_classes_names_both(config_file):
    task = build_task(load(config_file, "data.num_classes=3"))
    with pytest.raises(ConfigError, match=r"data.num_classes is 3 but data.train.dataset has 10 classes \(0, 1, "):
        task.train_loader(seed=0, workers=0)


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("model.head.num_classes=3", r"model.head.num_classes: is 3 but data.num_classes is 10"),
        ("data.eval.transforms[resize].size=100", r"100 is no multiple of 32, the network's largest stride"),
        ("model.head.anchors=[[8, 8], [9, 9], [10, 10]]", r"3 anchors do not divide into 2 levels"),
        ("data.train.batch_size=0", r"data.train.batch_size: is 0; it must be 1 or more"),
        ("model.head.anchor=[[8, 8]]", r"YOLOv3Head takes no 'anchor'; did you mean 'anchors'"),
    ],
)
def test_wrong_configs_are_refused(config_file, override, match):
    with pytest.raises(ConfigError, match=match):
        load(config_file, override)


def test_an_evaluation_set_without_objects_is_refused_before_training(config_file, tmp_path):
    root = write_voc(tmp_path / "set", {"a": [], "b": []})
    names = [str(digit) for digit in range(10)]
    empty = f"data.eval.dataset={{$replace: {{type: VocDetection, root: {root}, classes: {names}}}}}"
    with pytest.raises(DataError, match="the ground truth has 2 images but no box"):
        train(config_file, [empty], runs=tmp_path, name="run")
    assert "step " not in (tmp_path / "run" / "log.txt").read_text()


def test_a_task_needs_no_data_until_it_is_asked_for(config_file):
    task = build_task(load(config_file, "data.train.dataset={type: VocDetection, root: nowhere}"))
    assert task.main_metric == "AP"
    assert task.eval_inputs == ("images",)


def test_voc_figures_have_their_own_main_figure(config_file):
    assert build_task(load(config_file, "metric={type: VocEvaluator}")).main_metric == "mAP"


def test_detections_come_back_in_the_images_own_pixels():
    processor = DetectionProcessor([Resize([64, 32]), Normalize()], ["cat", "dog"], 0.5)
    image = np.zeros((128, 128, 3), np.uint8)  # halved in height, quartered in width
    batch = processor.prepare([image])
    assert batch["images"].shape == (1, 64, 32, 3) and batch["images"].dtype == np.float32
    outputs = {
        "boxes": np.array([[[4, 8, 16, 40], [0, 0, 8, 8], [0, 0, 9, 9]]], np.float32),
        "scores": np.array([[0.9, 0.4, 0.3]], np.float32),
        "classes": np.array([[1, 0, 0]]),
        "counts": np.array([2], np.int32),
    }
    (found,) = found_on_originals(outputs, batch)
    np.testing.assert_allclose(found.boxes, [[16, 16, 64, 80], [0, 0, 32, 16]])
    assert found.scores.tolist() == pytest.approx([0.9, 0.4]) and found.classes.tolist() == [1, 0]
    (result,) = processor.results(outputs, batch)
    assert result == [{"class": "dog", "score": 0.9, "box": [16.0, 16.0, 64.0, 80.0]}]
    assert processor.draw(image, result).max() > 0
    again = DetectionProcessor.from_metadata(processor.metadata())
    assert again.metadata() == processor.metadata()
    with pytest.raises(CheckpointError, match="the metadata of the model do not fit: 'class_names'"):
        DetectionProcessor.from_metadata({"transforms": []})


def test_config_from_code_builds_the_default_neck():
    values = {"type": "MobileNetV1", "scale": 0.25}
    config = Config.from_dict({"suite": "detection", "model": {"type": "YOLOv3", "backbone": values, "head": HEAD}})
    assert config.build("model").neck.channels == (128, 256, 512)


HEAD = {"type": "YOLOv3Head", "num_classes": 2}


def test_images_that_cannot_be_read_are_passed_over_and_count_as_images_without_detections(
    config_file, tmp_path, monkeypatch
):
    read = DigitScenes.__getitem__

    def damaged(self, index):
        if index == 1:
            raise DataError(f"image {index}: cut off")
        return read(self, index)

    monkeypatch.setattr(DigitScenes, "__getitem__", damaged)
    overrides = ["runtime.data.max_skipped=0.5", "runtime.evaluation.pictures=3"]
    train(config_file, overrides, runs=tmp_path, name="run")
    figures = evaluate_weights(tmp_path / "run")
    assert figures["skipped"] == 1 and 0 <= figures["AP"] <= 1
    assert len(list((tmp_path / "run/pictures").glob("*.jpg"))) == 2
    log = (tmp_path / "run/log.txt").read_text()
    assert "training: 1 of 8 samples" in log and "evaluation: 1 of 3 samples" in log


def sizes_seen(config_file, *overrides):
    """Sizes of the batches of an evaluation, and which samples are in them."""
    task = build_task(load(config_file, *overrides))
    found = [part for batch in task.eval_loader(workers=0) for part in task.parts(batch)]
    return [(part["images"].shape[1:3], part["image_ids"].tolist()) for part in found]


def test_pictures_of_any_size_are_looked_at_each_with_its_own_border(config_file, tmp_path):
    sizes = ((70, 96), (64, 64), (96, 70))
    for k, size in enumerate(sizes):
        write_image(tmp_path / "set" / f"{k}.png", np.zeros((*size, 3), np.uint8))
    document = {
        "images": [{"id": k, "file_name": f"{k}.png", "height": h, "width": w} for k, (h, w) in enumerate(sizes)],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"id": 1, "image_id": 0, "category_id": 1, "bbox": [1, 1, 9, 9], "area": 81, "iscrowd": 0}],
    }
    (tmp_path / "set" / "list.json").write_text(json.dumps(document))
    kind = f"{{$replace: {{type: CocoDetection, images: {tmp_path}/set, annotations: {tmp_path}/set/list.json}}}}"
    how = (f"data.eval.dataset={kind}", "data.num_classes=1", "data.train=null",
           "data.eval.transforms=[{id: normalize, type: Normalize}]")  # fmt: skip
    together = sizes_seen(config_file, *how, "data.eval.batch_size=3")
    assert sorted(together) == [((64, 64), [1]), ((96, 96), [0, 2])]
    assert sorted(sizes_seen(config_file, *how, "data.eval.batch_size=1")) == [((64, 64), [1]), ((96, 96), [0]),
                                                                              ((96, 96), [2])]  # fmt: skip
