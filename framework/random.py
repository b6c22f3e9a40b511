"""Sources of random numbers: a state (seed, counter) that steps with each use, eagerly and inside a Program.

The numbers are counter-based (Philox), so the state is all there is to save, and equal states give equal numbers
whatever the number of threads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.ops import internal
from framework.tensors import Tensor, tensor


class Generator:
    """A stream of random keys.

    Attributes:
        state: int64 [2], (seed, counter); persistable, so a Program that draws moves it on at each run.
    """

    def __init__(self, seed: int = 0) -> None:
        self.state = tensor(np.array([seed, 0], np.int64))
        self.state.persistable = True

    def key(self) -> Tensor:
        """The next key, int64 [2], for one random operator (`ops.dropout`, `ops.random_normal` ...)."""
        with no_grad():
            key, following = internal.rng_next(self.state)
            self.state.set(following)
        return key

    def seed(self, seed: int) -> None:
        """Starts the stream `seed` from its beginning."""
        self.state.set(tensor(np.array([seed, 0], np.int64)))

    def get_state(self) -> list[int]:
        """[seed, counter], for a checkpoint."""
        return [int(v) for v in self.state.tolist()]

    def set_state(self, state: list[int]) -> None:
        """Continues from what `get_state` gave."""
        if len(state) != 2 or any(int(v) != v for v in state):
            raise AttributeValueError(f"Generator: state {state!r} is not [seed, counter], two whole numbers")
        self.state.set(tensor(np.array(state, np.int64)))


default_generator = Generator(0)


@contextlib.contextmanager
def own_stream(seed: int = 0) -> Iterator[None]:
    """Inside, the default generator draws from the stream `seed`; afterwards it goes on as if nothing had drawn."""
    state = default_generator.get_state()
    default_generator.seed(seed)
    try:
        yield
    finally:
        default_generator.set_state(state)


def seed(seed: int) -> None:
    """Restarts the default generator, which layers such as Dropout draw from."""
    default_generator.seed(seed)
