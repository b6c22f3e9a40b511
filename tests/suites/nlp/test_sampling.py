"""Losses on a few words: exact in expectation, word by word; penalties and adaptive softmax by their formulas."""

import json

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError, PaddockError
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.train.training import train
from suites.nlp.losses import IGNORED
from suites.nlp.models.outputs import AdaptiveSoftmax, States, TreeSoftmax
from suites.nlp.models.recurrent_writing import RecurrentLanguageModel
from suites.nlp.sampling import Calm, Sampled, drawn, over_tree

WORDS = 9
RNG = np.random.default_rng(0)
X, W, BIAS = RNG.normal(size=(4, 5)), RNG.normal(size=(WORDS, 5)), RNG.normal(size=WORDS)
TARGETS = np.array([3, 0, 8, 3])
LOGITS = X @ W.T + BIAS
CLOSE = {"rtol": 1e-5}  # float32 sums of tens of terms of order 1


def states():
    return States(*(framework.tensor(a.astype(np.float32)) for a in (X, W, BIAS)))


def of(sampled, others, targets=TARGETS):
    (loss,) = sampled.of(states(), framework.tensor(targets), framework.tensor(np.array(others))).values()
    return float(loss.mean), float(loss.weight)


def log_uniform(words):
    """P of each word, float64 [V]."""
    k = np.arange(words)
    return np.log((k + 2) / (k + 1)) / np.log(words + 1)


def test_words_are_drawn_log_uniformly():
    assert log_uniform(WORDS).sum() == pytest.approx(1.0)
    framework.random.seed(0)
    found = np.bincount(drawn(WORDS, 100_000).numpy(), minlength=WORDS) / 100_000
    # 5 standard deviations of a share of 100,000 draws
    assert (np.abs(found - log_uniform(WORDS)) < 5 * np.sqrt(0.25 / 100_000)).all()


def test_a_sampled_softmax_knows_the_sum_of_exponentials_in_the_mean():
    """With one word drawn, exp(loss) is the sum of exponentials over the right word's: in the mean the exact one."""
    p = log_uniform(WORDS)
    for row, target in enumerate(TARGETS):
        only = np.full(4, IGNORED)
        only[row] = target
        mean = sum(share * np.exp(of(Sampled(count=1), [k], only)[0]) for k, share in enumerate(p))
        exact = np.exp(LOGITS[row]).sum() / np.exp(LOGITS[row, target])
        assert mean == pytest.approx(exact, rel=1e-5)


def test_a_sampled_softmax_is_its_formula_and_counts_the_right_word_once():
    others = [0, 3, 3, 7]
    p = log_uniform(WORDS)
    losses = []
    for row, target in enumerate(TARGETS):
        z = np.exp(LOGITS[row, target])
        z += sum(np.exp(LOGITS[row, k]) / (4 * p[k]) for k in others if k != target)
        losses.append(np.log(z) - LOGITS[row, target])
    assert of(Sampled(count=4), others) == (pytest.approx(np.mean(losses), rel=1e-5), 4.0)


def test_noise_contrastive_estimation_is_exact_in_the_mean():
    """The mean over drawn words, one at a time, is the sum over the vocabulary that the papers' objective has."""
    count, p = 3, log_uniform(WORDS)
    sampled = Sampled("nce", count)
    mean = sum(share * of(sampled, [k] * count)[0] for k, share in enumerate(p))  # a sum over draws: linear in each
    corrected = LOGITS - np.log(count * p)
    right = np.log1p(np.exp(-corrected[np.arange(4), TARGETS]))
    wrong = count * (p * np.log1p(np.exp(corrected))).sum(axis=1)
    assert mean == pytest.approx(np.mean(right + wrong), rel=1e-5)


def test_words_that_fill_up_count_nothing():
    for kind in ("softmax", "nce"):
        whole = of(Sampled(kind, 2), [1, 5], np.array([3, 0, IGNORED, IGNORED]))
        parts = [of(Sampled(kind, 2), [1, 5], np.array([3 if i == 0 else IGNORED, 0 if i else IGNORED, *[IGNORED] * 2]))
                 for i in (0, 1)]  # fmt: skip
        assert whole == (pytest.approx(np.mean([mean for mean, _ in parts])), 2.0)


def test_gradients_are_those_of_the_words_that_take_part():
    parts = states()
    for tensor in (parts.x, parts.weight):
        tensor.requires_grad = True
    (loss,) = Sampled(count=2).of(parts, framework.tensor(TARGETS), framework.tensor(np.array([1, 5]))).values()
    loss.mean.backward()
    gone = (np.asarray(parts.weight.grad.numpy()) == 0).all(axis=1)
    assert np.flatnonzero(~gone).tolist() == [0, 1, 3, 5, 8]


def test_penalties_on_activations_are_those_of_awd_lstm():
    last, dropped = RNG.normal(size=(2, 5, 3))
    offsets, targets = np.array([0, 3, 5]), np.array([1, 2, 3, 4, IGNORED])
    given = States(framework.tensor(last.astype(np.float32)), None, None, None,
                   *(framework.tensor(a.astype(np.float32)) for a in (last, dropped)))  # fmt: skip
    found = Calm(2.0, 1.5)(given, framework.tensor(targets), framework.tensor(offsets))
    assert float(found["activation"].mean) == pytest.approx(2.0 * (dropped[:4] ** 2).mean(), rel=1e-5)
    assert float(found["change"].mean) == pytest.approx(1.5 * ((last[1:3] - last[:2]) ** 2).mean(), rel=1e-5)
    assert set(Calm(change=1.0)(given, framework.tensor(targets), framework.tensor(offsets))) == {"change"}


def test_adaptive_softmax_is_a_distribution_by_its_formula():
    layer = AdaptiveSoftmax(8, 20, (6, 12))
    nn.init.initialize(layer, seed=0)
    x = RNG.normal(size=(3, 8))
    found = layer(framework.tensor(x.astype(np.float32))).numpy()
    w = {name: np.float64(t.numpy()) for name, t in layer.state_dict().items()}
    assert w["projections.0.weight"].shape == (2, 8) and w["tails.1.weight"].shape == (8, 1)

    def softmax(z):
        return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)

    head = softmax(x @ w["head.weight"].T)
    parts = [head[:, :6]]
    for c in (0, 1):
        parts.append(head[:, 6 + c : 7 + c] * softmax(x @ w[f"projections.{c}.weight"].T @ w[f"tails.{c}.weight"].T))
    np.testing.assert_allclose(np.exp(found), np.concatenate(parts, axis=1), rtol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, rtol=1e-5)


def huffman_depths(words):
    """Depth of each word in a Huffman tree over the log-uniform distribution, by merging lists."""
    groups = [(share, [k]) for k, share in enumerate(log_uniform(words))]
    depths = np.zeros(words, int)
    while len(groups) > 1:
        groups.sort(key=lambda group: group[0])
        (a, one), (b, other), *groups = groups
        depths[one + other] += 1
        groups.append((a + b, one + other))
    return depths


def test_a_tree_of_words_is_a_distribution_and_its_loss_that_of_its_logits():
    layer = TreeSoftmax(8, 21)
    nn.init.initialize(layer, seed=0)
    layer.biases.weight.set(framework.tensor(RNG.normal(size=(20, 1)).astype(np.float32)))
    x = framework.tensor(RNG.normal(size=(3, 8)).astype(np.float32))
    logs = np.float64(layer(x).numpy())
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0, **CLOSE)
    for word in range(21):
        surprise = layer.surprise(x, framework.tensor(np.full(3, word))).numpy()
        np.testing.assert_allclose(surprise, -logs[:, word], **CLOSE)
    (loss,) = over_tree(layer, x, framework.tensor(np.array([4, IGNORED, 20]))).values()
    assert float(loss.mean) == pytest.approx(-(logs[0, 4] + logs[2, 20]) / 2, rel=1e-5) and float(loss.weight) == 2


@pytest.mark.parametrize("words", [2, 3, 21, 200])
def test_frequent_words_stand_near_the_root_as_in_huffmans_tree(words):
    layer = TreeSoftmax(4, words)
    depths = np.abs(layer._sides.numpy()).sum(axis=1)
    cost = log_uniform(words) @ depths
    assert cost == pytest.approx(log_uniform(words) @ huffman_depths(words), rel=1e-12)  # the least of all trees
    assert depths[0] == depths.min() and (depths >= 1).all()


def test_of_a_tree_only_the_ways_of_right_words_learn():
    layer = TreeSoftmax(4, 50)
    nn.init.initialize(layer, seed=0)
    x = framework.tensor(RNG.normal(size=(2, 4)).astype(np.float32))
    (loss,) = over_tree(layer, x, framework.tensor(np.array([7, 30]))).values()
    loss.mean.backward()
    grad = layer.nodes.weight.grad
    learnt = np.flatnonzero(np.abs(np.asarray(grad.numpy())).sum(axis=1))
    sides, ways = np.abs(layer._sides.numpy()[[7, 30]]) > 0, layer._ways.numpy()[[7, 30]]
    assert set(learnt) == set(ways[sides])


def test_a_linear_output_begins_with_the_words_frequencies():
    model = RecurrentLanguageModel(50, 8, hidden=8, tied=False)
    for _ in range(2):  # as it is made, and as it is drawn
        np.testing.assert_allclose(np.exp(model.head.bias.numpy()), log_uniform(50), rtol=1e-5)
        nn.init.initialize(model, seed=0)


PROSE = """
suite: nlp
model: {type: RecurrentLanguageModel, vocab_size: 16, width: 16, hidden: 32}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 16}
  max_length: 16
  train: {dataset: {type: Prose, path: prose.txt, holdout: 0.2}, batch_size: 8}
  eval: {dataset: {type: Prose, path: prose.txt, holdout: 0.2, part: val}, batch_size: 8}
problem: {type: LanguageModeling}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {epochs: 12, workers: 0, threads: 1, evaluation: {every: 12}, checkpoint: {every: 1000, keep: 1}}
"""


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["problem.sampled={kind: softmax, count: 6}"],
        ["problem.sampled={kind: nce, count: 12}"],
        ["problem.calm={size: 0.1, change: 0.1}", "model.dropout=0.1"],
        ["model.tied=false", "model.cutoffs=[5, 9]"],
        ["model.tied=false", "model.tree=true"],
        ["model={$replace: {type: FeedforwardLanguageModel, vocab_size: 16, width: 16, window: 3, hidden: 32}}"],
        ["model={$replace: {type: FeedforwardLanguageModel, vocab_size: 16, width: 16, direct: true, cutoffs: [5]}}"],
        ["model={$replace: {type: LanguageModel, vocab_size: 16, width: 32, layers: 1, heads: 2, max_length: 32}}",
         "problem.sampled={count: 6}"],
    ],
)  # fmt: skip
def test_models_learn_a_text_by_each_of_them(tmp_path, monkeypatch, overrides):
    """`abcd efg` and a line's end: of 9 characters only where a window begins is uncertain, far below log(9) = 2.2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 200)
    (tmp_path / "c.yml").write_text(PROSE)
    train(tmp_path / "c.yml", overrides, name="r", runs=tmp_path / "runs")
    assert json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())["loss_nats"] < 0.6


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (["model={$replace: {type: LanguageModel, vocab_size: 16, width: 16, layers: 1, heads: 2, max_length: 32}}",
          "problem.calm={size: 1.0}"], "calm is for recurrent models"),
        (["model.tied=false", "model.cutoffs=[5]", "problem.sampled={}"], "take the model's cutoffs or tree away"),
        (["model.cutoffs=[5]"], "set tied to false"),
        (["model.tree=true"], "set tied to false"),
        (["model.tied=false", "model.tree=true", "model.cutoffs=[5]"], "cutoffs"),
        (["data.tokenizer={$replace: {type: WordTokenizer, max_size: 16, ngrams: 2}}"], "makes no text of ids"),
        (["model.tied=false", "model.tree=true", "problem.sampled={}"], "cutoffs or tree away"),
        (["model.tied=false", "model.tree=true", "problem.loss.label_smoothing=0.1"], "no loss.label_smoothing"),
        (["model={$replace: {type: FeedforwardLanguageModel, vocab_size: 16}}", "problem.calm={size: 1.0}"],
         "calm is for recurrent models"),
        (["model.tied=false", "model.cutoffs=[9, 5]"], "cutoffs must rise"),
        (["problem.sampled={count: 0}"], "count is 0"),
        (["problem.calm={size: -1}"], "size is -1"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path, monkeypatch, overrides, match):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    (tmp_path / "c.yml").write_text(PROSE)
    with pytest.raises(PaddockError, match=match):
        task = build_task(load_config(tmp_path / "c.yml", overrides))
        batch = next(iter(task.train_loader(seed=0, workers=0)))
        task.train_step({name: framework.tensor(batch[name]) for name in task.train_inputs})


def test_states_have_the_logits_of_the_model_itself():
    model = RecurrentLanguageModel(12, 6, hidden=10).eval()
    nn.init.initialize(model, seed=0)
    ids, offsets = framework.tensor(np.array([1, 5, 7])), framework.tensor(np.array([0, 2, 3]))
    found = model.states(ids, offsets)
    np.testing.assert_array_equal(found.logits.numpy(), model(ids, offsets).numpy())
    product = ops.matmul(found.x, found.weight, transpose_b=True).numpy()
    np.testing.assert_allclose(product, found.logits.numpy(), **CLOSE)
    assert model.states(ids, offsets, logits=False).logits is None
    with pytest.raises(AttributeValueError, match="count is -1"):
        Sampled(count=-1)


@pytest.mark.parametrize("given", [{}, {"size": -1.0, "change": 1.0}, {"size": float("nan"), "change": 1.0}])
def test_penalties_that_do_nothing_or_reward_are_refused(given):
    with pytest.raises(AttributeValueError, match="both must be 0 or more, and one above 0"):
        Calm(**given)
