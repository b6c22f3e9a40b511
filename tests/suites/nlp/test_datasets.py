"""Text data sets read the usual formats, and say file and line of what is wrong."""

import gzip
import json

import pytest

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.nlp.datasets import CharTags, Csv, JsonLines, Labelled, Question, SquadJson, Tagged, TaggedTsv, Tsv


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_rows_have_columns_by_name_or_by_place(tmp_path, caplog):
    path = write(tmp_path / "a.tsv", 'label\ttext_a\ttext_b\tqid\r\n1\tone "a\tb\t7\r\n\n0\t\tc\t7\n')
    pairs = Tsv(path, pair="text_b", group="qid")
    assert list(pairs.examples) == [Labelled('one "a', "b", "1", "7"), Labelled("", "c", "0", "7")]
    assert "1 of 2 rows have an empty text (the first: line 4)" in caplog.text
    assert pairs.name_of(1) == f"{path}:4" and list(pairs.texts()) == ['one "a', "b", "", "c"]
    plain = Tsv(write(tmp_path / "b.tsv", "\ufeffa film\t1\nx\u2028y\t0"), text="t", columns=["t", "label"])
    assert [e.text for e in plain.examples] == ["a film", "x\u2028y"]
    assert Tsv(path, label=None, text="text_b")[0] == Labelled("b")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("label\ttext_a\n1\ta\tb\n", r"a.tsv:2: has 3 columns but the file has 2 \(label, text_a\)"),
        ("label\ttext_a\n1\ta\n1\n", r"a.tsv:3: has 1 columns"),
        ("label\ttext\n1\ta\n", r"no column is called 'text_a'; did you mean 'text'\?"),
        ("label\ttext_a\n", "there are no examples"),
        ("", "the file is empty"),
        (b"label\ttext_a\n1\tb\n1\t\xff\n", r"a.tsv:3: is no UTF-8 text \(byte 0xff\)"),
    ],
)
def test_wrong_rows_are_refused(tmp_path, content, match):
    with pytest.raises((DataError, ConfigError), match=match):
        Tsv(write(tmp_path / "a.tsv", content))


def test_json_lines_can_drop_a_label(tmp_path):
    rows = [
        {"a": "x", "b": "y", "label": "neutral"},
        {"a": "x", "b": "y", "label": "-"},
        {"a": "\ud83d", "b": "", "label": 3},
    ]
    path = write(tmp_path / "a.json", "\n".join(json.dumps(row) for row in rows) + "\n\n")
    data = JsonLines(path, "a", "b", drop=["-"])
    assert list(data.examples) == [Labelled("x", "y", "neutral"), Labelled("\ud83d", "", "3")]
    assert data.name_of(1) == f"{path}:3"


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"text": "a", "label": 1', r"a.json:2: is no JSON"),
        ("[" * 100_000, r"a.json:2: is no JSON"),
        ("[1]", r"a.json:2: is a list; each line must be a JSON object"),
        ('{"txt": "a", "label": 1}', r"a.json:2: has no 'text'; did you mean 'txt'\?"),
        ('{"text": 5, "label": 1}', r"a.json:2: 'text' is 5; it must be text"),
        ('{"text": "a", "label": true}', r"a.json:2: 'label' is True; it must be text"),
    ],
)
def test_wrong_json_lines_are_refused(tmp_path, line, match):
    with pytest.raises(DataError, match=match):
        JsonLines(write(tmp_path / "a.json", f'{{"text": "a", "label": "b"}}\n{line}\n'))


def test_tagged_words_stand_in_lines(tmp_path):
    path = write(tmp_path / "a.bmes", "\n吴 B-NAME\n 重\tE-NAME\n\n\n, O\nNew York B-LOC")
    data = CharTags(path)
    assert list(data.examples) == [
        Tagged(("吴", " 重"), ("B-NAME", "E-NAME")),
        Tagged((",", "New York"), ("O", "B-LOC")),
    ]
    assert [data.name_of(i) for i in range(2)] == [f"{path}:2", f"{path}:6"]


def test_ernies_cells_hold_words_joined_by_a_control_character(tmp_path):
    path = write(tmp_path / "a.tsv", "text_a\tlabel\n海\x02钓\tB-LOC\x02O\n")
    assert TaggedTsv(path)[0] == Tagged(("海", "钓"), ("B-LOC", "O"))


@pytest.mark.parametrize(
    ("kind", "content", "match"),
    [
        (CharTags, "a O\nb\n", r"a.txt:2: expects 'word tag', found 'b'"),
        (CharTags, "a X-PER\n", r"a.txt:1: 'X-PER' is no tag; expects O, or B-"),
        (CharTags, "a B-\n", r"a.txt:1: 'B-' is no tag"),
        (TaggedTsv, "text_a\tlabel\na\x02b\tO\n", r"a.txt:2: has 2 words but 1 tags; each word needs one"),
        (TaggedTsv, "text_a\tlabel\na\x02b\n", r"a.txt:2: has 1 columns but the header 2"),
        (TaggedTsv, "a\x02b\tO\x02O\n", "expects 'text_a' and 'label' among them"),
        (TaggedTsv, "text_a\tlabel\na\tP\n", r"a.txt:2: 'P' is no tag"),
    ],
)
def test_wrong_tags_are_refused(tmp_path, kind, content, match):
    with pytest.raises(DataError, match=match):
        kind(write(tmp_path / "a.txt", content))


def squad(passage="The cat sat.", text="cat", start=4, **entry):
    answers = [{"text": text, "answer_start": start}]
    questions = [{"id": "q1", "question": "who?", "answers": answers, **entry}]
    return {"data": [{"paragraphs": [{"context": passage, "qas": questions}]}]}


def test_questions_know_their_passage(tmp_path, caplog):
    data = SquadJson(write(tmp_path / "a.json", json.dumps(squad())))
    assert data[0] == Question("q1", "who?", "The cat sat.", ("cat",), (4,)) and data.name_of(0).endswith("question q1")
    assert SquadJson(write(tmp_path / "b.json", json.dumps(squad(start=2))))[0].starts == (4,)
    assert "1 answers stood at another place" in caplog.text
    assert SquadJson(write(tmp_path / "c.json", json.dumps(squad(answers=[]))))[0].answers == ()
    no_answer = SquadJson(write(tmp_path / "d.json", json.dumps(squad(answers=[], is_impossible=True))))[0]
    assert no_answer.impossible and not data[0].impossible


def test_every_nth_paragraph_can_be_held_out(tmp_path):
    file = {"data": [squad(f"The cat sat {i} times.", id=f"q{i}")["data"][0] for i in range(7)]}
    path = write(tmp_path / "a.json", json.dumps(file))
    assert [q.key for q in SquadJson(path, 3, "val").examples] == ["q2", "q5"]
    assert len(SquadJson(path, 3, "train")) == 5
    with pytest.raises(AttributeValueError, match="holdout is 1"):
        SquadJson(path, 1)
    with pytest.raises(DataError, match=r"has no paragraph for part 'val', as every 50\. one is for evaluation"):
        SquadJson(path, 50, "val")


@pytest.mark.parametrize(
    ("file", "match"),
    [
        (
            squad(text="dog"),
            r"question q1: the answer 'dog' is not in its passage; correct the file, or .* missing: skip",
        ),
        (squad(text=""), r"question q1: an answer has text ''"),
        (squad(start="4"), r"an answer has text 'cat' and answer_start '4'"),
        (squad(answers=5), r"question q1: 'answers' is 5; expects a list"),
        (squad(question=None), r"question q1: 'question' is None; expects text"),
        (squad(is_impossible=True), r"question q1: is_impossible is true but it has the answer 'cat'"),
        (squad(is_impossible=1), r"question q1: 'is_impossible' is 1; expects true or false as SQuAD 2.0 has it"),
        ({"version": 1}, r"expects 'data' as SQuAD 1.1 has it, found version"),
        ([1], r"expects 'data' as SQuAD 1.1 has it, found list"),
        ({"data": []}, "there are no examples"),
    ],
)
def test_wrong_questions_are_refused(tmp_path, file, match):
    with pytest.raises(DataError, match=match):
        SquadJson(write(tmp_path / "a.json", json.dumps(file)))


def test_questions_without_their_answer_can_be_left_out(tmp_path, caplog):
    file = {"data": squad()["data"] + squad(text="dog")["data"]}
    assert len(SquadJson(write(tmp_path / "a.json", json.dumps(file)), missing="skip")) == 1
    assert "1 questions were left out" in caplog.text


def test_the_shared_sets_are_whole(shared_data):
    def path(name):
        return str(shared_data(f"nlp/{name.split('/')[0]}/{name.split('/')[0]}.zip") / name.split("/")[1])

    assert len(Tsv(path("chnsenticorp/dev.tsv"))) == 1200
    assert len(Tsv(path("sst2/test.tsv"), "text", columns=["text", "label"])) == 1821
    assert len(JsonLines(path("ocnli/dev.json"), "sentence1", "sentence2", drop=["-"])) == 2950
    assert len(CharTags(path("resume_ner/test.char.bmes"))) == 477
    assert len(TaggedTsv(path("msra_ner_sample/dev.tsv"), columns=["n", "text_a", "label"])) == 500
    assert len(SquadJson(path("drcd/DRCD_dev.json"))) == 3524


def one_wrong_of_many(kind):
    """A file of 200 rows or sentences with one that is wrong, and the place that is named."""
    rows = {
        Tsv: ("text_a\tlabel\n", "good text\t1\n", "cut of\n", 102),
        JsonLines: ("", '{"text": "a", "label": 1}\n', '{"text": "a", "lab\n', 101),
        TaggedTsv: ("text_a\tlabel\n", "a\x02b\tO\x02O\n", "a\x02b\tO\n", 102),
        CharTags: ("", "a O\nb O\n\n", "a O\nb\n\n", 302),
    }
    head, good, bad, number = rows[kind]
    return head + good * 100 + bad + good * 99, number


@pytest.mark.parametrize("kind", [Tsv, JsonLines, TaggedTsv, CharTags])
def test_one_wrong_row_of_many_is_left_out_and_named(tmp_path, caplog, kind):
    text, number = one_wrong_of_many(kind)
    path = write(tmp_path / "a.txt", text)
    data = kind(path)
    assert len(data) == 199 and f"{kind.__name__} {path}: 1 of 200 rows are wrong and were left out" in caplog.text
    assert f"{path}:{number}: " in caplog.text
    assert data.name_of(198).rsplit(":", 1)[1].isdigit() and data.name_of(100) != data.name_of(99)
    with pytest.raises(DataError, match=f"a.txt:{number}: "):
        kind(path, max_skipped=0)


def test_more_wrong_rows_than_allowed_are_counted(tmp_path):
    path = write(tmp_path / "a.tsv", "text_a\tlabel\n" + "a\t1\n" * 7 + "b\n" * 3)
    with pytest.raises(DataError, match=r"a.tsv:9: has 1 columns .*; so are 2 others of 10 rows, max_skipped"):
        Tsv(path)


def test_one_line_that_is_no_utf8_is_left_out(tmp_path, caplog):
    (tmp_path / "a.tsv").write_bytes(b"text_a\tlabel\n" + b"a\t1\n" * 100 + b"\xff\t1\n" + b"a\t1\n" * 99)
    assert len(Tsv(str(tmp_path / "a.tsv"))) == 199
    assert "a.tsv:102: is no UTF-8 text (byte 0xff)" in caplog.text


def test_one_wrong_question_of_many_is_left_out(tmp_path, caplog):
    file = {"data": [squad(id=f"q{i}", **({"question": None} if i == 5 else {}))["data"][0] for i in range(150)]}
    data = SquadJson(write(tmp_path / "a.json", json.dumps(file)))
    assert len(data) == 149 and "question q5: 'question' is None; expects text" in caplog.text


def one_question_each(count, passages, question="who?"):
    """SQuAD's JSON with a paragraph for each question, as tools for one question a row write it."""
    asked = [
        {"id": str(at), "question": question, "answers": [{"text": "Ann", "answer_start": 0}]} for at in range(count)
    ]
    pairs = [{"context": f"Ann has {at % passages} cats", "qas": [qa]} for at, qa in enumerate(asked)]
    return {"data": [{"paragraphs": pairs}]}


def test_equal_passages_are_in_one_part(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(one_question_each(40, 10)))
    train, val = (SquadJson(str(tmp_path / "a.json"), holdout=5, split=part) for part in ("train", "val"))
    assert (len(train), len(val)) == (32, 8)
    assert not {each.passage for each in train.examples} & {each.passage for each in val.examples}


def test_a_question_without_words_is_an_error(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(one_question_each(1, 1, question=" ")))
    with pytest.raises(DataError, match=r"a.json:question 0: the question is empty"):
        SquadJson(str(tmp_path / "a.json"))


ROWS = "a\tlabel\nx y\t1\nz\t0\n"


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        (Tsv, "a.tsv.gz", ROWS),
        (Csv, "a.csv.gz", ROWS.replace("\t", ",")),
        (JsonLines, "a.jsonl.gz", '{"a": "x y", "label": 1}\n{"a": "z", "label": 0}\n'),
    ],
)
def test_a_set_of_rows_may_be_compressed(tmp_path, kind, name, content):
    path = write(tmp_path / name, gzip.compress(content.encode()))
    assert list(kind(path, text="a").examples) == [Labelled("x y", label="1"), Labelled("z", label="0")]
    write(tmp_path / name, gzip.compress(content.encode())[:-9])
    with pytest.raises(DataError, match=f"{name}: it ends in the middle of its compressed data"):
        kind(path, text="a")


@pytest.mark.parametrize(("kind", "separator"), [(Tsv, "\t"), (Csv, ",")])
def test_names_of_columns_given_twice_are_no_row(tmp_path, kind, separator):
    path = write(tmp_path / "a.txt", ROWS.replace("\t", separator))
    with pytest.raises(DataError, match=r"a.txt:1: is the names of the columns, which `columns` is for a file without"):
        kind(path, text="a", columns=["a", "label"])


def test_names_of_columns_have_no_space_around_them(tmp_path):
    path = write(tmp_path / "a.tsv", ROWS.replace("a\tlabel", " a\tlabel "))
    assert Tsv(path, text="a")[1] == Labelled("z", label="0")


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("a,label\nx,1\n", r"no column is called 'a'; it has a,label; if its lines hold more columns, say what stands"),
        ("x\t1\nz\t0\n", r"no column is called 'a'; .*; `columns` names those of a file without names"),
    ],
)
def test_other_separators_and_missing_names_say_what_to_set(tmp_path, content, match):
    with pytest.raises(ConfigError, match=match):
        Tsv(write(tmp_path / "a.tsv", content), text="a")
