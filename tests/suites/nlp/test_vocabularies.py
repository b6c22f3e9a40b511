"""Two vocabularies: each learned from its side, one a side in a run and its export, and what does not go with them."""

import json

import pytest

from framework.errors import ConfigError
from suites.engine import load
from suites.engine.cli import main
from suites.engine.config import load_config
from suites.engine.config.building import build_task

CONFIG = """
suite: nlp
model: {type: Transformer, source_words: 30, target_words: 16, width: 32, heads: 2, hidden: 64, encoder_layers: 1,
        decoder_layers: 1, dropout: 0.0, max_length: 24}
data:
  tokenizer: {type: CharacterTokenizer, max_size: 30}
  target_tokenizer: {type: CharacterTokenizer, max_size: 16}
  max_length: 20
  train: {dataset: {type: Pairs, path: pairs.tsv}, batch_size: 8}
  eval: {dataset: {type: Pairs, path: pairs.tsv}, batch_size: 8}
problem: {type: TextToText, search: {max_length: 12, beam: 2}}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 3e-3}
runtime: {epochs: 30, workers: 0, threads: 1, evaluation: {every: 30}, checkpoint: {every: 1000, keep: 1}}
"""
WORDS = ["one", "two", "six", "ten", "four", "five", "nine", "three"]


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = [f"{word}\t{number}" for number, word in enumerate(WORDS)]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget", *pairs]) + "\n")
    (tmp_path / "c.yml").write_text(CONFIG)
    return tmp_path / "c.yml"


def task(config, *overrides):
    return build_task(load_config(config, overrides))


def test_each_side_has_the_vocabulary_of_its_texts(config):
    sequencer = task(config)._sequencer
    assert set(sequencer.tokenizer.vocabulary[3:]) == set("".join(WORDS))
    assert set(sequencer.writing.vocabulary[3:]) == set("01234567")


@pytest.mark.parametrize("model", ["Transformer", "AttentionRnn"])
def test_a_run_writes_in_the_targets_vocabulary_and_so_does_its_export(config, tmp_path, capsys, model):
    rnn = "model={$replace: {type: AttentionRnn, source_words: 30, target_words: 16, width: 32, hidden: 32}}"
    words = ["-o", rnn, "-o", "schedule.base_lr=1e-2"] if model == "AttentionRnn" else []
    assert main(["train", "c.yml", "--runs", "runs", "--name", "r", *words]) == 0
    run = tmp_path / "runs" / "r"
    metadata = json.loads((run / "processor.json").read_text())
    assert metadata["target_tokenizer"]["vocabulary"] != metadata["tokenizer"]["vocabulary"]
    found = [each.to_json()["text"] for each in load(run)(WORDS)]
    assert found == [str(number) for number in range(len(WORDS))]  # learned by heart
    assert main(["export", str(run), "--output", "exported"]) == 0
    assert [each.to_json()["text"] for each in load(tmp_path / "exported")(WORDS)] == found
    prefixed = load(run)(load(run).processor.from_json({"text": "one", "prefix": "7"}))[0].to_json()["text"]
    assert prefixed.startswith("7")


def test_the_command_learns_each_side_apart_or_both(config, capsys):
    for name, columns in (("s", ["source"]), ("t", ["target"]), ("b", ["source", "target"])):
        words = [word for column in columns for word in ("--column", column)]
        assert main(["data", "vocab", "pairs.tsv", *words, "--size", "300", "--output", f"{name}.json"]) == 0
    options = ["data.tokenizer={$replace: {type: SubwordTokenizer, size: 300, vocabulary: s.json}}",
               "data.target_tokenizer={$replace: {type: SubwordTokenizer, size: 300, vocabulary: t.json}}",
               "model.source_words=300", "model.target_words=300"]  # fmt: skip
    sequencer = task(config, *options)._sequencer
    assert sequencer.tokenizer.vocabulary != sequencer.writing.vocabulary


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        (["model.shared=true", "model.source_words=16"], "shared by both sides"),
        (["problem={$replace: {type: LanguageModeling}}"], "LanguageModeling writes no text from another one"),
        (["model={$replace: {type: LanguageModel, vocab_size: 30, width: 16, layers: 1, heads: 2}}"], "has one table"),
    ],
)
def test_what_does_not_go_with_two_vocabularies_is_refused(config, overrides, match):
    with pytest.raises(ConfigError, match=match):
        task(config, *overrides)


@pytest.mark.parametrize(("side", "key"), [("source", "source_words"), ("target", "target_words")])
def test_a_table_that_is_too_small_is_named_by_its_side(config, side, key):
    with pytest.raises(ConfigError, match=f"the {side}'s tokenizer has .* tokens but the model's embedding 8 rows"):
        task(config, f"model.{key}=8").train_loader(seed=0, workers=0)
