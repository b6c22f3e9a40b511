"""Texts that people write: marks, encodings, line ends, lists of names, JSON."""

import codecs

import pytest

from framework.errors import ConfigError, DataError
from suites.engine.data.intake.texts import decoded, json_in, lines_of, names_in, numbered_lines, rows_of, xml_in

TEXT = "Köln\n北京\nпривет\n"


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
     (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"), (b"", "utf-8")],
)  # fmt: skip
def test_a_byte_order_mark_says_the_encoding_and_is_no_part_of_the_text(mark, encoding):
    assert decoded(mark + TEXT.encode(encoding), "a.txt") == TEXT
    assert names_in(mark + TEXT.encode(encoding), "a.txt") == ["Köln", "北京", "привет"]


def test_a_mark_beats_the_encoding_that_is_given():
    assert decoded(codecs.BOM_UTF8 + TEXT.encode(), "a.txt", "gb18030") == TEXT


def test_an_encoding_that_is_given_is_used():
    assert decoded("编号,用户".encode("gbk"), "a.csv", "gbk") == "编号,用户"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_text_without_a_mark_is_refused_by_its_name(encoding):
    with pytest.raises(
        DataError, match=rf"a.csv: seems to be {encoding} without a byte-order mark; set encoding to {encoding}"
    ):
        decoded("user,price\n1,2\n".encode(encoding), "a.csv", option="encoding")


def test_other_text_is_refused_with_the_line_and_what_it_seems_to_be():
    data = ("a\n" + "编号是用户的号码，价格是商品的价格，点击是用户的点击。\n" * 8).encode("gb18030")
    with pytest.raises(
        DataError, match=r"a.csv:2: is no UTF-8 text \(byte 0x.*; it seems to be gb.*set encoding to gb"
    ):
        decoded(data, "a.csv", option="encoding")
    with pytest.raises(DataError, match="convert the file to UTF-8"):
        decoded(data, "a.csv")


@pytest.mark.parametrize(
    ("line", "written", "said"),
    [
        ("el niño comió piñas mañana", "latin-1", "cp1252"),
        ("c'est très élégant, déjà vu à la fenêtre", "cp1252", "cp1252"),
        ("Das Mädchen isst Äpfel in der Straße", "cp1252", "cp1252"),
        ("0\tthe 红色 car and the 红色 house of a 猫", "gbk", "gb18030"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250", "cp1250"),
        ("árvíztűrő tükörfúrógép és szép szó őrzi", "cp1250", "cp1250"),
        ("Привет мир, как дела сегодня у вас", "cp1251", "cp1251"),
    ],
)
def test_the_encoding_that_is_named_reads_the_text_as_it_was_written(line, written, said):
    with pytest.raises(DataError, match=f"it seems to be {said}"):
        decoded(f"{line}\n".encode(written) * 20, "a.csv", option="encoding")


@pytest.mark.parametrize("name", ["utf8x", "base64", "rot13", "", "a" * 100])
def test_an_encoding_that_is_none_is_an_error_of_the_option(name):
    with pytest.raises(ConfigError, match="there is no text encoding"):
        decoded(b"\xff", "a.csv", name)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_three_systems_end_lines(end):
    assert lines_of(end.join(["a", "", "b", ""])) == ["a", "", "b"]
    assert [line for _, line in numbered_lines(end.join(["a", "\u2028b\x0c", "c"]).encode(), "x")] == [
        "a",
        "\u2028b\x0c",
        "c",
    ]


def test_a_return_within_a_line_is_part_of_it():
    assert lines_of("a\rb\nc\r\n") == ["a\rb", "c"]


def test_damaged_lines_are_left_out_up_to_the_share_and_keep_their_numbers():
    data = b"\n".join([b"fine"] * 200 + [b"\xff\xfe bad", b"last\r"]) + b"\n"
    found = numbered_lines(data, "x.tsv", max_skipped=0.01)
    assert len(found) == 201 and found[-1] == (202, "last")
    with pytest.raises(DataError, match=r"x.tsv:201: is no UTF-8 text \(byte 0xff"):
        numbered_lines(data, "x.tsv")


@pytest.mark.parametrize("data", ["caf\ufffd\n".encode(), b"a\x1b[31m\n"])
def test_a_name_of_lost_or_unprintable_characters_is_refused(data):
    with pytest.raises(DataError, match=r"classes.txt:1: the name .* holds characters"):
        names_in(data, "classes.txt")


def test_remarks_are_no_names():
    assert names_in(b"# all\ncat # small\n\ndog\n", "c.txt", remark="#") == ["cat", "dog"]


def test_rows_name_file_and_line():
    def number(line):
        if not line.isdigit():
            raise DataError(f"{line!r} is no number")
        return int(line)

    assert rows_of([(1, " 1 "), (2, ""), (3, "2")], "x", number) == [1, 2]
    with pytest.raises(DataError, match="x:3: 'b' is no number"):
        rows_of([(1, "1"), (3, "b")], "x", number)
    with pytest.raises(DataError, match="x: the list is empty"):
        rows_of([(1, " ")], "x", number)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-8"])
def test_json_is_read_with_any_mark(encoding):
    assert json_in('{"名": 1}'.encode(encoding), "x.json") == {"名": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [(b'{"a": 1,\n', r"x.json:2:1: the JSON is cut off"), (b"[" * 100_000, "too deep"),
     (b"\xff\xd8\xff", "is no UTF-8 text"),
     (b"9" * 10_000, "is no JSON that can be read")],
)  # fmt: skip
def test_what_is_no_json_is_named(data, message):
    with pytest.raises(DataError, match=message):
        json_in(data, "x.json")


def test_xml_of_another_encoding_than_it_says_is_told_apart_from_what_is_cut_off():
    latin = "<a>" + "ein schöner Film über Zürich " * 4 + "</a>"
    with pytest.raises(DataError, match=r"a.xml:1: is no UTF-8 text .*cp1252"):
        xml_in(latin.encode("cp1252"), "a.xml")
    assert xml_in(b"<?xml version='1.0' encoding='cp1252'?>" + latin.encode("cp1252"), "a.xml").text == latin[3:-4]
    with pytest.raises(DataError, match=r"a.xml:1: the XML is cut off"):
        xml_in(latin[:-2].encode(), "a.xml")
