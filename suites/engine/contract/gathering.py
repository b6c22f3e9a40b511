"""ArrayMetric: a metric that gathers arrays with a row for each sample, and looks at them at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from suites.engine.contract.metric import Metric


class ArrayMetric(Metric):
    """Base of metrics of arrays [N, ...]; `gather` keeps those of a batch, `gathered` gives all of them."""

    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] = {}

    def gather(self, **arrays: np.ndarray) -> None:
        """Keep copies of a batch's arrays [n, ...] by name."""
        for name, array in arrays.items():
            self._parts.setdefault(name, []).append(np.array(array))

    def gathered(self, name: str) -> np.ndarray:
        """All rows of an array [N, ...], in the order in which they came."""
        return np.concatenate(self._parts[name])

    def state(self) -> dict[str, Any]:
        """The arrays by name."""
        return {name: self.gathered(name) for name in self._parts}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Put the other metric's rows behind one's own."""
        self.gather(**state)
