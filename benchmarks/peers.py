"""Ours and PyTorch as competitors, and the command line of a comparison with peers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from common import OURS, Claim, Competitor, add_options, chosen_cases, compare, finish, has_modules, in_turns, table

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
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, [claim.case for claim in claims])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    a = parser.parse_args(words)
    results = []
    for claim in chosen_cases(a, claims):
        print(f"{claim.case}, {a.threads} threads, {a.rounds} rounds", file=sys.stderr)
        results.append(compare(claim, in_turns(competitors(claim.case, a), a.rounds, a.prefix), baseline=baseline))
    print(table(results))
    finish(name, results, a.json)
    return results
