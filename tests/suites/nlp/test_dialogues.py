"""Dialogues in the Ubuntu and Douban corpora's format."""

import pytest

from framework.errors import AttributeValueError, DataError
from suites.nlp.datasets import Dialogues


def written(folder, *lines):
    (folder / "t.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "t.txt")


def test_a_line_is_a_conversation_and_an_answer(tmp_path):
    path = written(tmp_path, "1\thi\t \thow are you\tfine", "0\thi\thow are you\tblue", "1\t你好\t好")
    found = Dialogues(path)
    assert [(e.text, e.pair, e.label) for e in found.examples] == [
        ("hi __eot__ how are you", "fine", "1"), ("hi __eot__ how are you", "blue", "0"), ("你好", "好", "1"),
    ]  # fmt: skip
    assert found.examples[0].group == found.examples[1].group != found.examples[2].group
    last = Dialogues(path, turns=1, between=" / ")
    assert last.examples[0].text == "how are you" and last.examples[0].group == found.examples[0].group


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("yes\thi\tfine", r"t.txt:1: begins with 'yes'; the first column is 1 or 0"),
        ("1\thi", r"t.txt:1: has 1 texts; needed are a turn and an answer"),
        ("1\t \tfine", r"t.txt:1: its conversation is empty"),
        ("0\thi\t ", r"t.txt:1: its answer is empty"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, message):
    with pytest.raises(DataError, match=message):
        Dialogues(written(tmp_path, line), max_skipped=0.0)


def test_a_conversation_has_a_turn(tmp_path):
    with pytest.raises(AttributeValueError, match="turns is 0"):
        Dialogues(written(tmp_path, "1\ta\tb"), turns=0)
