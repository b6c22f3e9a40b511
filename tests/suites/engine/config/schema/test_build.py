"""A right config builds the objects it names, with what code supplies."""

from dataclasses import dataclass

import pytest

from framework.errors import ConfigError
from suites.engine.config import Config, Factory, build_value
from suites.engine.config.schema.components import slot_of
from suites.engine.config.tree.nodes import Origin, from_plain
from suites.engine.registry import Registry
from tests.suites.engine.config import world
from tests.suites.engine.config.world import GOOD


def test_nested_components_are_built(load):
    model = load(GOOD).build("model")
    assert isinstance(model, world.Yolo)
    assert isinstance(model.backbone, world.MobileNet) and model.backbone.out_strides == [8, 16]
    assert model.head.num_classes == 3 and model.head.loss.ignore_iou == 0.5


def test_a_factory_receives_what_the_role_and_the_slot_declare_as_supplied(load):
    model = load(GOOD).build("model")
    assert model.neck.in_channels == (64, 128) and model.head.anchors == [(1, 2)]


def test_supplied_arguments_are_an_offer(load):
    assert isinstance(load(GOOD, "model.neck.type=NoNeck").build("model").neck, world.NoNeck)


def test_an_optional_component_can_be_null(load):
    assert load(GOOD, "model.neck=null").build("model").neck is None


def test_build_gives_the_component_of_a_top_level_factory(load):
    optimizer = load(GOOD).build("optimizer", parameters=[1])
    assert optimizer == {"parameters": [1], "momentum": 0.9, "weight_decay": 5e-4}


def test_build_without_what_code_must_supply_is_an_error(load):
    with pytest.raises(ConfigError, match=r"x\.yml:17: optimizer: momentum needs parameters, which neither"):
        load(GOOD).build("optimizer")


def test_build_of_one_list_item_by_id(load):
    assert load(GOOD).build("data.train.transforms[flip]").prob == 0.25


def test_build_of_a_section_left_out_gives_its_default(load):
    config = load(GOOD, "data.train=$delete")
    assert config.build("data.train") == world.Loader()
    assert config.build("seed") == 0


@dataclass(frozen=True)
class Choice:
    count: int = 100
    least: float = 0.01


@dataclass(frozen=True)
class Detector:
    choice: Choice = Choice(least=0.05)


def test_a_mapping_changes_single_fields_of_the_default_it_stands_for():
    assert build_value({"choice": {"count": 300}}, Detector) == Detector(Choice(300, 0.05))
    assert build_value({"choice": {"least": 0.01}}, Detector) == Detector(Choice(100, 0.01))
    shown = slot_of(Detector, Registry()).filled(from_plain({"choice": {"count": 300}}, Origin("here")))
    assert shown.plain() == {"choice": {"count": 300, "least": 0.05}}


def test_build_of_something_unknown_names_the_nearest(load):
    with pytest.raises(ConfigError, match="the config has no 'modle'; did you mean 'model'"):
        load(GOOD).build("modle")


def test_enum_and_path_and_int_keys_are_converted(load):
    config = load(
        GOOD, "data.train.mode=slow", "data.class_names={0: cat, 1: dog}",
        "model.backbone={type: DarkNet, pretrained: a/b}",
    )  # fmt: skip
    assert config.build("data").class_names == {0: "cat", 1: "dog"}
    assert config.build("data").train.mode is world.Mode.SLOW
    assert config.build("model").backbone.pretrained.as_posix() == "a/b"


def test_an_int_becomes_the_float_that_is_asked_for(load):
    value = load(GOOD, "model.backbone.scale=2").build("model").backbone.scale
    assert value == 2.0 and isinstance(value, float)


def test_a_value_that_the_class_refuses_is_reported_with_its_place(load):
    with pytest.raises(
        ConfigError, match=r"x\.yml:9: model\.head\.loss: YoloLoss: ignore_iou is 2.0, allowed is 0 to 1"
    ):
        load(GOOD, "model.head.loss={ignore_iou: 2}").build("model")


def test_the_annotated_class_is_built_where_type_is_left_out_and_may_be_narrowed(load):
    assert type(load(GOOD).build("model").head.loss) is world.YoloLoss
    overrides = ("model.head.loss.ignore_iou=$delete", "model.head.loss={type: FocalYoloLoss, gamma: 2}")
    focal = load(GOOD, *overrides).build("model").head.loss
    assert type(focal) is world.FocalYoloLoss and focal.gamma == 2.0


def test_a_factory_builds_anew_on_each_call(registry):
    factory = build_value({"type": "Flip"}, world.Transform, registry=registry)
    assert isinstance(factory, world.Flip)
    config = Config.from_dict({"suite": "toy", "model": {"type": "Yolo"}}, registry)
    assert config["model"] == {"type": "Yolo"}
    deferred = Factory.of(world.YoloHead, num_classes=2)
    assert deferred(anchors=[]) is not deferred(anchors=[])


def test_a_factory_refuses_names_that_were_not_declared(load):
    config = load(GOOD)
    assert config.build("model.neck", in_channels=(1,)).in_channels == (1,)
    with pytest.raises(ConfigError, match="'strides' was not declared as supplied by code"):
        config.build("model.neck", in_channels=(1,), strides=(8,))


def test_values_are_read_with_their_defaults(load):
    config = load(GOOD)
    assert config["model.backbone.norm"] == "batch"
    assert config.get("data.train.batch_size") == 8
    assert config.get("no.such.thing", 5) == 5
    with pytest.raises(ConfigError, match="data has no 'num_clases'; did you mean 'num_classes'"):
        config["data.num_clases"]
