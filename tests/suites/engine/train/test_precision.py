"""Mixed precision of a run: what the config takes, what the log shows, exact resume, and errors that end a run."""

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import CheckpointError, ConfigError, NumericsError
from framework.io import load_tensors
from framework.optim import AdamW, LossScaler
from suites.engine.config import load_config
from suites.engine.contract.losses import Loss, count_of
from suites.engine.train.averaging import MovingAverage
from suites.engine.train.hooks import Hook
from suites.engine.train.train_step import TrainStep
from suites.engine.train.training import train
from tests.suites.engine import toy  # noqa: F401  (registers the suite)

CONFIG = """
suite: toy
data: {samples: 24, batch_size: 4}
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 0.05, reference_batch: 4}
runtime:
  epochs: 3
  workers: 0
  log_every: 1
  checkpoint: {every: 4}
  evaluation: {every: 0, pictures: 0}
  ema: {decay: 0.9}
"""


def write(folder, *lines):
    path = folder / "c.yml"
    path.write_text(CONFIG + "".join(f"  {line}\n" for line in lines))
    return path


class Fail(Hook):
    """Ends the run with an error after a step."""

    def __init__(self, step):
        self.step = step

    def after_step(self, trainer):
        if trainer.step == self.step:
            raise RuntimeError("power cut")


@pytest.mark.parametrize("extra", [(), ("accumulate: 2", "clip_norm: 0.5")])
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_run_continues_bit_for_bit_with_its_scale(tmp_path, precision, extra):
    # A scale that overflows at first, falls, and grows again every other update.
    scale = () if precision == "bfloat16" else ("loss_scale: {initial: 16777216, interval: 2}",)
    config = write(tmp_path, f"precision: {precision}", *scale, *extra)
    whole = train(config, runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError):
        train(config, runs=tmp_path, name="part", hooks=[Fail(6)])
    part = train(tmp_path / "part", resume=True)
    a, b = (load_tensors(tmp_path / run / "weights" / "last.safetensors") for run in ("whole", "part"))
    assert all(np.array_equal(a[name].numpy(), b[name].numpy()) for name in a)
    if precision == "float16":
        assert whole.scaler.skipped.item() > 0
        for name, t in whole.scaler.state_dict().items():
            assert t.item() == part.scaler.state_dict()[name].item(), name


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_the_score_is_that_of_float32(tmp_path, precision):
    import json

    scores = {}
    for each in ("float32", precision):
        train(write(tmp_path, f"precision: {each}", "seed: 1"), ["runtime.epochs=30"], runs=tmp_path, name=each)
        scores[each] = json.loads((tmp_path / each / "metrics.json").read_text())["score"]
    assert abs(scores[precision] - scores["float32"]) < 0.05


def test_the_log_says_the_precision_and_shows_scale_and_skipped_updates(tmp_path):
    train(write(tmp_path, "precision: float16", "loss_scale: {initial: 16777216}"), runs=tmp_path)
    text = (tmp_path / "c" / "log.txt").read_text()
    assert "precision: float16 between layers, weights and losses float32; loss scale 1.67772e+07" in text
    assert "| scale " in text and " skipped | " in text and " 0 skipped" not in text.splitlines()[-3]
    train(write(tmp_path, "precision: bfloat16"), runs=tmp_path, name="b")
    text = (tmp_path / "b" / "log.txt").read_text()
    assert "precision: bfloat16 between layers, weights and losses float32; no loss scale" in text
    assert "| scale " not in text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["precision: half"], "precision.*'half'|half"),
        (["precision: float16", "loss_scale: {mode: none}"], "precision float16 needs a loss scale"),
        (["loss_scale: {mode: dynamic}"], "loss_scale.mode is dynamic but precision float32 has nothing to scale"),
        (["precision: float16", "loss_scale: {backoff: 3.0}"], "backoff is 3.0; it must lie in"),
        (["precision: float16", "loss_scale: {scale: 3.0}"], "loss_scale.*scale"),
    ],
)
def test_settings_that_make_no_sense_are_one_error(tmp_path, lines, message):
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path, *lines))


def test_a_loss_that_stays_nan_ends_the_run_once_the_scale_cannot_fall(tmp_path):
    config = write(tmp_path, "precision: float16", "loss_scale: {initial: 4.0}")
    with pytest.raises(NumericsError, match=r"'square' is nan.* for 5 updates at the least loss scale 1 at step 7"):
        train(config, ["data.bad=0", "data.samples=4", "runtime.epochs=20", "runtime.log_every=1"], runs=tmp_path)


def test_without_a_scale_the_first_loss_that_is_nan_ends_the_run(tmp_path):
    with pytest.raises(NumericsError, match=r"'square' is nan.* at step 1"):
        train(write(tmp_path, "precision: bfloat16"), ["data.bad=0", "data.samples=4"], runs=tmp_path)


def test_a_checkpoint_without_a_scale_is_refused(tmp_path):
    config = write(tmp_path, "precision: float16")
    trainer = train(config, runs=tmp_path)
    state = trainer.state_dict()
    del state["scaler"]
    with pytest.raises(CheckpointError, match="it holds no loss scale but the config asks for one"):
        trainer.load_state_dict(state)


class Line:
    """Fits a plane; an infinite x overflows."""

    train_inputs = ("x", "y")

    def __init__(self):
        self.model = nn.Linear(3, 1)
        nn.init.initialize(self.model, 0)

    def train_step(self, inputs):
        error = ops.squeeze(self.model(inputs["x"]), axis=1) - inputs["y"]
        return {"square": Loss(ops.mean(ops.square(error)), count_of(inputs["y"]))}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_an_overflow_in_any_batch_skips_the_whole_update(accumulate, eager):
    task = Line()
    optimizer, average = AdamW(task.model.named_parameters(), weight_decay=0.1), MovingAverage(task.model, 0.5)
    step = TrainStep(
        task,
        optimizer,
        average=average,
        clip_norm=1.0,
        eager=eager,
        accumulate=accumulate,
        precision="float16",
        scaler=LossScaler(256.0),
    )
    rng = np.random.default_rng(0)

    def group():
        return [
            {k: rng.normal(size=shape).astype(np.float32) for k, shape in (("x", (4, 3)), ("y", (4,)))}
            for _ in range(accumulate)
        ]

    def everything():
        return {
            f"{kind}/{name}": np.array(t.numpy())
            for kind, part in (("m", task.model), ("o", optimizer), ("a", average))
            for name, t in part.state_dict().items()
        }

    step(group(), 0.1)
    before, bad = everything(), group()
    bad[-1]["x"][1, 1] = 1e6  # beyond float16
    step(bad, 0.1)
    for name, value in everything().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert (step.scaler.scale.item(), step.scaler.skipped.item()) == (128.0, 1)
    step(group(), 0.1)  # and the gathered gradients of the bad one are forgotten
    assert step.scaler.skipped.item() == 1
    changed = everything()
    assert all(np.isfinite(v).all() for v in changed.values())
    assert not np.array_equal(changed["m/weight"], before["m/weight"])


def test_one_thread_and_two_train_the_same_bits(tmp_path):
    before = framework.num_threads()
    config = write(tmp_path, "precision: float16")
    try:
        for threads in (1, 2):
            train(config, [f"runtime.threads={threads}"], runs=tmp_path, name=f"t{threads}")
    finally:
        framework.set_num_threads(before)
    a, b = (load_tensors(tmp_path / f"t{n}" / "weights" / "last.safetensors") for n in (1, 2))
    assert all(np.array_equal(a[name].numpy(), b[name].numpy()) for name in a)
