"""A run of anomalies by the engine: fitted, resumed, evaluated, exported, served, and its bad input."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError, DataError, PaddockError
from framework.io import load_tensors
from suites.anomaly.fitting import Threshold
from suites.engine.cli import main as paddock
from suites.engine.predict.inference import evaluate_export, export_run, infer_files, open_model
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train
from tests.suites.anomaly.helpers import mvtec, picture

SMALL = """suite: anomaly
model:
  type: PatchCore
  backbone: {{type: MobileNetV2, scale: 0.25, out_strides: [4, 8]}}
  size: 64
  bank: 40
  neighbours: 3
data:
  root: {root}
  train:
    dataset: {{type: MvtecFolder, root: "${{data.root}}"}}
    transforms: [{{id: resize, type: Resize, size: 64}}, {{id: normal, type: Normalize}}]
    batch_size: 4
  eval:
    dataset: {{type: MvtecFolder, root: "${{data.root}}", part: test}}
    transforms: [{{id: resize, type: Resize, size: 64}}, {{id: normal, type: Normalize}}]
    batch_size: 4
optimizer: {{type: SGD}}
schedule: {{type: Constant, base_lr: 1.0}}
runtime: {{epochs: 1, workers: 0, log_every: 1, evaluation: {{pictures: 2}}}}
"""
PADIM = (
    "model={$replace: {type: PaDiM, backbone: {type: MobileNetV2, scale: 0.25, out_strides: [4, 8]}, size: 64, "
    "dimensions: 64}}"
)


@pytest.fixture
def config(tmp_path):
    mvtec(tmp_path / "data")
    path = tmp_path / "small.yml"
    path.write_text(SMALL.format(root=tmp_path / "data"), encoding="utf-8")
    return path


@pytest.mark.parametrize("how", [[], [PADIM]], ids=["PatchCore", "PaDiM"])
def test_a_run_is_fitted_evaluated_exported_and_predicts(config, tmp_path, how):
    train(config, how, runs=tmp_path, name="run")
    figures = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert figures["image_AUROC"] == 1.0 and figures["pixel_AUROC"] > 0.9 and 0 <= figures["PRO"] <= 1
    assert "pictures are held back" in (tmp_path / "run" / "log.txt").read_text()
    report = export_run(tmp_path / "run", tmp_path / "exported")
    assert report.outputs == ["scores", "maps"] and report.largest_difference < 1e-4
    again = evaluate_export(tmp_path / "run", tmp_path / "exported")
    assert again["image_AUROC"] == 1.0 and again["PRO"] == pytest.approx(figures["PRO"], abs=1e-3)
    model = open_model(tmp_path / "exported")
    bad, good = (model(tmp_path / "data" / "test" / name / "000.png")[0] for name in ("scratch", "good"))
    assert bad.value["score"] > good.value["score"]
    assert set(bad.to_json()) == {"score", "defect", "regions"} and bad.value["heat"].shape == (64, 64)


def test_a_defect_is_told_boxed_and_drawn(config, tmp_path):
    train(config, ["threshold.by=f1"], runs=tmp_path, name="run")
    model = open_model(tmp_path / "run")
    bad, good = (tmp_path / "data" / "test" / name / "000.png" for name in ("scratch", "good"))
    assert model(bad)[0].value["defect"] and not model(good)[0].value["defect"]
    pictures = [tmp_path / "data" / "test" / "scratch" / f"{at:03}.png" for at in range(4)]
    boxes = [region["box"] for path in pictures for region in model(path)[0].value["regions"][:1]]
    assert boxes and all(x1 < 36 and x2 > 20 and y1 < 36 and y2 > 20 for x1, y1, x2, y2 in boxes)
    assert min(map(min, boxes)) >= 0 and max(map(max, boxes)) <= 64
    assert infer_files(model, [bad], None).lines[0].startswith("defect, score ")
    infer_files(model, [bad], tmp_path / "drawn")
    assert any((tmp_path / "drawn").rglob("000.*"))


def test_the_threshold_is_the_highest_of_the_good_pictures_held_back(config, tmp_path):
    train(config, ["threshold.held_back=5"], runs=tmp_path, name="run")
    limits = load_tensors(tmp_path / "run" / "weights" / "last.safetensors")["limits"].numpy()
    given = f"data.eval.dataset={{$replace: {{type: GoodBad, root: {tmp_path}/data/train, bad: null, holdout: null}}}}"
    assert (limits > 0).all() and not np.array_equal(limits, np.ones(2))
    assert paddock(["eval", str(tmp_path / "run"), "-o", given]) == 0
    found = json.loads(next((tmp_path / "run").glob("metrics-*.json")).read_text())
    assert found["figures"]["false_alarms"] == 0  # of the pictures that were fitted, and those held back


class Fail(Hook):
    """Ends a run as a crash does."""

    def __init__(self, step):
        self.step = step

    def after_step(self, loop):
        if loop.step == self.step:
            raise RuntimeError("crashed")


@pytest.mark.parametrize("how", [[], [PADIM]], ids=["PatchCore", "PaDiM"])
def test_a_run_goes_on_bit_for_bit(config, tmp_path, how):
    how = [*how, "runtime.checkpoint.every=1", "threshold.held_back=4"]
    train(config, how, runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError, match="crashed"):
        train(config, how, runs=tmp_path, name="part", hooks=[Fail(2)])
    train(tmp_path / "part", resume=True)
    whole, part = (load_tensors(tmp_path / name / "weights" / "last.safetensors") for name in ("whole", "part"))
    assert whole and all(np.array_equal(whole[name].numpy(), part[name].numpy()) for name in whole)


def test_a_set_without_defects_or_of_two_sizes_is_taken_and_said(config, tmp_path):
    picture(tmp_path / "data" / "train" / "good" / "wide.png", 50, side=80)
    given = f"data.eval.dataset={{$replace: {{type: GoodBad, root: {tmp_path}/data/test, bad: null, holdout: null}}}}"
    train(config, [given], runs=tmp_path, name="run")
    assert set(json.loads((tmp_path / "run" / "metrics.json").read_text())) >= {"false_alarms"}
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "of 2 sizes: 64x64 (10), 80x80 (1)" in log and "best false_alarms" in log


def test_pictures_without_resize_name_both_sizes(config, tmp_path):
    picture(tmp_path / "data" / "train" / "good" / "001.png", 50, side=80)
    with pytest.raises(PaddockError, match="end the transforms with Resize"):
        train(config, ["data.train.transforms=[{type: Normalize}]"], runs=tmp_path, name="run")


def test_pictures_of_another_size_than_the_model_are_refused(config, tmp_path):
    with pytest.raises(DataError, match=r"32x32 is what the transforms make of .*but model.size is 64x64"):
        train(config, ["data.train.transforms[resize].size=32"], runs=tmp_path, name="run")


def test_training_sets_that_cannot_be_are_refused(config, tmp_path):
    bad = f"data.train.dataset={{$replace: {{type: MvtecFolder, root: {tmp_path}/data, part: test}}}}"
    with pytest.raises(DataError, match="is of the kind 'scratch'; a model of good pictures is fitted on good ones"):
        train(config, [bad], runs=tmp_path, name="bad")
    picture(tmp_path / "one" / "train" / "good" / "0.png", 0)
    one = f"data.train.dataset={{$replace: {{type: MvtecFolder, root: {tmp_path}/one}}}}"
    with pytest.raises(DataError, match="there is 1 good picture; 2 are needed"):
        train(config, [one], runs=tmp_path, name="run_one")
    picture(tmp_path / "one" / "train" / "good" / "1.png", 1)
    with pytest.raises(DataError, match="1 good pictures were fitted; a covariance needs 2"):
        train(config, [one, PADIM], runs=tmp_path, name="run_two")


def test_settings_without_sense_are_refused(config, tmp_path):
    with pytest.raises(ConfigError, match="fitted on one host, without ema and precision"):
        train(config, ["runtime.ema={decay: 0.9}"], runs=tmp_path, name="run")
    for wrong in ({"quantile": 0.0}, {"held_back": 1}):
        with pytest.raises(AttributeValueError, match="threshold: quantile is"):
            Threshold(**wrong)
    assert [Threshold().every(count) for count in (2, 9, 160, 6400)] == [2, 9, 10, 100]
