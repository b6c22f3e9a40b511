"""Every config that is shipped trains two steps on drawn data in its formats, is evaluated and exported."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from framework.errors import ConfigError
from framework.nn import init
from framework.predictor import Predictor
from suites.engine.cli.data import inspector_of
from suites.engine.config import load_config
from suites.engine.config.building import build_task, read_config
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.contract.batch import POSITIONS
from suites.engine.contract.capabilities import FollowsOutputs
from suites.engine.predict import inference
from suites.engine.predict.evaluation import evaluate, predict_of
from suites.engine.predict.inference import export_run
from suites.engine.predict.items import batches_of, predict_items
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


PICTURES = ("anomaly/", "classification/", "detection/", "keypoints/", "ocr/", "retrieval/", "segmentation/")
# Of other suites, what is small.
SMALL = ("ctr/", "nlp/bidaf", "nlp/bigru", "nlp/bilm", "nlp/bilstm", "nlp/bow", "nlp/cnn", "nlp/dam_trecqa", "nlp/elmo",
         "nlp/gpt_tinyshakespeare", "nlp/mmdnn", "nlp/nnlm", "nlp/rnn", "nlp/simnet", "nlp/transformer_copy",
         "video/attention_cluster_gesture", "video/attention_lstm_gesture", "video/nextvlad_gesture",
         "video/tsn_mobilenetv2_gesture")  # fmt: skip
NEAR = 1e-5  # of the largest number: sums of other lengths round otherwise


def strangers(items):
    """Items unlike each other: pictures of other sizes in place of pictures."""
    if not isinstance(items[0], np.ndarray) or items[0].ndim != 3 or items[0].shape[2] != 3:
        return items
    rng = np.random.default_rng(0)
    sizes = ((64, 96), (40, 120), (150, 60), (64, 300), (40, 120))
    return [rng.integers(0, 256, (*size, 3), np.uint8) for size in sizes]


def row(batch, names, place):
    return [np.asarray(batch[name])[place] for name in names]


@pytest.mark.parametrize("name", [name for name in shipped_configs() if name.startswith(PICTURES)])
def test_a_picture_is_shown_to_a_network_as_if_it_were_alone(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    processor = task.processor()
    items = strangers([item for _, item in task.examples(2)])
    if isinstance(processor, FollowsOutputs):  # one after the other
        return
    seen = {}
    for batch in batches_of(processor, items):
        seen |= {item: row(batch, task.eval_inputs, k) for k, item in enumerate(batch[POSITIONS])}
    assert sorted(seen) == list(range(len(items)))
    for number, item in enumerate(items):
        (batch,) = batches_of(processor, [item])
        for found, alone in zip(seen[number], row(batch, task.eval_inputs, 0), strict=True):
            np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(SMALL) else pytest.mark.slow)
        for name in shipped_configs()
        if not name.startswith((*PICTURES, "generation/"))  # those draw by a seed that each item has
    ],
)
def test_what_is_said_of_an_item_does_not_depend_on_those_beside_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    init.initialize(task.model, 0)
    processor, predict = task.processor(), predict_of(task)
    items = [item for _, item in task.examples(4)]
    together = predict_items(processor, task.eval_inputs, predict, items)
    for item, expected in zip(items, together, strict=True):
        (alone,) = predict_items(processor, task.eval_inputs, predict, [item])
        assert processor.summary(alone) == approximately(processor.summary(expected))


def built(name, drawn):
    """What a task is made of, and its first batch."""
    task = build_task(read_config(Path(name), drawn))
    with task.train_loader(seed=0, workers=0) as loader:
        return json.dumps(task.processor().metadata(), default=str), next(iter(loader))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(SMALL) else pytest.mark.slow)
        for name in shipped_configs()
        if name not in UNTRAINED
    ],
)
def test_a_task_is_the_same_each_time_it_is_built(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = draw(name)
    (one, first), (two, second) = built(name, drawn), built(name, drawn)
    assert one == two and list(first) == list(second)
    for key, value in first.items():
        np.testing.assert_equal(value, second[key])


def approximately(said):
    """Numbers within roundings, all else equal."""
    if isinstance(said, dict):
        return {name: approximately(value) for name, value in said.items()}
    if isinstance(said, (list, tuple)):
        return type(said)(approximately(value) for value in said)
    return pytest.approx(said, rel=NEAR, abs=NEAR) if isinstance(said, float) else said


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
