"""Characters of words from the text to the exported model: unknown words are told apart by how they are spelled."""

import json
import logging

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError, ConfigError, DataError
from framework.predictor import Predictor
from suites.engine import load
from suites.engine.cli import main
from suites.engine.train.training import train
from suites.nlp.datasets import Question
from suites.nlp.problems import Classification
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import CountingSequencer, Sequencer
from suites.nlp.tokenizers import SubwordTokenizer, WordTokenizer
from suites.nlp.tokenizers.characters import RESERVED, Characters

FIRST = len(RESERVED)


def spelled(text, spans, **options):
    return Characters(vocabulary=[*RESERVED, *"abc"], **options).spell(text, np.array(spans, np.int64).reshape(-1, 2))


def test_words_are_padded_or_cut_to_a_length():
    a, b, c = range(FIRST, FIRST + 3)
    words = spelled("ab c!aXbc", [(0, 2), (3, 5), (5, 9)], length=3)
    assert words.dtype == np.int32
    assert words.tolist() == [[a, b, 0], [c, 1, 0], [a, 1, b]]
    marked = spelled("ab c!aXbc", [(0, 2), (3, 5), (5, 9)], length=5, bounds=True)
    assert marked.tolist() == [[2, a, b, 3, 0], [2, c, 1, 3, 0], [2, a, 1, b, 3]]


def test_a_word_of_a_thousand_characters_and_an_empty_one():
    a = FIRST
    assert spelled("a" * 1000, [(0, 1000)], length=4).tolist() == [[a, a, a, a]]
    assert spelled("", [(0, 0)], length=4).tolist() == [[1, 0, 0, 0]]
    assert spelled("ab", [(1, 1)], length=4, bounds=True).tolist() == [[2, 1, 3, 0]]
    assert spelled("ab", [], length=4).shape == (0, 4)
    assert spelled("\ud800a", [(0, 2)], length=4).tolist() == [[1, a, 0, 0]]  # an unpaired surrogate


def test_special_tokens_are_no_text():
    tokenizer = WordTokenizer(vocabulary=["[PAD]", "[UNK]", "[SEP]", "[CLS]", "ab"], opens=True)
    sequencer = Sequencer(tokenizer, max_length=8, characters=Characters(4, vocabulary=[*RESERVED, *"abc"]))
    (tokens,) = sequencer.tokens(["ab cc"])
    ids = np.array([3, *tokens.ids, 2])
    found = sequencer.spelled(ids, [(1, tokens.characters)])["spelling"]
    assert found.tolist() == [[4, 0, 0, 0], [6, 7, 0, 0], [8, 8, 0, 0], [5, 0, 0, 0]]
    assert Sequencer(tokenizer).spelled(ids, [(1, None)]) == {}


def test_pieces_are_spelled_without_the_space_before_them():
    tokenizer = SubwordTokenizer(size=300)
    tokenizer.learn(["abc bca cab abc"] * 20)
    characters = Characters(8)
    characters.learn(["abc"])
    sequencer = Sequencer(tokenizer, characters=characters)
    (tokens,) = sequencer.tokens(["abc cab"])
    letters = [characters.vocabulary[i] for i in tokens.characters.ravel().tolist() if i >= FIRST]
    assert "".join(letters) == "abccab"


def test_characters_are_learned_by_how_often_they_occur():
    characters = Characters(max_size=FIRST + 2)
    with pytest.raises(DataError, match=r"data\.characters: there is no vocabulary yet"):
        characters.spell("a", np.array([[0, 1]]))
    characters.learn(["ab b c", "b a"])
    assert characters.vocabulary == [*RESERVED, "b", "a"]
    again = Characters.restore(json.loads(json.dumps(characters.metadata())))
    assert again.metadata() == characters.metadata()
    with pytest.raises(DataError, match="hold no characters"):
        Characters().learn([" ", ""])


@pytest.mark.parametrize("wrong", [{"length": 0}, {"length": 2, "bounds": True}, {"length": 2000}, {"max_size": FIRST}])
def test_senseless_lengths_are_refused(wrong):
    with pytest.raises(AttributeValueError, match=r"data\.characters: length is"):
        Characters(**wrong)


def test_damaged_metadata_are_told():
    with pytest.raises(CheckpointError, match="do not describe them"):
        Characters.restore({"lenght": 3})
    with pytest.raises(CheckpointError, match="must start with"):
        Characters.restore({"vocabulary": ["a"]})


def test_words_longer_than_what_is_read_are_told(caplog):
    tokenizer = WordTokenizer(vocabulary=["[PAD]", "[UNK]", "[SEP]", "abc"])
    sequencer = CountingSequencer(Sequencer(tokenizer, characters=Characters(4, vocabulary=[*RESERVED, *"abc"])))
    sequencer.tokens(["abc abcabc"])
    with caplog.at_level(logging.WARNING):
        sequencer.warn("f.tsv")
    assert "f.tsv: 1 of 2 tokens have more than the 4 characters that are read (data.characters.length)" in caplog.text
    assert "so only their characters are seen" in caplog.text


ELMO = """
suite: nlp
model:
  type: ElmoClassifier
  vocab_size: 24
  num_classes: 2
  width: 12
  layers: 1
  hidden: 8
  dropout: 0.0
  characters: {rows: "${data.characters.max_size}", width: 6, filters: [[2, 8], [3, 8]], highway: 1}
data:
  num_classes: 2
  tokenizer: {type: WordTokenizer, max_size: 24}
  characters: {length: 8, max_size: 40, bounds: true}
  max_length: 8
  train: {dataset: {type: Tsv, path: train.tsv}, batch_size: 16}
  eval: {dataset: {type: Tsv, path: eval.tsv}, batch_size: 50}
problem: {type: Classification}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {epochs: 6, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 6}, checkpoint: {every: 1000, keep: 1}}
"""
WORDS_ALONE = ["model.characters=null", "data.characters=null"]


def write_words(folder):
    """A class a text: its one word that matters ends in -ed or in -ing; no word is in both files."""
    rng = np.random.default_rng(0)
    letters = list("abcdefghijklmnop")
    for name, count in (("train", 320), ("eval", 100)):
        rows = []
        for i in range(count):
            stem = "".join(rng.choice(letters, 4)) + ("x" if name == "train" else "y")
            rows.append(f"{i % 2}\tso {stem}{'ed' if i % 2 else 'ing'} it")
        (folder / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *rows]) + "\n")


@pytest.fixture(scope="module")
def by_spelling(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    write_words(folder)
    text = ELMO.replace("train.tsv", str(folder / "train.tsv")).replace("eval.tsv", str(folder / "eval.tsv"))
    (folder / "c.yml").write_text(text)
    train(folder / "c.yml", name="r", runs=folder / "runs")
    return folder


def accuracy(run):
    return json.loads((run / "metrics.json").read_text())["accuracy"]


def test_unknown_words_are_told_apart_by_their_spelling(by_spelling):
    assert accuracy(by_spelling / "runs" / "r") >= 0.98
    train(by_spelling / "c.yml", [*WORDS_ALONE, "runtime.epochs=2", "runtime.evaluation.every=2"], name="w",
          runs=by_spelling / "runs")  # fmt: skip
    assert accuracy(by_spelling / "runs" / "w") <= 0.6


TEXTS = ["so yyyying it", "so yyyyed it", "a" * 1000, "!", "so " * 20 + "xed"]


@pytest.mark.parametrize("form", ["program", "onnx"])
def test_an_export_spells_words_as_the_run_does(by_spelling, form, tmp_path, capsys):
    run = by_spelling / "runs" / "r"
    if form == "onnx":
        pytest.importorskip("onnx", reason="the package onnx is not installed")
    extra = ["--format", "onnx"] if form == "onnx" else []
    assert main(["export", str(run), "--output", str(tmp_path / "out"), *extra]) == 0
    one, two = ([each.to_json()["scores"]["1"] for each in load(p)(TEXTS)] for p in (run, tmp_path / "out"))
    assert one == pytest.approx(two, abs=1e-4)
    assert one[0] < 0.5 < one[1]
    if form == "program":
        predictor = Predictor(tmp_path / "out")
        assert not predictor.fixed_shapes
        processor = load(run).processor
        batch = processor.prepare([processor.from_json(text) for text in TEXTS])
        assert batch["spelling"].shape == (len(batch["ids"]), 8)
        given = [np.asarray(batch[name]) for name in ("ids", "offsets", "segment_ids", "spelling")]
        np.testing.assert_allclose(predictor.run(given)[0][:, 1], one, atol=1e-4)


def test_a_texts_neighbours_in_a_batch_make_no_difference(by_spelling):
    model = load(by_spelling / "runs" / "r")
    alone = [model([text])[0].to_json() for text in TEXTS]
    assert [each.to_json() for each in model(TEXTS)] == alone


def test_vectors_of_texts_are_made_of_their_characters_too(by_spelling, tmp_path):
    from suites.nlp.embedder import export_run_embedder

    export_run_embedder(by_spelling / "runs" / "r", tmp_path / "v", alone=True)
    a, b = [each.to_json()["vector"] for each in load(tmp_path / "v")(["yyyying", "yyyyed"])]
    assert not np.allclose(a, b)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.characters=null", "model.characters.rows=40"],
         r"model\.characters: ElmoClassifier reads how words are spelled, but data\.characters is not set"),
        (["model.characters=null"], r"data\.characters: ElmoClassifier as it is set does not read how words are spel"),
        (["data.characters.length=2", "data.characters.bounds=false"],
         r"data\.characters\.length is 2, but the widest filter of model\.characters\.filters sees 3 characters; rai"),
        (["model.characters.rows=30"], r"data\.characters\.max_size is 40 but model\.characters\.rows is 30"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_told_before_training(overrides, said, by_spelling, tmp_path):
    with pytest.raises(ConfigError, match=said):
        train(by_spelling / "c.yml", overrides, name="x", runs=tmp_path)


def test_problems_that_spell_nothing_refuse_characters(by_spelling, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.characters: Reranking does not spell words"):
        train(by_spelling / "c.yml", ["problem={type: Reranking}", "model.num_classes=1", "data.num_classes=1"],
              name="x", runs=tmp_path)  # fmt: skip


LANGUAGE = """
suite: nlp
model:
  type: BiLanguageModel
  vocab_size: 8
  width: 12
  layers: 1
  dropout: 0.0
  characters: {rows: 40, width: 6, filters: [[1, 8], [3, 8]], highway: 2}
data:
  tokenizer: {type: WordTokenizer, max_size: 8}
  characters: {length: 7, max_size: 40}
  max_length: 12
  train: {dataset: {type: Prose, path: text.txt, documents: line}, batch_size: 32}
  eval: {dataset: {type: Prose, path: eval.txt, documents: line}, batch_size: 32}
problem: {type: BiLanguageModeling}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {epochs: 6, workers: 0, threads: 1, clip_norm: 1.0, evaluation: {every: 6}, checkpoint: {every: 1000, keep: 1}}
"""


def test_a_language_model_guesses_from_the_spelling_of_unknown_words(tmp_path, monkeypatch):
    """Behind a word in -ed stands one of two words, behind one in -ing the other."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("text", 400), ("eval", 80)):
        lines = []
        for i in range(count):
            stem = "".join(rng.choice(list("abcdefgh"), 4))
            lines.append(f"{stem}ed cd" if i % 2 else f"{stem}ing gh")
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "c.yml").write_text(LANGUAGE)
    losses = {}
    for name, overrides in (("spelled", []), ("words", WORDS_ALONE)):
        train(tmp_path / "c.yml", overrides, name=name, runs=tmp_path / "runs")
        losses[name] = json.loads((tmp_path / "runs" / name / "metrics.json").read_text())["perplexity_next"]
    assert losses["spelled"] < 1.25 < 1.38 < losses["words"]  # a guess of two words in every second place is 2 ** 0.5
    run = tmp_path / "runs" / "spelled"
    told = [each.to_json()["perplexity"] for each in load(run)(["hhhhed cd", "hhhhing cd"])]
    assert told[0] < 0.7 * told[1]  # spelled words decide which one is likely
    assert main(["export", str(run), "--output", "out"]) == 0
    again = [each.to_json()["perplexity"] for each in load(tmp_path / "out")(["hhhhed cd", "hhhhing cd"])]
    assert again == pytest.approx(told, rel=1e-3)


READING = """
suite: nlp
model:
  type: BiDAF
  vocab_size: 16
  width: 8
  hidden: 12
  dropout: 0.0
  max_length: 32
  max_question: 4
  characters: {rows: 40, width: 8, filters: [[1, 16]]}
data:
  tokenizer: {type: WordTokenizer, max_size: 16, opens: true}
  characters: {length: 6, max_size: 40}
  max_length: 32
  train: {dataset: {type: SquadJson, path: train.json}, batch_size: 16}
  eval: {dataset: {type: SquadJson, path: eval.json}, batch_size: 32}
problem: {type: Reading, doc_stride: 16, max_question: 4}
optimizer: {type: Adam}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {epochs: 8, workers: 0, threads: 1, clip_norm: 5.0, evaluation: {every: 8}, checkpoint: {every: 1000, keep: 1}}
"""


def test_bidaf_finds_the_word_with_the_letter_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, count in (("train", 480), ("eval", 60)):
        paragraphs = []
        for number in range(count):
            words = ["".join(rng.choice(list("abcdefgh"), 4)) for _ in range(5)]
            at, letter = int(rng.integers(5)), str(rng.choice(list("xz")))
            other = (at + 1 + int(rng.integers(4))) % 5
            words[at] += letter
            words[other] += "z" if letter == "x" else "x"
            start = sum(len(word) + 1 for word in words[:at])
            qas = [{"id": f"{name}{number}", "question": f"{letter}{letter}",
                    "answers": [{"text": words[at], "answer_start": start}]}]  # fmt: skip
            paragraphs.append({"context": " ".join(words), "qas": qas})
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    (tmp_path / "c.yml").write_text(READING)
    train(tmp_path / "c.yml", name="r", runs=tmp_path / "runs")
    assert json.loads((tmp_path / "runs" / "r" / "metrics.json").read_text())["exact"] > 0.9
    asked = Question("", "zz", "abcx defz " + "h" * 1000)
    (answer,) = load(tmp_path / "runs" / "r")([asked])
    assert answer.to_json()["answer"] == "defz"
    for form in ("program", "onnx"):
        extra = ["--format", "onnx"] if form == "onnx" else []
        assert main(["export", str(tmp_path / "runs" / "r"), "--output", form, *extra]) == 0
        assert load(tmp_path / form)([asked])[0].to_json()["answer"] == "defz"


def test_processors_keep_their_characters():
    tokenizer = WordTokenizer(vocabulary=["[PAD]", "[UNK]", "[SEP]", "abc"])
    sequencer = Sequencer(tokenizer, characters=Characters(4, vocabulary=[*RESERVED, *"abc"]))
    processor = TextProcessor(Classification(), sequencer, ["0", "1"])
    again = TextProcessor.from_metadata(json.loads(json.dumps(processor.metadata())))
    for each in (processor, again):
        batch = each.prepare([each.from_json("abc cba")])
        assert batch["spelling"].tolist() == [[6, 7, 8, 0], [8, 7, 6, 0]]
