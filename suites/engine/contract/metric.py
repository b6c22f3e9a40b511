"""Metric: the figures of an evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from suites.engine.contract.batch import Batch, Found

if TYPE_CHECKING:
    from suites.engine.reporting import Case, Plot


class Metric(ABC):
    """Gathers predictions of a whole evaluation set, then gives the field's figures."""

    @abstractmethod
    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Take in the outputs of `eval_step` for one batch; the arrays must be copied to be kept."""

    def update_joined(self, found: Iterable[Found]) -> None:
        """Take in the outputs on what one batch was predicted on by; by default one after the other.

        Outputs may be overwritten when the next ones are asked for.
        """
        for outputs, batch in found:
            self.update(outputs, batch)

    def leave_out(self, indices: Sequence[int]) -> None:  # noqa: B027  (an offer, not a duty)
        """Take note, before `result`, of samples of the evaluation set that could not be read."""

    def plots(self) -> Sequence[Plot]:
        """Return plots of what was gathered, for a report; by default none."""
        return ()

    def worst(self, count: int) -> Mapping[str, Sequence[Case]]:
        """Return up to `count` samples that were predicted worst, the worst first, by what is the matter with them.

        By default none. `capabilities.drawn_case` has to be able to show such a sample.
        """
        return {}

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what was gathered so far, as plain data: arrays, numbers, strings, and lists and dicts of them."""

    @abstractmethod
    def merge(self, state: Mapping[str, Any]) -> None:
        """Take in what another metric of the same evaluation set gathered, given by its `state`.

        Parts of a set that are merged give the figures of the whole.
        """

    @abstractmethod
    def result(self) -> dict[str, float]:
        """Return flat names to numbers, such as {"AP": 0.41, "AP50": 0.67}."""

    def report(self) -> str:
        """Return more than numbers, such as a table of the classes, in Markdown; by default nothing."""
        return ""
