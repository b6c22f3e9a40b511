"""What changes beside an exported model while it is served: its inputs are made by files there, and may be newer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from framework.predictor import Predictor


@dataclass(frozen=True)
class Fed:
    """A batch as a Program takes it.

    Attributes:
        arrays: the Program's inputs by name.
        version: of what made them, and of the network.
        network: that goes with them; None for that of the export.
        beside: what the processor makes results with, such as the items of this version.
    """

    arrays: Mapping[str, np.ndarray]
    version: str
    network: Predictor | None = None
    beside: Any = None


class Counter(NamedTuple):
    """Of a server: what it counts, and how often that came."""

    help: str
    value: float


class Feed(Protocol):
    """Makes a Program's inputs of a batch's arrays, by files beside the export, from any thread."""

    @property
    def version(self) -> str:
        """Of what answers now."""

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> Fed:
        """The batch as the Program takes it."""

    def counters(self) -> Mapping[str, Counter]:
        """Figures for a server's metrics by name."""


class Outputs(dict[str, np.ndarray]):
    """Arrays by name.

    Attributes:
        version: of what gave them; None for a model that has one only.
        beside: see `Fed`.
    """

    version: str | None = None
    beside: Any = None
