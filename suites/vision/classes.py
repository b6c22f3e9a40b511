"""Opens a config's data sets and checks that they have the classes it says."""

from __future__ import annotations

from typing import Any

from framework.errors import ConfigError
from suites.engine.config import Config

_SHOWN = 10  # names of classes in an error


def open_dataset(config: Config, path: str, remedy: str) -> Any:
    """The data set that `config` describes at `path`; it has `num_classes` and `class_names`.

    Args:
        config: of any suite with `data.num_classes`.
        path: such as `data.train.dataset`.
        remedy: what a user does about a wrong number of classes, for the error.

    Raises:
        ConfigError: it has another number of classes than `data.num_classes`.
    """
    dataset = config.build(path)
    wanted = config["data.num_classes"]
    if dataset.num_classes != wanted:
        names = ", ".join(dataset.class_names[:_SHOWN]) + (", ..." if dataset.num_classes > _SHOWN else "")
        raise ConfigError(
            f"{config.source}: data.num_classes is {wanted} but {path} has {dataset.num_classes} classes "
            f"({names}); {remedy}"
        )
    return dataset
