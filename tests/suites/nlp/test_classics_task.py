"""The classic models from a config: trained, evaluated, exported and used without their data."""

import json

import numpy as np
import pytest

from framework.errors import ConfigError
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train

LETTERS = list("abcdefghijklmnopqrst")
CONFIG = """
suite: nlp
model: {vocab_size: "${data.tokenizer.max_size}", num_classes: "${data.num_classes}", MODEL}
data:
  num_classes: CLASSES
  tokenizer: {type: WordTokenizer, max_size: 30}
  train: {dataset: DATASET, batch_size: 32}
  eval: {dataset: DATASET, batch_size: 7}
problem: PROBLEM
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 2e-2}
runtime: {steps: STEPS, workers: 0, evaluation: {every: 0, pictures: 2}}
"""


def run(folder, steps, **words):
    """Trains a config and gives its figures."""
    text = CONFIG.replace("STEPS", str(steps))
    for word, value in words.items():
        text = text.replace(word, value)
    (folder / "c.yml").write_text(text)
    train(folder / "c.yml", runs=folder, name="run")
    return evaluate_weights(folder / "run")


def sentences(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.choice(LETTERS, rng.integers(3, 9)).tolist() for _ in range(count)]


def export_agrees(folder, tolerance=1e-6):
    report = export_run(folder / "run", folder / "export")
    assert report.largest_difference < tolerance and not report.fixed_shapes


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_classifier_reads_the_order_of_words(tmp_path, cell):
    """Texts are good where "a" comes before "b"."""
    texts = [words for words in sentences(400) if "a" in words and "b" in words] + [["a", "b"], ["b", "c", "a"]]
    rows = [f"{'good' if words.index('a') < words.index('b') else 'bad'}\t{' '.join(words)}" for words in texts * 4]
    (tmp_path / "t.tsv").write_text("\n".join(["label\ttext_a", *rows]) + "\n")
    figures = run(
        tmp_path,
        60,
        MODEL=f"type: RecurrentClassifier, cell: {cell}, width: 16, hidden: 16, dropout: 0.0",
        CLASSES="2",
        DATASET=f"{{type: Tsv, path: {tmp_path}/t.tsv}}",
        PROBLEM="{type: Classification}",
    )
    assert figures["accuracy"] > 0.95
    export_agrees(tmp_path)
    (tmp_path / "t.tsv").unlink()
    for source in ("run", "export"):
        done = infer_files(open_model(tmp_path / source), ["a c b", "b c a"], None)
        assert [line.split("-> ")[1][:4] for line in done.lines] == ["good", "bad "]


def tagger(folder, problem="{type: ChainTagging, words: spaces}", tags="[O, B-X, I-X]"):
    """ "a" begins a chunk, and the letters b to e after one go on with it."""
    blocks = []
    for words in sentences(200):
        inside, lines = False, []
        for word in words:
            tag = "B-X" if word == "a" else "I-X" if inside and word in "bcde" else "O"
            inside = tag != "O"
            lines.append(f"{word} {tag}")
        blocks.append("\n".join(lines))
    (folder / "t.bio").write_text("\n\n".join(blocks) + "\n")
    return {
        "MODEL": f"type: CrfTagger, width: 16, hidden: 16, dropout: 0.0, tags: {tags}",
        "CLASSES": "3",
        "DATASET": f"{{type: CharTags, path: {folder}/t.bio}}",
        "PROBLEM": problem,
    }


def test_a_tagger_finds_chunks(tmp_path):
    assert run(tmp_path, 60, **tagger(tmp_path))["f1"] > 0.95
    export_agrees(tmp_path)
    for source in ("run", "export"):
        done = infer_files(open_model(tmp_path / source), ["c a s a t"], None)
        assert done.lines == ["c a s a t -> a (X), a (X)"]


def test_a_tagger_needs_words_as_tokens_and_as_many_names_as_tags(tmp_path):
    words = tagger(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]))
    run(tmp_path, 1, **words)
    change = f"data.tokenizer={{type: BertTokenizer, vocabulary: {tmp_path}/vocab.txt}}"
    with pytest.raises(ConfigError, match=r"ChainTagging: every token must be a word .* BertTokenizer"):
        build_task(read_config(tmp_path / "c.yml", [change, "model.vocab_size=30"])).eval_loader(workers=0)
    with pytest.raises(ConfigError, match="num_classes is 3 but tags names 1"):
        build_task(read_config(tmp_path / "c.yml", ["model.tags=[O]"]))


@pytest.mark.parametrize("reader", ["bow", "cnn", "gru", "lstm"])
def test_simnet_tells_which_texts_share_words(tmp_path, reader):
    rng, rows = np.random.default_rng(0), []
    for first, other in zip(sentences(300), sentences(300, seed=1), strict=True):
        match = len(rows) % 2
        second = rng.permutation(first).tolist() if match else other
        rows.append(json.dumps({"a": " ".join(first), "b": " ".join(second), "label": "same" if match else "other"}))
    (tmp_path / "t.jsonl").write_text("\n".join(rows) + "\n")
    figures = run(
        tmp_path,
        80,
        MODEL=f"type: SimNet, reader: {reader}, width: 16, hidden: 16",
        CLASSES="2",
        DATASET=f"{{type: JsonLines, path: {tmp_path}/t.jsonl, text: a, pair: b}}",
        PROBLEM="{type: Classification, pair: true}",
    )
    assert figures["accuracy"] > 0.8
    export_agrees(tmp_path, 1e-5)
