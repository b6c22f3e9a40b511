"""Shipped configs for tests without data: what a config takes from its data, such as its classes, is drawn."""

from pathlib import Path

from suites.engine.config import Config, load_config
from suites.engine.contract.task import Task
from suites.engine.registry import REGISTRY, load_suites, suite_names


def load_shipped(path: Path) -> Config:
    """The checked config of a file; what the data would give is 2 classes, and anchors of 32 pixels and more."""
    written = load_config(path, check=False)
    given = {"data.num_classes": "2", "model.rpn.sizes": "[32, 64, 128, 256]"}
    return load_config(path, [f"{place}={value}" for place, value in given.items() if written.get(place) == "auto"])


def task_classes() -> list[type[Task]]:
    """The task of every suite that is shipped."""
    load_suites(suite_names())
    return [REGISTRY.seen_by(suite).get("task", suite) for suite in suite_names()]
