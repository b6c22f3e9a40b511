"""`${path}` shares a value; wrong and circular references name their line."""

# ruff: noqa: E501 (messages are tested whole)

import pytest

from framework.errors import ConfigError


@pytest.fixture
def resolved(load):
    return lambda text: load(text, check=False).as_dict()


def test_a_whole_value_keeps_its_type(resolved):
    text = "a: {n: 3, f: 0.5, b: true, l: [1, 2], m: {k: v}, z: null}\n" + "".join(
        f"{key}: ${{a.{key}}}\n" for key in "nfblmz"
    )
    values = resolved(text)
    assert {key: values[key] for key in "nfblmz"} == values["a"]


def test_inside_text_the_value_is_written_out(resolved):
    values = resolved("a: {n: 3, f: 5e-4, b: true, z: ~}\ns: x_${a.n}_${a.f}_${a.b}_${a.z}")
    assert values["s"] == "x_3_0.0005_true_null"


def test_references_to_references_and_into_lists_by_id_and_index(resolved):
    values = resolved("a: ${b.l[two].v}\nb: ${c}\nc: {l: [{id: one, v: 1}, {id: two, v: 2}]}\nd: ${b.l[0].v}\ne: ${a}")
    assert (values["a"], values["d"], values["e"]) == (2, 1, 2)


def test_a_sibling_may_be_referred_to(resolved):
    assert resolved("a: {b: 1, c: '${a.b}'}")["a"] == {"b": 1, "c": 1}


def test_two_dollars_stand_for_the_text_itself(resolved):
    assert resolved("a: $${b}\nb: 1\nc: x$${b}${b}") == {"a": "${b}", "b": 1, "c": "x${b}1"}


def test_references_are_resolved_after_merging_and_overriding(load):
    config = load("", "n=5", check=False, base="n: 1\nm: ${n}", x="extends: base.yml\nn: 2")
    assert config["m"] == 5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: ${c}", r"^x\.yml:2: b: \$\{c\}: the config has no 'c'\. It has: a, b"),
        ("data: {num_classes: 1}\nb: ${data.num_clases}", r"x\.yml:2: b: .*: data has no 'num_clases'; did you mean 'num_classes'"),
        ("a: 1\nb: ${a.c}", r"\$\{a\.c\}: a is a single value, so it has no 'c'"),
        ("a: [1]\nb: ${a.c}", r"a is a list; select an item by id or position, as in \[c\] or \[0\]"),
        ("a: [1]\nb: ${a[1]}", r"a has 1 items, so there is no \[1\]"),
        ("a: ${a}", r"x\.yml:1: a: \$\{a\} leads back to itself: a -> a"),
        ("a: ${b}\nb: ${c}\nc: x${a}", r"leads back to itself: a -> b -> c -> a"),
        ("a: {b: '${a}'}", r"\$\{a\} leads back to itself: a\.b -> a\.b"),
        ("a: {b: 1}\nc: x${a}", r"\$\{a\} is a mapping; only a single value can stand inside text"),
        ("a: [1]\nc: x${a}", r"is a list; only a single value"),
        ("a: ${b", r"x\.yml:1: a: '\$\{b' has an unfinished reference"),
        ("a: ${}", r"x\.yml:1: a: \$\{\}: '' is not a key path"),
        ("a: ${b c}", r"'b c' is not a key path"),
    ],
)  # fmt: skip
def test_wrong_references_are_explained(resolved, text, message):
    with pytest.raises(ConfigError, match=message):
        resolved(text)
