"""Pruned runs: smaller networks that compute what the masked ones do, train on, export and are read again."""

import json
from functools import partial
from itertools import count, islice

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import AttributeValueError, ConfigError, NumericsError, PaddockError
from framework.io import load_tensors
from framework.optim import SGD, Constant
from framework.pruning import Channels
from suites.engine.config.building import build_task, read_config
from suites.engine.config.sections import PruningSettings
from suites.engine.predict.inference import export_run, load, open_run
from suites.engine.slim import channels
from suites.engine.slim.pruning import prune_run
from suites.engine.slim.sizing import Ranked, meet
from suites.engine.slim.wishes import Wishes
from suites.engine.train.check import check_runs
from suites.engine.train.trainer import Trainer
from suites.engine.train.training import evaluate_weights, train
from suites.engine.weights.eight_bits import eight_bits_of
from tests.suites.engine.slim.runs import NETWORKS, write_run


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """The run of a small residual network."""
    return write_run(tmp_path_factory.mktemp("digits"), "mobilenetv2")


def macs_of(run):
    """Multiply-adds of what an export computes."""
    task = open_run(run)
    program = channels.deployed_program(task, channels._example(run, task), pass_names=())
    return channels.channels_of(task.model, [program]).multiply_adds()


@pytest.mark.parametrize("name", NETWORKS)
def test_half_of_the_multiply_adds_are_gone_and_the_rest_computes_the_same(tmp_path, name):
    """That the numbers are those of the masked network is looked at by `prune_run` itself, see below."""
    run = write_run(tmp_path, name)
    told = prune_run(run, tmp_path / "small", Wishes(macs=0.5))
    assert "of the multiply-adds" in told
    assert 0.35 < macs_of(tmp_path / "small") / macs_of(run) <= 0.5
    report = json.loads((tmp_path / "small/pruning.json").read_text())
    assert report["left_alone"] and all(group["stay"] for group in report["groups"])
    assert export_run(tmp_path / "small", tmp_path / "export").largest_difference < 1e-2


def test_the_numbers_are_compared_with_the_masked_network_s(digits, tmp_path, monkeypatch):
    """Here what a network is compared with is made wrong: it keeps the channels that were cut."""
    monkeypatch.setattr(Channels, "masked", lambda self, arrays, cut: {})
    with pytest.raises(NumericsError, match="gives other numbers in the narrower network"):
        prune_run(digits, tmp_path / "small", Wishes(width=0.5))
    assert not (tmp_path / "small").exists()


def test_the_masked_network_gives_the_same_classes(digits, tmp_path):
    prune_run(digits, tmp_path / "small", Wishes(width=0.5, multiple=1))
    whole, small = open_run(digits), open_run(tmp_path / "small")
    report = json.loads((tmp_path / "small/pruning.json").read_text())
    for group in report["groups"]:
        gone = np.setdiff1d(np.arange(group["channels"]), group["stay"])
        for name in group["read_by"]:
            array = whole.model.state_dict()[name].numpy().copy()
            array[..., gone] = 0
            whole.model.state_dict()[name].set(from_numpy(array))
    with whole.eval_loader(workers=0) as loader:
        (batch,) = islice(loader, 1)
    inputs = {name: from_numpy(batch[name]) for name in whole.eval_inputs}
    whole.model.eval(), small.model.eval()
    with no_grad():
        pairs = [(task.eval_step(inputs)["scores"].numpy()) for task in (whole, small)]
    # Sums of at most 1,280 terms without those that are 0, through 20 layers: far below a thousandth of a probability.
    assert np.abs(pairs[0] - pairs[1]).max() < 1e-4


def test_it_trains_on_exports_and_is_read_again_from_its_folder(digits, tmp_path):
    prune_run(digits, tmp_path / "small", Wishes(macs=0.5))
    more = ["runtime.epochs=null", "runtime.steps=3"]
    train(tmp_path / "small", more, runs=tmp_path, name="on")
    assert "pruning" in (tmp_path / "on/config.yml").read_text()
    sizes = [sum(p.size for p in open_run(tmp_path / n).model.parameters()) for n in ("small", "on")]
    assert sizes[0] == sizes[1] < 0.6 * sum(p.size for p in open_run(digits).model.parameters())
    before, after = (load_tensors(tmp_path / n / "weights/best.safetensors") for n in ("small", "on"))
    assert any((before[k].numpy() != after[k].numpy()).any() for k in before)
    export_run(tmp_path / "on", tmp_path / "export")
    assert evaluate_weights(tmp_path / "on")
    item = open_run(digits).examples(1)[0][1]
    one, two = (load(tmp_path / n)([item])[0] for n in ("on", "export"))
    assert [row["class"] for row in one.to_json()] == [row["class"] for row in two.to_json()]


def test_its_config_still_shares_what_the_run_s_shares(digits, tmp_path):
    prune_run(digits, tmp_path / "small", Wishes(macs=0.5))
    shared = [read_config(run).as_written()["model"]["num_classes"] for run in (digits, tmp_path / "small")]
    assert shared == ["${data.num_classes}"] * 2


def test_a_pruned_run_is_pruned_again(digits, tmp_path):
    prune_run(digits, tmp_path / "a", Wishes(macs=0.7))
    prune_run(tmp_path / "a", tmp_path / "b", Wishes(macs=0.7))
    assert macs_of(tmp_path / "b") / macs_of(digits) <= 0.49


def test_a_pruned_run_trains_in_8_bits(digits, tmp_path):
    prune_run(digits, tmp_path / "small", Wishes(macs=0.5))
    more = ["runtime.epochs=null", "runtime.steps=2", "eight_bits={smallest: 0, batches: 1}"]
    train(tmp_path / "small", more, runs=tmp_path, name="bits")
    assert eight_bits_of(open_run(tmp_path / "bits")) is not None
    assert export_run(tmp_path / "bits", tmp_path / "export").quantized.matched
    with pytest.raises(ConfigError, match="eight_bits; prune first, then train in 8 bits"):
        prune_run(tmp_path / "bits", tmp_path / "again", Wishes(macs=0.5))


def test_by_sensitivity_layers_lose_different_shares_within_the_budget(digits, tmp_path):
    prune_run(digits, tmp_path / "small", Wishes(macs=0.6, by="sensitivity", batches=1, multiple=1))
    assert macs_of(tmp_path / "small") / macs_of(digits) <= 0.6
    groups = json.loads((tmp_path / "small/pruning.json").read_text())["groups"]
    shares = {round(len(group["stay"]) / group["channels"], 1) for group in groups}
    assert len(shares) > 2 and all(set(group["loss_grows"]) == {"0.25", "0.5", "0.75", "0.9"} for group in groups)


def test_a_budget_of_time_is_searched_for(digits, tmp_path, monkeypatch):
    """Measured times are replaced by multiply-adds: a test must not depend on what else the machine does."""
    pruner = channels._Pruner

    def share(self, cut, whole):
        whole()
        return self.channels.multiply_adds(cut) / self._whole

    monkeypatch.setattr(pruner, "_time", share)
    told = prune_run(digits, tmp_path / "small", Wishes(time=0.5))
    assert 0.35 < macs_of(tmp_path / "small") / macs_of(digits) <= 0.5 and "channels cut" in told


def test_a_time_that_no_cut_saves_cannot_be_reached(digits, tmp_path, monkeypatch):
    """By a clock on which every run takes as long."""
    clock = count()
    monkeypatch.setattr(channels.time, "perf_counter", lambda: float(next(clock)))
    with pytest.raises(AttributeValueError, match=r"--time 0.5 cannot be reached: .* it is 1.00"):
        prune_run(digits, tmp_path / "small", Wishes(time=0.5))


def test_weights_that_are_named_keep_their_channels(digits, tmp_path):
    prune_run(digits, tmp_path / "small", Wishes(width=0.5, keep=("backbone.stem*",)))
    name = "backbone.stem.conv.weight"
    whole, small = (open_run(run).model.state_dict() for run in (digits, tmp_path / "small"))
    assert whole[name].shape == small[name].shape
    report = json.loads((tmp_path / "small/pruning.json").read_text())
    assert "--keep" in report["left_alone"].values()


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(), "nothing is to be cut; give one of --width, --macs and --time"),
        (Wishes(width=0.0), "width is 0; the share that stays is above 0, or nothing is left"),
        (
            Wishes(width=1.0),
            "width is 1; the share that stays is above 0, .* and below 1, or nothing is",
        ),
        (Wishes(macs=1.5), "macs is 1.5"),
        (Wishes(width=0.5, macs=0.5), "got --width, --macs"),
        (
            Wishes(macs=0.001),
            "--macs 0.001 cannot be reached: with a tenth of each layer that can be",
        ),
        (Wishes(width=0.999), "width 0.999 cuts no channel"),
        (Wishes(heads=0.5), "--heads are of a BERT"),
        (Wishes(width=0.5, criterion="l2"), "criterion is 'l2'; takes 'l1', 'fpgm', 'norm'"),
        (Wishes(width=0.5, multiple=0), "multiple is 0"),
        (Wishes(width=0.5, keep=("nowhere.*",)), "keep has 'nowhere.\\*', which fits no weight; there are backbone"),
        (Wishes(width=0.5, keep=("*",)), "no channel of ImageClassifier can be cut"),
    ],
)
def test_what_cannot_be_is_said_and_no_folder_is_left(digits, tmp_path, wishes, said):
    with pytest.raises(AttributeValueError, match=said):
        prune_run(digits, tmp_path / "small", wishes)
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{layers: {}}", "layers names nothing"),
        (
            "{layers: {backbone.stemm.conv: [3, 8]}}",
            "no layer 'backbone.stemm.conv'.*mean 'backbone.stem.conv'",
        ),
        ("{layers: {backbone.stem.conv: [3, 800]}}", "wider than the model's"),
        ("{layers: {backbone.stem.conv: [8]}}", "a Conv2d has in_channels, out_channels"),
        ("{layers: {backbone.stem.conv: [3, 0]}}", "each 1 or more"),
        ("{layers: 3}", "pruning.layers"),
    ],
)
def test_a_config_with_wrong_widths_is_refused(digits, written, said):
    with pytest.raises((ConfigError, AttributeValueError), match=said):
        build_task(read_config(digits, [f"pruning={written}"]))


def test_a_trainer_of_objects_takes_widths_too(digits, tmp_path):
    layers = {"backbone.stem.conv": [3, 8], "backbone.stem.norm": [8]}
    task = build_task(read_config(digits))
    settings = {"optimizer": SGD, "schedule": partial(Constant, base_lr=0.1), "steps": 1, "workers": 0}
    trainer = Trainer(task, **settings, pruning=PruningSettings(layers=layers))
    assert trainer.config["pruning"] == {"layers": layers}
    assert task.model.state_dict()["backbone.stem.conv.weight"].shape == (8, 3, 3, 3)


def test_widths_that_do_not_fit_each_other_are_met_by_the_check(digits):
    with pytest.raises(PaddockError, match="scale has shape"):
        check_runs(read_config(digits, ["pruning={layers: {backbone.stem.conv: [3, 8]}}"]))


def test_a_budget_is_searched_from_none_to_most():
    ranked = Ranked(group=None, order=np.arange(100))
    cut = meet(0.4, lambda s: ranked.cut(1 - s, 1), lambda cut: 1 - len(cut) / 100, "macs")
    assert len(cut) == 60
    assert len(ranked.cut(0.5, 8)) == 100 - 48 and len(Ranked(None, np.arange(6)).cut(0.01, 8)) == 5
