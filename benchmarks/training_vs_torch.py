#!/usr/bin/env python3
"""Claim: how fast a training step is against PyTorch's best mode, on the same cores, in turns.

    python benchmarks/training_vs_torch.py [CASE ...] [--rounds 3] [--seconds 8] [--peer-python PYTHON]

Each round runs tools/bench.py and the peer (../shared/bench/peer_torch.py) in every mode, each in a fresh process, so
that a slow moment of a shared machine hits all alike. Prints the median rate of each, the ratio of ours to the best
peer mode with its range over the rounds, and the peak memory.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_CASES = ["yolov3_mobilenetv1_train_b8_320"]


def measure(command: list[str]) -> dict:
    """The JSON line that a benchmark process prints."""
    out = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if out.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{out.stderr}")
    return json.loads(out.stdout.strip().splitlines()[-1])


def compare(case: str, args: argparse.Namespace) -> None:
    """Runs one case in turns and prints its table."""
    options = [case, "--threads", str(args.threads), "--seconds", str(args.seconds)]
    commands = {"paddock": [sys.executable, "tools/bench.py", *options]}
    for mode in args.modes:
        commands[f"torch {mode}"] = [args.peer_python, str(args.peer), "--mode", mode, *options]
    rounds = [{name: measure(command) for name, command in commands.items()} for _ in range(args.rounds)]
    print(f"{case}, {args.threads} threads, {args.rounds} rounds")
    for name in commands:
        rates = [r[name]["rate"] for r in rounds]
        memory = max(r[name]["peak_rss_mb"] for r in rounds)
        spread = f"[{min(rates):.3f}, {max(rates):.3f}]"
        print(f"  {name:22} {statistics.median(rates):8.3f} {rounds[0][name]['unit']}  {spread}  peak {memory} MB")
    ratios = [r["paddock"]["rate"] / max(v["rate"] for k, v in r.items() if k != "paddock") for r in rounds]
    print(f"  ratio to the best peer  {statistics.median(ratios):.2f}x  [{min(ratios):.2f}, {max(ratios):.2f}]")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=DEFAULT_CASES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--modes", nargs="+", default=["eager", "channels_last"])
    parser.add_argument("--peer", type=Path, default=ROOT.parent / "shared" / "bench" / "peer_torch.py")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter with PyTorch installed")
    arguments = parser.parse_args()
    for name in arguments.cases:
        compare(name, arguments)
