"""The command: `python -m suites.ctr.demo --seconds 120`."""

from __future__ import annotations

import argparse
import signal
import sys

from suites.ctr.demo.sources import KINDS
from suites.engine.command_line import Parser, run


def options() -> argparse.ArgumentParser:
    """Return what the command line takes."""
    parser = Parser(
        prog="ctr-demo",
        description="Train on a log with drift, publish, serve and ask at once, and show the figures on a page.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="until it ends; 0 for Ctrl-C only")
    parser.add_argument("--port", type=int, default=8090, help="of the page; 0 takes a free one")
    parser.add_argument("--folder", default="runs/ctr-demo", help="of all files; made anew")
    parser.add_argument("--log", choices=KINDS, default="drawn", help="drawn by a law, or a real piece again and again")
    parser.add_argument("--data", default="../shared/data/ctr", help="folder of the real pieces")
    parser.add_argument("--rows", type=int, default=8192, help="of a span of the log")
    parser.add_argument("--every", type=float, default=1.0, help="seconds of a span")
    parser.add_argument("--publish", type=float, default=3.0, help="seconds between two publications")
    parser.add_argument("--requests", type=float, default=20.0, help="a second")
    parser.add_argument("--items", type=int, default=20, help="rows of a request")
    return parser


def main(words: list[str] | None = None) -> int:
    """Run the demo and return its exit status: 0 at its end, 130 after Ctrl-C, 2 where a part failed."""
    a = options().parse_args(words)

    def start() -> int:
        from suites.ctr.demo.plan import Plan
        from suites.ctr.demo.show import show

        signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
        plan = Plan(a.folder, a.log, a.data, a.rows, a.every, a.publish, a.requests, a.items)
        last = show(plan, a.seconds or None, a.port, lambda text: print(text, flush=True))
        shown = {name: value for name, value in last.items() if isinstance(value, (int, float))}
        print("ctr-demo: done: " + ", ".join(f"{name} {value:.4g}" for name, value in shown.items()))
        print(f"ctr-demo: all figures are in {plan.path('figures.json')}")
        return 0

    return run(start)


if __name__ == "__main__":
    sys.exit(main())
