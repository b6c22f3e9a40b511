"""Components are found by role and name; duplicates and strangers are refused with useful words."""

import pytest

from framework.errors import ConfigError
from suites.engine.registry import Registry, load_suites, suite_names


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
        ConfigError, match=r"no suite is called 'detecton'; did you mean 'detection'\? Suites: detection"
    ):
        load_suites(["detecton"])
