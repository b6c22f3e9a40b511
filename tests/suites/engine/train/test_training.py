"""A whole run on the real core: kill -9 and resume to the same bits, workers, threads, eager, averages, errors."""

import itertools
import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import CheckpointError, ConfigError, NumericsError, WorkerError
from framework.io import load_tensors
from suites.engine.config import load_config
from suites.engine.run import checkpoint
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.train.check import check_runs
from suites.engine.train.hooks import Hook, Interval
from suites.engine.train.train_step import TrainStep
from suites.engine.train.training import evaluate_weights, train
from tests.suites.engine import toy

pytestmark = pytest.mark.pages

ROOT = Path(__file__).parents[4]
CONFIG = """
suite: toy
optimizer: {type: Momentum, momentum: 0.9, weight_decay: 1.0e-4}
schedule: {type: Cosine, base_lr: 0.2, reference_batch: 8, warmup_steps: 3}
runtime: {epochs: 4, seed: 3, workers: 0, log_every: 5, checkpoint: {every: 3}, ema: {decay: 0.9}, clip_norm: 1.0,
          evaluation: {every: 2, pictures: 2}}
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "toy.yml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The weights of an unbroken run: 20 steps."""
    folder = tmp_path_factory.mktemp("reference")
    (folder / "toy.yml").write_text(CONFIG)
    train(folder / "toy.yml", runs=folder)
    return folder / "toy"


def everything(run):
    """All bytes that training decided: the last checkpoint and the weights for use."""
    files = [*sorted(run.glob("weights/step_00000020/*.safetensors")), *sorted(run.glob("weights/*.safetensors"))]
    assert len(files) == 5
    tensors = {f"{file.name}/{name}": t.numpy() for file in files for name, t in load_tensors(file).items()}
    return tensors, json.loads((run / "weights/step_00000020/state.json").read_text())


def assert_same_run(a, b):
    (tensors_a, state_a), (tensors_b, state_b) = everything(a), everything(b)
    assert tensors_a.keys() == tensors_b.keys()
    different = [name for name in tensors_a if tensors_a[name].tobytes() != tensors_b[name].tobytes()]
    assert different == []
    assert state_a == state_b


class Kill(Hook):
    """Ends the process the hard way after a step, after all other hooks or before them."""

    def __init__(self, step, priority):
        self.step, self.priority = step, priority

    def after_step(self, trainer):
        if trainer.step == self.step:
            import os

            os.kill(os.getpid(), signal.SIGKILL)


KILLED = """
    import sys
    sys.path.insert(0, {root!r})
    from pathlib import Path
    from tests.suites.engine.train.test_training import Kill
    from suites.engine.train.training import train
    if __name__ == "__main__":
        train(Path({config!r}), ["runtime.workers=1"], runs=Path({runs!r}), name="killed",
              hooks=[Kill({step}, {priority})])
"""


@pytest.mark.parametrize("step, priority", [(8, 0), (12, 99)])
def test_a_run_killed_with_kill_9_and_resumed_equals_an_unbroken_one(tmp_path, config, reference, step, priority):
    script = tmp_path / "killed.py"
    values = {"root": str(ROOT), "config": str(config), "runs": str(tmp_path), "step": step, "priority": priority}
    script.write_text(textwrap.dedent(KILLED).format(**values))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    trainer = train(tmp_path / "killed", resume=True, hooks=[Kill(99, 0)])
    assert trainer.step == 20
    assert f"resumed at step {step // 3 * 3}" in (tmp_path / "killed/log.txt").read_text()
    assert_same_run(tmp_path / "killed", reference)


@pytest.mark.parametrize("override", ["runtime.workers=2", "runtime.threads=1", "runtime.eager=true"])
def test_workers_threads_and_eager_change_no_bit(tmp_path, config, reference, override):
    train(config, [override], runs=tmp_path)
    assert_same_run(tmp_path / "toy", reference)


def test_a_run_repeats_from_its_folder(tmp_path, reference):
    train(reference, runs=tmp_path, name="again")
    assert_same_run(tmp_path / "again", reference)


def test_training_learns_and_leaves_all_its_files(reference):
    assert json.loads((reference / "metrics.json").read_text())["score"] > 0.6
    assert {p.name for p in reference.iterdir()} == {
        "config.yml",
        "environment.json",
        "metrics.json",
        "metrics.jsonl",
        "plots.json",
        "data.json",
        "report.html",
        "processor.json",
        "log.txt",
        "events",
        "weights",
        "pictures",
        ".lock",
    }
    assert sorted(p.name for p in (reference / "pictures").iterdir()) == ["grey0.jpg", "grey1.jpg"]
    log = (reference / "log.txt").read_text()
    assert "learning rate: 0.2 for a batch of 8, so 0.1 for this batch of 4 (linear scaling)" in log
    assert "20 training samples, 5 steps an epoch, 20 steps" in log


def test_last_weights_are_the_moving_average(reference):
    last = load_tensors(reference / "weights/last.safetensors")
    average = load_tensors(reference / "weights/step_00000020/average.safetensors")
    trained = load_tensors(reference / "weights/step_00000020/model.safetensors")
    assert all(np.array_equal(last[name].numpy(), average[name].numpy()) for name in average)
    assert not np.array_equal(last["out.weight"].numpy(), trained["out.weight"].numpy())


def test_the_average_follows_its_formula(tmp_path, config):
    seen = []

    class Watch(Hook):
        def after_step(self, trainer):
            state = trainer.state_dict()
            seen.append((state["model"]["out.weight"].numpy().copy(), state["average"]["out.weight"].numpy().copy()))

    train(config, ["runtime.epochs=1"], runs=tmp_path, hooks=[Watch()])
    for update, ((_, before), (weight, after)) in enumerate(itertools.pairwise(seen), start=1):
        decay = min(0.9, (1 + update) / (10 + update))
        np.testing.assert_allclose(after, decay * before + (1 - decay) * weight, rtol=1e-5, atol=1e-7)


def test_evaluating_a_run_gives_the_figures_of_its_best_weights(reference):
    figures = json.loads((reference / "metrics.json").read_text())
    assert evaluate_weights(reference, weights=reference / "weights/last.safetensors")["score"] == figures["score"]


def test_a_config_without_weights_cannot_be_evaluated(config):
    with pytest.raises(ConfigError, match="a config has no weights; name a file with --weights"):
        evaluate_weights(config)


def test_nan_in_the_data_names_loss_and_samples(tmp_path, config):
    with pytest.raises(NumericsError) as caught:
        train(config, ["data.bad=7"], runs=tmp_path)
    assert "loss 'square' is nan, 'size' is nan at step" in str(caught.value) and "grey7.png" in str(caught.value)
    assert "failed: NumericsError" in (tmp_path / "toy/log.txt").read_text()


def test_a_killed_worker_ends_the_run_with_one_error(tmp_path, config):
    with pytest.raises(WorkerError, match="was killed by signal 9"):
        train(config, ["data.kill=7", "runtime.workers=1"], runs=tmp_path)


def test_training_on_from_other_weights_lists_what_does_not_fit(tmp_path, config, reference):
    weights = f"runtime.weights={reference}/weights/best.safetensors"
    train(config, [weights, "model.width=6", "runtime.epochs=1"], runs=tmp_path)
    log = (tmp_path / "toy/log.txt").read_text()
    assert "different: hidden.bias" in log and "out.bias" not in log


def test_a_checkpoint_of_another_model_is_refused(tmp_path, config, reference):
    with pytest.raises(
        CheckpointError, match=r"different: hidden\.bias \(float32 \[8\], the model has float32 \[6\]\)"
    ):
        evaluate_weights(config, ["model.width=6"], reference / "weights/best.safetensors")


def test_resuming_with_another_config_is_refused(reference):
    with pytest.raises(CheckpointError, match=r"another config \(different: runtime\.epochs\)"):
        train(reference, ["runtime.epochs=9"], resume=True)


def test_resuming_a_finished_run_changes_nothing(tmp_path, config):
    train(config, ["runtime.epochs=1"], runs=tmp_path)
    before = (tmp_path / "toy/weights/last.safetensors").read_bytes()
    assert train(config, ["runtime.epochs=1"], runs=tmp_path, resume=True).step == 5
    assert (tmp_path / "toy/weights/last.safetensors").read_bytes() == before


def test_check_runs_both_steps(config):
    check_runs(load_config(config))
    with pytest.raises(NumericsError, match="check: loss 'square' is nan on the first batch"):
        check_runs(load_config(config, ["data.bad=7", "data.batch_size=20"]))


def test_check_names_an_input_that_the_batch_lacks(config, monkeypatch):
    monkeypatch.setattr(toy.ToyTask, "train_inputs", ("image", "labels"))
    with pytest.raises(ConfigError, match="the batch has image, label, name but the step takes labels too"):
        check_runs(load_config(config))


def test_the_loss_over_the_evaluation_set_is_a_figure_that_may_decide(config, tmp_path):
    chosen = "runtime.evaluation={every: 2, pictures: 0, loss: true, main: loss}"
    loop = train(config, [chosen, "data.samples=18"], runs=tmp_path)  # the last batch is smaller
    figures = json.loads((tmp_path / "toy/metrics.json").read_text())
    with loop.task.eval_loader(workers=0) as loader, no_grad(), loop.evaluation_weights():
        loop.task.model.eval()
        batches = list(loader)
        whole = {name: from_numpy(np.concatenate([batch[name] for batch in batches])) for name in ("image", "label")}
        expected = {name: float(loss.mean) for name, loss in loop.task.train_step(whole).items()}
    assert figures["loss/square"] == pytest.approx(expected["square"], rel=1e-5)
    assert figures["loss"] == pytest.approx(sum(expected.values()), rel=1e-5)
    assert (tmp_path / "toy/weights/best.safetensors").is_file()


def test_a_run_can_end_after_minutes_and_is_evaluated_then(config, tmp_path):
    loop = train(config, ["runtime.minutes=1.0e-9"], runs=tmp_path)
    assert loop.step == 1 and json.loads((tmp_path / "toy/metrics.json").read_text())["step"] == 1
    assert "runtime.minutes, 1e-09, are over" in (tmp_path / "toy/log.txt").read_text()


def test_evaluations_go_by_steps_and_checkpoints_by_epochs(config, tmp_path):
    evaluated = []

    class Keep(Hook):
        def after_evaluation(self, loop, metrics):
            evaluated.append(loop.step)

    steps, epochs = "{every: 6, unit: steps, pictures: 0}", "{every: 1, unit: epochs, keep: 99}"
    train(config, [f"runtime.evaluation={steps}", f"runtime.checkpoint={epochs}"], runs=tmp_path, hooks=[Keep()])
    assert evaluated == [6, 12, 18, 20]
    assert Checkpoints(tmp_path / "toy/weights").steps() == [5, 6, 10, 12, 15, 18, 20]


def test_evaluations_by_shares_of_the_run_and_a_length_in_updates(config, tmp_path, capsys):
    evaluated = []

    class Keep(Hook):
        def after_evaluation(self, loop, metrics):
            evaluated.append(loop.step)

    every = "runtime.evaluation={every: 30, unit: percent, pictures: 0}"
    train(config, [every, "runtime.least_steps=33"], runs=tmp_path, hooks=[Keep()])
    assert evaluated == [10, 20, 30, 33]  # the first steps at or after 9.9, 19.8 and 29.7
    assert "33 steps (7 epochs and not 4, for runtime.least_steps)" in capsys.readouterr().out


def test_minutes_between_two_checkpoints_are_those_of_the_clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    interval, said = Interval(2, "minutes"), []
    for now[0] in (60.0, 119.0, 121.0, 200.0, 240.9, 242.0):
        said.append(interval.due(None))
    assert said == [False, False, True, False, False, True]


def test_check_makes_two_updates_saves_and_evaluates_and_leaves_no_file(config, tmp_path, monkeypatch):
    made, folders = [], []
    monkeypatch.setattr(checkpoint, "save", lambda folder, state, save=checkpoint.save: (
        folders.append(folder), save(folder, state)))  # fmt: skip
    monkeypatch.setattr(toy.Error, "update", lambda self, outputs, batch: made.append(outputs["brightness"].shape))
    monkeypatch.setattr(TrainStep, "update", lambda self, batches, lr, update=TrainStep.update: (
        made.append(len(batches)), update(self, batches, lr))[1])  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    check_runs(load_config(config, ["runtime.accumulate=2"]))
    assert made == [2, 2, (4,)]
    assert len(folders) == 1 and not folders[0].parent.exists() and sorted(tmp_path.rglob("*")) == before


def test_check_finds_what_only_an_update_shows(config):
    """With a step this large the second loss overflows, which a forward pass alone never sees."""
    lines = ["schedule={type: Constant, base_lr: 1.0e+30}", "runtime.clip_norm=null", "runtime.ema=null"]
    with pytest.raises(NumericsError, match=r"check: loss 'square' is (nan|inf) after 1 update at rate"):
        check_runs(load_config(config, lines))
