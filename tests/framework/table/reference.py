"""A table as a Python dict with rules in NumPy's float64: what the native one is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

MASK = 0xFFFFFFFF


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 (Salmon et al. 2011) in Python's integers."""
    (k0, k1), (a, b, c, d) = key, counter
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ k0, q & MASK, (p >> 32) ^ d ^ k1, p & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


def block(seed: int, key: int, index: int, purpose: int = 0) -> tuple[int, int, int, int]:
    """Four words that depend on seed and key."""
    return philox((seed & MASK, seed >> 32), (key & MASK, (key >> 32) & MASK, index, purpose))


def unit(word: int) -> float:
    """24 bits in [0, 1)."""
    return (word >> 8) / 2**24


def initial(seed: int, key: int, parts: list[tuple[int, str, float]]) -> np.ndarray:
    """Initial values, float32 [dim], by (columns, kind, scale)."""
    kinds = [(kind, scale) for n, kind, scale in parts for _ in range(n)]
    row = []
    for j, (kind, scale) in enumerate(kinds):
        words = block(seed, key % 2**64, j // 4)
        w = j % 4
        if kind == "uniform":
            row.append(np.float32(scale) * (2 * unit(words[w]) - 1))
        elif kind == "normal":
            first, second = words[w // 2 * 2], words[w // 2 * 2 + 1]
            radius = np.sqrt(-2 * np.log(((first >> 8) + 1) / 2**24))
            angle = 2 * np.pi * unit(second)
            row.append(np.float32(scale) * radius * (np.sin(angle) if w % 2 else np.cos(angle)))
        else:
            row.append(0.0)
    return np.array(row, np.float32)


def sgd(r: dict[str, Any], value: np.ndarray, state: dict[str, Any], g: np.ndarray, lr: float) -> np.ndarray:
    return value - lr * (g + r["weight_decay"] * value)


def adagrad(r: dict[str, Any], value: np.ndarray, state: dict[str, Any], g: np.ndarray, lr: float) -> np.ndarray:
    g = g + r["weight_decay"] * value
    if r["shared"]:
        total = state.get("sum", 0.0)
        state["sum"] = total + np.mean(g * g)
        return value - lr * g * np.sqrt(r["initial"] / (r["initial"] + total))
    state["sum"] = state.get("sum", r["initial"]) + g * g
    return value - lr * g / (np.sqrt(state["sum"]) + r["eps"])


def adam(r: dict[str, Any], value: np.ndarray, state: dict[str, Any], g: np.ndarray, lr: float) -> np.ndarray:
    g = g + r["weight_decay"] * value
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = r["beta1"] * state.get("m", 0.0) + (1 - r["beta1"]) * g
    v = state["v"] = r["beta2"] * state.get("v", 0.0) + (1 - r["beta2"]) * g * g
    return value - lr * (m / (1 - r["beta1"] ** t)) / (np.sqrt(v / (1 - r["beta2"] ** t)) + r["eps"])


def ftrl(r: dict[str, Any], value: np.ndarray, state: dict[str, Any], g: np.ndarray, lr: float) -> np.ndarray:
    """Algorithm 1 of McMahan et al. 2013; z begins where it stands for the value that is there."""
    n = state.get("n", np.zeros_like(value))
    start = -value * (r["beta"] / lr + r["weight_decay"]) - np.sign(value) * r["l1"]
    z = np.where(n == 0, start, state.get("z", start))
    sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / lr
    state["z"] = z = z + g - sigma * value
    state["n"] = n = n + g * g
    new = -(z - np.sign(z) * r["l1"]) / ((r["beta"] + np.sqrt(n)) / lr + r["weight_decay"])
    return np.where(np.abs(z) <= r["l1"], 0.0, new)


RULES: dict[str, Callable[..., np.ndarray]] = {"SGD": sgd, "Adagrad": adagrad, "Adam": adam, "FTRL": ftrl}


class DictTable:
    """Rows by key in a dict, with counters; admission at once."""

    def __init__(self, dim: int, rule: dict[str, Any], parts: list[tuple[int, str, float]], seed: int) -> None:
        self.dim, self.rule, self.parts, self.seed = dim, rule, parts, seed
        self.values: dict[int, np.ndarray] = {}
        self.states: dict[int, dict[str, Any]] = {}
        self.counts: dict[int, list[float]] = {}  # show, click, unseen

    def born(self, key: int) -> np.ndarray:
        return initial(self.seed, key, self.parts).astype(np.float64)

    def lookup(self, keys: np.ndarray) -> np.ndarray:
        rows = [self.values.get(int(k), self.born(int(k))) for k in keys]
        return np.array(rows).reshape(len(keys), self.dim)

    def update(self, keys: np.ndarray, grads: np.ndarray, lr: float, clicks: np.ndarray | None = None) -> None:
        sums: dict[int, np.ndarray] = {}
        for i, k in enumerate(keys.tolist()):
            sums[k] = sums.get(k, 0.0) + grads[i].astype(np.float64)
            count = self.counts.setdefault(k, [0.0, 0.0, 0.0])
            count[0] += 1
            count[1] += 0.0 if clicks is None else float(clicks[i])
            count[2] = 0.0
        for k, g in sums.items():
            before = self.values.get(k, self.born(k))
            state = self.states.setdefault(k, {})
            self.values[k] = RULES[self.rule["type"]](self.rule, before, state, g, lr)

    def shrink(self, decay: float, least: float, most_unseen: int) -> int:
        gone = []
        for k, c in self.counts.items():
            c[0], c[1], c[2] = float(np.float32(c[0]) * np.float32(decay)), c[1] * decay, c[2] + 1
            if 0.1 * (c[0] - c[1]) + c[1] < least or c[2] > most_unseen:
                gone.append(k)
        self.forget(gone)
        return len(gone)

    def forget(self, keys: list[int]) -> None:
        for k in keys:
            for part in (self.values, self.states, self.counts):
                part.pop(k, None)
