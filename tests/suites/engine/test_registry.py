"""Components are found by role and name; duplicates and strangers are refused with useful words."""

import pytest

from framework.errors import ConfigError
from suites.engine.registry import REGISTRY, Registry, load_suites, suite_names


class Backbone:
    pass


class MobileNet(Backbone):
    pass


class Neck:
    pass


@pytest.fixture
def registry():
    return Registry()


def test_a_component_is_found_by_its_own_name_or_the_one_given(registry):
    assert registry.register("backbone")(MobileNet) is MobileNet
    registry.register("backbone", "Small")(MobileNet)
    assert registry.get("backbone", "MobileNet") is registry.get("backbone", "Small") is MobileNet
    assert registry.names("backbone") == ["MobileNet", "Small"] and registry.roles() == ["backbone"]


def test_functions_are_components_too(registry):
    @registry.register("schedule")
    def constant(value: float) -> float:
        return value

    assert registry.get("schedule", "constant")(1.0) == 1.0


def test_the_same_name_twice_in_a_role_is_an_error_but_not_in_two_roles(registry):
    registry.register("backbone")(MobileNet)
    registry.register("model")(MobileNet)
    with pytest.raises(ConfigError, match=r"backbone 'MobileNet' is registered twice, by .*MobileNet and by .*Neck"):
        registry.register("backbone", "MobileNet")(Neck)


def test_an_unknown_name_lists_the_nearest_and_all(registry):
    registry.register("backbone")(MobileNet)
    registry.register("neck")(Neck)
    with pytest.raises(ConfigError, match=r"no backbone is called 'MobilNet'; did you mean 'MobileNet'\? Registered for backbone: MobileNet"):  # fmt: skip  # noqa: E501
        registry.get("backbone", "MobilNet")
    with pytest.raises(ConfigError, match=r"'Neck' is a neck, not a backbone\. Registered for backbone: MobileNet"):
        registry.get("backbone", "Neck")
    with pytest.raises(ConfigError, match=r"no hook is called 'x'\. Registered for hook: nothing"):
        registry.get("hook", "x")


def test_a_class_must_derive_from_the_base_of_its_role_whichever_is_declared_first(registry):
    registry.register_role("backbone", Backbone)
    with pytest.raises(ConfigError, match=r"backbone 'Neck' .* must derive from .*Backbone"):
        registry.register("backbone")(Neck)
    registry.register("neck")(Neck)
    with pytest.raises(ConfigError, match=r"neck 'Neck' .* must derive from .*MobileNet"):
        registry.register_role("neck", MobileNet)


def test_a_role_or_base_declared_twice_is_an_error(registry):
    registry.register_role("backbone", Backbone)
    with pytest.raises(ConfigError, match="role 'backbone' is declared twice"):
        registry.register_role("backbone")
    with pytest.raises(ConfigError, match=r"Backbone is the base of role 'backbone' already"):
        registry.register_role("trunk", Backbone)


def test_the_role_of_an_annotation_is_that_of_its_nearest_base_or_registration(registry):
    registry.register_role("backbone", Backbone)
    registry.register("small", "M")(Neck)
    assert registry.role_of(MobileNet) == "backbone" and registry.role_of(Neck) == "small"
    assert registry.role_of(int) is None


def test_suites_are_packages_and_an_unknown_one_names_the_nearest():
    assert "detection" in suite_names() and "engine" not in suite_names()
    with pytest.raises(
        ConfigError, match=r"no suite is called 'detecton'; did you mean 'detection'\? Suites: .*detection"
    ):
        load_suites(["detecton"])


def test_a_suite_sees_what_is_shared_and_what_it_registers_itself_but_nothing_of_another(registry):
    registry.register("transform", "Resize", suite="a")(MobileNet)
    registry.register("transform", "Resize", suite="b")(Neck)
    registry.register("transform", "Flip")(Backbone)
    registry.register("transform", "Crop", suite="a")(Backbone)
    assert registry.seen_by("a").get("transform", "Resize") is MobileNet
    assert registry.seen_by("b").get("transform", "Resize") is Neck
    assert registry.seen_by("b").names("transform") == ["Flip", "Resize"]
    assert registry.names("transform") == ["Flip"] and registry.suites() == ["a", "b"]
    assert registry.owned_by("a").names("transform") == ["Crop", "Resize"]
    assert registry.owned_by(None).names("transform") == ["Flip"]


def test_a_view_sees_what_is_registered_later(registry):
    view = registry.seen_by("a")
    registry.register("neck", suite="a")(Neck)
    assert view.names("neck") == ["Neck"] and view.role_of(Neck) == "neck" and registry.role_of(Neck) is None


def test_a_name_of_another_suite_says_whose_it_is(registry):
    registry.register("neck", "Pyramid", suite="a")(Neck)
    registry.register("neck", "Plain", suite="b")(Neck)
    with pytest.raises(ConfigError, match=r"'Pyramid' is a neck of suite 'a', whose names only configs of that suite see\. Registered for neck: Plain"):  # fmt: skip  # noqa: E501
        registry.seen_by("b").get("neck", "Pyramid")


def test_whose_a_name_is_is_known_even_if_that_suite_was_not_loaded_yet():
    def load_all():
        if "a" not in registry.suites():
            registry.register("neck", "Pyramid", suite="a")(Neck)

    registry = Registry(load_all)
    with pytest.raises(ConfigError, match="'Pyramid' is a neck of suite 'a'"):
        registry.seen_by("b").get("neck", "Pyramid")


def test_two_suites_may_declare_the_same_role_but_none_may_declare_a_shared_one(registry):
    registry.register_role("neck", Neck, suite="a")
    registry.register_role("neck", Backbone, supplied=("x",), suite="b")
    assert registry.seen_by("a").role("neck").base is Neck
    assert registry.seen_by("b").role("neck").supplied == ("x",)
    registry.register("neck", suite="b")(MobileNet)
    with pytest.raises(ConfigError, match=r"neck 'MobileNet' .* must derive from .*Neck"):
        registry.register("neck", suite="a")(MobileNet)
    with pytest.raises(ConfigError, match="role 'neck' is declared twice"):
        registry.register_role("neck")
    registry.register_role("trunk")
    with pytest.raises(ConfigError, match="role 'trunk' is declared twice"):
        registry.register_role("trunk", suite="a")


@pytest.mark.parametrize("first, second", [(None, "a"), ("a", None), ("a", "a")])
def test_a_name_that_some_suite_would_see_twice_is_refused(registry, first, second):
    registry.register("neck", "N", suite=first)(Neck)
    with pytest.raises(ConfigError, match="neck 'N' is registered twice"):
        registry.register("neck", "N", suite=second)(MobileNet)


@pytest.mark.parametrize(
    "module, suite",
    [("suites.text.models.tiny", "text"), ("suites.text", "text"), ("suites.vision.backbones.x", None),
     ("suites.engine.parts", None), ("tests.suites.text", None), ("__main__", None)],
)  # fmt: skip
def test_the_module_that_registers_says_whose_it_is(registry, module, suite):
    code = "register_role('neck', Neck)\nregister('neck')(Neck)"
    exec(
        code, {"__name__": module, "Neck": Neck, "register": registry.register, "register_role": registry.register_role}
    )
    assert registry.owned_by(suite).names("neck") == ["Neck"] and registry.owned_by(suite).role("neck").base is Neck
    assert registry.suites() == ([] if suite is None else [suite])


def test_the_shipped_suites_keep_to_themselves():
    load_suites(suite_names())
    assert "VocDetection" in REGISTRY.seen_by("detection").names("dataset")
    assert REGISTRY.names("dataset") == [] and "MobileNetV1" in REGISTRY.names("backbone")
