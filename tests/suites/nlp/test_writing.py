"""Texts that are written, from data to what a user gets: train, evaluate, infer, export, the same all along."""

import gzip
import json

import numpy as np
import pytest

import framework
from framework.errors import AttributeValueError, ConfigError
from suites.engine import load
from suites.engine.cli import main
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.predict.evaluation import evaluate, predict_of
from suites.engine.predict.inference import open_model, open_run
from suites.engine.train.training import train
from suites.nlp.losses import coverage_loss
from suites.nlp.problems import TextToText

SORT = """
suite: nlp
model: {type: Transformer, source_words: 16, target_words: 16, width: 32, heads: 2, hidden: 64, encoder_layers: 1,
        decoder_layers: 1, dropout: 0.0, shared: true, max_length: 24}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 16}
  max_length: 20
  train: {dataset: {type: DrawnPairs, kind: sort, count: 64, longest: 5}, tokens: 400, pool: 4}
  eval: {dataset: {type: DrawnPairs, kind: sort, count: 9, seed: 1, longest: 5}, batch_size: 4}
problem: {type: TextToText, search: {max_length: 12, beam: 2}}
optimizer: {type: Adam}
schedule: {type: InverseSqrt, base_lr: 3e-3, warmup_steps: 5}
runtime: {epochs: 2, workers: 0, threads: 1, evaluation: {every: 1}, checkpoint: {every: 100, keep: 1}}
"""
PROSE = """
suite: nlp
model: {type: LanguageModel, vocab_size: 16, width: 16, layers: 2, heads: 2, kv_heads: 1, max_length: 32}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 16}
  max_length: 16
  train: {dataset: {type: Prose, path: prose.txt, holdout: 0.2}, batch_size: 4}
  eval: {dataset: {type: Prose, path: prose.txt, holdout: 0.2, part: val}, batch_size: 3}
problem: {type: LanguageModeling, search: {max_length: 12, temperature: 0.9, results: 2, seed: 5}}
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 3e-3}
runtime: {epochs: 2, workers: 0, threads: 1, evaluation: {every: 1}, checkpoint: {every: 100, keep: 1}}
"""
KINDS = {"sort": (SORT, "3 1 2"), "prose": (PROSE, "abc")}


@pytest.fixture(params=KINDS)
def run(request, tmp_path, monkeypatch):
    """The folder of a short run, and a text to write from."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    text, prompt = KINDS[request.param]
    (tmp_path / "c.yml").write_text(text)
    assert main(["train", "c.yml", "--runs", "runs", "--name", "r"]) == 0
    return tmp_path / "runs" / "r", prompt


def test_a_run_writes_the_same_in_a_batch_alone_and_exported(run, tmp_path, capsys):
    folder, prompt = run
    model = load(folder)
    others = [prompt, prompt[::-1], prompt * 2]
    alone = [load(folder)([text])[0].to_json() for text in others]
    assert [each.to_json() for each in model(others)] == alone
    assert all(set(each) >= {"text", "score", "complete"} for each in alone)
    assert main(["export", str(folder), "--output", str(tmp_path / "exported")]) == 0
    exported = [each.to_json() for each in load(tmp_path / "exported")(others)]
    assert [each["text"] for each in exported] == [each["text"] for each in alone]
    assert main(["eval", str(folder), "--exported", str(tmp_path / "exported")]) == 0
    capsys.readouterr()
    assert main(["infer", str(folder), "--text", prompt]) == 0
    assert alone[0]["text"] in capsys.readouterr().out


def test_figures_are_those_of_what_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(SORT)
    task = build_task(load_config(tmp_path / "c.yml"))
    figures = evaluate(task, predict_of(task), task.eval_loader(workers=0))
    eager = evaluate(task, predict_of(task, eager=True), task.eval_loader(workers=0))
    assert figures == eager and set(figures) == {"exact"}


def test_bits_are_of_all_windows_whatever_their_batch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prose.txt").write_text("abcd efg\n" * 60)
    (tmp_path / "c.yml").write_text(PROSE)
    found = []
    for size in (1, 7):
        task = build_task(load_config(tmp_path / "c.yml", [f"data.eval.batch_size={size}"]))
        found.append(evaluate(task, predict_of(task), task.eval_loader(workers=0)))
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    characters, tokens = 108, 109  # a fifth of 540 characters, and the end
    bits = found[0]["loss_nats"] * tokens / np.log(2) / characters
    assert found[0]["bits_per_character"] == pytest.approx(bits, rel=1e-5)
    assert found[0]["bits_per_byte"] == pytest.approx(bits, rel=1e-5)


def test_a_beginning_that_is_given_is_kept(run):
    folder, prompt = run
    model = load(folder)
    item = model.processor.from_json({"text": "3 1", "prefix": "9 9"}) if prompt == "3 1 2" else None
    if item is not None:
        assert model(item)[0].to_json()["text"].startswith("9 9")
        stopping = open_model(folder, None, ["problem.search.stop=['9']"])
        (text,) = (each.to_json()["text"] for each in stopping(item))
        assert text.startswith("9 9") and "9" not in text[3:]  # what was given is not cut
    else:
        assert model("x" * 100)[0].to_json()["text"] is not None  # longer than the places: its end is looked at
        assert model.processor.truncated(model.processor.from_json("x" * 100))


def test_a_vocabulary_of_two_files_is_read_by_a_config(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with gzip.open(tmp_path / "a.en.gz", "wt") as file:
        file.write("a small house\nthe small dog\n" * 5)
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"de": "das kleine Haus", "n": 1}) + "\n" for _ in range(5)))
    assert main(["data", "vocab", "a.en.gz", "--size", "300", "--output", "v.json"]) == 0
    assert main(["vocab", "b.jsonl", "--column", "de", "--size", "300", "--output", "w.json"]) == 0
    assert "pieces of 1 files" in capsys.readouterr().out
    from suites.nlp.tokenizers import SubwordTokenizer, tokenizer_from

    tokenizer = SubwordTokenizer(300, vocabulary="w.json")
    again = tokenizer_from(json.loads(json.dumps(tokenizer.metadata())))
    ids = tokenizer.encode(["das kleine Haus ☃"])[0].ids
    assert tokenizer.text(ids) == "das kleine Haus ☃" and again.text(ids) == tokenizer.text(ids)
    assert len(ids) < len("das kleine Haus ☃".encode())
    assert main(["vocab", "b.jsonl", "--column", "en", "--size", "300", "--output", "x.json"]) == 2
    assert "has no column 'en'; there are de" in capsys.readouterr().err


def test_a_server_answers_what_is_written(run):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client, ServerError
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving.toy import running

    folder, prompt = run
    model = load(folder)
    expected = [model(text)[0].to_json()["text"] for text in (prompt, prompt[:1])]
    with running(model, Settings(name="writer", workers=1)) as server, Client(server.url) as client:
        found = client.score([prompt, prompt[:1], prompt])
        assert [each["text"] for each in found] == [*expected, expected[0]]
        with pytest.raises(ServerError, match=r"item 0: .*takes a text"):
            client.score([7])


def test_with_coverage_less_is_looked_at_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(SORT.replace("shared: true", "shared: true, copying: true"))
    again = []
    for weight in (0.0, 2.0):
        name, words = f"r{weight:g}", ["-o", f"problem.coverage={weight}", "-o", "runtime.epochs=20"]
        assert main(["train", "c.yml", "--runs", "runs", "--name", name, *words]) == 0
        task = open_run(tmp_path / "runs" / name)
        batch = next(iter(task.train_loader(seed=0, workers=0)))
        given = [framework.tensor(batch[key]) for key in TextToText.learned]
        found = task.model.eval().watched(*given)
        again.append(float(coverage_loss(found.attention, given[3], framework.tensor(batch["words"])).mean.numpy()))
    assert again[1] < 0.8 * again[0]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("1.0", ConfigError, "coverage is 1, but Transformer copies nothing; set model.copying to true"),
        ("-1.0", AttributeValueError, "coverage is -1.0; it must be 0 or more"),
    ],
)
def test_coverage_that_cannot_be_is_refused(tmp_path, monkeypatch, value, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yml").write_text(SORT)
    with pytest.raises((error, ConfigError), match=message):
        train(tmp_path / "c.yml", [f"problem.coverage={value}"], runs=tmp_path, name="r")
