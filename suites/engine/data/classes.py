"""What is odd about the classes of a training set: names that are written in several ways, or one class alone."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterable, Mapping

from framework.errors import DataError

_log = logging.getLogger(__name__)
_SHOWN = 5  # groups of names in a warning


def say_alike(what: str, names: Iterable[str]) -> None:
    """Warn of classes whose names differ in capitals and spaces alone; `what` names the set."""
    forms: dict[str, dict[str, None]] = {}
    for name in names:
        form = "".join(unicodedata.normalize("NFKC", name).casefold().split())
        forms.setdefault(form, {})[name] = None
    alike = [" and ".join(f"'{name}'" for name in group) for group in forms.values() if len(group) > 1]
    if alike:
        more = f" and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
        _log.warning(
            "%s: the classes %s%s are written almost alike, and are learnt as different ones; write each in one way",
            *(what, "; ".join(alike[:_SHOWN]), more),
        )


def expect_several(what: str, counts: Mapping[str, int]) -> None:
    """Raise DataError where all samples that a classifier is to learn from are of one class.

    Args:
        what: the set.
        counts: samples of each class.
    """
    there = {name: count for name, count in counts.items() if count}
    if len(there) == 1:
        ((name, count),) = there.items()
        raise DataError(
            f"{what}: all {count} samples are of one class, '{name}'; a classifier learns to tell classes apart, so it "
            "needs samples of two at least"
        )
