"""Train what a config describes: `paddock train detection/yolov3_demo --name demo`.

Everything is imported inside `main`, because each data worker imports this file again when it starts.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Train a run to its end and return the exit status; `words` are the command line."""
    from suites.engine.command_line import INTERRUPTED, run

    words = sys.argv[1:] if words is None else words
    a = parsed(words, prog)

    def get_weights() -> None:
        from suites.engine.weights.wanted import offer_weights

        offer_weights(a.config, a.overrides, fetch_all=a.fetch)

    def start_seeds() -> int:
        from suites.engine.train.seeds import train_seeds

        get_weights()
        options = {"runs": a.runs, "name": a.name, "resume": a.resume, "overwrite": a.overwrite}
        summary = train_seeds(a.config, a.overrides, count=a.seeds, **options)
        if summary is None:
            return INTERRUPTED
        print(json.dumps({key: value for key, value in summary.items() if key != "runs"}, indent=2))
        return 0

    def start_cluster() -> int:
        from suites.engine.train.training import train_on_cluster

        get_weights()
        options = {"runs": a.runs, "name": a.name, "resume": a.resume, "overwrite": a.overwrite}
        whole = train_on_cluster(a.config, a.overrides, address=a.cluster, imports=a.imports, **options)
        return 0 if whole else INTERRUPTED

    def start_rates() -> int:
        from suites.engine.train.training import find_rate

        get_weights()
        found = find_rate(a.config, a.overrides, runs=a.runs, name=a.name, overwrite=a.overwrite)
        return 0 if found.suggestion() is not None else 1

    def start() -> int:
        from suites.engine.train.training import train

        get_weights()
        done = train(
            a.config,
            a.overrides,
            runs=a.runs,
            name=a.name,
            resume=a.resume,
            overwrite=a.overwrite,
            profile=a.profile,
            verbose=a.verbose,
        )
        return INTERRUPTED if done.interrupted else 0

    if a.hosts is not None:
        from suites.engine.hosts.supervising import supervise

        return run(lambda: supervise(words))
    if a.cluster is not None:
        return run(start_cluster, a.imports)
    if a.find_lr:
        return run(start_rates, a.imports)
    return run(start if a.seeds is None else start_seeds, a.imports)


def parsed(words: list[str], prog: str | None = None) -> argparse.Namespace:
    """The command line, with what has an option of its own among the overrides."""
    from suites.engine.command_line import Parser, add_import_option, add_override_option
    from suites.engine.hosts.devices import add_device_option, add_products_option
    from suites.engine.hosts.supervising import add_host_options
    from suites.engine.train.profiling import add_profile_option

    parser = Parser(prog=prog, description="Train what a config describes.")
    parser.add_argument("config", type=Path, help="a config file, the name of one of Paddock's, or a run's folder")
    add_override_option(parser)
    add_import_option(parser)
    parser.add_argument(
        "--fetch", action="store_true", help="fetch published weights that the config names and that are not here yet"
    )
    parser.add_argument("--name", help="name of the run; by default that of the config")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs (default: runs)")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue the run from its last checkpoint")
    existing.add_argument("--overwrite", action="store_true", help="replace a run of this name")
    parser.add_argument("--verbose", action="store_true", help="show details at the start, which log.txt always has")
    parser.add_argument(
        "--seeds", type=int, metavar="N", help="train N runs with seeds from runtime.seed on; give mean and best"
    )
    parser.add_argument(
        "--find-lr",
        action="store_true",
        help="train nothing: try rates from low to high, a step each, and say which schedule.base_lr suits",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="train on many machines: 'local' tries it with a Ray of this machine, 'processes' without Ray, 'auto' "
        "is the cluster that this machine is part of, http://HOST:8265 the dashboard of another one",
    )
    add_device_option(parser, "the config's runtime.device")
    add_products_option(parser)
    parser.add_argument("--devices", type=int, metavar="N", help="of them share each batch (runtime.devices)")
    add_host_options(parser)
    add_profile_option(parser, "steps")
    a = parser.parse_args(words)
    if a.device is not None:
        a.overrides.append(f"runtime.device={a.device}")
    if a.devices is not None:
        a.overrides.append(f"runtime.devices={a.devices}")
    if a.products is not None:
        a.overrides.append(f"runtime.products={a.products}")
    if a.seeds is not None and (a.seeds < 1 or a.profile or a.config.is_dir()):
        parser.error("--seeds takes a number above 0 and a config file, and no --profile")
    if a.find_lr and (a.resume or a.profile or a.config.is_dir() or (a.seeds, a.cluster, a.hosts) != (None,) * 3):
        parser.error("--find-lr takes a config file, and no --resume, --profile, --seeds, --cluster or --hosts")
    if a.cluster is not None and (a.seeds is not None or a.profile):
        parser.error("--cluster takes neither --seeds nor --profile")
    several = [a.hosts, a.host, a.coordinator]
    if several != [None] * 3 and (a.hosts is None or a.seeds is not None or a.cluster is not None):
        parser.error("--host and --coordinator go with --hosts, and --hosts with neither --seeds nor --cluster")
    return a
