"""Shipped configs for tests without data: what a config takes from its data, such as its classes, is drawn."""

from pathlib import Path

from suites.engine.config import Config, load_config


def load_shipped(path: Path) -> Config:
    """The checked config of a file; a number of classes that the data would give is 2."""
    data = load_config(path, check=False).as_dict().get("data") or {}
    return load_config(path, ["data.num_classes=2"] if data.get("num_classes") == "auto" else [])
