"""Filler behind a batch leaves its losses, gradients and predictions as they are, and makes few shapes of many."""

import logging

import numpy as np
import pytest

import framework
from framework import from_numpy, no_grad
from suites.engine import load
from suites.engine.config.building import build_task, read_config
from suites.engine.contract.fitting import size_above
from suites.engine.predict.inference import export_run
from suites.engine.train.training import evaluate_weights, train
from suites.nlp.filling import COUNTED, Filling
from suites.nlp.problems import Classification
from tests.suites.nlp import test_classics_task, test_task, test_writing
from tests.suites.nlp.test_pretraining import folder as documents  # noqa: F401
from tests.suites.nlp.test_task import folder  # noqa: F401

EPS = float(np.finfo(np.float32).eps)
ON_BERT = {
    "Classification": ("SequenceClassifier", "{type: Tsv, path: ROOT/train.tsv}", "2"),
    "Regression": ("SequenceClassifier", "{type: JsonLines, path: ROOT/train.jsonl, text: a, pair: b}", "1"),
    "Tagging, words: spaces": ("TokenClassifier", "{type: CharTags, path: ROOT/train.bio}", "2"),
    "Reading": ("SpanPredictor", "{type: SquadJson, path: ROOT/train.json}", "null"),
}


def on_bert(folder, problem, steps=1):  # noqa: F811
    """With dropout: a mask is drawn by place, so filler behind a batch changes no number of it but in attention."""
    head, dataset, classes = ON_BERT[problem]
    dataset = dataset.replace("ROOT", str(folder))
    path = test_task.bert_file(folder, head, dataset, f"{{type: {problem}}}", steps, classes=classes)
    path.write_text(path.read_text().replace("dropout: 0}", "dropout: 0.1, attention_dropout: 0}"))
    return path


def of_words(folder, model, problem, dataset):  # noqa: F811
    text = test_classics_task.CONFIG.replace("STEPS", "1").replace("CLASSES", "2")
    for word, value in {"MODEL": model, "PROBLEM": problem, "DATASET": dataset}.items():
        text = text.replace(word, value)
    (folder / "c.yml").write_text(text)
    return folder / "c.yml"


def compute(task, arrays):
    """Losses with what they weigh, and all gradients."""
    framework.random.seed(7)
    for parameter in task.model.parameters():
        parameter.grad = None
    terms = task.train_step({name: from_numpy(np.asarray(a)) for name, a in arrays.items()})
    sum((term.mean for term in terms.values()), start=framework.tensor(0.0)).backward()
    found = {name: (float(term.mean), float(term.weight)) for name, term in terms.items()}
    return found, {n: p.grad.numpy() for n, p in task.model.named_parameters() if p.grad is not None}


def predict(task, arrays):
    with no_grad():
        outputs = task.eval_step({name: from_numpy(np.asarray(arrays[name])) for name in task.eval_inputs})
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def expect_the_same(path):
    task = build_task(read_config(path))
    framework.nn.init.initialize(task.model, 0)
    filling = task.fitting()
    for batch in list(task.train_loader(seed=0, workers=0))[:2]:
        arrays = {name: batch[name] for name in task.train_inputs}
        filled = filling.fill(arrays)
        assert all(len(filled[name]) > len(arrays[name]) for name in arrays), filled.keys()
        task.model.train()
        (losses, gradients), (others, found) = compute(task, arrays), compute(task, filled)
        for name, (mean, weight) in losses.items():
            # A mean over a thousand numbers at most, summed in another order.
            np.testing.assert_allclose(others[name], (mean, weight), rtol=32 * EPS, err_msg=name)
        assert gradients.keys() == found.keys()
        largest = max(np.abs(gradient).max() for gradient in gradients.values())
        for name, gradient in gradients.items():
            np.testing.assert_allclose(found[name], gradient, atol=64 * EPS * largest, err_msg=name)
        task.model.eval()
        inputs = {name: batch[name] for name in task.eval_inputs if name in batch}
        if len(inputs) < len(task.eval_inputs):  # of a step of writing
            continue
        expected, cut = predict(task, inputs), filling.cut(predict(task, filling.fill(inputs)), inputs)
        for name, values in expected.items():
            np.testing.assert_allclose(cut[name], values, rtol=64 * EPS, atol=64 * EPS, err_msg=name)


@pytest.mark.parametrize("problem", ON_BERT)
def test_filler_changes_nothing_of_a_problem_on_bert(folder, problem):  # noqa: F811
    expect_the_same(on_bert(folder, problem))


def test_filler_changes_nothing_of_pretraining(documents):  # noqa: F811
    path = documents / "c.yml"
    path.write_text(path.read_text().replace("dropout: 0}", "dropout: 0, attention_dropout: 0}"))
    expect_the_same(path)


@pytest.mark.parametrize(
    "model",
    ["type: BagOfWords, width: 16", "type: TextCNN, width: 16", "type: RecurrentClassifier, width: 16, hidden: 16"],
)
def test_filler_changes_nothing_of_a_classic(folder, model):  # noqa: F811
    dataset = f"{{type: Tsv, path: {folder}/train.tsv}}"
    expect_the_same(of_words(folder, model, "{type: Classification}", dataset))


def test_filler_changes_nothing_of_a_chain_of_tags(folder):  # noqa: F811
    dataset = f"{{type: CharTags, path: {folder}/train.bio}}"
    problem = "{type: ChainTagging, words: spaces}"
    expect_the_same(of_words(folder, "type: CrfTagger, width: 16, hidden: 16", problem, dataset))


@pytest.mark.parametrize("kind", test_writing.KINDS)
def test_filler_changes_nothing_of_learning_to_write(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    (tmp_path / "c.yml").write_text(test_writing.KINDS[kind][0])
    expect_the_same(tmp_path / "c.yml")


@pytest.mark.parametrize("kind", test_writing.KINDS)
def test_a_run_on_xla_compiles_no_step_of_writing(kind, tmp_path, monkeypatch, caplog):
    pytest.importorskip("jax", reason="the extra [xla] is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    (tmp_path / "c.yml").write_text(test_writing.KINDS[kind][0])
    with caplog.at_level(logging.INFO):
        run = train(tmp_path / "c.yml", ["runtime.device=xla-cpu"], runs=tmp_path, name="x")
        assert load(tmp_path / "x", device="xla-cpu")(["abc"])[0].to_json()["text"] is not None
        export_run(tmp_path / "x", tmp_path / "exported")
        assert load(tmp_path / "exported", device="xla-cpu")(["abc"])[0].to_json()["text"] is not None
    compiled = [r.getMessage() for r in caplog.records if "xla: compiled" in r.getMessage()]
    assert 1 <= len(compiled) <= (6 if kind == "sort" else 4), compiled  # whole and last batches
    assert any("runs on the CPU: its steps" in r.getMessage() for r in caplog.records)
    assert run is not None


def ragged(rng, sequences, longest):
    lengths = rng.integers(1, longest + 1, sequences)
    ids = rng.integers(0, 9, lengths.sum())
    return {"ids": ids, "segment_ids": ids * 0, "offsets": np.cumsum([0, *lengths])}


@pytest.mark.parametrize("longest", [8, 128])
def test_no_filler_is_longer_than_the_longest_sequence_may_be(longest):
    rng = np.random.default_rng(0)
    filling = Filling(Classification(), few=False)
    for sequences in (*range(1, 40), 500, 3000):
        for arrays in (
            ragged(rng, sequences, longest),
            {**ragged(rng, sequences, 1), "offsets": np.arange(sequences + 1) * longest},
        ):
            arrays["ids"] = arrays["segment_ids"] = np.zeros(arrays["offsets"][-1], np.int64)
            filled = filling.fill(arrays)
            lengths = np.diff(filled["offsets"])
            assert (lengths >= 1).all() and lengths.max() <= max(longest, 64)
            assert filled["offsets"][-1] == len(filled["ids"]) == len(filled["segment_ids"])
            assert len(filled["ids"]) <= max(64, 1.125 * (len(arrays["ids"]) + sequences / 6 + 2))
            assert COUNTED not in filled  # there are no targets


def test_many_totals_become_few():
    rng = np.random.default_rng(0)
    filling = Filling(Classification(), few=False)
    filled = [filling.fill(ragged(rng, 32, 60)) for _ in range(200)]
    assert len({len(f["ids"]) for f in filled}) <= 8 and len({len(f["offsets"]) for f in filled}) == 1


def test_arrays_that_do_not_fit_each_other_are_left_to_the_program():
    filling = Filling(Classification(), few=True)
    arrays = {"ids": np.zeros(3, np.int64), "segment_ids": np.zeros(3, np.int64), "offsets": np.array([0, 90])}
    assert filling.fill(arrays)["offsets"].tolist() == [0, 90]


@pytest.mark.parametrize("steps", [1, 2, 8])
def test_sizes_are_few_and_little_above(steps):
    sizes = [size_above(n, steps=steps) for n in range(1, 2000)]
    assert all(n <= size <= max(n * (1 + 1 / steps), n) for n, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes) and len(set(sizes)) <= 11 * steps + 1


@pytest.mark.slow
def test_a_run_on_xla_compiles_for_few_shapes_and_learns_what_one_on_the_cpu_does(folder, caplog):  # noqa: F811
    pytest.importorskip("jax", reason="the extra [xla] is not installed")
    path = on_bert(folder, "Classification", steps=12)
    steps = {}
    for device in ("cpu", "xla-cpu"):
        with caplog.at_level(logging.INFO):
            caplog.clear()
            train(path, [f"runtime.device={device}"], runs=folder, name=device)
        steps[device] = evaluate_weights(folder / device)
        compiled = [r.getMessage() for r in caplog.records if "xla: compiled" in r.getMessage()]
        assert len(compiled) == 0 if device == "cpu" else len(compiled) <= 8, compiled
    np.testing.assert_allclose(steps["xla-cpu"]["accuracy"], steps["cpu"]["accuracy"], atol=0.05)
