#!/usr/bin/env python3
"""Claim: training on click logs is faster than in PyTorch's best mode: DeepFM, LR, FM, DIN and DCN-V2.

    python benchmarks/ctr_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager compile]

Each round runs tools/bench.py and the peer in every mode. DeepFM's eager peer is peers/torch_cases.py; the
others, and all that are compiled, are benchmarks/ctr_peers.py: the same networks on the same kind of log,
`nn.Embedding(sparse=True)` with SparseAdam.
"""

from __future__ import annotations

import argparse

from common import PEERS, ROOT, Claim, Competitor, has_modules
from competitors import compare_cases, options, ours, torch_modes

CLAIMS = [
    Claim("deepfm_train_b512", 2.0, 2.4),
    Claim("deepfm_train_b4096", 1.7, 2.0),
    Claim("lr_train_b4096", 5.0, 5.0),
    Claim("fm_train_b4096", 5.0, 5.0),
    Claim("din_train_b512", 2.0, 2.0),
    Claim("dcnv2_train_b4096", 2.0, 2.0),
]


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch in every mode that says something about a network without images."""
    found = [ours(case, a)]
    if not has_modules(a.peer_python, "torch"):
        return found + torch_modes(case, a)  # which says how to install it
    for mode in (mode for mode in a.modes if mode != "channels_last"):
        shared = case.startswith("deepfm") and mode == "eager"
        script = PEERS / "torch_cases.py" if shared else ROOT / "benchmarks" / "ctr_peers.py"
        found.append(Competitor(f"torch {mode}", [a.peer_python, str(script), "--mode", mode, *options(case, a)]))
    return found


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    return compare_cases("ctr_vs_torch", __doc__, CLAIMS, competitors, words, baseline="torch eager")


if __name__ == "__main__":
    main()
