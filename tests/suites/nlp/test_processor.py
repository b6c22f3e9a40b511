"""Text processors make items of requests, say what they cost and whether they are cut, and refuse what is none."""

import logging
import pickle
import time

import pytest

from framework.errors import ConfigError, DataError
from suites.engine.config import build_value
from suites.nlp.datasets.base import Labelled, Pair, Passage
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.problems import Problem
from suites.nlp.problems.language_modeling import LanguageModeling
from suites.nlp.problems.text_to_text import TextToText
from suites.nlp.processor import TextProcessor, WritingProcessor
from suites.nlp.sequences import CountingSequencer, Sequencer
from suites.nlp.tokenizers import BertTokenizer, CharacterTokenizer, SubwordTokenizer, WordTokenizer
from suites.nlp.writing import Limits, Search

TOKENIZER = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"])
LONG = "a b c d e f g h " * 3


def processor(problem, **options):
    made = build_value({"type": problem, **options}, Problem, suite="nlp")
    return TextProcessor(made, Sequencer(TOKENIZER, (), 12, "half"), ["x", "y"])


@pytest.mark.parametrize(
    ("problem", "options", "value", "cost", "long", "cut"),
    [
        ("Classification", {}, "a b", 4, LONG, True),
        ("Classification", {"pair": True}, ["a", "b c"], 6, ["a", LONG], True),
        ("Regression", {"pair": True}, ["a", ""], 4, [LONG, ""], True),
        ("Tagging", {}, "a b", 4, LONG, False),  # read in parts
        ("Tagging", {"words": "spaces"}, ["a", "bc", "d"], 5, LONG.split(), False),
        ("Reading", {}, {"question": "a", "passage": "b c"}, 6, {"question": "a", "passage": LONG}, False),
    ],
)
def test_requests_become_items(problem, options, value, cost, long, cut):
    made = processor(problem, **options)
    item = made.from_json(value)
    assert made.cost(item) == cost and not made.truncated(item)
    assert made.truncated(made.from_json(long)) is cut
    assert made.cost(made.from_json(made.example())) > 0
    batch = made.prepare([item, made.from_json(long)])
    assert len(batch["ids"]) == len(batch["segment_ids"]) == batch["offsets"][-1] and batch["item"][0] == item


@pytest.mark.parametrize(
    ("problem", "options", "value", "match"),
    [
        ("Classification", {}, ["a", "b"], "takes a text, got"),
        ("Classification", {"pair": True}, "a", "takes a list of two texts, got 'a'"),
        ("Classification", {"pair": True}, ["a", 5], "takes a list of two texts"),
        ("Tagging", {}, [], "takes a sentence or a list of words"),
        ("Tagging", {}, "  ", "there are no words in it"),
        ("Reading", {}, {"question": "a"}, "takes an object with texts 'question' and 'passage'"),
        ("Reading", {}, 7, "takes an object with texts"),
    ],
)
def test_what_is_no_item_is_refused(problem, options, value, match):
    with pytest.raises(DataError, match=match):
        processor(problem, **options).from_json(value)


def test_words_of_a_command_line_are_texts_or_files(tmp_path):
    made = processor("Reading")
    (tmp_path / "q.txt").write_text("a\tb c\n\nbroken\n")
    (tmp_path / "q.json").write_text(
        '{"data": [{"paragraphs": [{"context": "b c", "qas": [{"id": 5, "question": "a", "answers": []}]}]}]}'
    )
    names = [name for name, _ in made.inputs(str(tmp_path / "q.txt"))]
    assert names == [f"{tmp_path}/q.txt:1", f"{tmp_path}/q.txt:3"]
    (_, first), (_, second) = made.inputs(str(tmp_path / "q.txt"))
    assert first().passage == "b c"
    with pytest.raises(DataError, match="expects a question and its passage with a tab between"):
        second()
    ((name, read),) = made.inputs(str(tmp_path / "q.json"))
    assert name.endswith("q.json:question 5") and read().question == "a"
    ((_, read),) = made.inputs("x" * 5000 + "\tb")  # too long for a file's name
    assert read().passage == "b"


def test_a_mistyped_name_of_a_file_is_no_text_unless_it_is_said_to_be_one(tmp_path):
    made = processor("Classification")
    (tmp_path / "reviews.txt").write_text("a b")
    with pytest.raises(
        DataError, match=r"reveiws\.txt: there is no such file; did you mean '.*/reviews\.txt'\? .*--text"
    ):
        made.require_input(f"{tmp_path}/reveiws.txt")
    with pytest.raises(DataError, match=r"is a folder; name its files, such as '.*/\*\.txt'"):
        made.require_input(str(tmp_path))
    for word in ("a fine film", f"{tmp_path}/reviews.txt", "why?"):
        made.require_input(word)
    texts = made.with_texts()
    for word in (f"{tmp_path}/reveiws.txt", f"{tmp_path}/reviews.txt"):
        texts.require_input(word)
        assert [name for name, _ in texts.inputs(word)] == [word[:40]]


@pytest.mark.parametrize(("problem", "options"), [("Classification", {}), ("Tagging", {})])
def test_short_texts_are_read_at_once_whatever_they_say_and_long_ones_are_not_quick(problem, options):
    made = processor(problem, **options)
    pieces = ("a", " ", "ab ", "\u0301", "e\u0301", "\U0001f469\u200d", "\u4e2d", "\0", "\ud800", "##", "[CLS]")
    for piece in pieces:
        text = "b" + piece * (2047 // len(piece))
        assert made.is_quick(text, len(text)) and not made.is_quick(text, 2049)
        start = time.process_time()
        item = made.from_json(text)
        made.prepare([item])
        assert made.cost(item) > 0 and made.truncated(item) in (True, False)
        assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "tokenizer",
    [
        TOKENIZER, WordTokenizer(), WordTokenizer(pieces="characters"), CharacterTokenizer(),
        SubwordTokenizer(size=320), SubwordTokenizer(size=300, pieces="unigram"),
    ],
)  # fmt: skip
def test_processors_go_to_the_readers_of_a_server(tokenizer):
    tokenizer.learn(["a small house"] * 3)
    made = TextProcessor(build_value({"type": "Classification"}, Problem, suite="nlp"), Sequencer(tokenizer), ["x"])
    there = pickle.loads(pickle.dumps(made))
    item = made.from_json("a house")
    assert there.prepare([item])["ids"].tolist() == made.prepare([item])["ids"].tolist()


def test_a_text_of_which_the_model_sees_nothing_is_told():
    made = processor("Classification")
    result = {"class": "x", "scores": {"x": 0.9, "y": 0.1}}
    assert "no word of it is in the model's vocabulary" in made.draw(made.from_json("你 好"), result)
    assert made.draw(made.from_json("a 好"), result) == "a 好 -> x (0.900)"


def test_a_text_of_which_a_part_is_not_read_is_told():
    made = processor("Classification")
    result = {"class": "x", "scores": {"x": 0.9, "y": 0.1}}
    assert "a part of it was not read" in made.draw(made.from_json(LONG), result)
    assert "a part of it was not read" not in made.draw(made.from_json("a b"), result)


@pytest.mark.parametrize(
    ("problem", "examples"),
    [
        ("Classification", [Labelled("a", label="x"), Labelled(LONG, label="y"), Labelled("b", label="x")]),
        ("TextToText", [Pair("a", "b"), Pair("a", LONG), Pair("b", "a")]),
    ],
)
def test_a_set_whose_texts_are_cut_is_told(caplog, problem, examples):
    caplog.set_level(logging.INFO)
    made = build_value({"type": problem}, Problem, suite="nlp")
    counting = CountingSequencer(Sequencer(TOKENIZER, (), 12, "half"))
    made.encode(examples, counting, ["x", "y"], str)
    counting.warn("reviews.csv")
    count = 3 if problem == "Classification" else 6  # texts of both sides
    told = f"reviews.csv: 1 of {count} texts have more tokens than data.max_length (12) has room for"
    (record,) = [each for each in caplog.records if told in each.getMessage()]
    assert record.levelno == (logging.WARNING if count == 3 else logging.INFO)  # of more than a fifth
    caplog.clear()
    made.encode(examples[:1], counting := CountingSequencer(Sequencer(TOKENIZER, (), 12)), ["x", "y"], str)
    counting.warn("reviews.csv")
    assert "more tokens" not in caplog.text


def test_a_set_in_another_language_than_the_vocabulary_is_told(caplog):
    for texts, told in ((["a b", "你 好"], True), (["a b c d", "a b c 好"], False)):
        caplog.clear()
        counting = CountingSequencer(Sequencer(TOKENIZER, (), 12, "half"))
        counting.tokens(texts)
        counting.warn("reviews.csv")
        assert ("reviews.csv: 50 % of its tokens are unknown to the vocabulary (2 of 4)" in caplog.text) is told


def test_a_prompt_is_told_to_be_cut_where_the_model_has_no_place_for_it():
    tokenizer = CharacterTokenizer(8)
    tokenizer.learn(["ab"])
    limits = Limits(0, 0, past=4, length=256)
    processor = WritingProcessor(
        LanguageModeling(Search(max_length=50)), Sequencer(tokenizer, max_length=16), [], limits
    )
    for length, cut in ((205, False), (206, True)):
        (prompt,) = processor._writes.prompts([Passage("a" * length)], processor.sequencer, limits)
        assert (len(prompt.given) < length, processor.truncated(Passage("a" * length))) == (cut, cut)


def test_a_beginning_that_no_text_can_have_is_refused_alone():
    tokenizer = CharacterTokenizer(8)
    tokenizer.learn(["ab"])
    limits = Limits(1, 2, past=4, memory=4, length=10)
    processor = WritingProcessor(TextToText(), Sequencer(tokenizer, max_length=16), [], limits)
    assert processor.from_json({"text": "a", "prefix": "b" * 8}).target == "b" * 8
    for begun, match in (("bЖ", "no text can begin with 'bЖ'"), ("b" * 9, "has 9 tokens; the model has places for 8")):
        with pytest.raises(DataError, match=match):
            processor.from_json({"text": "a", "prefix": begun})
        ((_, read),) = processor.inputs(f"a\t{begun}")
        with pytest.raises(DataError, match=match):
            read()


def test_numbers_of_tokens_that_end_a_text_are_those_of_tokens():
    tokenizer, model = CharacterTokenizer(8), LanguageModel(8, width=8, heads=2, layers=1)
    tokenizer.learn(["ab"])
    with pytest.raises(ConfigError, match="stop_ids: 99 is no token; they are numbered from 0 to"):
        LanguageModeling(Search(stop_ids=(99,))).limits(model, tokenizer)
