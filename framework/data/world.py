"""World: which of how many processes this one is, where several train one model."""

from __future__ import annotations

from dataclasses import dataclass

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class World:
    """A place among processes.

    Args:
        rank: of this process, from 0.
        size: how many there are.

    Raises AttributeValueError for a rank that is not in [0, size).
    """

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise AttributeValueError(f"World: rank is {self.rank} and size {self.size}; a rank is from 0 to size - 1")

    @property
    def first(self) -> bool:
        """Whether this process speaks, writes and saves for all of them."""
        return self.rank == 0


ALONE = World()
