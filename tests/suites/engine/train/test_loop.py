"""The loop's promises, with a step made of NumPy: exact resume, Ctrl-C, the NaN guard, best weights, early stopping."""

import contextlib
import io
import json
import os
import signal

import numpy as np
import pytest
from rich.console import Console

from framework import from_numpy
from framework.data import DataLoader, World
from framework.data.world import ALONE
from framework.errors import CheckpointError, ConfigError, NumericsError
from framework.io import load_tensors
from suites.engine.config.settings import CheckpointSettings, EarlyStopSettings, EvaluationSettings
from suites.engine.contract.metric import Metric
from suites.engine.contract.step import Update
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.run.folder import RunFolder, best_weights
from suites.engine.run.log import RunLog
from suites.engine.train.hooks import Assess, Events, Hook, NanGuard, ProgressBar, Saving
from suites.engine.train.hooks.progress import duration
from suites.engine.train.loop import TrainingLoop
from tests.suites.engine.signals import handled


class Points:
    """Ten samples; the batch of the last one gives a loss that is no number if `bad`."""

    def __init__(self, bad=False):
        self.bad = bad

    def __len__(self):
        return 10

    def __getitem__(self, index):
        value = np.nan if self.bad and index == 9 else index
        return {"x": np.float64(value), "name": f"p{index}.png"}


def jitter(sample, rng):
    return {**sample, "x": sample["x"] + rng.normal()}


class NumpyModel:
    """One weight."""

    def __init__(self):
        self.w = np.zeros(3)

    def state_dict(self):
        return {"w": from_numpy(self.w.copy())}


class NumpyStep:
    """Moves the weight towards the batch, with momentum and its own random numbers."""

    scaler = None

    def __init__(self, model):
        self.model, self.velocity, self.updates = model, np.zeros(3), 0

    def __call__(self, batches, lr):
        (batch,) = batches
        pull = batch["x"].mean() - self.model.w
        self.velocity = 0.9 * self.velocity + lr * pull * np.random.Generator(np.random.Philox(self.updates)).random(3)
        self.model.w = self.model.w + self.velocity
        self.updates += 1
        return Update({"pull": float(np.abs(pull).sum()), "zero": 0.0}, {"speed": float(np.abs(self.velocity).sum())})

    def averaged_weights(self):
        return contextlib.nullcontext()

    def state_dict(self):
        return {
            "model": self.model.state_dict(),
            "optimizer": {"v": from_numpy(self.velocity.copy()), "n": self.updates},
        }

    def load_state_dict(self, state):
        self.model.w = state["model"]["w"].numpy().copy()
        self.velocity, self.updates = state["optimizer"]["v"].numpy().copy(), state["optimizer"]["n"]


class Scores(Metric):
    """Gives the figures of a list, one an evaluation."""

    main_metric, lower_is_better, more_eval = "AP", False, ()

    def __init__(self, scores=()):
        self.model, self.scores, self.evaluations = NumpyModel(), list(scores), 0
        self.eval_inputs = ("x",)

    def metric(self):
        return self

    def update(self, outputs, batch):
        pass

    def result(self):
        self.evaluations += 1
        return {"AP": self.scores.pop(0) if self.scores else 0.5, "AP50": 0.75}

    def state(self):
        return {}

    def merge(self, state):
        raise AssertionError("one evaluation has no parts")

    def count(self, tally, dataset, training):
        pass

    def count_batch(self, tally, batch, training):
        pass

    def resources(self):
        return {}

    def processor(self):
        return None

    def examples(self, count):
        return []

    def names(self, batch):
        return batch["name"]


def make(
    tmp_path,
    *,
    steps=12,
    scores=(),
    bad=False,
    hooks=(),
    every=4,
    evaluate_every=1,
    patience=None,
    min_delta=0.0,
    target=None,
    console=None,
    guard_every=1,
    world=ALONE,
    **evaluation,
):
    run = RunFolder(tmp_path)
    run.weights.mkdir(parents=True, exist_ok=True)
    task = Scores(scores)
    loader = DataLoader(Points(bad), 3, shuffle=True, seed=1, transforms=[jitter])  # 4 steps an epoch
    assess = Assess(
        run,
        {"": (task, DataLoader(Points(), 5))},
        lambda arrays: arrays,
        EvaluationSettings(every=evaluate_every, pictures=0, **evaluation),
        EarlyStopSettings(patience or 10, min_delta, target) if patience or target else None,
    )
    saving = Saving(run.weights, CheckpointSettings(every=every, keep=2))
    usual = [NanGuard(every=guard_every), ProgressBar(every=2), Events(run.events, every=2), assess, saving]
    return TrainingLoop(
        task,
        NumpyStep(task.model),
        loader,
        total_steps=steps,
        learning_rate=lambda step: 0.5 / (1 + step),
        log=RunLog(run.path / "log.txt", console or Console(file=io.StringIO())),
        hooks=[*usual, *hooks],
        world=world,
    )


class Do(Hook):
    """Calls a function after a given step."""

    def __init__(self, step, action):
        self._step, self._action = step, action

    def after_step(self, trainer):
        if trainer.step == self._step:
            self._action()


def fail():
    raise RuntimeError("power cut")


@pytest.mark.parametrize("stop", [1, 3, 4, 5, 8, 11])
def test_a_run_resumed_after_a_crash_ends_with_the_same_bits(tmp_path, stop):
    whole = make(tmp_path / "whole", scores=[0.1, 0.3, 0.2])
    whole.train()
    broken = make(tmp_path / "broken", scores=[0.1, 0.3, 0.2], every=3, hooks=[Do(stop, fail)])
    with pytest.raises(RuntimeError):
        broken.train()
    checkpoint = Checkpoints(tmp_path / "broken/weights").latest()
    done = checkpoint["trainer"]["step"] if checkpoint else 0
    assert done <= stop
    resumed = make(tmp_path / "broken", scores=[0.1, 0.3, 0.2][done // 4 :], every=3, hooks=[Do(99, fail)])
    if checkpoint:
        resumed.load_state_dict(checkpoint)
    resumed.train()
    assert resumed.step == 12
    assert resumed.task.model.w.tobytes() == whole.task.model.w.tobytes()
    for name in ("last", "best"):
        a, b = (load_tensors(tmp_path / side / f"weights/{name}.safetensors")["w"] for side in ("whole", "broken"))
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_ctrl_c_saves_and_the_run_can_go_on(tmp_path):
    whole = make(tmp_path / "whole")
    whole.train()
    before = signal.getsignal(signal.SIGINT)
    stopped = make(tmp_path / "a", hooks=[Do(6, lambda: os.kill(os.getpid(), signal.SIGINT))], every=100)
    stopped.train()
    assert stopped.interrupted and stopped.step == 6
    assert signal.getsignal(signal.SIGINT) is before
    resumed = make(tmp_path / "a", hooks=[Do(99, fail)])
    resumed.load_state_dict(Checkpoints(tmp_path / "a/weights").latest())
    assert resumed.step == 6
    resumed.train()
    assert resumed.task.model.w.tobytes() == whole.task.model.w.tobytes()


def test_a_second_ctrl_c_stops_at_once(tmp_path):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    trainer = make(tmp_path, hooks=[Do(2, twice)])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()


def test_an_evaluation_cut_off_by_ctrl_c_is_made_up_for(tmp_path):
    trainer = make(tmp_path, scores=[0.9, 0.1, 0.1])
    trainer.task.update = lambda outputs, batch: os.kill(os.getpid(), signal.SIGINT)
    trainer.train()
    assert trainer.step == 4 and not (tmp_path / "metrics.json").exists()
    resumed = make(tmp_path, scores=[0.9, 0.1, 0.1])
    resumed.load_state_dict(Checkpoints(tmp_path / "weights").latest())
    resumed.train()
    assert resumed.task.evaluations == 3


def test_nan_names_the_loss_and_the_samples_and_spares_what_is_saved(tmp_path):
    trainer = make(tmp_path, bad=True, every=1)
    with pytest.raises(NumericsError) as caught:
        trainer.train()
    text = str(caught.value)
    assert text.startswith("train: loss 'pull' is nan at step ")
    assert "p9.png" in text and "lower schedule.base_lr" in text and "checkpoints before it are intact" in text
    saved = Checkpoints(tmp_path / "weights").latest()
    assert saved["trainer"]["step"] == trainer.step - 1
    assert np.isfinite(saved["model"]["w"].numpy()).all()


def test_a_window_of_steps_is_looked_at_before_anything_is_saved_and_the_first_bad_batch_is_named(tmp_path):
    trainer = make(tmp_path, bad=True, every=3, evaluate_every=0, guard_every=100)
    bad = []
    trainer._hooks.append(Do(99, fail))
    trainer._hooks[-1].after_step = lambda loop: bad.append(loop.batches[0]["name"]) if not bad else None
    with pytest.raises(NumericsError) as caught:
        trainer.train()
    step = int(str(caught.value).split("at step ")[1].split()[0])
    assert "p9.png" in str(caught.value) and step <= 4
    saved = Checkpoints(tmp_path / "weights").latest()
    assert saved is None or saved["trainer"]["step"] < step
    assert trainer.step == -(-step // 3) * 3  # the next save, where it was looked at


def test_a_window_of_steps_is_looked_at_before_an_evaluation(tmp_path):
    trainer = make(tmp_path, bad=True, every=100, guard_every=100)
    with pytest.raises(NumericsError, match=r"p9\.png"):
        trainer.train()
    assert trainer.step == 4 and trainer.task.evaluations == 0


class Counted(float):
    """A number that counts how often numbers of its kind are read."""

    reads = 0

    def __float__(self):
        Counted.reads += 1
        return float.__add__(self, 0.0)


def test_numbers_of_a_step_are_read_when_somebody_looks_and_once(tmp_path):
    Counted.reads, seen = 0, []
    trainer = make(tmp_path, steps=8, every=100, evaluate_every=0, guard_every=4)
    trainer._hooks = [hook for hook in trainer._hooks if isinstance(hook, NanGuard)]
    trainer._step = CountedStep(trainer.task.model)
    trainer._hooks.append(Do(0, fail))
    trainer._hooks[-1].after_step = lambda loop: seen.append(Counted.reads)
    trainer.train()
    assert seen == [0, 0, 0, 4, 4, 4, 4, 8]
    assert trainer.update.losses == trainer.losses and Counted.reads == 8


class CountedStep(NumpyStep):
    def __call__(self, batches, lr):
        super().__call__(batches, lr)
        return Update({"pull": Counted(1.0)})


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    trainer = make(tmp_path, every=1)
    trainer._hooks.insert(0, Do(3, lambda: trainer.task.model.w.__setitem__(0, np.inf)))
    with pytest.raises(NumericsError, match="weight 'w' has values that are NaN or infinite at step 3"):
        trainer.train()
    assert Checkpoints(tmp_path / "weights").steps() == [1, 2]


def test_best_weights_are_those_of_the_best_evaluation(tmp_path):
    kept = {}
    trainer = make(tmp_path, scores=[0.1, 0.3, 0.2], hooks=[Do(8, lambda: kept.update(w=trainer.task.model.w.copy()))])
    trainer.train()
    np.testing.assert_array_equal(load_tensors(tmp_path / "weights/best.safetensors")["w"].numpy(), kept["w"])
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    last = {"AP": 0.2, "AP50": 0.75, "step": 12, "epoch": 3.0}
    assert metrics == {"AP": 0.3, "AP50": 0.75, "step": 8, "epoch": 2.0, "last": last} and list(metrics)[-1] == "last"
    outcome = "best AP 0.3 at step 8 (best.safetensors), last AP 0.2 at step 12 (last.safetensors)"
    assert trainer.outcome == outcome


def test_the_worst_cases_are_drawn_of_the_last_evaluation_and_of_those_that_are_the_best_so_far(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(RunFolder, "write_worst", lambda self, task, *rest: drawn.append(task.evaluations))
    make(tmp_path, steps=20, scores=[0.3, 0.1, 0.4, float("nan"), 0.2]).train()
    assert drawn == [1, 3, 5]


def test_a_figure_that_the_metric_does_not_give_is_said(tmp_path):
    trainer = make(tmp_path)
    trainer.task.main_metric = "mAP"
    with pytest.raises(ConfigError, match="the metric gives AP, AP50 but not 'mAP'"):
        trainer.train()


def test_early_stopping_waits_for_its_patience(tmp_path):
    trainer = make(tmp_path, steps=100, scores=[0.1, 0.3, 0.2, 0.3, 0.4], patience=2)
    trainer.train()
    assert trainer.step == 16
    assert (
        "stopped early at step 16: AP was not above 0.3 in the last 2 evaluations" in (tmp_path / "log.txt").read_text()
    )


def test_the_margin_of_early_stopping_does_not_decide_which_weights_are_best(tmp_path):
    kept = {}
    trainer = make(
        tmp_path,
        steps=100,
        scores=[0.1, 0.5, 0.55, 0.58, 0.4],
        patience=3,
        min_delta=0.1,
        hooks=[Do(16, lambda: kept.update(w=trainer.task.model.w.copy()))],
    )
    trainer.train()
    assert trainer.step == 20
    assert "AP was not above 0.6 in the last 3 evaluations" in (tmp_path / "log.txt").read_text()
    np.testing.assert_array_equal(load_tensors(tmp_path / "weights/best.safetensors")["w"].numpy(), kept["w"])


@pytest.mark.parametrize(("choice", "scores"), [({"better": "lower"}, [0.3, 0.1, 0.2]), ({"main": "AP50"}, [0.1] * 3)])
def test_the_config_chooses_the_main_figure_and_its_direction(tmp_path, choice, scores):
    kept = {}
    best = 8 if "better" in choice else 4  # AP50 never changes
    hooks = [Do(best, lambda: kept.update(w=trainer.task.model.w.copy()))]
    trainer = make(tmp_path, steps=12, scores=scores, hooks=hooks, **choice)
    trainer.train()
    np.testing.assert_array_equal(load_tensors(tmp_path / "weights/best.safetensors")["w"].numpy(), kept["w"])


def test_early_stopping_of_a_figure_that_should_fall_says_so(tmp_path):
    trainer = make(tmp_path, steps=100, scores=[0.5, 0.3, 0.4, 0.35, 0.6], patience=2, better="lower")
    trainer.train()
    assert trainer.step == 16
    assert "AP was not below 0.3 in the last 2 evaluations" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(("scores", "target", "better"), [([0.1, 0.3], 0.3, "higher"), ([0.5, 0.15], 0.15, "lower")])
def test_a_run_ends_at_a_figure_that_is_good_enough(tmp_path, scores, target, better):
    trainer = make(tmp_path, steps=100, scores=[*scores, 0.2], target=target, better=better)
    trainer.train()
    assert f"at step 8: AP is {target}, and {target} was wanted" in (tmp_path / "log.txt").read_text()


def test_steps_that_are_small_each_but_not_together_go_on(tmp_path):
    trainer = make(tmp_path, steps=24, scores=[0.1, 0.16, 0.22, 0.28, 0.34, 0.4], patience=2, min_delta=0.1)
    trainer.train()
    assert trainer.step == 24 and "stopped early" not in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("scores, best", [([np.nan, 0.1, 0.3, 0.2], 12), ([0.3, np.nan, 0.1], 4)])
def test_a_figure_that_is_no_number_is_never_the_best(tmp_path, scores, best):
    kept = {}
    trainer = make(tmp_path, scores=scores, steps=4 * len(scores), hooks=[])
    trainer._hooks.insert(0, Do(best, lambda: kept.update(w=trainer.task.model.w.copy())))
    trainer.train()
    np.testing.assert_array_equal(load_tensors(tmp_path / "weights/best.safetensors")["w"].numpy(), kept["w"])


def test_figures_that_are_no_numbers_stop_early_and_leave_the_last_weights(tmp_path):
    trainer = make(tmp_path, steps=100, scores=[np.nan] * 9, patience=3)
    trainer.train()
    assert trainer.step == 12 and not (tmp_path / "weights/best.safetensors").exists()
    assert best_weights(RunFolder(tmp_path)).name == "last.safetensors"
    assert "AP was not a number in the last 3 evaluations" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_ends_save_too(tmp_path, number):
    with handled(number, signal.SIG_DFL):
        trainer = make(tmp_path, hooks=[Do(6, lambda: os.kill(os.getpid(), number))], every=100)
        trainer.train()
    assert trainer.interrupted and Checkpoints(tmp_path / "weights").steps()[-1] == 6


def test_a_signal_that_is_ignored_as_nohup_does_stays_ignored(tmp_path):
    with handled(signal.SIGHUP, signal.SIG_IGN):
        trainer = make(tmp_path, hooks=[Do(6, lambda: os.kill(os.getpid(), signal.SIGHUP))])
        trainer.train()
        assert trainer.step == 12 and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_there_is_always_an_evaluation_at_the_end(tmp_path):
    trainer = make(tmp_path, steps=6, evaluate_every=0)
    trainer.train()
    assert trainer.task.evaluations == 1


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    trainer = make(tmp_path, steps=4)
    trainer.train()
    state = Checkpoints(tmp_path / "weights").latest()
    state["trainer"]["loader"]["samples"] = 11
    with pytest.raises(CheckpointError, match="samples 11 but this loader has 10"):
        make(tmp_path).load_state_dict(state)


def test_hooks_run_by_priority_and_are_closed_after_an_error(tmp_path):
    calls = []

    class Early(Hook):
        priority = 10

        def after_step(self, trainer):
            calls.append("early")
            raise RuntimeError

    class Late(Hook):
        priority = 5

        def after_step(self, trainer):
            calls.append("late")

        def close(self, trainer):
            calls.append("closed")

    with pytest.raises(RuntimeError):
        make(tmp_path, hooks=[Early(), Late()]).train()
    assert calls == ["late", "early", "closed"]


def test_progress_says_loss_rate_wait_and_time_left(tmp_path):
    screen = io.StringIO()
    make(tmp_path, console=Console(file=screen, width=200)).train()
    line = next(line for line in screen.getvalue().splitlines() if line.startswith("step 4/12 epoch 0"))
    for part in ("loss ", "(pull ", "zero 0", "| speed ", "| lr 0.125 |", "s/step", "data ", " left"):
        assert part in line
    assert line in (tmp_path / "log.txt").read_text()
    assert "evaluation at step 4: AP 0.5 AP50 0.75" in screen.getvalue()


def test_a_terminal_gets_a_bar_and_the_log_still_has_lines(tmp_path):
    screen = io.StringIO()
    make(tmp_path, console=Console(file=screen, force_terminal=True, width=200)).train()
    assert "12/12" in screen.getvalue()
    assert "step 12/12" in (tmp_path / "log.txt").read_text()


def test_events_can_be_read_back(tmp_path):
    make(tmp_path).train()
    (file,) = (tmp_path / "events").iterdir()
    data = file.read_bytes()
    for tag in (b"loss/pull", b"learning_rate", b"metrics/AP50", b"seconds/data_wait"):
        assert tag in data


@pytest.mark.parametrize("seconds, text", [(0.2, "1 s"), (59, "59 s"), (200, "3:20"), (7400, "2:03:20")])
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text


def test_the_first_of_several_processes_writes_for_all(tmp_path):
    make(tmp_path / "second", world=World(1, 2)).train()
    assert list((tmp_path / "second/weights").glob("step_*")) == []
    assert not (tmp_path / "second/events").exists()
