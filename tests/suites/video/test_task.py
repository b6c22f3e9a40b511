"""The video task as the engine uses it: trains to a figure, evaluates, draws and exports from a config."""

import json
from pathlib import Path

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, DataError
from framework.nn import init
from suites.engine.config.building import read_config
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.video.processor import VideoProcessor
from suites.vision.augmentation.transforms import Normalize, Resize
from tests.shipped import load_shipped
from tests.suites.video.helpers import video, write_frame_folders, write_video_files

CONFIG = """
suite: video
model:
  type: TSN
  backbone: {type: ResNet, depth: 18, width: 8, out_strides: [16]}
  num_classes: "${data.num_classes}"
data:
  root: ROOT
  num_classes: 3
  train:
    dataset:
      {type: FrameFolders, root: "${data.root}", annotations: train.txt, classes: classes.txt, segments: {count: 3}}
    transforms:
      - {id: crop, type: MultiScaleCrop, size: 32, scales: [1, 0.875]}
      - {id: flip, type: RandomFlip, swap: [[left, right]]}
      - {id: normalize, type: Normalize}
    batch_size: 6
  eval:
    dataset:
      {type: FrameFolders, root: "${data.root}", annotations: val.txt, classes: classes.txt, segments: {count: 5}}
    transforms:
      - {id: resize, type: ResizeShort, size: 32}
      - {id: crop, type: CenterCrop, size: 32}
      - {id: normalize, type: Normalize}
    batch_size: 4
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Cosine, base_lr: 0.02}
runtime: {steps: 60, workers: 0, evaluation: {every: 0, pictures: 2}}
"""
CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "video"


@pytest.fixture
def config_file(tmp_path):
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    return path


def test_a_run_learns_and_its_network_can_be_exported(config_file, tmp_path):
    run = tmp_path / "run"
    train(config_file, runs=tmp_path, name="run")
    assert evaluate_weights(run)["top1"] == 1.0
    assert sorted(p.name for p in (run / "pictures").glob("*.jpg")) == ["00000_02.jpg", "00005_05.jpg"]
    report = export_run(run, tmp_path / "export")
    # Probabilities; batch norm folded into 17 convolutions moves them by roundings of float32.
    assert report.largest_difference < 1e-4 and not report.fixed_shapes
    videos = write_video_files(tmp_path / "videos")
    (tmp_path / "videos" / "broken.mp4").write_bytes(b"nothing")
    folders = tmp_path / "set" / "down"  # a folder of videos, each a folder of frames
    for model in (run, tmp_path / "export"):
        done = infer_files(open_model(model), [videos, folders], tmp_path / model.name / "out")
        assert len(done.pictures) == 3 + 6
        assert len(done.skipped) == 1 and "broken.mp4: damaged, cut off" in done.skipped[0]
        results = json.loads((tmp_path / model.name / "out" / "predictions.json").read_text())
        assert {found[0]["class"] for path, found in results.items() if str(folders) in path} == {"down"}


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("model.num_classes=4", r"model.num_classes: is 4 but data.num_classes is 3"),
        ("data.eval.dataset.segments.count=0", r"dataset.segments: Segments: count is 0"),
        ("data.train.dataset.segment={count: 3}", r"FrameFolders takes no 'segment'; did you mean 'segments'"),
    ],
)
def test_wrong_configs_are_refused(config_file, override, match):
    with pytest.raises(ConfigError, match=match):
        read_config(config_file, [override])


def test_a_processor_reads_what_training_reads(tmp_path):
    processor = VideoProcessor([Resize(16), Normalize()], ["a", "b"], (4, 1))
    root = write_frame_folders(tmp_path, per_class=1)
    clip = processor.read(root / "left" / "00")
    np.testing.assert_array_equal(clip, video("left", seed=0)[[1, 3, 5, 7]])
    assert processor.prepare([clip, clip])["clips"].shape == (2, 4, 16, 16, 3)
    picture = processor.draw(clip, [{"class": "b", "score": 0.75}])
    assert picture.shape[1] > 3 * picture.shape[0]  # a strip
    again = VideoProcessor.from_metadata(json.loads(json.dumps(processor.metadata())))
    assert again.metadata() == processor.metadata()
    with pytest.raises(DataError, match=r"left: the folder holds no frames"):
        processor.read(root / "left")
    with pytest.raises(CheckpointError, match=r"do not fit: .*'segments'"):
        VideoProcessor.from_metadata({"transforms": [], "class_names": ["a"]})


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yml")), ids=lambda path: path.name)
def test_every_config_builds_its_model(path):
    with init.undrawn():  # pretrained weights need not be there
        load_shipped(path).build("model")


def test_damaged_clips_are_passed_over(config_file, tmp_path, capsys):
    for clip in ("left/00", "down/02"):
        for frame in (tmp_path / "set" / clip).iterdir():
            frame.write_bytes(b"nothing")
    train(config_file, ["runtime.steps=4", "runtime.data.max_skipped=0.2"], runs=tmp_path, name="run")
    said = capsys.readouterr().out
    assert "training: 1 of 12 samples could not be used: sample 0 (" in said and "set/left/00/" in said
    assert "evaluation: 1 of 6 samples could not be used: sample 4 (" in said
    assert json.loads((tmp_path / "run/metrics.json").read_text())["skipped"] == 1
