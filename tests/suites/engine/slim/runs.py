"""Runs of networks that were not trained, with numbers that no two channels share; for tests of smaller models."""

import contextlib
from pathlib import Path

import numpy as np

from framework import tensor
from framework.io import save_tensors
from suites.engine.config.building import build_task, read_config
from suites.engine.run.folder import RunFolder
from tests.suites.keypoints.helpers import coco, person
from tests.suites.segmentation.helpers import write_scenes
from tests.suites.video.helpers import write_frame_folders

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
DIGITS = ["runtime.workers=0", "runtime.evaluation.pictures=0", "runtime.ema=null"]
SMALL = ["data.train.batch_size=2", "runtime.workers=0"]
_TRAIN = "data.train.dataset={type: DigitScenes, split: train, length: 8, size: 160}"
_EVAL = "data.eval.dataset={type: DigitScenes, split: test, length: 2, size: 160}"
SCENES = [
    *SMALL,
    "data.num_classes=10",
    _TRAIN,
    _EVAL,
    "data.train.transforms=[{id: normalize, type: Normalize}]",
    "data.eval.transforms=[{id: normalize, type: Normalize}]",
]
PRETRAINED = "model.backbone.pretrained=null"
NETWORKS = {
    "resnet18": ("classification/resnet18_digits.yml", DIGITS),
    "resnet": ("classification/resnet18_digits.yml", [*DIGITS, "model.backbone.depth=50"]),
    "mobilenetv2": (
        "classification/resnet18_digits.yml",
        [*DIGITS, "model.backbone={type: MobileNetV2, scale: 0.5, out_strides: [32]}"],
    ),
    "mobilenetv3": (
        "classification/resnet18_digits.yml",
        [*DIGITS, "model.backbone={type: MobileNetV3, scale: 0.5, out_strides: [32]}"],
    ),
    "faster_rcnn": ("detection/faster_rcnn_mobilenetv2_bccd.yml", [*SCENES, PRETRAINED]),
    "yolov3": ("detection/yolov3_demo.yml", SCENES),
    "ssd": ("detection/ssd300_mobilenetv2_bccd.yml", [*SCENES, PRETRAINED]),
    "deeplab": (
        "segmentation/deeplabv3p_mobilenetv2_pairs.yml",
        [*SMALL, "data.root=ROOT", "data.num_classes=3", "data.eval.dataset={images: val/images, labels: val/labels}"],
    ),
    "pose": (
        "keypoints/simple_r50_coco.yml",
        [
            *SMALL,
            "data.root=ROOT",
            "data.train.dataset={annotations: ROOT/a.json, images: ROOT}",
            "data.eval.dataset={annotations: ROOT/a.json, images: ROOT}",
            "data.train.transforms={$patch: {crop: {size: 64}}}",
            "data.eval.transforms={$patch: {crop: {size: 64}}}",
            "model.backbone={depth: 18, width: 16, pretrained: null}",
            "model.width=32",
        ],
    ),
    "tsn": (
        "video/tsn_resnet18_gesture.yml",
        [*SMALL, "data.root=ROOT", "data.num_classes=3", PRETRAINED, "data.train.transforms[flip].swap=[]"],
    ),
}


def write_run(folder: Path, name: str) -> Path:
    """The folder of a run of one of `NETWORKS`, whose data lie beside it."""
    config, overrides = NETWORKS[name]
    root = folder / "data"
    if "segmentation" in config:
        write_scenes(root, "train", 4)
        write_scenes(root, "val", 2, seed=1)
    if "keypoints" in config:
        root.mkdir(parents=True)
        coco(root, [person(at) for at in range(4)])
    if "video" in config:
        write_frame_folders(root, per_class=3)
    found = read_config(CONFIGS / config, [o.replace("ROOT", str(root)) for o in overrides])
    task = build_task(found)
    rng = np.random.default_rng(0)
    for key, t in task.model.state_dict().items():
        if key.endswith(("running_mean", "running_var", ".scale")) and t.dtype == "float32":
            low, high = (-0.2, 0.2) if key.endswith("mean") else (0.5, 1.5)
            t.set(tensor(rng.uniform(low, high, t.shape).astype(np.float32)))
    with contextlib.closing(RunFolder.create(folder / name, found)) as run:
        run.write_processor(task.processor())
        save_tensors(run.weights / "best.safetensors", task.model.state_dict())
    return folder / name
