"""A resolved config can be saved, compared by digest, and asked where each value comes from."""

import re

import pytest

from framework.errors import ConfigError
from suites.engine.config import Config, load_config
from suites.engine.config.tree.nodes import Origin
from tests.suites.engine.config.world import GOOD


def test_a_dumped_config_loads_to_the_same_values_digest_and_text(load, tmp_path, registry, rules):
    config = load(GOOD, "model.name=$${x} yes", "optimizer.momentum=1e-9", "data.extra={a: [1.0, .inf, '5e-4', ~]}")
    (tmp_path / "saved.yml").write_text(config.dump())
    again = load_config(tmp_path / "saved.yml", registry=registry, rules=rules)
    assert again.as_dict() == config.as_dict() and again.as_dict()["model"]["name"] == "${x} yes"
    assert again.digest() == config.digest() and again.dump() == config.dump()


def test_the_digest_sees_values_and_not_the_order_of_keys_or_files(load):
    one = load("a: 1\nb: {c: 2, d: 3}", check=False)
    two = load(check=False, base="b: {d: 3, c: 9}", x="extends: base.yml\nb: {c: 2}\na: 1")
    three = load("a: 1\nb: {c: 2, d: 4}", check=False)
    assert one.digest() == two.digest() != three.digest()
    assert re.fullmatch("[0-9a-f]{64}", one.digest())


def test_defaults_can_be_filled_in_and_are_attributed(load):
    filled = load(GOOD).with_defaults()
    head = filled.value["model"].value["head"]
    assert head.value["loss"].value["label_smooth"].plain() is False
    assert head.value["loss"].value["label_smooth"].origin == Origin("default of YoloLoss")
    assert filled.plain()["data"]["train"]["batch_size"] == 8
    assert filled.plain()["data"]["train"]["mode"] == "fast"


def test_a_config_with_defaults_filled_in_is_right_and_fills_no_more(load, registry):
    filled = load(GOOD).with_defaults().plain()
    again = Config.from_dict(filled, registry)
    again.check()
    assert again.with_defaults().plain() == filled


def test_missing_values_name_the_nearest(load):
    with pytest.raises(ConfigError, match=r"x\.yml: the config has no 'modle'; did you mean 'model'"):
        load(GOOD)["modle"]


def test_rules_see_the_whole_config_and_report_the_line(load, rules):
    @rules.rule("model.head.num_classes", "data.class_names")
    def names_fit(config):
        """As many names as classes."""
        if len(config["data.class_names"]) != config["model.head.num_classes"]:
            yield "data.class_names", "are not as many as the classes"

    text = GOOD.replace("  train:", "  class_names: {0: a}\n  train:")
    with pytest.raises(ConfigError, match=r"^x\.yml:13: data\.class_names: are not as many as the classes$"):
        load(text)
    load(text, "data.num_classes=1")


def test_a_component_owns_rules_about_itself_wherever_a_config_names_it(load):
    with pytest.raises(ConfigError, match=r"^x\.yml:16: data\.train\.transforms\[resize\]\.size: 321 is odd$"):
        load(GOOD.replace("320", "321"))
    twice = GOOD.replace("      - {id: flip", "      - {type: Resize, size: 7}\n      - {id: flip")
    with pytest.raises(ConfigError, match=r"transforms\[0\]\.size: 7 is odd$"):
        load(twice)


def test_a_components_rule_sees_the_whole_config(load):
    with pytest.raises(ConfigError, match=r"data\.num_classes: as large as data\.train\.transforms\[resize\]"):
        load(GOOD, "data.num_classes=320")


def test_a_rule_is_skipped_without_what_it_needs_and_in_other_suites(load, rules):
    def never(config):
        raise AssertionError("must not be asked")

    rules.rule("model.mask_head")(never)
    rules.rule(suite="segmentation")(never)
    load(GOOD)


def test_rules_read_defaults_and_point_at_the_nearest_line_for_them(load, rules):
    @rules.rule("model.backbone.scale")
    def half(config):
        if config.get("model.backbone.scale") != 0.5:
            yield "model.backbone.scale", "must be 0.5 today"

    with pytest.raises(ConfigError, match=r"default of MobileNet: model\.backbone\.scale: must be 0.5 today"):
        load(GOOD)


def test_rules_wait_until_the_single_values_are_right(load, rules):
    @rules.rule()
    def never(config):
        raise AssertionError("must not be asked")

    with pytest.raises(ConfigError, match="expects int"):
        load(GOOD, "seed=a")


def test_a_changed_config_keeps_its_references_but_for_those_to_what_is_changed(load):
    text = """
root: a.zip
weights: old
vocab: ${weights}/vocab.txt
sets: {train: "${root}/train.tsv", eval: "${root}"}
whole: {k: 1, m: 2}
part: ${whole}
literal: $${root}
"""
    config = load(text, check=False)
    assert config.changed({}).written() == config.written()
    new = config.changed({"weights": "new", "part": {"k": 3}, "sets": {"more": ["x"]}})
    assert new.as_dict() == config.as_dict() | {
        "weights": "new",
        "part": {"k": 3, "m": 2},
        "sets": {"train": "a.zip/train.tsv", "eval": "a.zip", "more": ["x"]},
    }
    assert new.as_written()["vocab"] == "old/vocab.txt"
    assert new.as_written()["sets"]["train"] == "${root}/train.tsv"
    assert new.as_written()["sets"]["eval"] == "${root}"
    assert new.as_dict()["literal"] == "${root}"
