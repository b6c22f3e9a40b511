"""Mask R-CNN as a user runs it: trained, measured, drawn, exported and asked over HTTP, with masks all the way."""

import base64
import json

import pytest
from pycocotools import mask as coco

from suites.engine.predict.inference import evaluate_export, export_run, infer_files, open_model
from suites.engine.predict.items import predict_items
from suites.engine.predict.quantizing import Quantization
from suites.engine.train.training import evaluate_weights, train
from tests.suites.detection.datasets.helpers import SIZE, write_coco

CONFIG = """
suite: detection
model:
  type: MaskRCNN
  backbone: {type: MobileNetV2, scale: 0.25, out_strides: [4, 8, 16, 32]}
  neck: {type: FPN, width: 8}
  rpn:
    sizes: [8, 16, 32, 64, 128]
    train: {before_nms: 40, after_nms: 24}
    predict: {before_nms: 40, after_nms: 24}
  head:
    type: BoxHead
    num_classes: "${data.num_classes}"
    width: 16
    sampler: {samples: 16}
    postprocess: {score_threshold: 0.0, keep_top_k: 12}
  mask_head: {type: MaskHead, width: 8, convs: 1}
data:
  num_classes: 2
  root: ROOT
  train: SET
  eval: SET
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 1e-4}
min_score: 0.0
runtime: {steps: 2, workers: 0, evaluation: {every: 0, pictures: 1}}
"""
SET = """
    dataset:
      type: CocoDetection
      annotations: "${data.root}/annotations.json"
      images: "${data.root}/images"
      masks: true
    transforms: [{type: ResizeKeepRatio, short: 64, max_long: 128}, {type: Normalize}]
    batch_size: 2
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("masks")
    square = [[5, 6, 20, 6, 20, 30, 5, 30]]
    rows = [
        {"image_id": 10, "category_id": 3, "bbox": [5, 6, 15, 24], "segmentation": square},
        {"image_id": 11, "category_id": 7, "bbox": [5, 6, 15, 24], "segmentation": square},
    ]
    write_coco(folder / "set", rows)
    (folder / "tiny.yml").write_text(CONFIG.replace("ROOT", str(folder / "set")).replace(" SET\n", SET))
    train(folder / "tiny.yml", runs=folder, name="run")
    return folder / "run"


def test_figures_of_masks_stand_beside_those_of_boxes(run):
    figures = evaluate_weights(run)
    assert {"AP", "AP50", "mask_AP", "mask_AP50"} <= figures.keys()
    assert len(list((run / "pictures").glob("*.jpg"))) == 1


def test_an_export_finds_the_same_masks(run, tmp_path):
    report = export_run(run, tmp_path / "model")
    assert report.largest_difference < 0.01 and "masks" in report.outputs and not report.fixed_shapes
    pictures = sorted((run.parent / "set" / "images").glob("*.png"))
    found = []
    for path, out in ((run, "a"), (tmp_path / "model", "b")):
        infer_files(open_model(path), pictures, tmp_path / out)
        found.append(json.loads((tmp_path / out / "predictions.json").read_text()))
    for one, two in zip(found[0].values(), found[1].values(), strict=True):
        assert len(one) == len(two) > 0
        for a, b in zip(one, two, strict=True):
            shapes = [coco.decode(row["mask"]) for row in (a, b)]
            assert shapes[0].shape == SIZE and a["class"] == b["class"]
            assert (shapes[0] != shapes[1]).mean() < 0.01


def test_masks_are_in_8_bits_of_the_rows_that_are_looked_at(run, tmp_path):
    report = export_run(run, tmp_path / "m8", quantization=Quantization("static", batches=1))
    assert any(line.startswith("in scan") and "mask_head.convs.0" in line for line in report.quantized.matched)
    assert evaluate_export(run, tmp_path / "m8").keys() >= {"AP", "mask_AP"}


def test_answers_are_json_with_masks(run):
    model = open_model(run)
    item = model.processor.from_json(base64.b64encode((run.parent / "set/images/0.png").read_bytes()).decode())
    (rows,) = predict_items(model.processor, model.inputs, model.predict, [item])
    first = json.loads(json.dumps(rows))[0]
    assert {"class", "score", "box", "mask"} <= first.keys() and coco.decode(first["mask"]).shape == SIZE
