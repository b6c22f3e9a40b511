"""What joins the training later, and the pull towards loaded weights: resumed exactly, said in the log."""

import numpy as np
import pytest

from framework import nn, ops, tensor
from framework.errors import CheckpointError, ConfigError
from framework.io import load_tensors
from framework.optim import SGD, AdamW
from suites.engine.config import load_config
from suites.engine.config.sections import FinetuneSettings, L2SPSettings, Unfreeze
from suites.engine.contract.losses import Loss, count_of
from suites.engine.train.finetuning import stages_of
from suites.engine.train.hooks import Hook
from suites.engine.train.train_step import TrainStep
from suites.engine.train.training import find_rate, train
from suites.engine.weights.matching import loaded_tensors
from tests.suites.engine import toy

CONFIG = """
suite: toy
data: {samples: 24, batch_size: 4}
optimizer: {type: AdamW, weight_decay: 0}
schedule: {type: Constant, base_lr: 0.05, reference_batch: 4}
runtime: {epochs: 3, workers: 0, log_every: 1, checkpoint: {every: 4}, evaluation: {every: 0, pictures: 0}}
"""
LATER = ("finetune.unfreeze=[{params: [^hidden, ^norm], at: 1}]",)


def write(folder):
    path = folder / "c.yml"
    path.write_text(CONFIG)
    return path


class Watch(Hook):
    """Keeps the parameters before each step, and whether the norm moves; ends the run with an error after a step."""

    def __init__(self, until=None):
        self.until, self.seen, self.frozen = until, [], []

    def before_step(self, loop):
        model = loop.task.model
        self.seen.append({n: t.numpy().copy() for n, t in model.state_dict().items()})
        self.frozen.append(model.norm.frozen)

    def after_step(self, loop):
        if loop.step == self.until:
            raise RuntimeError("power cut")


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in a)


def below(state, *parts):
    return {name: array for name, array in state.items() if name.startswith(parts)}


def test_parameters_join_at_their_epoch_with_their_norms(tmp_path):
    watch = Watch()
    train(write(tmp_path), LATER, runs=tmp_path, name="a", hooks=[watch])
    first, at_join, after = watch.seen[0], watch.seen[6], watch.seen[7]
    assert same(below(first, "hidden", "norm"), below(at_join, "hidden", "norm"))  # running statistics too
    assert not same(below(first, "out"), below(at_join, "out"))
    for part in ("hidden.weight", "norm.scale", "norm.running_mean"):
        assert not np.array_equal(at_join[part], after[part]), part
    assert watch.frozen == [True] * 6 + [False] * 12
    log = (tmp_path / "a/log.txt").read_text()
    assert "frozen until step 6: 4 parameters (hidden.weight, hidden.bias, norm.scale, norm.bias)" in log
    assert "trained from step 6 on: 4 parameters" in log


def test_adam_counts_the_updates_of_what_joins_from_then_on(tmp_path):
    """Adam's first update of a parameter is the rate times the gradient's sign, whenever it comes."""
    watch = Watch()
    train(write(tmp_path), LATER, runs=tmp_path, name="a", hooks=[watch])
    moved = np.abs(watch.seen[7]["hidden.weight"] - watch.seen[6]["hidden.weight"])
    live = moved > 1e-4  # dropped and dead units have no gradient
    assert live.any()
    np.testing.assert_allclose(moved[live], 0.05, rtol=1e-2)


@pytest.mark.parametrize("more", [(), ("runtime.accumulate=2",), ("runtime.precision=float16",)])
@pytest.mark.parametrize("until", [5, 6])
def test_a_run_continues_bit_for_bit_before_and_after_a_join(tmp_path, more, until):
    path, how = write(tmp_path), ("runtime.checkpoint.every=1", *LATER, *more)
    until = until // 2 if "runtime.accumulate=2" in more else until
    train(path, how, runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError):
        train(path, how, runs=tmp_path, name="part", hooks=[Watch(until)])
    train(tmp_path / "part", resume=True)
    whole, part = (load_tensors(tmp_path / name / "weights/last.safetensors") for name in ("whole", "part"))
    assert all(np.array_equal(whole[name].numpy(), part[name].numpy()) for name in whole)


def test_a_schedule_of_stages_and_of_other_units():
    model = toy.Net(4, 0.0)
    settings = FinetuneSettings(
        unfreeze=[Unfreeze(params=["^norm"], at=10, unit="percent"), Unfreeze(params=["^norm", "^hidden"], at=7)]
    )
    stages = stages_of(model, settings, total_steps=100, steps_per_epoch=10)
    assert [(s.at, s.names, len(s.norms)) for s in stages] == [
        (10, ["norm.scale", "norm.bias"], 1),
        (70, ["hidden.weight", "hidden.bias"], 0),
    ]


def test_what_a_model_froze_joins_but_its_still_norms_do_not():
    model = toy.Net(4, 0.0)
    model.hidden.weight.requires_grad = False
    model.norm.frozen = True
    settings = FinetuneSettings(unfreeze=[Unfreeze(params=["^hidden", "^norm"], at=1)])
    (stage,) = stages_of(model, settings, total_steps=9, steps_per_epoch=3)
    assert stage.names == ["hidden.weight", "hidden.bias"] and model.hidden.weight.requires_grad


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("finetune.unfreeze=[{params: [nowhere], at: 1}]", r"unfreeze\[0\]: no parameter .*nowhere; names look"),
        ("finetune.unfreeze=[{params: [hidden], at: 3}]", "at 3 epochs is update 18, and the run has 18"),
        ("finetune.unfreeze=[{params: [hidden], at: 0}]", "at is 0; it must be 1 or more"),
        ("finetune.unfreeze=[{params: [], at: 1}]", "params names nothing"),
        ("finetune.unfreeze=[{params: ['('], at: 1}]", "is no regular expression"),
        ("finetune.l2_sp={alpha: -1}", "alpha is -1.0 and beta 0.01; they must be 0 or more"),
        ("finetune.l2_sp={}", "no trained parameter was loaded"),
    ],
)
def test_schedules_that_are_none(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        train(write(tmp_path), [override], runs=tmp_path, name="a")


def test_a_range_test_leaves_what_waits_as_it_is(tmp_path):
    assert find_rate(write(tmp_path), [*LATER, "runtime.epochs=40"], runs=tmp_path).losses


def test_l2_sp_pulls_to_what_was_loaded_and_says_so(tmp_path):
    path = write(tmp_path)
    train(path, runs=tmp_path, name="start")
    start = tmp_path / "start/weights/last.safetensors"
    loaded = {name: t.numpy() for name, t in load_tensors(start).items()}
    ends = {}
    for alpha in (0.0, 1000.0):
        how = (f"runtime.weights={start}", f"finetune.l2_sp={{alpha: {alpha}}}", "optimizer={type: SGD}")
        how += ("schedule.base_lr=1e-3", "runtime.seed=1")
        train(path, how, runs=tmp_path, name=f"a{alpha:g}")
        end = load_tensors(tmp_path / f"a{alpha:g}/weights/last.safetensors")
        ends[alpha] = sum(float(np.square(end[n].numpy() - loaded[n]).sum()) for n in loaded if "weight" in n)
    assert ends[1000.0] < 0.1 * ends[0.0]
    assert (
        "L2-SP: 6 parameters are pulled to what was loaded (alpha 1000), 0 new ones to 0 (beta 0.01)"
        in (tmp_path / "a1000/log.txt").read_text()
    )


@pytest.mark.parametrize("more", [(), ("runtime.accumulate=2",), ("runtime.precision=float16",)])
def test_l2_sp_continues_with_the_weights_of_the_start(tmp_path, more):
    path = write(tmp_path)
    train(path, runs=tmp_path, name="start")
    start = tmp_path / "start.safetensors"
    (tmp_path / "start/weights/last.safetensors").rename(start)
    how = (f"runtime.weights={start}", "finetune.l2_sp={alpha: 1.0}", "runtime.checkpoint.every=1", *more)
    train(path, how, runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError):
        train(path, how, runs=tmp_path, name="part", hooks=[Watch(5)])
    train(tmp_path / "part", resume=True)
    whole, part = (load_tensors(tmp_path / name / "weights/last.safetensors") for name in ("whole", "part"))
    assert all(np.array_equal(whole[name].numpy(), part[name].numpy()) for name in whole)


def test_l2_sp_refuses_weight_decay(tmp_path):
    with pytest.raises(ConfigError, match=r"takes the place of weight decay, which is on .*optimizer.weight_decay=0"):
        train(write(tmp_path), ["finetune.l2_sp={}", "optimizer.weight_decay=0.1"], runs=tmp_path, name="a")


class Line:
    """y = a x + b with squared errors."""

    train_inputs = ("x", "y")
    helpers = None

    def __init__(self):
        self.model = nn.Linear(2, 1)
        self.model.weight.set(tensor(np.array([[1.0, 2.0]], np.float32)))
        self.model.bias.set(tensor(np.array([3.0], np.float32)))

    def train_step(self, inputs):
        error = ops.squeeze(self.model(inputs["x"]), axis=1) - inputs["y"]
        return {"square": Loss(ops.mean(ops.square(error)), count_of(inputs["y"]))}


def test_the_formula_of_l2_sp():
    """One step of gradient descent: g + alpha (w - w0) where w0 was loaded, g + beta w elsewhere."""
    x, y = np.array([[1.0, 2.0]], np.float32), np.array([1.0], np.float32)
    task = Line()
    step = TrainStep(task, SGD(task.model.named_parameters(), 0.1))
    step.pull(L2SPSettings(alpha=0.5, beta=0.25), {"weight"})
    weight, bias = np.array([1.0, 2.0]), 3.0
    for _ in range(3):
        step([{"x": x, "y": y}], 0.1)
        g = 2 * (x[0] @ weight + bias - 1.0)
        pulled = np.array([g * 1.0, g * 2.0]) + 0.5 * (weight - [1.0, 2.0])
        weight, bias = weight - 0.1 * pulled, bias - 0.1 * (g + 0.25 * bias)
        np.testing.assert_allclose(task.model.weight.numpy()[0], weight, rtol=1e-5)
        np.testing.assert_allclose(task.model.bias.numpy(), bias, rtol=1e-5)


def test_a_checkpoint_of_another_model_is_refused():
    task = Line()
    step = TrainStep(task, AdamW(task.model.named_parameters(), 0.1))
    pull = step.pull(L2SPSettings(), None)
    with pytest.raises(CheckpointError, match="weights of another model, such as 'other'"):
        pull.load_state_dict({"other": task.model.weight})
    with pytest.raises(CheckpointError, match="does not hold the weights"):
        step.load_state_dict({"optimizer": {}})


def test_rows_of_classes_count_as_new(tmp_path):
    from framework.io import save_tensors
    from suites.engine.weights.loading import load_weights

    model = toy.Net(4, 0.0)
    state = {n: t for n, t in model.state_dict().items() if not n.startswith("out")}
    save_tensors(tmp_path / "w.safetensors", state)
    load_weights(model, tmp_path / "w.safetensors", partial=True)
    assert loaded_tensors(model) == set(state)


def test_configs_name_both(tmp_path):
    config = load_config(write(tmp_path), [*LATER, "finetune.l2_sp={alpha: 0.2}"])
    built = config.build("finetune")
    assert built.unfreeze == [Unfreeze(params=["^hidden", "^norm"], at=1)] and built.l2_sp == L2SPSettings(alpha=0.2)
