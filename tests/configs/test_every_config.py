"""Every config that is shipped trains two steps on drawn data in its formats, is evaluated and exported."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError
from framework.nn import init
from framework.predictor import Predictor
from suites.engine.cli.data import inspector_of
from suites.engine.config import load_config
from suites.engine.config.building import build_task, read_config
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.predict import inference
from suites.engine.predict.evaluation import evaluate, predict_of
from suites.engine.predict.inference import export_run
from suites.engine.train.training import train
from tests.configs.drawn import WRITERS, draw, parts_of
from tests.native import NativePredictor


def run(name):
    """Train `name` below the working folder; the run."""
    for teacher in (load_config(name, check=False).as_dict().get("distil") or {}).get("teachers", []):
        run(f"nlp/{Path(teacher).name}")
    train(Path(name), draw(name))
    return Path("runs") / Path(name).name


def test_the_data_of_each_config_can_be_drawn():
    configs = {name: load_config(name, check=False).as_dict() for name in shipped_configs()}
    kinds = {(name, part["dataset"]["type"]) for name, found in configs.items() for _, part in parts_of(found["data"])}
    assert {each for each in kinds if each[1] not in WRITERS} == set()


@pytest.mark.parametrize("name", shipped_configs())
def test_a_place_of_data_that_is_given_is_read_by_each_set_or_refused(name):
    place = "/nowhere/set"
    if load_config(name, check=False).as_dict().get("data", {}).get("root") is None:
        with pytest.raises(ConfigError, match=r"data.root"):
            load_config(name, [f"data.root={place}"])
        return
    data = load_config(name, [f"data.root={place}"], check=False).as_dict()["data"]
    unread = [path for path, part in parts_of(data) if place not in json.dumps(part["dataset"])]
    assert unread == []


@pytest.mark.parametrize("name", shipped_configs())
def test_a_number_of_classes_that_is_given_is_the_models_or_refused(name):
    written = load_config(name, check=False).as_dict()
    classes = written.get("data", {}).get("num_classes")
    if not isinstance(classes, int):
        return
    try:
        config = load_config(name, [f"data.num_classes={classes + 3}"])
    except ConfigError as error:
        assert "num_classes" in str(error)
        return
    if config.as_dict()["model"] == written["model"]:
        config = load_config(name, [f"data.num_classes={classes + 3}", "model.pretrained=null"])
        with pytest.raises(AttributeValueError, match=rf"data.num_classes is {classes + 3} but \w+ predicts {classes}"):
            build_task(config)


def recorded_answers(monkeypatch):
    """What an export is asked while it is compared with its run, and its answers: pairs of lists of arrays."""
    seen = []

    class Recording(Predictor):
        def run(self, inputs):
            seen.append((list(inputs), super().run(inputs)))
            return seen[-1][1]

    monkeypatch.setattr(inference, "Predictor", Recording)
    return seen


# Run on published weights alone, and what the main figure of random weights is at most.
UNTRAINED = {"ocr/ppocrv4": 0.0, "ocr/craft_english": 0.0, "detection/mtcnn_wider": 0.1,
             "keypoints/movenet_lightning": 0.1, "keypoints/face_points_68": 0.1}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in shipped_configs() if name not in UNTRAINED])
def test_a_config_trains_is_evaluated_and_exported(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PADDOCK_DATA", raising=False)
    folder = run(name)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert rows and max(row["step"] for row in rows) == 2
    figures = json.loads((folder / "metrics.json").read_text())  # of the evaluation behind the last step
    assert figures and all(math.isfinite(value) for value in figures.values())
    answers = recorded_answers(monkeypatch)
    report = export_run(folder, Path("exported"))
    for inputs, expected in answers:  # of the export, by Python's Predictor
        found = NativePredictor("exported").run([np.ascontiguousarray(a) for a in inputs])
        assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
    assert len(answers) == 1
    # An untrained detector's boxes have nearly equal scores, so roundings choose which are kept.
    assert report.largest_difference < (math.inf if name.startswith("detection/") else 1e-3)
    shutil.rmtree(tmp_path)  # models of up to 400 MB


@pytest.mark.parametrize("name", UNTRAINED)
def test_a_config_that_is_not_trained_is_evaluated(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(load_config(name, draw(name)))
    init.initialize(task.model, 0)
    with task.eval_loader(workers=0) as loader:
        figures = evaluate(task, predict_of(task), loader)
    assert 0.0 <= figures[task.main_metric] <= UNTRAINED[name]  # of random weights


INSPECTED = ("anomaly/photos", "classification/photos", "detection/photos", "nlp/classify", "ocr/crnn_drawn",
             "ocr/dbnet_icdar2015", "retrieval/photos", "segmentation/photos", "video/clips")  # fmt: skip


@pytest.mark.parametrize("name", INSPECTED)
def test_a_sample_of_each_suite_has_something_that_a_model_of_vectors_takes(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = read_config(Path(name), draw(name))
    inspector = inspector_of(config)
    dataset = inspector.parts(inspector.opened(config, "data.train.dataset"))[0]
    item = inspector.item(dataset, 0)
    assert isinstance(item, str) or (item.dtype == np.uint8 and item.ndim == 3 and item.shape[2] == 3)


# A character is chosen by the one before, by scores that stay in float32 and are nearly equal for random weights.
CHOOSING = ("ocr/attention_drawn",)
# Their updates are their own, or they keep rows of tables: both are refused.
FLOAT_ONLY = ("anomaly/", "ctr/", "generation/")


def writes(name):
    """Whether a config's model writes texts, whose steps read other arrays than training does."""
    task = build_task(read_config(Path(name), draw(name)))  # with what `auto` stands for
    return any(each not in task.train_inputs for each in task.eval_inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in shipped_configs() if n not in UNTRAINED and not n.startswith(FLOAT_ONLY)])
def test_a_config_trains_in_8_bits_and_its_export_has_the_same_bits(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PADDOCK_DATA", raising=False)
    how = [*draw(name), "eight_bits={smallest: 0, batches: 1}"]
    if writes(name):
        with pytest.raises(ConfigError, match="nothing measures its ranges; train it in float32"):
            train(Path(name), how)
        return
    train(Path(name), how)
    report = export_run(Path("runs") / Path(name).name, Path("exported"))
    assert name in CHOOSING or report.largest_difference == 0
    assert any("trained" in line for line in report.quantized.matched)
    shutil.rmtree(tmp_path)
