"""Poolings: one vector of a feature map. The mean, GeM, and R-MAC.

Letters: N images, H W of a map, C channels.
"""

from __future__ import annotations

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.registry import register, register_role

_LEAST = 1e-6  # of an activation in GeM, as in the authors' code
_OVERLAP = 0.4  # of neighbouring regions of R-MAC, as in the paper


class Pooling(nn.Layer):
    """A map [N, H, W, C] to vectors [N, C]."""

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, C]."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")


register_role("pooling", Pooling, doc="One vector of a feature map.")


@register("pooling")
class Average(Pooling):
    """The mean of the map."""

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, C]."""
        return ops.mean(x, axes=(1, 2))


@register("pooling")
class GeM(Pooling):
    """Generalised mean: (mean x^p)^(1/p) of each channel (Radenovic et al. 2019, arXiv:1711.02512, equation 3).

    p = 1 is the mean, a large p near the maximum. Activations below 1e-6 count as 1e-6.

    Args:
        p: the exponent that it starts with.
        trained: whether p is learned with the network.
    """

    p: Tensor

    def __init__(self, p: float = 3.0, trained: bool = True) -> None:
        super().__init__()
        if not p > 0:
            raise AttributeValueError(f"GeM: p is {p}; it must be above 0")
        self.add_parameter("p", (1,), init.Constant(p))
        self.p.requires_grad = trained

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, C]."""
        each = ops.exp(ops.log(ops.maximum(x, _LEAST)) * self.p)
        return ops.exp(ops.log(ops.mean(each, axes=(1, 2))) / self.p)


@register("pooling")
class RMac(Pooling):
    """Regional maxima: those of square regions at several scales, each at length 1, summed (arXiv:1511.05879).

    At scale l regions have a side of 2 min(H, W) / (l + 1) and overlap by about 40 %. Tolias et al. whiten the regions
    by PCA as well; the projection behind it does that here. The regions follow the map's size, so an export keeps the
    size of picture that it was traced with.

    Args:
        scales: how many, 1 to 6; the paper has 3.
    """

    def __init__(self, scales: int = 3) -> None:
        super().__init__()
        if not 1 <= scales <= 6:
            raise AttributeValueError(f"RMac: scales is {scales}; it must be 1 to 6")
        self._scales = scales

    def forward(self, x: Tensor) -> Tensor:
        """x: [N, H, W, C]; y: [N, C]."""
        found = None
        for top, left, side in regions(int(x.shape[1]), int(x.shape[2]), self._scales):
            most = nn.unit(ops.max(x[:, top : top + side, left : left + side], axes=(1, 2)))
            found = most if found is None else found + most
        assert found is not None
        return found


def regions(height: int, width: int, scales: int) -> list[tuple[int, int, int]]:
    """(top, left, side) of the regions of R-MAC in a map of H x W."""
    short, long = min(height, width), max(height, width)
    # How many more regions the long side has: that with which neighbours' overlap is nearest to 40 %.
    more = 0
    if long > short:
        overlap = {n: ((short * short) - short * ((long - short) / n)) / (short * short) for n in range(1, 7)}
        more = min(overlap, key=lambda n: abs(overlap[n] - _OVERLAP))
    rows, columns = (more if height > width else 0), (more if width > height else 0)
    found = []
    for scale in range(1, scales + 1):
        side = max(2 * short // (scale + 1), 1)
        found += [
            (top, left, side)
            for top in _starts(height, side, scale + rows)
            for left in _starts(width, side, scale + columns)
        ]
    return found


def _starts(length: int, side: int, count: int) -> list[int]:
    """Where `count` intervals of `side` begin that lie evenly in `length`."""
    step = (length - side) / (count - 1) if count > 1 else 0.0
    return [int(step * i) for i in range(count)]
