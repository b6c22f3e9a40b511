"""Learning from a teacher by config: of every kind of network; the teacher stays as it is, and the run needs it not."""

import shutil

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, PaddockError
from framework.io import load_tensors
from suites.engine.config.building import read_config
from suites.engine.predict.inference import export_run, open_run
from suites.engine.slim import distillation
from suites.engine.slim.pruning import prune_run
from suites.engine.slim.wishes import Wishes
from suites.engine.train.check import check_runs
from suites.engine.train.training import evaluate_weights, train
from tests.suites.engine.slim.runs import NETWORKS, write_run

SHORT = ["runtime.epochs=null", "runtime.steps=2", "runtime.evaluation.every=0", "runtime.evaluation.pictures=0"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("teacher"), "resnet18")


def lessons(*written, teacher):
    return f"distil={{teachers: [{teacher}], losses: [{', '.join(written)}]}}"


LOGITS = "{type: Logits, layers: {fc: fc}, temperature: 4}"
FEATURES = "{type: Features, layers: {backbone: backbone}, weight: 0.5}"
STUDENT = ["model.backbone.width=8", *SHORT]


def weights(run):
    return {name: t.numpy() for name, t in load_tensors(run / "weights/best.safetensors").items()}


def test_a_student_learns_and_neither_teacher_nor_helpers_are_in_what_is_saved(teacher, tmp_path):
    before = weights(teacher)
    train(teacher, [*STUDENT, lessons(LOGITS, FEATURES, teacher=teacher)], runs=tmp_path, name="s")
    log = (tmp_path / "s/log.txt").read_text()
    assert "learns Logits, Features from" in log and "parameters of its own" in log and "distil_Logits" in log
    train(teacher, [*STUDENT, "distil=null"], runs=tmp_path, name="alone")
    student, alone = weights(tmp_path / "s"), weights(tmp_path / "alone")
    assert set(student) == set(alone) and any((student[k] != alone[k]).any() for k in alone)
    after = weights(teacher)
    assert all((before[k] == after[k]).all() for k in before)
    copy = shutil.move(teacher, tmp_path / "gone")
    try:
        assert evaluate_weights(tmp_path / "s") and export_run(tmp_path / "s", tmp_path / "e")
    finally:
        shutil.move(copy, teacher)


def test_the_teacher_stays_as_it_is_and_gets_no_gradients(teacher, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(distillation, "open_run", lambda path: opened.append(open_run(path)) or opened[-1])
    train(teacher, [*STUDENT, lessons(LOGITS, FEATURES, teacher=teacher)], runs=tmp_path, name="s")
    (task,) = opened
    before = weights(teacher)
    assert all((t.numpy() == before[name]).all() for name, t in task.model.state_dict().items())
    assert not task.model.training and all(p.grad is None for p in task.model.parameters())


def test_it_goes_on_exactly_where_it_stopped(teacher, tmp_path):
    how = [*STUDENT, lessons(LOGITS, FEATURES, teacher=teacher), "runtime.steps=4", "runtime.checkpoint.every=2"]
    train(teacher, how, runs=tmp_path, name="whole")
    train(teacher, how, runs=tmp_path, name="cut")
    for path in (tmp_path / "cut/weights").glob("*4*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (tmp_path / "cut/weights/best.safetensors").unlink()
    train(tmp_path / "cut", [], resume=True)
    one, two = weights(tmp_path / "whole"), weights(tmp_path / "cut")
    assert all((one[k] == two[k]).all() for k in one)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("mobilenetv2", ["{type: FSP, layers: {backbone.stem: backbone.stem, backbone.blocks.0: backbone.blocks.0}}"]),
        ("yolov3", ["{type: MaskedFeatures, layers: {neck: neck}}", "{type: Features, layers: {backbone: backbone}}"]),
        (
            "yolov3",
            ["{type: Logits, layers: {head.outs: head.outs}, activation: none}"],
        ),  # a list stands for its layers
        ("ssd", ["{type: Logits, layers: {head.cls_outs.0: head.cls_outs.0}, classes: 11}"]),
        ("faster_rcnn", ["{type: Features, layers: {neck: neck}}"]),
        (
            "deeplab",
            ["{type: Logits, layers: {decoder: decoder}}", "{type: MaskedFeatures, layers: {pyramid: pyramid}}"],
        ),
        ("tsn", [LOGITS, FEATURES]),
        ("pose", ["{type: Logits, layers: {out: out}, activation: none}", FEATURES]),  # evaluated mirrored too
    ],
)
def test_every_suite_s_networks_learn(tmp_path, name, written):
    whole = write_run(tmp_path, name)
    prune_run(whole, tmp_path / "small", Wishes(macs=0.5))
    config = read_config(tmp_path / "small", [*SHORT, lessons(*written, teacher=whole)])
    check_runs(config)
    train(tmp_path / "small", [*SHORT, lessons(*written, teacher=whole)], runs=tmp_path, name="taught")
    log = (tmp_path / "taught/log.txt").read_text()
    assert all(f"distil_{lesson[7:].split(',')[0]}" in log for lesson in written)


@pytest.mark.parametrize("inference", ["{flip: true, scales: [1.0, 0.5]}", "{mode: slide, window: 64, stride: 32}"])
def test_a_teacher_looks_once_however_it_is_evaluated(tmp_path, monkeypatch, inference):
    config, overrides = NETWORKS["deeplab"]
    monkeypatch.setitem(NETWORKS, "many_looks", (config, [*overrides, f"inference={inference}"]))
    run = write_run(tmp_path, "many_looks")
    check_runs(read_config(run, [*SHORT, lessons("{type: Logits, layers: {decoder: decoder}}", teacher=run)]))


def test_a_teacher_in_8_bits_is_told(teacher, tmp_path):
    train(teacher, [*SHORT, "eight_bits={batches: 1}"], runs=tmp_path, name="eight")
    train(teacher, [*STUDENT, lessons(LOGITS, teacher=tmp_path / "eight")], runs=tmp_path, name="s")
    assert "eight was trained in 8 bits; its layers teach with" in (tmp_path / "s/log.txt").read_text()


@pytest.mark.parametrize(
    ("written", "more", "said"),
    [
        ([LOGITS], ["distil.teachers=[nowhere]"], "distil.teachers: nowhere does not exist"),
        ([LOGITS], ["distil.teachers=[]"], "teachers names 0 runs"),
        ([], [], "losses is empty"),
        (["{type: Logits, layers: {fcc: fc}}"], [], "the student has no layer 'fcc'; did you mean 'fc'"),
        (["{type: Logits, layers: {fc: head}}"], [], "the teacher has no layer 'head'"),
        (["{type: Logits, layers: {fc: backbone.stem}}"], [], "both must be alike"),
        (["{type: Logit, layers: {fc: fc}}"], [], "did you mean 'Logits'"),
        (["{type: Features, layers: {backbone.stages.0: backbone.stages.3}}"], [], "name layers of one stride"),
        ([LOGITS], ["eight_bits={}"], "does not go with eight_bits"),
        ([LOGITS], ["distil.hard=-1"], "hard is -1"),
    ],
)
def test_what_is_wrong_is_told(teacher, written, more, said):
    with pytest.raises(PaddockError, match=said):
        check_runs(read_config(teacher, [*STUDENT, lessons(*written, teacher=teacher), *more]))


def test_a_layer_that_is_not_called_in_training_is_told(tmp_path):
    run = write_run(tmp_path, "yolov3")
    with pytest.raises(ConfigError, match="such as the layers within it"):
        check_runs(read_config(run, [*SHORT, lessons("{type: Features, layers: {head: head}}", teacher=run)]))


def test_a_teacher_of_another_suite_or_other_classes_is_told(teacher, tmp_path):
    other = write_run(tmp_path, "yolov3")
    with pytest.raises(ConfigError, match="both must be of the suite classification"):
        check_runs(read_config(teacher, [*STUDENT, lessons(LOGITS, teacher=other)]))
    export_run(teacher, tmp_path / "export")
    with pytest.raises(CheckpointError, match="is an exported model"):
        check_runs(read_config(teacher, [*STUDENT, lessons(LOGITS, teacher=tmp_path / "export")]))
    assert np.isfinite(weights(teacher)["fc.weight"]).all()
