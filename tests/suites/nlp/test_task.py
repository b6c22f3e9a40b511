"""The NLP task as the engine uses it: every problem trains, evaluates, predicts and is exported from a config."""

import json
from pathlib import Path

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import CheckpointError, ConfigError, DataError
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import evaluate_export, export_run, infer_files, open_model, open_run
from suites.engine.predict.quantizing import Quantization
from suites.engine.train.train_step import optimizer_of
from suites.engine.train.training import evaluate_weights, train
from suites.nlp.processor import TextProcessor
from suites.nlp.task import layer_factors
from tests.shipped import load_shipped

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "nlp"
LETTERS = "abcdefghijklmnopqrst"
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]
ENCODER = (
    "{type: Bert, vocab_size: 25, hidden_size: 32, layers: 2, heads: 2, ffn_size: 64, max_positions: 40, dropout: 0}"
)
REST = """
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: RATE}
runtime: {steps: STEPS, workers: 0, evaluation: {every: 0, pictures: 2}}
"""
BAGS = """
suite: nlp
model: {type: MODEL, vocab_size: "${data.tokenizer.max_size}", num_classes: "${data.num_classes}", width: 16}
data:
  num_classes: 2
  tokenizer: {type: WordTokenizer, max_size: 30}
  train: {dataset: {type: Tsv, path: ROOT/train.tsv}, tokens: 200, pool: 2}
  eval: {dataset: {type: Tsv, path: ROOT/dev.tsv}, batch_size: 7}
problem: {type: Classification}
"""
BERTS = f"""
suite: nlp
model: {{type: HEAD, encoder: {ENCODER}}}
data:
  tokenizer: {{type: BertTokenizer, vocabulary: ROOT/vocab.txt}}
  num_classes: CLASSES
  max_length: 24
  train: {{dataset: DATASET, batch_size: 16}}
  eval: {{dataset: DATASET, batch_size: 5}}
problem: PROBLEM
"""


def sentences(rng, count):
    return [" ".join(rng.choice(list(LETTERS), rng.integers(3, 9))) for _ in range(count)]


def rated(text):
    """Whether one of the first two letters is in it."""
    return int(any(word < "c" for word in text.split()))


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "vocab.txt").write_text("\n".join(VOCABULARY))
    for name, count in (("train", 200), ("dev", 40)):
        rows = [f"{'good' if rated(text) else 'bad'}\t{text}" for text in sentences(rng, count)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *rows]) + "\n")
        pairs = [(a, b) for a, b in zip(sentences(rng, count), sentences(rng, count), strict=True)]
        rows = [json.dumps({"a": a, "b": b, "label": rated(a) - rated(b)}) for a, b in pairs]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
        blocks = ["\n".join(f"{w} {'B-X' if w < 'd' else 'O'}" for w in text.split()) for text in sentences(rng, count)]
        (tmp_path / f"{name}.bio").write_text("\n\n".join(blocks) + "\n")
        questions = [question(i, text) for i, text in enumerate(sentences(rng, count))]
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"paragraphs": questions}]}))
    return tmp_path


def question(number, text):
    """The answer is the first word, which the question repeats."""
    answer = {"text": text[0], "answer_start": 0}
    entry = {"id": str(number), "question": text[0], "answers": [answer]}
    return {"context": text, "qas": [entry]}


def config_file(folder, text, steps, rate="5e-3", **words):
    for word, value in {"ROOT": str(folder), "STEPS": str(steps), "RATE": rate, **words}.items():
        text = text.replace(word, value)
    (folder / "c.yml").write_text(text)
    return folder / "c.yml"


def bert_file(folder, head, dataset, problem, steps, more="", classes="1"):
    if head != "SpanPredictor":
        head += ', num_classes: "${data.num_classes}"'
    words = {"HEAD": head, "DATASET": dataset, "PROBLEM": problem, "CLASSES": classes}
    return config_file(folder, BERTS + REST + more, steps, **words)


@pytest.mark.parametrize("model", ["BagOfWords", "TextCNN"])
def test_a_classic_learns_and_is_used_without_its_data(folder, model):
    path = config_file(folder, BAGS + REST, 60, "2e-2", MODEL=model)
    train(path, runs=folder, name="run")
    figures = evaluate_weights(folder / "run")
    assert figures["accuracy"] > 0.9 and set(figures) >= {"f1", "macro_f1", "mcc", "f1/good", "f1/bad"}
    assert len((folder / "run" / "pictures" / "examples.txt").read_text().splitlines()) == 2
    report = export_run(folder / "run", folder / "export")
    assert report.largest_difference < 1e-6 and not report.fixed_shapes
    for name in ("train.tsv", "dev.tsv"):
        (folder / name).unlink()
    texts = ["a b c a b", "s t", "", "x 😀 \ud83d"]
    (folder / "texts.txt").write_text("a b\n\ns t s\n")
    for source in ("run", "export"):
        done = infer_files(open_model(folder / source), [*texts, str(folder / "texts.txt")], folder / source / "out")
        assert [line.split("-> ")[1][:4] for line in done.lines][:2] == ["good", "bad "] and len(done.lines) == 6
        results = json.loads((folder / source / "out" / "predictions.json").read_text())
        assert results[f"{folder}/texts.txt:3"]["class"] == "bad"
        assert sum(results["s t"]["scores"].values()) == pytest.approx(1, abs=1e-4)
        with pytest.raises(DataError, match=r"there is no such file; did you mean '.*/texts\.txt'"):
            infer_files(open_model(folder / source), ["a b", str(folder / "txets.txt")], None)
        with pytest.raises(DataError, match="there is no such file"):
            open_model(folder / source)(str(folder / "missing*.txt"))


def test_an_encoder_in_8_bits_predicts_what_it_did(folder):
    dataset = f"{{type: Tsv, path: {folder}/train.tsv}}"
    path = bert_file(folder, "SequenceClassifier", dataset, "{type: Classification}", 60, classes="2")
    train(path, runs=folder, name="run")
    whole = evaluate_weights(folder / "run")["accuracy"]
    items = [row.split("\t")[1] for row in (folder / "dev.tsv").read_text().splitlines()[1:]]
    expected = infer_files(open_model(folder / "run"), items, None).lines
    assert whole > 0.9
    for how in (Quantization(smallest=1000), Quantization("static", "mse", batches=3, smallest=1000)):
        report = export_run(folder / "run", folder / how.mode, quantization=how)
        # In both layers queries with keys and values, their output, two wide ones; the table of positions; the pooler.
        assert len(report.quantized.matched) == 10
        assert any("'encoder.layers.0.attention.qkv.weight'" in line for line in report.quantized.matched)
        assert 0 < report.largest_difference < 0.1
        # 200 training sentences: one in a hundred may turn.
        assert evaluate_export(folder / "run", folder / how.mode)["accuracy"] >= whole - 0.01
        found = infer_files(open_model(folder / how.mode), items, None).lines
        same = [
            a.split("-> ")[1].split()[0] == b.split("-> ")[1].split()[0] for a, b in zip(expected, found, strict=True)
        ]
        assert sum(same) >= 39


def test_pairs_are_compared(folder):
    dataset = f"{{type: JsonLines, path: {folder}/train.jsonl, text: a, pair: b}}"
    problem = "{type: Regression, pair: true}"
    train(bert_file(folder, "SequenceClassifier", dataset, problem, 500), runs=folder, name="run")
    assert evaluate_weights(folder / "run")["pearson"] > 0.9
    done = infer_files(open_model(folder / "run"), ["a b c\tr s t", "only one"], None)
    assert float(done.lines[0].split("-> ")[1]) > 0.3 and "expects two texts" in done.skipped[0]


def test_words_are_tagged(folder):
    dataset = f"{{type: CharTags, path: {folder}/train.bio}}"
    path = bert_file(folder, "TokenClassifier", dataset, "{type: Tagging, words: spaces}", 40, classes="2")
    train(path, runs=folder, name="run")
    assert evaluate_weights(folder / "run")["f1"] > 0.95
    report = export_run(folder / "run", folder / "export")
    assert report.outputs == ["tags"] and not report.fixed_shapes
    done = infer_files(open_model(folder / "export"), ["s c t a"], None)
    assert done.lines == ["s c t a -> c (X), a (X)"]


def test_questions_are_answered(folder):
    dataset = f"{{type: SquadJson, path: {folder}/train.json}}"
    train(bert_file(folder, "SpanPredictor", dataset, "{type: Reading}", 60, classes="null"), runs=folder, name="run")
    assert evaluate_weights(folder / "run")["exact"] > 0.9
    assert export_run(folder / "run", folder / "export").largest_difference < 1e-5
    done = infer_files(open_model(folder / "export"), ["d\td e f", str(folder / "dev.json")], folder / "out")
    assert done.lines[0] == "d -> d" and len(done.lines) == 41
    with pytest.raises(ConfigError, match="takes Question examples but Tsv has Labelled"):
        build_task(
            read_config(folder / "run", [f"data.eval.dataset={{type: Tsv, path: {folder}/dev.tsv}}"])
        ).eval_loader(workers=0)


def test_questions_may_have_no_answer(folder):
    """Those that ask for a letter of the second half of the alphabet."""
    for name in ("train", "dev"):
        file = json.loads((folder / f"{name}.json").read_text())
        for paragraph in file["data"][0]["paragraphs"]:
            if paragraph["qas"][0]["question"] > "j":
                paragraph["qas"][0] |= {"answers": [], "is_impossible": True}
        (folder / f"{name}.json").write_text(json.dumps(file))
    dataset = f"{{type: SquadJson, path: {folder}/train.json}}"
    problem = "{type: Reading, unanswerable: true}"
    train(bert_file(folder, "SpanPredictor", dataset, problem, 80, classes="null"), runs=folder, name="run")
    figures = evaluate_weights(folder / "run")
    assert figures["HasAns_f1"] > 0.9 and figures["NoAns_f1"] > 0.9 and figures["best_f1"] >= figures["f1"]
    done = infer_files(open_model(folder / "run"), ["d\td e f", "q\tq r s"], folder / "out")
    assert done.lines == ["d -> d", "q -> (no answer)"]


def test_a_run_continues_bit_for_bit(folder):
    path = config_file(folder, BAGS + REST, 12, "2e-2", MODEL="TextCNN")
    whole = train(path, runs=folder, name="whole").deploy_weights()
    train(path, ["runtime.steps=12", "runtime.checkpoint.every=5"], runs=folder, name="part", hooks=[Stop(7)])
    again = train(folder / "part", resume=True).deploy_weights()
    assert all(np.array_equal(whole[name].numpy(), again[name].numpy()) for name in whole)


class Stop:
    """Ends a run as Ctrl-C does."""

    priority, name = 50, "Stop"

    def __init__(self, step):
        self.step = step

    def __getattr__(self, point):
        return lambda *args: {} if point == "state_dict" else None

    def after_step(self, trainer):
        trainer.interrupted = trainer.step == self.step


def test_layers_learn_slower_the_lower_they_are(folder):
    names = ["encoder.embeddings.word.weight", "encoder.layers.0.up.weight", "encoder.layers.1.up.weight", "fc.weight"]
    found = layer_factors(names, 0.5)
    assert found == {names[0]: 0.125, names[1]: 0.25, names[2]: 0.5}
    with pytest.raises(ConfigError, match="no encoder layers"):
        layer_factors(["fc.weight"], 0.5)
    dataset = f"{{type: JsonLines, path: {folder}/train.jsonl, text: a, pair: b}}"
    more = "layer_decay: 0.5\n"
    config = read_config(bert_file(folder, "SequenceClassifier", dataset, "{type: Regression}", 1, more))
    task = build_task(config)
    optimizer = optimizer_of(task, config.part("optimizer"))
    assert optimizer._factor["encoder.embeddings.word.weight"] == 0.125 and optimizer._factor["fc.weight"] == 1.0
    # Weight decay leaves out biases and norms.
    decayed = {name for name, share in optimizer._decay.items() if share}
    assert "fc.weight" in decayed and not [n for n in decayed if "norm" in n or n.endswith("bias")]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_r_drop_adds_what_dropout_makes_of_a_prediction(folder, dropout):
    dataset = f"{{type: Tsv, path: {folder}/train.tsv}}"
    path = bert_file(folder, "SequenceClassifier", dataset, "{type: Classification}", 1, classes="2")
    overrides = [f"model.{part}={dropout}" for part in ("dropout", "encoder.dropout", "encoder.attention_dropout")]
    terms = []
    for more in ([], ["r_drop=2.0"]):
        task = build_task(read_config(path, overrides + more))
        batch = next(iter(task.train_loader(seed=0, workers=0)))
        found = task.train_step({k: from_numpy(batch[k]) for k in task.train_inputs})
        terms.append({name: float(loss.mean) for name, loss in found.items()})
    plain, twice = terms
    assert set(plain) == {"cross_entropy"} and set(twice) == {"cross_entropy", "r_drop"}
    if dropout:
        assert twice["r_drop"] > 1e-6
    else:
        assert twice == {"cross_entropy": pytest.approx(plain["cross_entropy"], rel=1e-5), "r_drop": 0.0}


def test_r_drop_is_refused_where_there_are_no_classes(folder):
    dataset = f"{{type: JsonLines, path: {folder}/train.jsonl, text: a, pair: b}}"
    path = bert_file(folder, "SequenceClassifier", dataset, "{type: Regression}", 1)
    with pytest.raises(ConfigError, match=r"r_drop: is for Classification, not for Regression"):
        read_config(path, ["r_drop=1.0"])


def test_a_task_id_adds_its_row(folder):
    dataset = f"{{type: JsonLines, path: {folder}/train.jsonl, text: a, pair: b}}"
    path = bert_file(folder, "SequenceClassifier", dataset, "{type: Regression}", 1)
    scores = {}
    for task_id in (0, 2):
        task = build_task(read_config(path, [f"task_id={task_id}", "model.encoder.task_types=3"]))
        batch = next(iter(task.eval_loader(workers=0)))
        task.model.eval()
        with no_grad():
            scores[task_id] = task.eval_step({k: from_numpy(batch[k]) for k in task.eval_inputs})["scores"].numpy()
    assert np.abs(scores[0] - scores[2]).max() > 1e-4
    with pytest.raises(ConfigError, match="task_id is 2 but the model has 0 task vectors"):
        build_task(read_config(path, ["task_id=2"]))


@pytest.mark.parametrize(
    ("override", "error", "match"),
    [
        ("model.num_classes=3", ConfigError, r"model.num_classes: is 3 but data.num_classes is 2"),
        ("data.num_classes=3", ConfigError, r"data.num_classes is 3 but there are 2 classes \(bad, good\)"),
        ("data.train.tokens=null", ConfigError, r"data.train.pool: does nothing without 'tokens'"),
        ("data.eval.batch_size=0", ConfigError, r"data.eval.batch_size: is 0"),
        ("layer_decay=2", ConfigError, r"layer_decay: is 2"),
        ("r_drop=0.0", ConfigError, r"r_drop: is 0.0; it must be above 0"),
        ("data.max_length=3", DataError, r"max_length is 3; it must be 8 or more"),
        ("data.train.tokens=10", DataError, r"batches of 10 tokens are too small"),
        ("model.vocab_size=20", ConfigError, r"the tokenizer has 30 tokens but the model's embedding 20 rows"),
        ("data.classes=[bad, fine]", DataError, r"label 'good' was not seen in training; known are bad, fine"),
        ("data.train.dataset.path=nowhere.tsv", DataError, r"nowhere.tsv: no such file"),
    ],
)
def test_wrong_configs_are_refused(folder, override, error, match):
    path = config_file(folder, BAGS + REST, 1, MODEL="BagOfWords")
    with pytest.raises((error, ValueError), match=match):
        build_task(read_config(path, [override])).train_loader(seed=0, workers=0)


def test_a_vocabulary_that_does_not_fit_is_refused(folder):
    dataset = f"{{type: JsonLines, path: {folder}/train.jsonl, text: a, pair: b}}"
    path = bert_file(folder, "SequenceClassifier", dataset, "{type: Regression}", 1)
    with pytest.raises(ConfigError, match=r"the tokenizer has 25 tokens but the model's embedding 10 rows"):
        build_task(read_config(path, ["model.encoder.vocab_size=10"])).train_loader(seed=0, workers=0)
    with pytest.raises(ConfigError, match=r"data.max_length is 64 but the model has positions for 40 tokens"):
        build_task(read_config(path, ["data.max_length=64"])).train_loader(seed=0, workers=0)


def test_a_label_that_only_the_evaluation_set_has_is_named(folder):
    (folder / "dev.tsv").write_text("label\ttext_a\ngood\ta\nawful\tb\n")
    task = build_task(read_config(config_file(folder, BAGS + REST, 1, MODEL="BagOfWords")))
    with pytest.raises(DataError, match=r"dev.tsv:3: label 'awful' was not seen in training; known are bad, good"):
        task.eval_loader(workers=0)


def test_damaged_metadata_are_refused(folder):
    train(config_file(folder, BAGS + REST, 1, MODEL="BagOfWords"), runs=folder, name="run")
    metadata = open_run(folder / "run").processor().metadata()
    assert TextProcessor.from_metadata(metadata).metadata() == metadata
    with pytest.raises(CheckpointError, match="metadata lack 'classes'"):
        TextProcessor.from_metadata({k: v for k, v in metadata.items() if k != "classes"})
    with pytest.raises(CheckpointError, match="do not describe one"):
        TextProcessor.from_metadata({**metadata, "tokenizer": {"kind": "words", "size": 3}})


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yml")), ids=lambda path: path.name)
def test_every_config_is_read(path):
    load_shipped(path)
