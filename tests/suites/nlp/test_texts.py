"""Texts: files and folders of labelled texts; format, columns and parts are found, said, or refused by name."""

import gzip
import json
import logging
from pathlib import Path

import pytest

from framework.errors import ConfigError, DataError
from suites.engine.cli.data import main
from suites.nlp.datasets import Texts
from suites.nlp.datasets.texts import recognise

GOOD, BAD = "a fine and moving film number {}", "what a waste of time, say {} people"


def rows(count=20):
    return [((GOOD if at % 2 else BAD).format(at), "good" if at % 2 else "bad") for at in range(count)]


def csv(path, pairs, head="id,review text,sentiment"):
    lines = [f'{at},"{text}",{label}' for at, (text, label) in enumerate(pairs)]
    path.write_text("\n".join([head, *lines]) + "\n")
    return str(path)


def contents(*sets):
    return sorted((e.text, e.label) for one in sets for e in one.examples)


def both(path, **options):
    return [Texts(path, part, **options) for part in ("train", "val")]


def test_columns_are_found_and_said(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    train, val = both(csv(tmp_path / "reviews.csv", rows()))
    assert contents(train, val) == sorted(rows()) and len(val) == 4
    assert "texts are in column 'review text', labels in column 'sentiment' (2 different); not read: id" in caplog.text
    assert train.num_classes == 2 and train.name_of(0).endswith("reviews.csv:2")
    assert recognise(tmp_path / "reviews.csv").config == "nlp/classify"


def test_a_table_may_be_compressed(tmp_path):
    data = gzip.compress(Path(csv(tmp_path / "reviews.csv", rows())).read_bytes())
    (tmp_path / "reviews.csv.gz").write_bytes(data)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "train.csv.gz").write_bytes(data)
    (tmp_path / "set" / "test.csv.gz").write_bytes(data)
    assert contents(*both(tmp_path / "reviews.csv.gz")) == sorted(rows())
    assert contents(Texts(str(tmp_path / "set"), "val")) == sorted(rows())


def test_equal_texts_are_in_one_part(tmp_path):
    pairs = rows(10) + [rows(10)[4]] * 10
    train, val = both(csv(tmp_path / "a.csv", pairs))
    assert not {e.text for e in train.examples} & {e.text for e in val.examples}
    assert contents(train, val) == sorted(pairs)


def test_a_class_of_one_text_is_trained_on(tmp_path):
    pairs = rows()
    pairs[4] = ("the only one of its kind here", "odd")
    train, val = both(csv(tmp_path / "a.csv", pairs))
    assert "odd" in train.class_names and "odd" not in val.class_names


def test_json_lines_and_lists_and_tabs_give_the_same(tmp_path):
    objects = [{"text": text, "label": label, "meta": [1]} for text, label in rows()]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, objects)))
    (tmp_path / "a.json").write_text(json.dumps(objects))
    (tmp_path / "a.tsv").write_bytes(
        ("\ufefftext\tlabel\r\n" + "\r\n".join(map("\t".join, rows()))).encode("utf-16-le")
    )
    for name in ("a.jsonl", "a.json", "a.tsv"):
        assert contents(*both(str(tmp_path / name))) == sorted(rows()), name


def test_quotes_between_tabs_are_text_where_they_do_not_pair(tmp_path):
    pairs = rows()
    pairs[2] = ('"Terrible', "bad")
    pairs[9] = ('so good"', "good")
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "\n".join(map("\t".join, pairs)))
    assert contents(*both(str(tmp_path / "a.tsv"))) == sorted(pairs)


def test_files_without_a_line_of_names_are_read_from_their_first_line(tmp_path):
    (tmp_path / "a.csv").write_text("\n".join(f'{label},"{text}"' for text, label in rows()))
    assert contents(*both(str(tmp_path / "a.csv"))) == sorted(rows())


def test_parts_are_files_or_folders_of_classes(tmp_path):
    csv(tmp_path / "train.csv", rows(10))
    csv(tmp_path / "dev.csv", rows(6))
    train, val = both(str(tmp_path))
    assert (len(train), len(val)) == (10, 6)
    for at, (text, label) in enumerate(rows()):
        folder = tmp_path / "imdb" / ("test" if at < 6 else "train") / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{at}.txt").write_text(text)
    train, val = both(str(tmp_path / "imdb"))
    assert (len(train), len(val)) == (14, 6) and contents(train, val) == sorted(rows())
    assert recognise(tmp_path / "imdb").config == "nlp/classify"


def test_a_folder_of_texts_without_labels_is_no_class_and_is_said(tmp_path, caplog):
    caplog.set_level("INFO")
    for part, names in (("train", ("neg", "pos", "unsup")), ("test", ("neg", "pos"))):
        for at, name in enumerate(names * 3):
            folder = tmp_path / "aclImdb" / part / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{at}_1.txt").write_text(f"a text of {name}, number {at} of {part}")
    train, val = both(str(tmp_path / "aclImdb"))
    assert train.class_names == val.class_names == ["neg", "pos"] and (len(train), len(val)) == (6, 6)
    assert "1 folders of unlabelled data (train/unsup)" in caplog.text
    assert "6 texts in 2 folders" in recognise(tmp_path / "aclImdb").what


def test_two_columns_that_could_be_the_label_are_refused_with_the_option(tmp_path):
    lines = [f'"{text}",{label},{"abc"[at % 3]}' for at, (text, label) in enumerate(rows())]
    (tmp_path / "a.csv").write_text("\n".join(["text,topic,sentiment", *lines]))
    with pytest.raises(ConfigError, match="topic, sentiment could all be the label; say which with label: NAME"):
        Texts(str(tmp_path / "a.csv"))
    assert Texts(str(tmp_path / "a.csv"), label="topic").class_names == ["bad", "good"]
    with pytest.raises(ConfigError, match="did you mean 'topic'"):
        Texts(str(tmp_path / "a.csv"), label="topics")


def test_missing_labels_are_left_out_or_refused_by_line_and_are_no_class(tmp_path):
    pairs = [(text, "NaN" if at == 7 else label) for at, (text, label) in enumerate(rows())]
    path = csv(tmp_path / "a.csv", pairs)
    with pytest.raises(DataError, match=r"a.csv:9: its label is missing"):
        Texts(path)
    train, val = both(path, max_skipped=0.1)
    assert len(train) + len(val) == 19 and set(train.class_names) == {"good", "bad"}


def test_a_row_that_is_left_out_moves_no_other_to_another_part(tmp_path):
    whole = [contents(one) for one in both(csv(tmp_path / "a.csv", rows()))]
    lines = (tmp_path / "a.csv").read_text().splitlines()
    for bad in ("2", '2,"a text and no label"', lines[3] + ",more"):
        (tmp_path / "a.csv").write_text("\n".join([*lines[:3], bad, *lines[4:]]))
        found = [contents(one) for one in both(str(tmp_path / "a.csv"), max_skipped=0.1)]
        assert found == [[row for row in part if row != rows()[2]] for part in whole]
    for at, (text, label) in enumerate(rows()):
        (tmp_path / "set" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / label / f"{at}.txt").write_text("" if at == 2 else text)
    train, val = both(str(tmp_path / "set"), max_skipped=0.1)
    (tmp_path / "set" / "bad" / "2.txt").write_text("a text of its own")
    for one, after in zip((train, val), both(str(tmp_path / "set")), strict=True):
        assert contents(one) == [row for row in contents(after) if row[0] != "a text of its own"]


def test_comments_above_a_table_are_refused_by_line(tmp_path):
    csv(tmp_path / "a.csv", rows(), head="# of a tool\nid,review text,sentiment")
    with pytest.raises(DataError, match=r"a.csv:1: begins with # and has 1 columns, but line 2 has 3"):
        Texts(str(tmp_path / "a.csv"))


def test_what_holds_no_texts_is_none(tmp_path):
    (tmp_path / "log.csv").write_text("click,ad,price\n" + "\n".join(f"{i % 2},a{i % 5},{i}" for i in range(40)))
    (tmp_path / "empty.csv").write_text("")
    assert recognise(tmp_path / "log.csv") is None
    with pytest.raises(DataError, match=r"empty.csv: the file is empty"):
        recognise(tmp_path / "empty.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match="no texts; expected"):
        Texts(str(tmp_path / "folder"))


def test_data_check_finds_equal_texts_with_other_labels(tmp_path, capsys):
    pairs = [*rows(), (rows()[2][0], "good"), (f" {rows()[3][0]}", "good")]
    assert main(["check", csv(tmp_path / "reviews.csv", pairs)]) == 1
    said = capsys.readouterr().out
    assert "error: 1 samples are copies of others, with another truth" in said
    assert "to train on it: paddock train nlp/classify -o data.root=" in said


@pytest.mark.parametrize("rows", [["a good film,pos"] * 40, [f"{word} film,pos" for word in "abcd" * 30]])
def test_columns_called_text_and_label_are_these_whatever_they_hold(tmp_path, rows, caplog):
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["text,label", *rows]))
    with caplog.at_level("INFO"):
        texts = Texts(str(path))
    assert "texts are in column 'text', labels in column 'label' (1 different)" in caplog.text
    assert texts.class_names == ["pos"]


def test_a_part_that_equal_texts_leave_empty_says_so(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["text,label", *["same,pos", "same,neg"] * 20]))
    with pytest.raises(DataError, match=r"no text is for the part 'val': every fifth of the.* there are 1"):
        Texts(str(path), "val")


@pytest.mark.parametrize("name", ["text", "Tweet", "utterance"])
def test_short_texts_in_a_column_of_that_name_are_texts_and_no_click_log(tmp_path, capsys, name):
    pairs = [("play" if at % 2 else f"stop {at}", "on" if at % 2 else "off") for at in range(20)]
    path = csv(tmp_path / "a.csv", pairs, f"id,{name},label")
    assert recognise(tmp_path / "a.csv").config == "nlp/classify"
    assert main(["check", path]) == 0 and "paddock train nlp/classify" in capsys.readouterr().out
    csv(tmp_path / "b.csv", pairs, "id,job,label")
    assert recognise(tmp_path / "b.csv") is None
