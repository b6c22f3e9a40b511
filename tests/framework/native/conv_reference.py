"""A convolution's geometry, its three passes in float64 NumPy and through the operators, and what rounding may cost."""

from dataclasses import dataclass

import numpy as np

import framework
from framework import ops
from framework.ops import internal

PASSES = ("forward", "grad_input", "grad_weight")


@dataclass(frozen=True)
class Case:
    """One geometry: extents by the letters of the operator's documentation, pairs as (height, width)."""

    N: int
    H: int
    W: int
    C: int
    K: int
    R: int
    S: int
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)  # top, bottom, left, right
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def out(self) -> tuple[int, int]:
        t, b, le, r = self.padding
        p = (self.H + t + b - self.dilation[0] * (self.R - 1) - 1) // self.stride[0] + 1
        q = (self.W + le + r - self.dilation[1] * (self.S - 1) - 1) // self.stride[1] + 1
        return p, q

    @property
    def attrs(self) -> dict:
        return {k: getattr(self, k) for k in ("stride", "padding", "dilation", "groups")}

    @property
    def winograd(self) -> bool:
        """Whether there is one: for plain 3 x 3 kernels, and for dilated ones that keep the image's size."""
        (h, w), plain = self.dilation, self.dilation == (1, 1)
        keeps = self.padding == (h, h, w, w)
        return (self.R, self.S, self.stride, self.groups) == (3, 3, (1, 1), 1) and (plain or keeps)

    def arrays(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((self.N, self.H, self.W, self.C))
        w = rng.standard_normal((self.K, self.R, self.S, self.C // self.groups))
        dy = rng.standard_normal((self.N, *self.out, self.K))
        return x, w, dy

    def terms(self, which: str) -> int:
        p, q = self.out
        taps = self.R * self.S
        sizes = (taps * self.C // self.groups, taps * self.K // self.groups, self.N * p * q)
        return sizes[PASSES.index(which)]


def reference(case: Case, x: np.ndarray, w: np.ndarray, dy: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(y, dx, dw) in float64, tap by tap."""
    top, bottom, left, right = case.padding
    (P, Q), g = case.out, case.groups
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    by_group = lambda image: image.reshape(case.N * P * Q, g, -1).swapaxes(0, 1)  # noqa: E731  [g, pixels, channels]
    wg = w.reshape(g, case.K // g, case.R, case.S, -1)
    dyg = by_group(dy)
    y, dw, dpadded = np.zeros_like(dyg), np.zeros_like(w), np.zeros_like(padded)
    for r in range(case.R):
        for s in range(case.S):
            h0, w0 = r * case.dilation[0], s * case.dilation[1]
            rows = slice(h0, h0 + (P - 1) * case.stride[0] + 1, case.stride[0])
            columns = slice(w0, w0 + (Q - 1) * case.stride[1] + 1, case.stride[1])
            seen, tap = by_group(padded[:, rows, columns]), wg[:, :, r, s]
            y += seen @ tap.swapaxes(1, 2)
            dw[:, r, s] = (dyg.swapaxes(1, 2) @ seen).reshape(case.K, -1)
            dpadded[:, rows, columns] += (dyg @ tap).swapaxes(0, 1).reshape(case.N, P, Q, case.C)
    dx = dpadded[:, top : top + case.H, left : left + case.W]
    return y.swapaxes(0, 1).reshape(case.N, P, Q, case.K), dx, dw


def compute(case: Case, x: np.ndarray, w: np.ndarray, dy: np.ndarray, algorithm: str) -> list[np.ndarray]:
    tx, tw, tdy = (framework.tensor(a) for a in (x, w, dy))
    attrs = {**case.attrs, "algorithm": algorithm}
    return [
        ops.conv2d(tx, tw, **attrs).numpy(),
        internal.conv2d_grad_input(tdy, tw, tx, **attrs).numpy(),
        internal.conv2d_grad_weight(tx, tdy, tw, **attrs).numpy(),
    ]


def worst_case(case: Case, which: str, sizes: np.ndarray, dtype: type) -> np.ndarray:
    """Bound of the error of a sum of rounded products whose absolute values sum to `sizes`.

    Inputs are exact in both types. The reference, in float64, has an error of the same form.
    """
    n = case.terms(which) + 1
    u, u64 = np.finfo(dtype).eps / 2, np.finfo(np.float64).eps / 2
    return (n * u / (1 - n * u) + n * u64 / (1 - n * u64)) * sizes
