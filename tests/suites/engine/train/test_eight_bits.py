"""Training in 8 bits: exports have its numbers, runs continue exactly, weight files say how they are built."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from framework import Tensor, nn, ops, tensor
from framework.control import cond
from framework.errors import CheckpointError, ConfigError, PaddockError
from framework.io import load_tensors, save_tensors
from framework.optim import AdamW, Constant
from framework.predictor import Predictor
from suites.engine.config.building import read_config
from suites.engine.config.sections import EightBitsSettings
from suites.engine.pieces import are_whole
from suites.engine.predict.inference import export_run, load, open_run
from suites.engine.predict.quantizing import Quantization
from suites.engine.slim.sensitivity import measured
from suites.engine.train.check import check_runs
from suites.engine.train.hooks import Hook
from suites.engine.train.trainer import Trainer
from suites.engine.train.training import evaluate_weights, train
from suites.engine.weights import load_pretrained
from suites.engine.weights.averages import average, last_checkpoints
from suites.engine.weights.eight_bits import EightBits, eight_bits_of
from tests.suites.engine import toy

CONFIG = """
suite: toy
data: {samples: 24, batch_size: 4}
optimizer: {type: AdamW, weight_decay: 0}
schedule: {type: Constant, base_lr: 0.01, reference_batch: 4}
eight_bits: {smallest: 0, batches: 2}
runtime: {epochs: 3, workers: 0, log_every: 1, checkpoint: {every: 4}, evaluation: {every: 1, pictures: 0}}
"""


class ImageNet(toy.Net):
    """The toy's network behind convolutions with norms, of which one is called twice and one cannot be folded."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(width, dropout)
        self.first = nn.ConvBNAct(3, 4, 3)
        self.second = nn.ConvBNAct(4, 3, 3, act="leaky_relu")
        self.twice = nn.Conv2d(3, 3, 1, bias=False)
        self.shared = nn.BatchNorm(3)
        self.bare, self.other = nn.Conv2d(3, 3, 1, bias=False), nn.BatchNorm(3)

    def forward(self, x: Tensor) -> Tensor:
        x = ops.reshape(x, shape=[-1, toy.SIZE, toy.SIZE, 3])
        x = self.second(self.first(x)) + x
        x = self.shared(self.twice(x)) + self.shared(self.twice(ops.relu(x)))
        x = self.other(self.bare(x)) + self.bare(x)
        return super().forward(ops.reshape(x, shape=[-1, toy.SIZE * toy.SIZE * 3]))


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setattr(toy, "Net", ImageNet)
    path = tmp_path / "c.yml"
    path.write_text(CONFIG)
    return path


class Cut(Hook):
    """Ends the run with an error after a step."""

    def __init__(self, until):
        self.until = until

    def after_step(self, loop):
        if loop.step == self.until:
            raise RuntimeError("power cut")


def run(config, name, *overrides, **settings):
    train(config, list(overrides), runs=config.parent, name=name, **settings)
    return config.parent / name


def test_an_export_has_the_numbers_of_training(config):
    folder = run(config, "a")
    log = (folder / "log.txt").read_text()
    assert "3 batch norms folded" in log and "bare.weight stay" in log
    report = export_run(folder, config.parent / "e")
    assert report.largest_difference == 0
    assert any("trained" in line for line in report.quantized.matched)
    names = [op["op"] for op in json.loads((config.parent / "e/program.json").read_text())["operations"]]
    assert names.count("quantized_conv2d") == 4 and names.count("quantized_matmul") == 2
    pictures = [toy.image(i, 24) for i in range(24)]
    one, two = (load(path)(pictures) for path in (folder, config.parent / "e"))
    assert [p.value for p in one] == [p.value for p in two]
    assert evaluate_weights(folder)["score"] == json.loads((folder / "metrics.json").read_text())["score"]


class RowsNet(ImageNet):
    """The same, whose one convolution looks at a picture in a block unless all are followed."""

    def forward(self, x: Tensor) -> Tensor:
        x = ops.reshape(x, shape=[-1, toy.SIZE, toy.SIZE, 3])
        if self.training or are_whole():
            x = self.bare(x)
        else:
            x = cond(ops.max(x) > -1e9, self.bare, lambda x: x * 0.0, x)
        return super(ImageNet, self).forward(ops.reshape(x, shape=[-1, toy.SIZE * toy.SIZE * 3]))


def test_a_layer_that_predicts_in_control_flow_is_trained_and_exported_in_8_bits(config, monkeypatch):
    monkeypatch.setattr(toy, "Net", RowsNet)
    folder = run(config, "a", "runtime.epochs=1")
    report = export_run(folder, config.parent / "e")
    assert report.largest_difference == 0
    assert any(line.startswith("in cond") and "'bare.weight'" in line for line in report.quantized.matched)


def test_weights_and_steps_are_trained(config):
    folder = run(config, "a", "runtime.checkpoint={every: 1, keep: 99}")
    first, last = (load_tensors(folder / f"weights/step_{n:08d}/model.safetensors") for n in (1, 18))
    assert first["eight_bits.factors"].size > 3
    for name in ("eight_bits.factors", "first.conv.weight", "first.conv.bias", "hidden.weight"):
        assert not np.array_equal(first[name].numpy(), last[name].numpy())


def test_a_run_continues_bit_for_bit(config):
    whole = run(config, "a")
    with pytest.raises(RuntimeError, match="power cut"):
        run(config, "b", hooks=[Cut(9)])
    again = run(config, "b", resume=True)
    one, two = (load_tensors(path / "weights/last.safetensors") for path in (whole, again))
    assert one.keys() == two.keys()
    assert all(one[name].numpy().tobytes() == two[name].numpy().tobytes() for name in one)


def test_a_run_that_ended_before_its_first_checkpoint_begins_anew(config):
    with pytest.raises(RuntimeError, match="power cut"):
        run(config, "b", hooks=[Cut(2)])
    again, whole = run(config, "b", resume=True), run(config, "a")
    one, two = (load_tensors(path / "weights/last.safetensors") for path in (whole, again))
    assert all(one[name].numpy().tobytes() == two[name].numpy().tobytes() for name in one)


def test_weights_of_such_a_run_train_on_in_8_bits_as_they_say(config):
    start = run(config, "a") / "weights/last.safetensors"
    still = ["schedule.base_lr=1e-30", "optimizer={$replace: {type: SGD}}", "runtime.epochs=1"]
    still.append(f"runtime.weights={start}")
    again = run(config, "b", *still, "eight_bits.method=kl", "runtime.checkpoint={every: 1, keep: 9}")
    assert "8 bits: as the weights say" in (again / "log.txt").read_text()
    one, two = (load_tensors(path) for path in (start, again / "weights/last.safetensors"))
    assert one.keys() == two.keys()
    assert all(one[name].numpy().tobytes() == two[name].numpy().tobytes() for name in one if "running" not in name)
    with pytest.raises(RuntimeError, match="power cut"):
        run(config, "c", *still, "runtime.checkpoint={every: 2}", hooks=[Cut(3)])
    start.unlink()  # a run that continues reads its own
    resumed = load_tensors(
        run(config, "c", *still, "runtime.checkpoint={every: 2}", resume=True) / "weights/last.safetensors"
    )
    assert all(two[name].numpy().tobytes() == resumed[name].numpy().tobytes() for name in two)


def test_a_network_in_float32_takes_no_weights_of_such_a_run(config):
    start = run(config, "a", "runtime.epochs=1") / "weights/last.safetensors"
    with pytest.raises(CheckpointError, match="trained in 8 bits, with 3 batch norms folded"):
        run(config, "b", "eight_bits=null", f"runtime.weights={start}")
    with pytest.raises(CheckpointError, match="trained in 8 bits, with 3 batch norms folded"):
        load_pretrained(ImageNet(4, 0.0).first, start)


def test_layers_can_be_kept(config):
    folder = run(config, "a", "eight_bits.keep=['first.*', 'out.*']")
    roles = [role for r in eight_bits_of(open_run(folder)).ranges for role in r.roles]
    assert not any(role.startswith(("first.", "out.")) for role in roles)
    assert export_run(folder, config.parent / "e").largest_difference == 0


def test_an_average_of_weights_is_of_8_bits_too(config):
    folder = run(config, "a", "runtime.ema={decay: 0.9}")
    assert export_run(folder, config.parent / "e").largest_difference == 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lora={rank: 2}", "does not go with lora, whose adapters"),
        ("runtime.eager=true", "does not go with runtime.eager, which traces nothing"),
        ("runtime.precision=bfloat16", "does not go with runtime.precision bfloat16"),
        ("eight_bits.method=best", "method is 'best'; takes 'abs_max'"),
        ("eight_bits.batches=0", "batches"),
        ("eight_bits.keep=['*']", "nothing to train; look at keep and smallest"),
        ("eight_bits.keep=['head.*']", r"keep has 'head\.\*', which fits no weight; there are"),
    ],
)
def test_what_excludes_it_is_one_error(config, override, message):
    with pytest.raises(PaddockError, match=message):
        run(config, "a", override)


def test_an_export_takes_no_other_quantization(config):
    folder = run(config, "a", "runtime.epochs=1")
    with pytest.raises(ConfigError, match=r"a was trained in 8 bits .* leave out 8 bits of another way"):
        export_run(folder, config.parent / "e", quantization=Quantization())


def test_layers_of_such_a_run_have_no_sensitivity(config):
    folder = run(config, "a", "runtime.epochs=1")
    with pytest.raises(ConfigError, match=r"a was trained in 8 bits .* take the run whose weights it began with"):
        measured(folder, Quantization("static"))


@pytest.mark.parametrize(
    "plan",
    [b"{", b"[]", b'{"ranges": [], "folded": {}}', b'{"ranges": [[["a:x"], 0.0, 0]], "folded": {}}',
     b'{"ranges": [[["a:x"], 1.0, 999]], "folded": {}}', b'{"ranges": [[["a:x"], 1.0, 0]], "folded": 3}', b"\xff" * 9],
)  # fmt: skip
def test_a_damaged_plan_is_one_error(plan):
    with pytest.raises(CheckpointError, match=r"eight_bits.plan is damaged"):
        EightBits.read(np.frombuffer(plan, np.uint8))


def test_weights_of_another_network_are_one_error(config):
    folder = run(config, "a", "runtime.epochs=1")
    path = folder / "weights/best.safetensors"
    tensors = load_tensors(path)
    plan = json.loads(tensors["eight_bits.plan"].numpy().tobytes())
    plan["folded"] = {"gone.norm": "gone.conv"}
    other = EightBits(EightBits.read(tensors["eight_bits.plan"].numpy()).ranges, plan["folded"])
    save_tensors(path, {**tensors, "eight_bits.plan": other.plan})
    with pytest.raises(CheckpointError, match=r"the model has no 'gone\.norm' behind a 'gone\.conv'"):
        open_run(folder)


def test_from_python(config, tmp_path):
    trainer = Trainer(
        toy.ToyTask(data=toy.Data(8, 4)), optimizer=AdamW, schedule=partial(Constant, base_lr=0.01), epochs=1,
        workers=0, eight_bits=EightBitsSettings(smallest=0, batches=1),
    )  # fmt: skip
    assert trainer.config.get("eight_bits.batches") == 1
    trainer.fit(tmp_path / "r")
    assert export_run(tmp_path / "r", tmp_path / "e").largest_difference == 0
    assert Predictor(tmp_path / "e")


def test_weights_of_one_run_have_a_mean_and_those_of_two_do_not(config):
    one = run(config, "a", "runtime.checkpoint.keep=9")
    two = run(config, "b", "runtime.seed=1")
    average(last_checkpoints(one), one / "weights/averaged.safetensors")
    assert eight_bits_of(open_run(one, one / "weights/averaged.safetensors"))
    files = [folder / "weights/last.safetensors" for folder in (one, two)]
    with pytest.raises(CheckpointError, match="steps of their own, which have no mean"):
        average(files, config.parent / "m.safetensors")


def test_weights_of_before_gains_were_kept_apart_are_read_as_they_were(config):
    folder = run(config, "a", "runtime.epochs=1")
    path, pictures = folder / "weights/best.safetensors", [toy.image(i, 24) for i in range(24)]
    expected = [p.value for p in load(folder)(pictures)]
    tensors = load_tensors(path)
    plan = json.loads(tensors["eight_bits.plan"].numpy().tobytes())
    assert plan.pop("apart") and set(plan["folded"].values()) == {"first.conv", "second.conv", "twice"}
    for conv in plan["folded"].values():
        gain = tensors.pop(f"{conv}.gain").numpy()
        tensors[f"{conv}.weight"] = tensor(tensors[f"{conv}.weight"].numpy() * gain[:, None, None, None])
    save_tensors(path, {**tensors, "eight_bits.plan": tensor(np.frombuffer(json.dumps(plan).encode(), np.uint8))})
    assert [p.value for p in load(folder)(pictures)] == expected
    assert export_run(folder, config.parent / "e").largest_difference == 0


def test_weights_of_before_biases_were_rounded_compute_as_they_did(config):
    folder = run(config, "a", "runtime.epochs=1")
    path = folder / "weights/best.safetensors"
    tensors = load_tensors(path)
    now = EightBits.read(tensors["eight_bits.plan"].numpy())
    before = EightBits(now.ranges, now.folded, whole_biases=False)
    assert now.whole_biases and "whole_biases" not in before.plan.numpy().tobytes().decode()
    save_tensors(path, {**tensors, "eight_bits.plan": before.plan})
    opened = eight_bits_of(open_run(folder))
    assert opened is not None and not opened.whole_biases
    assert export_run(folder, config.parent / "e").largest_difference == 0


def test_a_rate_moves_folded_weights_as_it_moves_those_before_their_norm(config):
    """Else those of small gains move too far, and those of large ones hardly."""
    how = ["runtime.epochs=1", "runtime.evaluation.every=0", "schedule.base_lr=1e-6"]
    moved = {}
    for name, more in (("float", ["eight_bits=null"]), ("eight", [])):
        first = run(config, f"{name}0", *how, *more, "runtime.steps=1", "runtime.epochs=null")
        last = run(config, name, *how, *more)
        key = "first.conv.weight"
        moved[name] = [load_tensors(f / "weights/last.safetensors")[key].numpy() for f in (first, last)]
    for before, after in moved.values():
        assert 2e-6 < np.abs(after - before).max() < 6e-6  # AdamW: five updates more, each of at most the rate


def test_ranges_of_layers_that_are_not_there_are_one_error(config):
    folder = run(config, "a", "runtime.epochs=1")
    path = folder / "weights/best.safetensors"
    tensors = load_tensors(path)
    found = EightBits.read(tensors["eight_bits.plan"].numpy())
    gone = [replace(r, roles=tuple(role.replace("first.", "gone.") for role in r.roles)) for r in found.ranges]
    save_tensors(path, {**tensors, "eight_bits.plan": EightBits(gone, found.folded).plan})
    with pytest.raises(CheckpointError, match=r"the model has no 'gone\.conv\.weight', which they hold a range of"):
        open_run(folder)


def test_a_check_meets_what_training_would(config):
    check_runs(read_config(config))
    with pytest.raises(ConfigError, match="does not go with lora"):
        check_runs(read_config(config, ["lora={rank: 2}"]))
