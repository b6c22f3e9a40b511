"""Students that learn from a teacher: by logits computed before or in the step, by layers, with further texts."""

import json
import os

import numpy as np
import pytest

from framework import from_numpy, tensor
from framework.errors import CheckpointError, ConfigError, DataError
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.check import check_runs
from suites.engine.train.hooks import Hook
from suites.engine.train.training import evaluate_weights, train
from suites.nlp.datasets import Labelled
from suites.nlp.slim.settings import Distil
from suites.nlp.slim.teacher import Teachers
from tests.suites.nlp.slim import toy

STUDENT = toy.TEACHER.replace("layers: 4", "layers: 2") + "distil: {teachers: [ROOT/teacher], online: true}\n"


class Terms(Hook):
    """Keeps the loss terms of each step."""

    def __init__(self):
        self.seen = []

    def after_step(self, trainer):
        self.seen.append(dict(trainer.losses))


def trained(folder, text, *overrides, steps=4, name="run"):
    terms = Terms()
    train(toy.write_config(folder, text, steps), overrides, runs=folder, name=name, hooks=[terms], overwrite=True)
    return terms.seen


def task_and_batch(folder, text, *overrides):
    task = build_task(read_config(toy.write_config(folder, text), overrides))
    task.begin(folder / "made", lambda line: None, 0)
    (folder / "made").mkdir(exist_ok=True)
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    task.model.eval()
    return task, {name: from_numpy(batch[name]) for name in task.train_inputs}, batch


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_a_student_with_a_vocabulary_of_its_own_learns_what_the_teacher_says(folder):
    seen = trained(folder, toy.BOW, "distil.hard=0", "distil.augment={times: 2}", steps=90)
    assert list(seen[0]) == ["distillation"] and seen[-1]["distillation"] < seen[0]["distillation"] / 3
    examples = [Labelled("a b"), Labelled("s t s"), Labelled("k a"), Labelled("n o p")]
    teacher, student = (open_model(folder / name) for name in ("teacher", "run"))
    batches = [m.processor.prepare(examples) for m in (teacher, student)]
    a, b = (m.predict({k: x[k] for k in m.inputs})["scores"] for m, x in zip((teacher, student), batches, strict=True))
    assert (a.argmax(axis=1) == b.argmax(axis=1)).all()
    # The run needs neither teacher nor its labels once it is trained.
    os.rename(folder / "teacher", folder / "gone")
    assert evaluate_weights(folder / "run")["accuracy"] > 0.6
    assert export_run(folder / "run", folder / "export").largest_difference < 1e-6


@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("reduction", ["rows", "elements"])
def test_the_divergence_is_the_formulas(folder, reduction, square):
    options = [f"distil.{k}={v}" for k, v in {"temperature": 3, "soft": 0.5, "reduction": reduction}.items()]
    options.append(f"distil.times_square={str(square).lower()}")
    task, inputs, batch = task_and_batch(folder, toy.BOW, *options)
    found = {name: float(term.mean) for name, term in task.train_step(inputs).items()}
    logits = task.outputs(inputs).numpy().astype(np.float64)
    p, q = softmax(np.log(batch["teacher"].astype(np.float64)) / 3), softmax(logits / 3)
    each = p * (np.log(p) - np.log(q))
    mean = each.sum(axis=1).mean() if reduction == "rows" else each.mean()
    assert found["distillation"] == pytest.approx(0.5 * mean * (9 if square else 1), rel=1e-4)
    hard = -np.log(softmax(logits))[np.arange(len(logits)), batch["targets"]].mean()
    assert found["cross_entropy"] == pytest.approx(hard, rel=1e-5)


def test_a_teacher_in_the_step_says_what_its_file_says(folder):
    before, before_inputs, batch = task_and_batch(folder, toy.BOW)
    within, within_inputs, ragged = task_and_batch(folder, toy.BOW, "distil.online=true")
    assert ragged["teacher_offsets"][-1] == len(ragged["teacher_ids"]) == len(ragged["ids"]) + 2 * len(batch["targets"])
    a, b = before.train_step(before_inputs), within.train_step(within_inputs)
    for name in ("cross_entropy", "distillation"):
        assert float(a[name].mean) == pytest.approx(float(b[name].mean), rel=1e-4)


def test_several_teachers_answer_with_their_mean_whatever_the_order_of_their_classes(folder):
    text = toy.TEACHER.replace("num_classes: 2\n", "num_classes: 2\n  classes: [good, bad]\n")
    train(toy.write_config(folder, text, 1), runs=folder, name="other")
    examples = [Labelled("a b"), Labelled("s t")]
    paths, classes = [str(folder / name) for name in ("teacher", "other")], ["bad", "good"]
    one, two = (Teachers([path], classes).probabilities(examples) for path in paths)
    assert Teachers(paths, classes).probabilities(examples) == pytest.approx((one + two) / 2)
    turned = Teachers([paths[1]], ["good", "bad"]).probabilities(examples)
    assert (turned == two[:, ::-1]).all()


def test_layers_are_learnt_and_their_projections_are_no_part_of_the_model(folder):
    text = STUDENT.replace("hidden_size: 32", "hidden_size: 16")
    seen = trained(folder, text, "distil.layers={map: {0: 0, 1: 2, 2: 4}}", steps=50)
    assert list(seen[0]) == ["cross_entropy", "distillation", "layers"]
    assert seen[-1]["layers"] < seen[0]["layers"] / 2
    assert not any("helpers" in name or "linears" in name for name in open_model_names(folder / "run"))
    assert evaluate_weights(folder / "run")["accuracy"] >= 0


def open_model_names(run):
    from framework.io import load_tensors

    return load_tensors(run / "weights" / "best.safetensors")


def test_equal_layers_are_no_distance_apart(folder):
    text = toy.TEACHER + "distil: {teachers: [ROOT/teacher], online: true, layers: {}}\n"
    task, inputs, _ = task_and_batch(folder, text)
    assert task.train_inputs == ("ids", "offsets", "segment_ids", "targets") and task.helpers is None
    task.start_from(folder / "teacher" / "weights" / "best.safetensors")
    terms = task.train_step(inputs)
    assert float(terms["layers"].mean) < 1e-10 and abs(float(terms["distillation"].mean)) < 1e-6


def test_a_resumed_run_has_the_same_bits(folder):
    text = STUDENT.replace("hidden_size: 32", "hidden_size: 16") + "  # \n"
    options = ["distil.layers={}", "distil.last_epoch_hard=true", "runtime.checkpoint.every=3"]
    trained(folder, text, *options, steps=8, name="whole")

    class Stop(Hook):
        def after_step(self, trainer):
            trainer.interrupted = trainer.step == 3

    train(folder / "c.yml", options, runs=folder, name="cut", hooks=[Stop()])
    train(folder / "cut", resume=True)
    whole, cut = ((folder / name / "weights" / "last.safetensors").read_bytes() for name in ("whole", "cut"))
    assert whole == cut


def test_the_last_epoch_is_learnt_from_labels_alone(folder):
    seen = trained(folder, toy.BOW, "distil.last_epoch_hard=true", steps=8)  # two epochs of four steps
    assert [step["distillation"] > 0 for step in seen] == [True] * 4 + [False] * 4


def test_texts_of_files_without_labels_are_learnt_from(folder):
    (folder / "more.txt").write_text("a b c\n\nt s r\n")
    (folder / "more.jsonl").write_text(json.dumps({"text": "k l"}) + "\n")
    more = (
        f"[{{type: TextLines, path: {folder}/more.txt}}, {{type: JsonLines, path: {folder}/more.jsonl, label: null}}]"
    )
    task, _, _ = task_and_batch(folder, toy.BOW, f"distil.unlabelled={more}")
    samples = task.train_loader(seed=0, workers=0).dataset
    assert len(samples) == 64 + 3 and samples[64]["name"] == f"{folder}/more.txt:1"
    assert [int(samples[i]["targets"]) for i in range(64, 67)] == [-100] * 3
    task, _, _ = task_and_batch(folder, toy.BOW, f"distil.unlabelled={more}", "distil.extra_labels=teacher")
    samples = task.train_loader(seed=0, workers=0).dataset
    assert all(int(samples[i]["targets"]) == samples[i]["teacher"].argmax() for i in range(64, 67))


def test_labels_are_kept_in_the_runs_folder_and_belong_to_its_data(folder):
    trained(folder, toy.BOW)
    kept = folder / "run" / "teacher_labels.safetensors"
    shared = f"distil.labels={folder}/shared.safetensors"
    kept.rename(folder / "shared.safetensors")
    trained(folder, toy.BOW, shared, name="second")
    (folder / "train.tsv").write_text((folder / "train.tsv").read_text() + "good\ta a a\n")
    with pytest.raises(DataError, match=r"shared.safetensors: holds labels of other texts"):
        trained(folder, toy.BOW, shared, name="third")


def test_a_config_check_asks_the_teacher_little(folder):
    check_runs(read_config(toy.write_config(folder, toy.BOW), ["distil.augment={}"]))
    assert not list(folder.glob("*/teacher_labels*"))


def test_what_is_wrong_is_told(folder):
    def fails(error, said, text, *overrides):
        with pytest.raises(error) as found:
            trained(folder, text, *overrides)
        assert said in str(found.value)

    fails(CheckpointError, "nowhere does not exist; train the teacher first", toy.BOW, "distil.teachers=[nowhere]")
    fails(CheckpointError, f"{folder} holds neither a run nor", toy.BOW, f"distil.teachers=['{folder}']")
    fails(ConfigError, "temperature is 0.0; it must be above 0", toy.BOW, "distil.temperature=0")
    fails(ConfigError, "teachers is empty", toy.BOW, "distil.teachers=[]")
    fails(ConfigError, "nothing is learnt from the teacher", toy.BOW, "distil.soft=0")
    fails(ConfigError, "does nothing where 'online' is False", toy.BOW, "distil.layers={}")
    fails(ConfigError, "online takes one teacher", toy.BOW, "distil.online=true", "distil.labels=x")
    fails(ConfigError, "cuts texts to other tokens than the student", toy.BOW, "distil.online=true", "distil.layers={}")
    fails(
        ConfigError,
        "the teacher has no layer 9; it has 0 (the embeddings) to 4",
        STUDENT,
        "distil.layers={map: {1: 9}}",
    )
    fails(ConfigError, "the student has no layer 3", STUDENT, "distil.layers={map: {3: 4}}")
    fails(ConfigError, "takes the problem Classification, not Regression", toy.BOW, "problem={type: Regression}")
    toy.write_data(folder, ("yes", "no"))
    fails(ConfigError, "tells bad, good apart but the student's classes are no, yes", toy.BOW)


def test_an_exported_teacher_cannot_run_in_the_step(folder):
    export_run(folder / "teacher", folder / "export")
    with pytest.raises(CheckpointError, match="is an exported model, which cannot run inside a training step"):
        trained(folder, toy.BOW, "distil.online=true", f"distil.teachers=['{folder}/export']")
    trained(folder, toy.BOW, f"distil.teachers=['{folder}/export']")


def test_the_share_of_the_teachers_terms_is_a_state(folder):
    task, inputs, _ = task_and_batch(folder, toy.BOW)
    task._distillation.share.set(tensor(np.float32(0)))
    assert float(task.train_step(inputs)["distillation"].mean) == 0
    assert Distil(teachers=["x"]).temperature == 1
