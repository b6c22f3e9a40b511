#!/usr/bin/env python3
"""Claim: a training step is faster than in PyTorch's best mode, in less memory than its eager mode.

    python benchmarks/training_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager channels_last compile]

Each round runs tools/bench.py and the peer (../shared/bench/peer_torch.py) in every mode: forward, loss, backward and
the optimizer's update on the same shapes, in float32. Memory is the process's largest resident size.
"""

from __future__ import annotations

import argparse
import sys

from common import OURS, Claim, Competitor, add_options, chosen_cases, compare, finish, has_modules, in_turns, table

CLAIMS = [
    Claim("resnet50_train_b8_224", 1.4, 1.8),
    Claim("tsn_resnet50_train_b2_t4_224", 1.4, 1.8),
    Claim("yolov3_darknet53_train_b4_320", 1.8, 2.6),
    Claim("yolov3_mobilenetv1_train_b8_320", 1.4, 2.0),
    Claim("deeplabv3p_mobilenetv2_train_b4_256", 1.3, 1.8),
]
MODES = ("eager", "channels_last", "compile")


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch in every mode where it is installed."""
    options = [case, "--threads", str(a.threads), "--seconds", str(a.seconds)]
    found = [Competitor(OURS, [sys.executable, "tools/bench.py", *options])]
    if not (a.peers / "peer_torch.py").exists():
        print(
            f"PyTorch is left out: {a.peers}/peer_torch.py is not there; name its folder with --peers", file=sys.stderr
        )
    elif not has_modules(a.peer_python, "torch"):
        print(
            f"PyTorch is left out: {a.peer_python} does not have it. Install it with `pip install torch==2.13.0` into "
            "an environment of its own, and name that one's interpreter with --peer-python",
            file=sys.stderr,
        )
    else:
        peer = [a.peer_python, str(a.peers / "peer_torch.py")]
        found += [Competitor(f"torch {mode}", [*peer, "--mode", mode, *options]) for mode in a.modes]
    return found


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, [claim.case for claim in CLAIMS])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    a = parser.parse_args(words)
    results = []
    for claim in chosen_cases(a, CLAIMS):
        print(f"{claim.case}, {a.threads} threads, {a.rounds} rounds", file=sys.stderr)
        results.append(compare(claim, in_turns(competitors(claim.case, a), a.rounds, a.prefix), baseline="torch eager"))
    print(table(results))
    finish("training_vs_torch", results, a.json)
    return results


if __name__ == "__main__":
    main()
