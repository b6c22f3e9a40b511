"""Unknown, missing and ill-typed keys are errors that name file, line, key path, what was found and what is allowed."""

# ruff: noqa: E501, UP007, UP045 (messages are tested whole; old spellings of type hints work too)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.engine.config import build_value
from suites.engine.config.schema.components import slot_of
from suites.engine.config.tree.nodes import Origin, from_plain
from suites.engine.registry import Registry
from tests.suites.engine.config.world import GOOD, Transform


def with_loss(text: str) -> str:
    return GOOD.replace("ignore_iou: 0.5", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_loss("lable_smooth: true"), "x.yml:10: model.head.loss.lable_smooth: YoloLoss takes no 'lable_smooth'; did you mean 'label_smooth'? It takes: ignore_iou, label_smooth"),
        (with_loss("zzz: 1"), "x.yml:10: model.head.loss.zzz: YoloLoss takes no 'zzz'. It takes: ignore_iou, label_smooth"),
        (with_loss("label_smooth: yes"), "x.yml:10: model.head.loss.label_smooth: expects true or false, found 'yes' (str); write true"),
        (with_loss("ignore_iou: high"), "x.yml:10: model.head.loss.ignore_iou: expects float, found 'high' (str)"),
        (with_loss("ignore_iou: true"), "x.yml:10: model.head.loss.ignore_iou: expects float, found true (bool)"),
        (with_loss("type: FocalYoloLoss"), "x.yml:9: model.head.loss: FocalYoloLoss needs 'gamma' (float), which is missing"),
        (with_loss("type: OtherLoss"), "x.yml:10: model.head.loss.type: OtherLoss is a loss but no YoloLoss; one of: FocalYoloLoss, YoloLoss"),
        (GOOD.replace("type: MobileNet,", "type: MobileNett,"), "x.yml:4: model.backbone.type: no backbone is called 'MobileNett'; did you mean 'MobileNet'? Registered for backbone: DarkNet, MobileNet"),
        (GOOD.replace("type: MobileNet,", "type: PlainNeck,"), "x.yml:4: model.backbone.type: 'PlainNeck' is a neck, not a backbone. Registered for backbone: DarkNet, MobileNet"),
        (GOOD.replace("type: MobileNet,", "type: 3,"), "x.yml:4: model.backbone.type: expects the name of a backbone, found 3 (int)"),
        (GOOD.replace("{type: MobileNet, out_strides: [8, 16]}", "MobileNet"), "x.yml:4: model.backbone: expects a backbone ({type: ...}), found 'MobileNet' (str); write {type: MobileNet}"),
        (GOOD.replace("type: MobileNet, out", "out"), "x.yml:4: model.backbone: needs 'type', which names the backbone; one of: DarkNet, MobileNet"),
        (GOOD.replace(", out_strides: [8, 16]", ""), "x.yml:4: model.backbone: MobileNet needs 'out_strides' (a list of int), which is missing"),
        (GOOD.replace("[8, 16]", "[8, 16.5]"), "x.yml:4: model.backbone.out_strides[1]: expects int, found 16.5 (float)"),
        (GOOD.replace("[8, 16]", "[8, 16.0]"), "x.yml:4: model.backbone.out_strides[1]: expects int, found 16.0 (float); write 16"),
        (GOOD.replace("[8, 16]", "8"), "x.yml:4: model.backbone.out_strides: expects a list of int, found 8 (int)"),
        (GOOD.replace("[8, 16]", "[8, 16], norm: bacth"), "x.yml:4: model.backbone.norm: expects one of 'batch', 'layer', found 'bacth' (str); did you mean 'batch'?"),
        (GOOD.replace("type: PlainNeck", "type: PlainNeck, in_channels: [1]"), "x.yml:5: model.neck.in_channels: 'in_channels' of PlainNeck is supplied by the code that builds it; remove it"),
        (GOOD.replace("    num_classes: ${data.num_classes}\n", ""), "x.yml:6: model.head: YoloHead needs 'num_classes' (int), which is missing"),
        (GOOD.replace("num_classes: 3", "num_classes: many"), "x.yml:8: model.head.num_classes: expects int, found 'many' (str) from ${data.num_classes} (x.yml:12)"),
        (GOOD.replace("size: 320", "size: [1, 2, 3]"), "x.yml:16: data.train.transforms[resize].size: expects a list of 2: [int, int], found a list of 3"),
        (GOOD.replace("size: 320", "size: big"), "x.yml:16: data.train.transforms[resize].size: expects int or a list of 2: [int, int], found 'big' (str)"),
        (GOOD.replace("id: flip,", "ident: flip,"), "x.yml:15: data.train.transforms[0].ident: Flip takes no 'ident'. It takes: prob"),
        (GOOD.replace("num_classes: 3", "num_classes: 3\n  id: a"), "x.yml:13: data.id: Data takes no 'id'. It takes: num_classes, train, class_names, extra"),
        (GOOD.replace("suite: toy", "suite: toy\nsede: 1"), "x.yml:2: sede: a toy config takes no 'sede'; did you mean 'seed'? It takes: model, data, optimizer, seed"),
        (GOOD.replace("suite: toy\n", ""), "x.yml: needs 'suite', which says whose parts it uses; one of: "),
        (GOOD.replace("suite: toy", "suite: detecton"), "x.yml:1: suite: no suite is called 'detecton'; did you mean 'detection'? Suites: "),
        (GOOD.replace("suite: toy", "suite: [toy]"), "x.yml:1: suite: no suite is called"),
        (GOOD[: GOOD.index("data:")].replace("${data.num_classes}", "3") + "data: 3\n", "x.yml:11: data: expects a mapping (Data), found 3 (int) with the keys: num_classes, train"),
        (GOOD[: GOOD.index("data:")].replace("${data.num_classes}", "3"), "x.yml:1: a toy config needs 'data' (a mapping (Data)), which is missing"),
        (GOOD.replace("  train:", "  class_names: {cat: 1}\n  train:"), "x.yml:13: data.class_names.cat: expects a whole number as key, found 'cat'"),
        (GOOD.replace("  train:", "  class_names: {1: 1}\n  train:"), "x.yml:13: data.class_names.1: expects str, found 1 (int); put it in quotes"),
        (GOOD.replace("    transforms:\n", "    transforms: {$patch: {}}\n    other:\n"), "x.yml:14: data.train.transforms: $patch changes an inherited list, but nothing was inherited here"),
    ],
)  # fmt: skip
def test_a_wrong_config_is_explained(load, text, message):
    with pytest.raises(ConfigError) as error:
        load(text)
    assert message in str(error.value)


def test_all_problems_are_reported_at_once(load):
    with pytest.raises(ConfigError) as error:
        load(with_loss("a: 1\n      b: 2").replace("size: 320", "size: big"))
    assert [line.split(": ")[1] for line in str(error.value).splitlines()] == [
        "model.head.loss.a",
        "model.head.loss.b",
        "data.train.transforms[resize].size",
    ]


def test_what_a_change_of_type_dropped_is_told_where_it_is_missing(load):
    with pytest.raises(ConfigError, match=r"needs 'out_strides' .* missing \(changing type from DarkNet to MobileNet"):
        load(
            base=GOOD.replace("type: MobileNet, out_strides: [8, 16]", "type: DarkNet, depth: 1, out_strides: 2"),
            x="extends: base.yml\nmodel: {backbone: {type: MobileNet}}",
        )


def test_a_config_class_that_a_suite_forgot_to_register_is_told(load, monkeypatch):
    monkeypatch.setattr("suites.engine.config.config.load_suites", lambda names: None)
    with pytest.raises(ConfigError, match="suite 'detection' registers no config class"):
        load(GOOD.replace("suite: toy", "suite: detection"))


@pytest.mark.parametrize(
    ("hint", "value", "result"),
    [
        (int | float, 3, 3), (Union[float, int], 3, 3), (float | None, 3, 3.0), (Optional[int], None, None),
        (list[float], [1, 2.5], [1.0, 2.5]), (tuple[int, ...], [1, 2], (1, 2)), (tuple, [1, "a"], (1, "a")),
        (dict[str, int], {"a": 1}, {"a": 1}), (dict, {"a": [1]}, {"a": [1]}), (list, [1, {"a": 2}], [1, {"a": 2}]),
        (Any, {"type": "x"}, {"type": "x"}), (float | list[float], [1], [1.0]), (str | bool, True, True),
        (list[tuple[int, int]], [[1, 2], [3, 4]], [(1, 2), (3, 4)]), (None, None, None),
    ],
)  # fmt: skip
def test_plain_values_fit_and_convert_by_their_type_hints(hint, value, result):
    built = build_value(value, hint)
    assert built == result and type(built) is type(result)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True), (int, 1.0), (float, True), (float, "1"), (str, 1), (bool, 0), (bool, "true"), (int, None),
        (list[int], [1, "a"]), (tuple[int, int], [1]), (dict[str, int], {"a": "b"}), (dict, []), (list, {}),
        (int | None, "a"), (np.ndarray, [1, 2]), (float | list[float], {"a": 1}),
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(hint, value):
    with pytest.raises(ConfigError):
        build_value(value, hint)


def test_a_type_that_only_code_can_give_says_so():
    with pytest.raises(ConfigError, match="cannot be set from a file, because it takes ndarray"):
        build_value([1], np.ndarray)


class TakesAnything:
    def __init__(self, **options):
        pass


class Untyped:
    def __init__(self, a, b=2):
        self.a, self.b = a, b


class HiddenHint:
    def __init__(self, given: int, made: NoSuchName = None):  # noqa: F821
        self.given, self.made = given, made


def test_components_must_name_their_arguments(registry):
    registry.register("thing")(TakesAnything)
    with pytest.raises(ConfigError, match=r"TakesAnything takes '\*\*options'; a component names each"):
        build_value({"type": "TakesAnything"}, TakesAnything, registry=registry)


def test_arguments_without_a_type_hint_take_any_plain_value(registry):
    registry.register("thing")(Untyped)
    assert build_value({"a": [1, {"b": 2}]}, Untyped, registry=registry).a == [1, {"b": 2}]


def test_only_code_can_supply_an_argument_whose_type_hint_cannot_be_read(registry):
    registry.register("thing")(HiddenHint)
    assert build_value({"given": 1}, HiddenHint, registry=registry, made=2).made == 2
    with pytest.raises(ConfigError, match=r"made: expects NoSuchName, a type hint that cannot be read at run time"):
        build_value({"given": 1, "made": 3}, HiddenHint, registry=registry)


def test_slots_describe_themselves(registry):
    assert slot_of(tuple[int, float] | None, registry).describe() == "a list of 2: [int, float] or null"
    assert slot_of(dict[int, str], registry).describe() == "a mapping from whole numbers to str"


@dataclass(frozen=True)
class Limits:
    low: int = 0
    high: int = 10

    def __post_init__(self):
        if self.low > self.high:
            raise AttributeValueError(f"limits: low is {self.low}; it must be at most high, {self.high}")


@dataclass
class WithPart:
    limits: Limits
    part: Transform

    def __post_init__(self):
        raise AssertionError("must not be built by a check")


def test_what_a_plain_section_refuses_is_a_problem_of_the_check_already(registry):
    with pytest.raises(ConfigError, match=r"^value from code: limits: low is 20; it must be at most high, 10$"):
        build_value({"low": 20}, Limits, registry=Registry())
    slot = slot_of(WithPart, registry)
    wrong = from_plain({"limits": {"low": 20}, "part": {"type": "Crop"}}, Origin("x"))
    assert [str(p) for p in slot.problems(wrong, ())] == ["x: limits: low is 20; it must be at most high, 10"]
    good = from_plain({"limits": {"low": 3}, "part": {"type": "Crop"}}, Origin("x"))
    assert list(slot.problems(good, ())) == []
