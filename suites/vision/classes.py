"""Opens data sets and checks that they have the classes that the model predicts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from framework.errors import ConfigError
from suites.engine.contract.batch import opened
from suites.engine.data.classes import say_alike

_log = logging.getLogger(__name__)
TRAINING = "data.train.dataset"  # the place of the training set in a config
_SHOWN = 10  # names of classes in an error


@dataclass(frozen=True)
class ClassNames:
    """What is known of the data of published weights.

    Attributes:
        class_names: K names.
    """

    class_names: tuple[str, ...]


def open_dataset(dataset: Any, num_classes: int | None, place: str, remedy: str) -> Any:
    """The data set, made now if it is a `Factory`; it has `num_classes` and `class_names`.

    Args:
        dataset: a data set, or what makes one.
        num_classes: how many classes it must have; None for any number.
        place: of it in a config, such as `data.train.dataset`.
        remedy: what a user does about a wrong number of classes, for the error.

    Raises:
        ConfigError: it has another number of classes.
    """
    found = opened(dataset)
    if num_classes is not None and found.num_classes != num_classes:
        names = ", ".join(found.class_names[:_SHOWN]) + (", ..." if found.num_classes > _SHOWN else "")
        raise ConfigError(
            f"data.num_classes is {num_classes} but {place} has {found.num_classes} classes ({names}); {remedy}"
        )
    if place == TRAINING:
        say_alike(place, found.class_names)
    return found


def expect_same_classes(place: str, names: Sequence[str], other: str, others: Sequence[str]) -> None:
    """Compare the classes of two sets, which are numbers to the network; both have K of them.

    Args:
        place: of the set in a config.
        names: of its classes.
        other: what they are compared with, for messages.
        others: the names there.

    Raises:
        ConfigError: a class of both has another number in each. Where names differ otherwise, the log says so.
    """
    pairs = list(zip(names, others, strict=True))
    elsewhere = {name for name, wanted in pairs if name != wanted}.intersection(others)
    elsewhere |= {wanted for name, wanted in pairs if name != wanted}.intersection(names)
    kept = {name for name, wanted in pairs if name == wanted}  # two of ImageNet's classes are called crane
    moved = [at for at, pair in enumerate(pairs) if pair[0] != pair[1] and {*pair} & (elsewhere - kept)]
    if moved:
        at = moved[0]
        raise ConfigError(
            f"{place}: class {at} is {names[at]!r}, but that of {other} is {others[at]!r}; what is learnt as one would "
            "be judged as the other. Give both the same classes in one order"
        )
    different = [f"{name!r} for {wanted!r}" for name, wanted in pairs if name != wanted]
    if different:
        more = " ..." if len(different) > _SHOWN else ""
        shown = ", ".join(different[:_SHOWN])
        _log.warning("%s: names its classes otherwise than %s: %s%s", place, other, shown, more)
