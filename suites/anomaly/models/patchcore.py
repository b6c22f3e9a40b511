"""PatchCore: the nearest of a bank of good features (Roth et al. 2021, arXiv:2106.08265).

Letters: N pictures, P positions, D numbers a position, M vectors of the bank, b neighbours, T vectors gathered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from framework import ops
from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.anomaly.models.base import AnomalyModel, Fit, megabytes
from suites.engine.registry import register
from suites.vision.backbones import Backbone

_FAR = 1e30  # squared length of places of the bank that nothing fills
_ROWS = 1024  # of distances at a time, while neighbours are found
_BLOCK = 1024  # vectors of the bank that pictures are compared with at a time


@register("anomaly_model")
class PatchCore(AnomalyModel):
    """The distance of each position's features from the nearest of those of good pictures, at any place.

    The score is that of the position that is farthest, less where the bank is thin around its nearest vector.

    Args:
        backbone: its maps are smoothed over 3 x 3 cells and joined at the size of the finest.
        size: H and W of the pictures, one number or two.
        bank: M, vectors that are kept of all; in the paper 1 to 25 of a hundred.
        gathered: T, vectors that M are chosen of at most; of more, each is as likely to be among them.
        neighbours: b, of the bank, that the score is weighed by; 1 for no weights.
        projection: numbers to which vectors are projected at random while M are chosen.
        smooth: sigma of the Gaussian over the heat map, in pixels.
    """

    bank: Tensor
    squares: Tensor
    neighbours: Tensor

    def __init__(
        self,
        backbone: Backbone,
        size: int | list[int] = 224,
        bank: int = 2048,
        gathered: int = 200_000,
        neighbours: int = 9,
        projection: int = 128,
        smooth: float = 4.0,
    ) -> None:
        super().__init__(backbone, size, smooth)
        if not 1 <= neighbours <= bank <= gathered or projection < 1:
            raise AttributeValueError(
                f"PatchCore: neighbours is {neighbours}, bank {bank}, gathered {gathered} and projection {projection}; "
                "needed is 1 <= neighbours <= bank <= gathered, and a projection of 1 or more"
            )
        self._width = sum(backbone.channels)
        self._gathered, self._near, self._projection = gathered, neighbours, projection
        self.register_buffer("bank", np.zeros((bank, self._width), np.float32))
        self.register_buffer("squares", np.full(bank, _FAR, np.float32))
        self.register_buffer("neighbours", np.zeros((bank, neighbours), np.int64))

    def embed(self, images: Tensor) -> Tensor:
        """images: [N, H, W, 3]; y: [N, P, D], each map's mean over 3 x 3 cells."""
        means = [ops.avg_pool2d(found, kernel=3, stride=1, padding=1) for found in self.backbone(images)]
        maps = [means[0], *(ops.resize_bilinear(found, size=self.grid) for found in means[1:])]
        return ops.reshape(ops.concat(maps, axis=3), (0, -1, self._width))

    def compare(self, rows: Tensor) -> tuple[Tensor | None, Tensor]:
        """rows: [N, P, D]; scores [N] by equation 7 of the paper, and distances [N, P] to the nearest of the bank."""
        near = ops.sqrt(self._nearest(rows))
        score = ops.max(near, axes=(1,))
        if self._near == 1:
            return score, near
        at = ops.tile(ops.argmax(near, axis=1, keepdims=True)[:, :, None], (1, 1, self._width))
        row = self._apart(ops.squeeze(ops.take_along_axis(rows, at, axis=1), axis=1), slice(None))  # [N, M]
        around = ops.gather(self.neighbours, ops.argmin(row, axis=1))  # [N, b], the nearest itself first
        shares = ops.softmax(ops.sqrt(ops.take_along_axis(row, around, axis=1)), axis=1)
        return score * (1.0 - shares[:, 0]), near

    def _nearest(self, rows: Tensor) -> Tensor:
        """rows: [N, P, D]; squared distances to the nearest of the bank, [N, P], a block of the bank at a time.

        Products of large numbers say which is nearest; the distance itself is that of the differences, which is exact.
        """
        least, places = self._in_block(rows, 0)
        for first in range(_BLOCK, len(self.bank), _BLOCK):
            found, there = self._in_block(rows, first)
            places = ops.where(found < least, there, places)
            least = ops.minimum(found, least)
        return ops.sum(ops.square(rows - ops.gather(self.bank, places)), axes=(2,))

    def _in_block(self, rows: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Squared distances [N, P] to the nearest of a block of the bank, and its places in the bank."""
        apart = self._apart(rows, slice(first, first + _BLOCK))
        return ops.min(apart, axes=(2,)), ops.argmin(apart, axis=2) + first

    def _apart(self, rows: Tensor, part: slice) -> Tensor:
        """rows: [..., D]; squared distances [..., M'] from each of M' vectors of the bank."""
        lengths = ops.sum(ops.square(rows), axes=(-1,), keepdims=True)
        products = ops.matmul(rows, self.bank[part], transpose_b=True)
        return ops.maximum(lengths + self.squares[part] - 2.0 * products, 0.0)

    def fit(self, seed: int) -> Coreset:
        """A bank without vectors."""
        return Coreset(len(self.bank), self._width, self._gathered, self._near, self._projection, seed)

    def memory(self, pictures: int) -> str:
        """Size of the bank and of what it is chosen of."""
        patches = pictures * self.grid[0] * self.grid[1]
        held = min(patches, self._gathered)
        return (
            f"PatchCore: {patches:,} vectors of {self._width} numbers, of which {held:,} are gathered at most "
            f"({megabytes(held, self._width)}) and {min(held, len(self.bank)):,} kept "
            f"({megabytes(len(self.bank), self._width)}); a picture takes "
            f"{megabytes(self.grid[0] * self.grid[1], min(_BLOCK, len(self.bank)))} to compare"
        )


class Coreset(Fit):
    """Gathers vectors, and keeps those that no other is far from.

    Args:
        size: M.
        width: D.
        most: T; of more vectors each is as likely to be gathered.
        neighbours: b.
        projection: numbers to which vectors are projected at random while they are chosen.
        seed: of what is drawn.
    """

    def __init__(self, size: int, width: int, most: int, neighbours: int, projection: int, seed: int) -> None:
        self._size, self._most, self._near = size, most, neighbours
        self._projection, self._seed = projection, seed
        self._rows = np.zeros((0, width), np.float32)
        self._seen = 0

    def add(self, rows: np.ndarray) -> None:
        """Takes in pictures [N, P, D]: algorithm R (Vitter 1985), its draws by how many were seen before."""
        rows = rows.reshape(-1, rows.shape[-1])
        room = self._most - len(self._rows)
        if room:
            self._rows = np.concatenate([self._rows, rows[:room]])
        late = rows[room:]
        if len(late):
            first = self._seen + room + 1
            rng = np.random.default_rng((self._seed, self._seen))
            places = rng.integers(0, np.arange(first, first + len(late)))
            kept = places < self._most
            self._rows[places[kept]] = late[kept]
        self._seen += len(rows)

    def settle(self) -> dict[str, np.ndarray]:
        """`bank` [M, D], `squares` [M] of lengths, and `neighbours` [M, b] of each in the bank, itself first."""
        if not len(self._rows):
            raise DataError("PatchCore: no good picture was fitted, besides those that are held back for the threshold")
        chosen = self._rows[spread_out(self._projected(), self._size, self._seed)]
        count, width = chosen.shape
        bank = np.zeros((self._size, width), np.float32)
        squares = np.full(self._size, _FAR, np.float32)
        bank[:count], squares[:count] = chosen, np.square(chosen).sum(axis=1)
        return {"bank": bank, "squares": squares, "neighbours": nearest(chosen, self._size, self._near)}

    def _projected(self) -> np.ndarray:
        """The vectors in fewer numbers, their distances about the same (Johnson and Lindenstrauss 1984)."""
        width = self._rows.shape[1]
        if width <= self._projection:
            return self._rows
        rng = np.random.default_rng((self._seed, 1))
        drawn = rng.standard_normal((width, self._projection)) / np.sqrt(self._projection)
        found: np.ndarray = self._rows @ drawn.astype(np.float32)
        return found

    def state_dict(self) -> dict[str, Any]:
        """The vectors, and how many were seen."""
        return {"rows": self._rows, "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes up what `state_dict` returned."""
        self._rows, self._seen = np.array(state["rows"], np.float32), int(state["seen"])


def spread_out(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Places of `count` of T rows [T, D], each the farthest from those before it (Gonzalez 1985); the first is drawn.

    Fewer where rows repeat; all of them, in order, where there are no more than `count`.
    """
    if len(rows) <= count:
        return np.arange(len(rows))
    lengths = np.square(rows).sum(axis=1)
    at = int(np.random.default_rng((seed, 2)).integers(len(rows)))
    chosen, apart = [], np.full(len(rows), np.inf, np.float32)
    for _ in range(count):
        chosen.append(at)
        np.minimum(apart, lengths + lengths[at] - 2 * (rows @ rows[at]), out=apart)
        apart[at] = -np.inf
        at = int(apart.argmax())
        if not apart[at] > 0:
            break
    return np.array(chosen)


def nearest(rows: np.ndarray, places: int, count: int) -> np.ndarray:
    """int64 [places, count]: the nearest rows of each row, itself first; of fewer rows the last one again."""
    found = np.zeros((places, count), np.int64)
    lengths = np.square(rows).sum(axis=1)
    for first in range(0, len(rows), _ROWS):
        part = slice(first, min(first + _ROWS, len(rows)))
        apart = lengths - 2 * rows[part] @ rows.T
        apart[np.arange(part.stop - first), np.arange(first, part.stop)] = -np.inf
        order = np.argsort(apart, axis=1, kind="stable")[:, :count]
        found[part] = np.pad(order, ((0, 0), (0, count - order.shape[1])), mode="edge")
    return found
