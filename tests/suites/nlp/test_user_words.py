"""A user's words: phrases are cut as they say, whatever the model thought, also in LAC and its export."""

import pytest

from framework.errors import DataError
from suites.engine.predict.inference import open_model
from suites.engine.predict.items import predict_items
from suites.nlp.lac import export_lac, open_lac
from suites.nlp.problems.lexical import words_of
from suites.nlp.user_words import UserWords, read_user_words

from .test_lac import write_folder

LINES = ["春天/SEASON", "花/n 开/v", "秋天的风", "", "落阳"]


def cut(text, tags, lines=LINES):
    return [(w["text"], w["kind"]) for w in words_of(text, UserWords(lines).applied(text, tags))]


def test_the_example_of_baidus_page_is_cut_as_there():
    text = "春天的花开秋天的风以及冬天的落阳"
    tags = ["B-TIME", "I-TIME", "B-u", "B-v", "I-v", "B-TIME", "I-TIME", "B-u", "B-n", "B-c", "I-c", "B-TIME", "I-TIME",
            "B-u", "B-n", "I-n"]  # fmt: skip
    assert cut(text, tags) == [("春天", "SEASON"), ("的", "u"), ("花", "n"), ("开", "v"), ("秋天的风", "TIME"),
                               ("以及", "c"), ("冬天", "TIME"), ("的", "u"), ("落阳", "n")]  # fmt: skip


def test_a_word_of_the_model_that_a_phrase_cuts_begins_anew_behind_it():
    assert cut("abc", ["B-x", "I-x", "I-x"], ["a/y"]) == [("a", "y"), ("bc", "x")]
    assert cut("abc", ["B-x", "I-x", "I-x"], ["b/y"]) == [("a", "x"), ("b", "y"), ("c", "x")]
    assert cut("ab", ["O", "O"], ["b"]) == [("a", "O"), ("b", "O")]


def test_the_first_and_then_the_longest_phrase_counts():
    assert cut("abcd", ["B-x"] * 4, ["ab/1", "abc/2", "cd/3"]) == [("abc", "2"), ("d", "x")]
    assert cut("aab", ["B-x"] * 3, ["ab/1"]) == [("a", "x"), ("ab", "1")]
    assert cut("a/b", ["B-x"] * 3, ["a/b/y"]) == [("a/b", "y")]  # the last slash names the kind


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (["ok", "ab/"], "words:2: 'ab/' is no word"),
        (["a b", "ab/n"], "words:2: 'ab' stands there already"),
        (["x" * 1001], "words:1: more than 1000 characters"),
    ],
)
def test_wrong_lines_are_named(lines, match):
    with pytest.raises(DataError, match=match):
        UserWords(lines)


def test_lac_and_its_export_take_a_dictionary(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "words.txt").write_text("ab/MINE\n\nc\n")
    assert read_user_words(str(tmp_path / "words.txt")) == ["ab/MINE", "c"]
    export_lac(tmp_path, tmp_path / "exported", tmp_path / "words.txt")
    exported = open_model(tmp_path / "exported")
    (answer,) = predict_items(
        exported.processor, exported.inputs, exported.predict, [exported.processor.from_json("dab")]
    )
    assert answer["words"][-1] == {"text": "ab", "kind": "MINE"}
    (tmp_path / "words.txt").write_text("ab/\n")
    with pytest.raises(DataError, match=r"words\.txt:1"):
        open_lac(tmp_path, tmp_path / "words.txt")
