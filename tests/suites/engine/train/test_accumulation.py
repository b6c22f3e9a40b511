"""Batches joined for one update: that of one large batch, however much each of them weighs."""

import numpy as np
import pytest

from framework import nn, ops
from framework.errors import ConfigError
from framework.io import load_tensors
from framework.optim import SGD, AdamW
from suites.engine.config import load_config
from suites.engine.contract.losses import Loss, count_of
from suites.engine.train.train_step import TrainStep
from suites.engine.train.training import train
from suites.nlp import losses as nlp_losses
from suites.nlp.problems import Pretraining
from suites.segmentation import losses as pixels
from suites.segmentation.sample import IGNORE
from tests.suites.engine import toy  # noqa: F401  (registers the suite)

CONFIG = """
suite: toy
data: {samples: 20, batch_size: 4}
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 0.1, reference_batch: 8}
runtime: {epochs: 3, accumulate: 2, workers: 0, checkpoint: {every: 2}, evaluation: {every: 0, pictures: 0}}
"""


class Line:
    """Fits a plane; one parameter is never reached by the loss."""

    train_inputs = ("x", "y")

    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.model.add_parameter("aside", (2, 2), nn.init.Constant(1.0))
        nn.init.initialize(self.model, 0)

    def train_step(self, inputs):
        error = ops.squeeze(self.model(inputs["x"]), axis=1) - inputs["y"]
        return {"square": Loss(ops.mean(ops.square(error)), count_of(inputs["y"]))}


def batches(count, size):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(count * size, 3)).astype(np.float32), rng.normal(size=count * size).astype(np.float32)
    return [{"x": x[i : i + size], "y": y[i : i + size]} for i in range(0, count * size, size)]


@pytest.mark.parametrize("eager", [True, False])
def test_the_update_is_that_of_one_large_batch(eager):
    small = batches(6, 4)
    large = [{k: np.concatenate([b[k] for b in small[i : i + 3]]) for k in "xy"} for i in (0, 3)]
    weights, losses = [], []
    for groups in ([[b] for b in large], [small[:3], small[3:]]):
        task = Line()
        optimizer = AdamW(task.model.named_parameters(), weight_decay=0.1)
        step = TrainStep(task, optimizer, clip_norm=0.5, eager=eager, accumulate=len(groups[0]))
        losses.append([step(group, 0.1).losses["square"] for group in groups])
        weights.append({name: t.numpy().copy() for name, t in task.model.state_dict().items()})
    # Two updates whose gradients are sums of 12 products, in another order: a few roundings each.
    assert np.allclose(*losses, rtol=1e-6)
    for name, expected in weights[0].items():
        assert np.allclose(weights[1][name], expected, rtol=0, atol=2e-6), name
    # Not even weight decay touches what no loss reaches.
    assert (weights[1]["aside"] == 1).all()


CLASSES, WIDTH = 5, 6
EPS = float(np.finfo(np.float32).eps)


class Rows:
    """A linear model of rows, under one or two losses; what its target is depends on the loss."""

    def __init__(self, losses, inputs):
        self.train_inputs = inputs
        self._losses = losses
        self.model = nn.Linear(WIDTH, CLASSES)
        nn.init.initialize(self.model, 0)

    def train_step(self, inputs):
        return self._losses(self.model, inputs)


def tag_losses(model, inputs):
    return nlp_losses.CrossEntropy(0.1)(model(inputs["x"]), inputs["y"])


def word_and_pair_losses(model, inputs):
    outputs = model(inputs["x"]), model(inputs["pairs"])
    return Pretraining().losses(outputs, {"targets": inputs["y"], "related": inputs["related"]})


def pixel_losses(model, inputs):
    weighted = pixels.CrossEntropy(class_weights=[1, 2, 0, 0.5, 3])
    terms = {"plain": pixels.CrossEntropy(), "weighted": weighted}
    return {name: loss(model(inputs["x"]), inputs["y"]) for name, loss in terms.items()}


def tags(rng, counts):
    for count, known in counts:
        y = rng.integers(0, CLASSES, count)
        y[known:] = nlp_losses.IGNORED
        yield {"x": features(rng, count), "y": y}


def masked_words(rng, counts):
    for pairs, words in counts:
        more = {"pairs": features(rng, pairs), "related": rng.integers(0, 2, pairs)}
        yield {"x": features(rng, words), "y": rng.integers(0, CLASSES, words), **more}


def ignored_pixels(rng, counts):
    for images, known in counts:
        y = rng.integers(0, CLASSES, (images, 4, 3)).astype(np.int32)
        y.reshape(-1)[known:] = IGNORE
        yield {"x": features(rng, images, 4, 3), "y": y}


def features(rng, *shape):
    return rng.standard_normal((*shape, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(
    "losses, batches, counts",
    [
        (tag_losses, tags, [(9, 8), (7, 1), (3, 0)]),
        (word_and_pair_losses, masked_words, [(2, 11), (5, 1), (1, 4)]),
        (pixel_losses, ignored_pixels, [(1, 2), (3, 36), (1, 0)]),
    ],
)
def test_batches_of_unequal_counts_give_the_gradients_and_losses_of_the_large_batch(losses, batches, counts, eager):
    small = list(batches(np.random.default_rng(0), counts))
    large = {key: np.concatenate([batch[key] for batch in small]) for key in small[0]}
    weights, found = [], []
    for group in ([large], small):
        task = Rows(losses, tuple(large))
        before = {name: t.numpy().astype(np.float64) for name, t in task.model.state_dict().items()}
        step = TrainStep(task, SGD(task.model.named_parameters()), eager=eager, accumulate=len(group))
        found.append(step(group, 1.0).losses)
        weights.append({name: before[name] - t.numpy() for name, t in task.model.state_dict().items()})
    # A gradient is a mean of at most n = 60 products whose factors are below 1 and 4, by two losses of which each sum
    # is rounded once an addition: n * eps of its size, which 4 bounds. So are the losses, which are below 4 too.
    tolerance = 2 * 60 * EPS * 4
    for name, expected in weights[0].items():
        assert np.abs(expected).max() > 1e-2
        assert np.allclose(weights[1][name], expected, rtol=0, atol=tolerance), name
    assert found[1] == pytest.approx(found[0], abs=tolerance)


def test_a_weight_that_depends_on_the_model_is_refused():
    def losses(model, inputs):
        mean = ops.mean(model(inputs["x"]))
        return {"odd": Loss(mean, ops.abs(mean))}

    task = Rows(losses, ("x",))
    step = TrainStep(task, SGD(task.model.named_parameters()), accumulate=2)
    with pytest.raises(ConfigError, match=r"Rows: the weight of a loss depends on the model \("):
        step([{"x": features(np.random.default_rng(0), 3)}] * 2, 0.1)


def test_finding_the_weights_changes_neither_buffers_nor_random_numbers(tmp_path):
    """Batch norm and dropout: an update of one batch, joined with nothing, is the update without joining."""
    (tmp_path / "c.yml").write_text(CONFIG)
    for count in (1, 2):
        overrides = [f"runtime.accumulate={count}", "data.batch_size=20", "runtime.epochs=2"]
        train(tmp_path / "c.yml", [*overrides, "schedule.reference_batch=null"], runs=tmp_path, name=f"by{count}")
    one, two = (load_tensors(tmp_path / f"by{count}" / "weights" / "last.safetensors") for count in (1, 2))
    assert all(np.array_equal(one[name].numpy(), two[name].numpy()) for name in one)


def test_the_last_update_of_an_epoch_averages_over_what_is_left(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG)
    trainer = train(tmp_path / "c.yml", runs=tmp_path)
    assert trainer.steps_per_epoch == 3 and trainer.step == 9  # 5 batches: 2 + 2 + 1
    assert trainer.state_dict()["trainer"]["loader"]["epoch"] == 3
    assert "so 0.1 for this batch of 8" in (tmp_path / "c" / "log.txt").read_text()


def test_a_run_with_accumulation_continues_bit_for_bit(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG)
    train(tmp_path / "c.yml", runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError):
        train(tmp_path / "c.yml", runs=tmp_path, name="part", hooks=[Fail(5)])
    train(tmp_path / "part", resume=True)
    whole, part = (load_tensors(tmp_path / run / "weights" / "last.safetensors") for run in ("whole", "part"))
    assert all(np.array_equal(whole[name].numpy(), part[name].numpy()) for name in whole)


def Fail(step):
    """A hook that ends the run with an error after a step."""
    from suites.engine.train.hooks import Hook

    def after_step(self, trainer):
        if trainer.step == step:
            raise RuntimeError("power cut")

    return type("Failing", (Hook,), {"after_step": after_step})()


def test_a_number_below_one_is_refused(tmp_path):
    (tmp_path / "c.yml").write_text(CONFIG.replace("accumulate: 2", "accumulate: 0"))
    with pytest.raises(ConfigError, match="accumulate is 0; it must be 1 or more"):
        load_config(tmp_path / "c.yml")
