"""Where a string or a path is expected, a value of `-o` is what the shell gave; elsewhere it is YAML."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from framework.errors import ConfigError
from suites.engine.config import load_config
from suites.engine.config.schema.rules import Rules
from suites.engine.registry import Registry

FILE = """
suite: s
data: {root: pictures, weights: null, names: [], count: 3}
train: {root: "${data.root}", again: "${data.root}/train"}
"""
VALUES = [
    "photos #1", "20240501", "a: b", "~/photos", "$HOME/x", "1e5", "true", "null and void", "[x]", "@x", "`x`", "- x",
    "x, y", "{a", "0x10", "'half", "%TAG", "&a", "*a", "!x", "| x", "> x", "? x", "a = b", "null", "3.0", "  spaces  ",
]  # fmt: skip


@dataclass
class Data:
    root: str
    count: int = 1
    weights: str | None = None
    place: Path = Path()
    names: list[str] = field(default_factory=list)
    either: int | str = 0


@dataclass
class Train:
    root: str
    again: str = ""


@dataclass
class Whole:
    data: Data
    train: Train


@pytest.fixture
def load(tmp_path):
    (tmp_path / "c.yml").write_text(FILE)
    registry = Registry()
    registry.register_role("config", doc="What a file is.")
    registry.register("config", "s", suite="s")(Whole)
    return lambda *overrides: load_config(tmp_path / "c.yml", overrides, registry=registry, rules=Rules())


@pytest.mark.parametrize("value", VALUES)
def test_a_text_is_as_it_was_given_and_reaches_all_that_share_it(load, value):
    config = load(f"data.root={value}")
    assert config["data.root"] == config["train.root"] == value
    assert config["train.again"] == f"{value}/train"


@pytest.mark.parametrize("value", VALUES)
def test_a_path_is_as_it_was_given(load, value):
    assert load(f"data.place={value}")["data.place"] == value


def test_quotes_that_yaml_wants_are_no_part_of_a_text(load):
    assert load('data.root="20240501"')["data.root"] == "20240501"
    assert load("data.root='a: b'")["data.root"] == "a: b"


def test_null_is_null_where_that_is_taken_and_a_text_elsewhere(load):
    assert (
        load("data.weights=null")["data.weights"] is None
        and load("data.weights=20240501")["data.weights"] == "20240501"
    )
    assert load("data.root=null")["data.root"] == "null"


def test_other_types_are_yaml_as_before(load):
    config = load("data.count=0x10", "data.names=[a, b]", "data.either=7")
    assert (config["data.count"], config["data.names"], config["data.either"]) == (16, ["a", "b"], 7)
    with pytest.raises(ConfigError, match="not valid YAML"):
        load("data.count=[1")
    with pytest.raises(ConfigError, match="expects int"):
        load("data.count=a: b")


def test_references_stay_references(load):
    assert load("data.count=5", "data.root=${data.count}x")["train.root"] == "5x"


def test_a_written_config_keeps_what_was_shared(load, tmp_path):
    config = load("data.root=photos #1")
    (tmp_path / "written.yml").write_text(config.written())
    text = (tmp_path / "written.yml").read_text()
    assert "${data.root}" in text and "${data.root}/train" in text
    again = load_config(tmp_path / "written.yml", check=False)
    assert again.digest() == config.digest()
    other = load_config(tmp_path / "written.yml", ["data.root=b"], check=False).as_dict()
    assert other["train"] == {"root": "b", "again": "b/train"}
