"""Every config in the repository fits the components as they are now."""

from pathlib import Path

import pytest

from suites.engine.config import load_config
from suites.engine.config.components import Component
from suites.engine.config.files import read_merged
from suites.engine.registry import REGISTRY, load_suites, suite_names

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
LEAVES = sorted(path for path in CONFIGS.rglob("*.yml") if "_base_" not in path.parts)
SCHEDULES = sorted((CONFIGS / "_base_" / "schedule").glob("*.yml"))


def name(path: Path) -> str:
    return path.relative_to(CONFIGS).as_posix()


@pytest.mark.parametrize("path", LEAVES, ids=name)
def test_a_leaf_has_only_right_values(path):
    load_config(path)


@pytest.mark.parametrize("path", SCHEDULES, ids=name)
def test_a_base_schedule_gives_only_arguments_that_its_type_takes(path):
    load_suites(suite_names())
    if not REGISTRY.names("schedule"):
        pytest.skip("no schedule is registered yet")
    section = read_merged(path).value["schedule"]
    problems = Component("schedule", REGISTRY).problems(section, ("schedule",))
    wrong = [problem.text for problem in problems if "which is missing" not in problem.text]  # leaves say the rest
    assert not wrong
