"""YAML text is read by the YAML 1.2 rules, with lines, and nothing that could surprise or run code is accepted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import ConfigError
from suites.engine.config.tree.yaml_text import dump_text, parse_text, read_file


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5e-4", 5e-4), ("1e-3", 1e-3), ("1E3", 1000.0), ("1.", 1.0), (".5", 0.5), ("-2.5e+3", -2500.0),
        ("7", 7), ("-7", -7), ("+7", 7), ("0o17", 15), ("0x1F", 31), ("010", 10),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("off", "off"), ("y", "y"),
        ("1:30", "1:30"), ("2024-01-02", "2024-01-02"), ("1_000", "1_000"), ("'7'", "7"), ('"true"', "true"),
        ("1e", "1e"), ("e5", "e5"), (".", "."), ("-", [None]), ("v1.0.0", "v1.0.0"),
    ],
)  # fmt: skip
def test_scalars_follow_yaml_1_2(text, value):
    found = parse_text(text, "x.yml").plain()
    assert found == value and type(found) is type(value)


def test_infinity_and_nan():
    assert parse_text("[.inf, -.INF, +.Inf]", "x").plain() == [math.inf, -math.inf, math.inf]
    assert math.isnan(parse_text(".nan", "x").plain())


def test_each_value_knows_its_line_and_a_mapping_the_line_of_its_key():
    root = parse_text("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n", "x.yml")
    assert root.value["a"].origin.line == 1
    assert root.value["a"].value["c"].origin.line == 3
    assert root.value["a"].value["c"].value[1].value["d"].origin.line == 5
    assert str(root.value["a"].value["b"].origin) == "x.yml:2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", r"x.yml:3: key 'a' is written twice, first in line 1; keep one"),
        ("a: !!python/object:os.system {}", r"x.yml:1: tag .*python/object:os.system: tags are not allowed"),
        ("a: !!str 5", r"x.yml:1: tag .*: tags are not allowed"),
        ("a: ! 5", r"x.yml:1: tag !: tags are not allowed"),
        ("\na: &one {b: 1}", r"x.yml:2: &one: YAML anchors are not used; write it out"),
        ("a: *one", r"x.yml:1: \*one: YAML anchors are not used"),
        ("a:\n  <<: {b: 1}", r"x.yml:2: '<<' merge keys are not used here; use 'extends:'"),
        ("a:\n  $ptach: {}", r"x.yml:2: '\$ptach' is not an edit; there are: \$patch, \$append"),
        ("? [a, b]\n: 1", r"x.yml:1: a key must be a plain name"),
        ("a: {b: ${c}}", r'x.yml:1: not valid YAML: .*; inside \{ \} or \[ \] quote references: "\$\{path\}"'),
        ("a:\n\t- b", r"x.yml:2: not valid YAML: .*; indent with spaces, not tabs"),
        ("a: [1, 2", r"x.yml:1: not valid YAML: expected ',' or '\]'"),
        ("a: 'open", r"x.yml:1: not valid YAML: .*end of stream"),
        ("a: b: c", r"x.yml:1: not valid YAML: mapping values are not allowed here"),
        ("a: 1\n--- \nb: 2", r"x.yml:2: not valid YAML: but found another document"),
        ("a: \x00", r"x.yml:1: holds the control character '\\x00'"),
        ("a: " + "[" * 1000, r"x.yml: nested too deeply to read"),
        ("a: " + "9" * 5000, r"x.yml:1: the number 99999999999999999999... is too long"),
    ],
)  # fmt: skip
def test_what_is_refused_says_so_with_its_line(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_text(text, "x.yml")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty; a config is a mapping"),
        (b"# only a comment\n", "is empty"),
        (b"- a\n- b\n", "is a list or a single value"),
        (b"hello", "is a list or a single value"),
        (b"a: \xff\xfe", "is not UTF-8 text \\(byte 3\\)"),
    ],
)
def test_a_file_must_be_a_utf8_mapping(tmp_path, data, message):
    path = tmp_path / "x.yml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        read_file(path, "x.yml")


def test_a_byte_order_mark_is_no_error(tmp_path):
    path = tmp_path / "x.yml"
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_file(path, "x.yml").plain() == {"a": 1}


def test_text_that_another_reader_would_take_for_something_else_is_quoted():
    text = dump_text({"a": ["yes", "5e-4", "1:30", "null", "0o7", "2024-01-02", "x"]})
    assert text == "a: ['yes', '5e-4', '1:30', 'null', '0o7', '2024-01-02', x]\n"


def test_shared_objects_are_written_out_not_aliased():
    shared = {"b": 1}
    assert parse_text(dump_text({"x": shared, "y": shared}), "x").plain() == {"x": shared, "y": shared}


_PRINTABLE = st.text(st.characters(exclude_categories=["C"], exclude_characters="\ufeff"), max_size=12)
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _PRINTABLE
    | st.sampled_from(["yes", "5e-4", "1e3", "~", "", "0o7", "- a", "a: b", "#", "1_000", ".inf", "<<", " x "])
)  # fmt: skip
_KEYS = st.text("abcxyz_019", min_size=1, max_size=6)
_VALUES = st.recursive(
    _SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(_KEYS, v, max_size=3), max_leaves=8
)


@given(st.dictionaries(_KEYS, _VALUES.filter(lambda v: "${" not in str(v)), max_size=4))
def test_dumped_text_reads_back_exactly(value):
    assert repr(parse_text(dump_text(value), "x").plain()) == repr(value)
