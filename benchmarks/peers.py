"""Ours and PyTorch as competitors, and the command line of a comparison with peers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from common import OURS, Claim, Competitor, has_modules, run_claims

MODES = ("eager", "channels_last", "compile")


def options(case: str, a: argparse.Namespace) -> list[str]:
    """The words that tools/bench.py and every peer take."""
    return [case, "--threads", str(a.threads), "--seconds", str(a.seconds)]


def ours(case: str, a: argparse.Namespace) -> Competitor:
    """tools/bench.py."""
    return Competitor(OURS, [sys.executable, "tools/bench.py", *options(case, a)])


def torch_modes(case: str, a: argparse.Namespace) -> list[Competitor]:
    """PyTorch in every mode asked for; none, and a word how to install it, where it is missing."""
    if not (a.peers / "peer_torch.py").exists():
        print(
            f"PyTorch is left out: {a.peers}/peer_torch.py is not there; name its folder with --peers", file=sys.stderr
        )
        return []
    if not has_modules(a.peer_python, "torch"):
        print(
            f"PyTorch is left out: {a.peer_python} does not have it. Install it with `pip install torch==2.13.0` into "
            "an environment of its own, and name that one's interpreter with --peer-python",
            file=sys.stderr,
        )
        return []
    peer = [a.peer_python, str(a.peers / "peer_torch.py")]
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
