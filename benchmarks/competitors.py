"""Ours and PyTorch as competitors, and the command line of a comparison with peers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import OURS, PEERS, Claim, Competitor, has_modules, run_claims, time_steps

MODES = ("eager", "channels_last", "compile")


def options(case: str, a: argparse.Namespace) -> list[str]:
    """The words that tools/bench.py and every peer take."""
    return [case, "--threads", str(a.threads), "--seconds", str(a.seconds)]


def ours(case: str, a: argparse.Namespace) -> Competitor:
    """tools/bench.py."""
    return Competitor(OURS, [sys.executable, "tools/bench.py", *options(case, a)])


def torch_modes(case: str, a: argparse.Namespace) -> list[Competitor]:
    """PyTorch in every mode asked for; none, and a word how to install it, where it is missing."""
    if not has_modules(a.peer_python, "torch"):
        print(
            f"PyTorch is left out: {a.peer_python} does not have it. Install it with `pip install torch==2.13.0` into "
            "an environment of its own, and name that one's interpreter with --peer-python",
            file=sys.stderr,
        )
        return []
    peer = [a.peer_python, str(PEERS / "torch_cases.py")]
    return [Competitor(f"torch {mode}", [*peer, "--mode", mode, *options(case, a)]) for mode in a.modes]


def peer_modes(script: str, peer: str, modules: Sequence[str], case: str, a: argparse.Namespace) -> list[Competitor]:
    """A script's own peer in every mode asked for; none, and a word why, where its modules are missing."""
    if not has_modules(a.peer_python, *modules):
        print(f"{peer} is left out: {a.peer_python} has no {' or no '.join(modules)}", file=sys.stderr)
        return []
    return [
        Competitor(f"{peer} {mode}", [a.peer_python, script, "--side", mode, *options(case, a)]) for mode in a.modes
    ]


def compare_cases(
    name: str,
    doc: str | None,
    claims: Sequence[Claim],
    competitors: Callable[[str, argparse.Namespace], list[Competitor]],
    words: list[str] | None,
    baseline: str | None = None,
) -> list[dict]:
    """Measure the cases of a command line, print the table and return the results by case.

    Args:
        name: of the benchmark, in the file of results.
        doc: the script's description.
        claims: what is promised, a case each.
        competitors: ours and the peers of a case.
        words: of the command line; None for the process's.
        baseline: the competitor that memory is compared with.
    """
    return run_claims(name, doc, claims, competitors, lambda a: None, words, baseline=baseline, modes=MODES)


def compare_networks(
    script: str,
    doc: str | None,
    claims: Sequence[Claim],
    peer_step: Callable[[str, str], tuple[Callable[[], Any], int]],
    unit_of: Callable[[str], str],
    words: list[str] | None,
) -> list[dict]:
    """The command line of a comparison whose peer is the same network in PyTorch, written in this repository.

    Args:
        script: file of the benchmark, which runs itself with --side in the peer's interpreter.
        doc: its description.
        claims: what is promised, a case of tools/bench.py each.
        peer_step: a training step in PyTorch of (case, mode), and the items of its batch.
        unit_of: what is counted in a second of a case.
        words: of the command line; None for the process's.
    """

    def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
        return [ours(case, a), *peer_modes(script, "torch", ("torch",), case, a)]

    def run_peer(a: argparse.Namespace) -> None:
        import torch

        torch.set_num_threads(a.threads)
        case = a.cases[0]
        step, items = peer_step(case, a.side)
        found = time_steps(step, a.seconds)
        rate = round(items / found["step_ms"] * 1e3, 3)
        print(json.dumps({"case": case, "unit": unit_of(case), "rate": rate, **found}))

    name = Path(script).stem
    return run_claims(name, doc, claims, competitors, run_peer, words, baseline="torch eager", modes=MODES)
