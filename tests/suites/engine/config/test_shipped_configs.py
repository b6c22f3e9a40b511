"""Every config in the repository fits the components as they are now."""

from pathlib import Path

import pytest

from framework.optim import Optimizer, Schedule
from suites.engine.config import Factory
from suites.engine.config.schema.components import slot_of
from suites.engine.config.tree.files import read_merged
from suites.engine.config.tree.nodes import Origin, from_plain
from suites.engine.registry import REGISTRY, load_suites, suite_names
from tests.shipped import load_shipped

CONFIGS = Path(__file__).resolve().parents[4] / "configs"
LEAVES = sorted(path for path in CONFIGS.rglob("*.yml") if "_base_" not in path.parts)
SCHEDULES = sorted((CONFIGS / "_base_" / "schedule").glob("*.yml"))


def name(path: Path) -> str:
    return path.relative_to(CONFIGS).as_posix()


@pytest.mark.parametrize("path", LEAVES, ids=name)
def test_a_leaf_has_only_right_values(path):
    load_shipped(path)


@pytest.mark.parametrize("path", SCHEDULES, ids=name)
def test_a_base_schedule_gives_only_arguments_that_its_type_takes(path):
    load_suites(suite_names())
    section = read_merged(path).value["schedule"]
    problems = slot_of(Factory[Schedule], REGISTRY).problems(section, ("schedule",))
    wrong = [problem.text for problem in problems if "which is missing" not in problem.text]  # leaves say the rest
    assert not wrong


def test_the_rate_of_an_optimizer_comes_from_the_schedule_alone():
    load_suites(suite_names())
    slot = slot_of(Factory[Optimizer], REGISTRY)
    (problem,) = slot.problems(from_plain({"type": "Momentum", "lr": 0.1}, Origin("x.yml", 3)), ("optimizer",))
    assert str(problem) == "x.yml:3: optimizer.lr: 'lr' of Momentum is supplied by the code that builds it; remove it"
