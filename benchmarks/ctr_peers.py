#!/usr/bin/env python3
"""PyTorch on the networks of tools/bench_cases/ctr.py that peers/torch_cases.py does not have.

    python ctr_peers.py [--mode eager|compile] [--threads N] [--seconds S] [CASE ...]

Prints one JSON line a case, as peers/torch_cases.py does. Rows are `nn.Embedding(sparse=True)` with SparseAdam, dense
weights have Adam. DIN pads histories to the longest of the batch and masks them, as DeepCTR and FuxiCTR do.

PyTorch 2.13 cannot compile a look-up whose gradient is sparse ("Cannot access storage of SparseTensorImpl"). The mode
`compile` leaves the look-up as it is and compiles the network behind it. DeepFM is here for this mode;
peers/torch_cases.py has it eager.
"""

from __future__ import annotations

import argparse
import itertools
import json

import torch
from common import time_steps
from torch import nn
from torch.nn import functional as F

SLOTS, ROWS, DENSE, POOL, HISTORY = 26, 100_000, 13, 8, 50


class Sparse(nn.Module):
    """All slots in one table."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(SLOTS * ROWS, dim, sparse=True)
        nn.init.normal_(self.table.weight, std=0.01)

    @torch.compiler.disable
    def rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows [..., dim] of ids [...]; never compiled."""
        return self.table(ids)


class LR(Sparse):
    """A weight a value."""

    def __init__(self) -> None:
        super().__init__(1)
        self.dense = nn.Linear(DENSE, 1)

    def forward(
        self, ids: torch.Tensor, dense: torch.Tensor, history: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Logits [N]."""
        return self.rows(ids).sum((1, 2)) + self.dense(dense)[:, 0]


class FM(Sparse):
    """Weight and vector of a value in one row."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__(1 + dim)
        self.dense = nn.Linear(DENSE, 1)

    def forward(
        self, ids: torch.Tensor, dense: torch.Tensor, history: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Logits [N]."""
        rows = self.rows(ids)
        e = rows[..., 1:]
        s = e.sum(1)
        return rows[..., 0].sum(1) + 0.5 * (s * s - (e * e).sum(1)).sum(1) + self.dense(dense)[:, 0]


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers with relu."""
    return nn.Sequential(*[m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())])


class DeepFM(Sparse):
    """Pairs of vectors and three hidden layers, which share the vectors; weight and vector of a value in one row."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__(1 + dim)
        self.dense = nn.Linear(DENSE, 1)
        self.mlp, self.head = mlp(SLOTS * dim + DENSE, 400, 400, 400), nn.Linear(400, 1)

    def forward(
        self, ids: torch.Tensor, dense: torch.Tensor, history: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Logits [N]."""
        rows = self.rows(ids)
        e = rows[..., 1:]
        s = e.sum(1)
        fm = 0.5 * (s * s - (e * e).sum(1)).sum(1)
        deep = self.head(self.mlp(torch.cat([e.flatten(1), dense], 1)))[:, 0]
        return rows[..., 0].sum(1) + fm + self.dense(dense)[:, 0] + deep


class DCNv2(Sparse):
    """Three cross layers beside three hidden ones."""

    def __init__(self, dim: int = 16, layers: int = 3) -> None:
        super().__init__(dim)
        size = SLOTS * dim + DENSE
        self.crosses = nn.ModuleList(nn.Linear(size, size) for _ in range(layers))
        self.mlp, self.head = mlp(size, 400, 400, 400), nn.Linear(size + 400, 1)

    def forward(
        self, ids: torch.Tensor, dense: torch.Tensor, history: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Logits [N]."""
        x = x0 = torch.cat([self.rows(ids).flatten(1), dense], 1)
        for layer in self.crosses:
            x = x0 * layer(x) + x
        return self.head(torch.cat([x, self.mlp(x0)], 1))[:, 0]


class Dice(nn.Module):
    """Dice over the last axis."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm, self.alpha = nn.BatchNorm1d(channels, eps=1e-9, affine=False), nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x, y: [..., C]."""
        p = torch.sigmoid(self.norm(x.flatten(0, -2)).view_as(x))
        return p * x + (1 - p) * self.alpha * x


class DIN(Sparse):
    """Attention to a padded history."""

    def __init__(self, dim: int = 16) -> None:
        super().__init__(dim)
        self.unit = nn.Sequential(nn.Linear(4 * dim, 64), Dice(64), nn.Linear(64, 32), Dice(32), nn.Linear(32, 1))
        self.mlp, self.head = mlp((SLOTS + 1) * dim + DENSE, 200, 80), nn.Linear(80, 1)

    def forward(
        self, ids: torch.Tensor, dense: torch.Tensor, history: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Logits [N]."""
        e, h = self.rows(ids), self.rows(history)
        t = e[:, :1].expand_as(h)
        scores = self.unit(torch.cat([h, t, h - t, h * t], 2))
        there = torch.arange(history.shape[1])[None, :, None] < lengths[:, None, None]
        pooled = (torch.where(there, scores, 0.0) * h).sum(1)
        return self.head(self.mlp(torch.cat([e.flatten(1), dense, pooled], 1)))[:, 0]


CASES = {
    "deepfm_train_b512": (DeepFM, 512),
    "deepfm_train_b4096": (DeepFM, 4096),
    "lr_train_b4096": (LR, 4096),
    "fm_train_b4096": (FM, 4096),
    "din_train_b512": (DIN, 512),
    "dcnv2_train_b4096": (DCNv2, 4096),
}


def batches(size: int, history: bool) -> list[tuple[torch.Tensor, ...]]:
    """The log of tools/bench_cases/ctr.py: skewed ids, histories of 1 to 50 values, the short ones often."""
    g = torch.Generator().manual_seed(0)
    found: list[tuple[torch.Tensor, ...]] = []
    for _ in range(POOL):
        ids = (torch.rand(size, SLOTS, generator=g) ** 4 * ROWS).long() + torch.arange(SLOTS) * ROWS
        lengths = 1 + (torch.rand(size, generator=g) ** 2 * HISTORY).long()
        longest = int(lengths.max()) if history else 0
        past = (torch.rand(size, longest, generator=g) ** 4 * ROWS).long()
        label = (torch.rand(size, generator=g) < 0.25).float()
        found.append((ids, torch.rand(size, DENSE, generator=g), past, lengths, label))
    return found


def measure(case: str, mode: str, seconds: float) -> dict[str, object]:
    """The JSON fields of one case."""
    torch.manual_seed(0)
    make, size = CASES[case]
    net = make()
    call = torch.compile(net, dynamic=make is DIN) if mode == "compile" else net
    rows = [net.table.weight]
    rest = [p for p in net.parameters() if p is not net.table.weight]
    optimizers = [torch.optim.SparseAdam(rows, 1e-3), torch.optim.Adam(rest, 1e-3)]
    pool, at = batches(size, make is DIN), 0

    def step() -> None:
        nonlocal at
        *inputs, label = pool[at % POOL]
        at += 1
        for optimizer in optimizers:
            optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(call(*inputs), label).backward()
        for optimizer in optimizers:
            optimizer.step()

    found = time_steps(step, seconds)
    rate = round(size / found["step_ms"] * 1e3, 3)
    return {"peer": f"torch-{torch.__version__}-{mode}", "case": case, "unit": "samples/s", "rate": rate, **found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--mode", default="eager", choices=["eager", "compile"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.cases or CASES:
        print(json.dumps(measure(name, arguments.mode, arguments.seconds)), flush=True)
