"""Pairs and running text: what is read, what is left out, and what is refused by name."""

import gzip
import json
import zipfile

import pytest

from framework import limits
from framework.errors import AttributeValueError, ConfigError, DataError
from suites.nlp.datasets import DrawnPairs, Pair, Pairs, Prose
from suites.nlp.datasets.found import texts_in
from suites.nlp.datasets.packed import read_packed

LINES = [(f"house number {i}", f"Haus Nummer {i}") for i in range(200)]


def moses(folder, lines, packed=False):
    paths = []
    for side, language in enumerate(("en", "de")):
        text = "".join(line[side] + "\n" for line in lines)
        path = folder / f"a.{language}{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("packed", [False, True])
def test_lines_of_two_files_belong_together(tmp_path, packed):
    source, target = moses(tmp_path, LINES, packed)
    pairs = Pairs(source, target)
    assert [(p.source, p.target) for p in pairs.examples] == LINES
    assert list(pairs.texts())[:2] == list(LINES[0]) and pairs.name_of(4) == f"{source}:5"


def test_tables_are_read_by_the_names_of_their_columns(tmp_path):
    rows = [{"id": str(i), "tgt": b, "src": a} for i, (a, b) in enumerate(LINES)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.tsv").write_text("id\ttgt\tsrc\n" + "".join("\t".join(row.values()) + "\n" for row in rows))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.write(tmp_path / "a.tsv", "in/a.tsv")
    for name in ("a.jsonl", "a.tsv", "a.zip/in/a.tsv"):
        assert [(p.source, p.target) for p in Pairs(str(tmp_path / name)).examples] == LINES
    assert Pairs(str(tmp_path / "a.tsv"), source="tgt", target="src").examples[0] == Pair(*LINES[0][::-1])
    with pytest.raises(ConfigError, match=r"has no column 'x' \(target\); there are id, tgt, src"):
        Pairs(str(tmp_path / "a.tsv"), target="x")
    with pytest.raises(ConfigError, match="source and target are one column, 'tgt'"):
        Pairs(str(tmp_path / "a.tsv"), source="tgt", target="tgt")


def test_a_few_bad_pairs_are_left_out_and_many_are_an_error(tmp_path):
    lines = [*LINES, ("a", " "), *LINES[:100]]
    pairs = Pairs(*moses(tmp_path, lines))
    assert len(pairs) == 300 and pairs.left_out.skipped == 1
    assert "a.en:201: its target is empty" in pairs.left_out.reasons[0][1]
    lines[3] = ("word " * 400, "Wort")
    assert len(Pairs(*moses(tmp_path, lines))) == 299
    with pytest.raises(DataError, match=r"a\.en:4: one side has 2000 characters and the other 4"):
        Pairs(*moses(tmp_path, lines), max_skipped=0.0)
    assert len(Pairs(*moses(tmp_path, lines), max_ratio=None)) == 300
    with pytest.raises(AttributeValueError, match="max_ratio is 1"):
        Pairs(*moses(tmp_path, lines), max_ratio=1.0)


def test_files_of_different_length_are_refused(tmp_path):
    source, target = moses(tmp_path, LINES)
    with open(target, "a") as file:
        file.write("one more\n")
    with pytest.raises(DataError, match=r"a\.de: has 201 lines but .*a\.en has 200"):
        Pairs(source, target)


def test_a_gzip_file_that_is_damaged_or_a_bomb_is_refused(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(DataError, match="ends in the middle"):
        read_packed(str(path))
    path.write_bytes(b"no gzip")
    with pytest.raises(DataError, match="it is damaged"):
        read_packed(str(path))
    path.write_bytes(gzip.compress(b"a") + gzip.compress(b"b"))
    assert read_packed(str(path)) == b"ab"
    path.write_bytes(gzip.compress(b"x" * 100_000))
    with limits.allow(data_bytes=10_000), pytest.raises(DataError, match="inflates to more than is allowed"):
        read_packed(str(path))


def test_a_table_of_which_one_name_is_known_has_the_other_side_in_the_other_column(tmp_path):
    (tmp_path / "a.tsv").write_text("de\ten\nHund\tdog\n")
    (example,) = Pairs(str(tmp_path / "a.tsv")).examples
    assert (example.source, example.target) == ("dog", "Hund")
    (example,) = Pairs(str(tmp_path / "a.tsv"), target="en").examples
    assert (example.source, example.target) == ("Hund", "dog")
    (tmp_path / "b.tsv").write_text("translation\tfr\ndog\tchien\n")
    (example,) = Pairs(str(tmp_path / "b.tsv")).examples
    assert (example.source, example.target) == ("chien", "dog")


@pytest.mark.parametrize(
    ("first", "is_kept", "is_told"),
    [
        ("Go.\tVa !", True, False),  # ends as a sentence does
        ("English\tFrench", False, True),  # may be either
        ("Hello\tBonjour", False, True),
        ("src\ttgt", False, False),  # names that are known
    ],
)
def test_a_first_line_that_may_be_a_pair_is_kept_or_told(tmp_path, caplog, first, is_kept, is_told):
    rows = ["Run!\tCours !", "Wait\tAttends", "I see.\tJe vois."]
    (tmp_path / "a.tsv").write_text("\n".join([first, *rows]))
    pairs = Pairs(str(tmp_path / "a.tsv"))
    assert len(pairs.examples) == 3 + is_kept
    assert any("a.tsv:1: is taken for the names of the columns" in text for text in caplog.messages) == is_told
    assert any("if it is a row, put a line of names above it" in text for text in caplog.messages) == is_told


def test_columns_that_the_user_names_are_in_a_line_of_names(tmp_path, caplog):
    (tmp_path / "a.tsv").write_text("Hello\tBonjour\nWait\tAttends\n")
    assert len(Pairs(str(tmp_path / "a.tsv"), source="Hello").examples) == 1
    assert not any("is taken for the names" in text for text in caplog.messages)


def test_an_encoding_that_is_asked_for_is_an_option_that_there_is(tmp_path):
    rows = ["zh\ten", *(f"你好朋友们大家好{i}\tx" for i in range(90))]
    (tmp_path / "a.tsv").write_bytes("\n".join(rows).encode("gb18030"))
    with pytest.raises(DataError, match=r"set encoding of the data sets \(data.train.dataset.encoding\) to gb18030"):
        Pairs(str(tmp_path / "a.tsv"))


def test_texts_of_a_file_or_of_columns(tmp_path):
    source, _ = moses(tmp_path, LINES)
    assert next(texts_in(source)) == "house number 0"
    (tmp_path / "a.csv").write_text("a,b\n1 x,2 y\n3 x,4 y\n")
    assert list(texts_in(str(tmp_path / "a.csv"), ["b"])) == ["2 y", "4 y"]
    with pytest.raises(ConfigError, match="is no table"):
        list(texts_in(source, ["b"]))


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("sort", lambda s, t: sorted(s.split()) == t.split()),
        ("reverse", lambda s, t: s[::-1] == t),
        ("sums", lambda s, t: sum(map(int, s.split("+"))) == int(t)),
        ("copy", lambda s, t: s.split("|")["ab".index(s[-1])] + "!" == t),
        ("dates", lambda s, t: t[:4] in s and str(int(t[8:])) in s),
    ],
)
def test_drawn_pairs_are_right_and_the_same_again(kind, right):
    pairs, again, others = (DrawnPairs(kind, 50, seed=seed) for seed in (0, 0, 1))
    assert all(right(p.source, p.target) for p in pairs.examples)
    assert pairs.examples == again.examples != others.examples


def test_prose_is_divided_by_documents_and_parts(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\nthree\n \nfour\n")
    assert [p.text for p in Prose(str(path), "line").examples] == ["one", "two", "three", "four"]
    assert [p.text for p in Prose(str(path), "paragraph").examples] == ["one\ntwo", "three", "four\n"]
    parts = [Prose(str(path), holdout=0.25, part=part).examples[0].text for part in ("train", "val")]
    assert "".join(parts) == path.read_text() and len(parts[1]) == 6
    path.write_bytes(b"one\rtwo\r\rthree\xe2\x80\xa8and a half\r")  # as old Macs end lines
    assert [p.text for p in Prose(str(path), "line").examples] == ["one", "two", "three\u2028and a half"]
    assert len(Prose(str(path), "paragraph").examples) == 2
    path.write_text(" \n")
    with pytest.raises(DataError, match="the text is empty"):
        Prose(str(path))
    with pytest.raises(AttributeValueError, match="holdout is 1"):
        Prose(str(path), holdout=1.0)


def test_a_side_that_is_no_text_is_told_as_that(tmp_path):
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"source": ["a", "b"], "target": "c"}) + "\n")
    with pytest.raises(DataError, match=r"pairs.jsonl:1: its source is missing or no text: a null"):
        Pairs(str(tmp_path / "pairs.jsonl"))


def test_translations_as_hugging_face_has_them_need_a_side_that_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"id": str(i), "translation": {"de": f"Haus {i}", "en": f"house {i}"}} for i in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(ConfigError, match=r"holds translations of de, en; say which way, such as source: de, target"):
        Pairs(str(path))
    for way in ({"source": "en"}, {"target": "de"}, {"source": "en", "target": "de"}):
        assert Pairs(str(path), **way).examples[2] == Pair("house 2", "Haus 2")
    assert Pairs(str(path), source="de").examples[0] == Pair("Haus 0", "house 0")
    with pytest.raises(ConfigError, match=r"has no column 'fr' \(source\); there are id, de, en"):
        Pairs(str(path), source="fr")
    assert list(texts_in(str(path), ["en"])) == ["house 0", "house 1", "house 2"]
    (tmp_path / "b.json").write_text(json.dumps(rows), "utf-8")
    assert len(Pairs(str(tmp_path / "b.json"), source="en")) == 3


def test_a_translation_that_lacks_a_side_and_one_of_three_languages_are_told(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"translation": {"de": "Haus", "en": "house"}}] * 99 + [{"translation": {"de": "Haus", "en": None}}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert len(Pairs(str(path), source="en")) == 99
    path.write_text(json.dumps({"translation": {"de": "Haus", "en": "house", "fr": "maison"}}) + "\n", "utf-8")
    with pytest.raises(ConfigError, match="holds translations of de, en, fr; say which way"):
        Pairs(str(path), source="en")
    assert Pairs(str(path), source="en", target="fr").examples == [Pair("house", "maison")]
    path.write_text(json.dumps({"en": "a", "translation": {"de": "Haus", "en": "house"}}) + "\n", "utf-8")
    with pytest.raises(DataError, match=r"a.jsonl:1: 'en' is beside 'translation' and in it"):
        Pairs(str(path), source="en")
