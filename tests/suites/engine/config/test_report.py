"""What the tool says about configs and components."""

import pytest

from framework.errors import ConfigError
from suites.engine.config.report import diff_lines, explain_text, help_text, list_text, origins_text
from suites.engine.config.schema.signatures import parse_arguments
from tests.suites.engine.config.world import GOOD, PlainNeck


def test_origins_name_the_file_and_line_of_every_value(load):
    config = load(check=False, base="a: {b: 1, c: [2]}", x="extends: base.yml\nd: ${a.b}\na: {b: 5}")
    assert origins_text(config).splitlines() == [
        "a.b = 5  # x.yml:3",
        "a.c[0] = 2  # base.yml:1",
        "d = 5  # ${a.b} x.yml:2",
    ]


def test_list_shows_roles_components_and_their_first_line(registry):
    text = list_text(registry)
    assert "backbone: Image to feature maps.\n  DarkNet\n  MobileNet                A small backbone." in text
    assert list_text(registry, "neck").splitlines()[0] == "neck"
    with pytest.raises(ConfigError, match="no role is called 'neek'; did you mean 'neck'"):
        list_text(registry, "neek")


def test_help_shows_types_defaults_and_documentation(registry):
    lines = help_text(registry, "MobileNet").splitlines()
    assert lines[0] == "MobileNet (backbone), tests.suites.engine.config.world.MobileNet"
    assert lines[1:] == [
        "  A small backbone.",
        "  out_strides: a list of int",
        "      Strides of the maps given out, each a power of two.",
        "  scale: float = 1.0",
        "      Width multiplier.",
        "  norm: one of 'batch', 'layer' = 'batch'",
        "      Kind of normalisation.",
    ]


def test_help_shows_what_fits_a_slot_what_code_supplies_and_nested_sections(registry):
    assert "  in_channels: supplied by code" in help_text(registry, "PlainNeck")
    text = help_text(registry, "Yolo")
    assert "backbone: a backbone ({type: ...})\n      one of: DarkNet, MobileNet" in text
    assert "neck: a neck ({type: ...}) or null = None\n      one of: NoNeck, PlainNeck" in text
    text = help_text(registry, "toy")
    assert "  data: a mapping (Data)\n      num_classes: int" in text
    assert "          batch_size: int = 8\n              Images a step." in text
    assert help_text(registry, "Crop").endswith("takes no arguments")


def test_components_of_a_suite_are_listed_and_explained_as_the_suites_own(registry):
    registry.register("neck", "Pyramid", suite="other")(PlainNeck)
    assert list_text(registry, "neck").endswith("\n\nneck of other\n  Pyramid")
    assert help_text(registry, "Pyramid").startswith("Pyramid (neck of other), tests.suites.engine.config.world.")


def test_help_on_something_unknown_names_the_nearest(registry):
    with pytest.raises(ConfigError, match="no component is called 'Flipp'; did you mean 'Flip'"):
        help_text(registry, "Flipp")


def test_explain_names_the_line_that_set_a_value_and_all_it_overrode(load):
    config = load(
        "",
        "data.train.transforms[flip].prob=0.1",
        base=GOOD,
        mid="extends: base.yml\ndata: {train: {transforms: {$patch: {flip: {prob: 0.3}}}}}",
        x="extends: mid.yml",
    )
    assert explain_text(config, "data.train.transforms[flip].prob").splitlines() == [
        "data.train.transforms[flip].prob = 0.1",
        "  set by -o data.train.transforms[flip].prob=0.1",
        "  overrode 0.3 from mid.yml:2",
        "  overrode 0.25 from base.yml:15",
    ]


def test_explain_follows_references(load):
    assert explain_text(load(GOOD), "model.head.num_classes").splitlines() == [
        "model.head.num_classes = 3",
        "  set by x.yml:8 as ${data.num_classes}, written in x.yml:12",
    ]


def test_explain_of_a_change_of_type_shows_the_old_type(load):
    text = explain_text(load(GOOD, "optimizer.type=Adam"), "optimizer.type")
    assert text.endswith('  set by -o optimizer.type=Adam\n  overrode "Momentum" from x.yml:17')


def test_explain_of_a_mapping_shows_each_value_below(load):
    assert explain_text(load(GOOD), "model.backbone").splitlines() == [
        'model.backbone.type = "MobileNet"  (x.yml:4)',
        "model.backbone.out_strides[0] = 8  (x.yml:4)",
        "model.backbone.out_strides[1] = 16  (x.yml:4)",
    ]


def test_explain_of_a_value_left_out_shows_the_default(load):
    assert explain_text(load(GOOD), "data.train.batch_size") == (
        "data.train.batch_size = 8\n  set by default of Loader"
    )
    with pytest.raises(ConfigError, match=r"data\.train has no 'batchsize'; did you mean 'batch_size'"):
        explain_text(load(GOOD), "data.train.batchsize")


def test_diff_names_what_was_removed_added_and_changed(load):
    one = load(GOOD)
    two = load(GOOD, "seed=1", "optimizer.weight_decay=$delete", "model.head.loss.ignore_iou=0.6")
    assert diff_lines(one, two) == [
        "~ model.head.loss.ignore_iou: 0.5 -> 0.6",
        "- optimizer.weight_decay: 0.0005",
        "+ seed: 1",
    ]
    assert diff_lines(one, one) == []


def test_diff_sees_the_order_of_a_pipeline(load):
    one = load(GOOD, "data.train.transforms=[{id: a, type: Crop}, {id: b, type: Crop}]")
    two = load(GOOD, "data.train.transforms=[{id: b, type: Crop}, {id: a, type: Crop}]")
    assert diff_lines(one, two) == ["~ data.train.transforms order: a, b -> b, a"]


def test_argument_documentation_is_read_from_google_style_docstrings():
    doc = """Does it.

Args:
    one: First
        line: and second.
    low, high (int): Limits.

    last: After a blank line.

Returns:
    other: Not an argument.

Attributes:
    field: Of a dataclass."""
    assert parse_arguments(doc) == {
        "one": "First line: and second.",
        "low": "Limits.",
        "high": "Limits.",
        "last": "After a blank line.",
        "field": "Of a dataclass.",
    }
