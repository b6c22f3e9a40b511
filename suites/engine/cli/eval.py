"""Evaluate runs, or a config with weights: `paddock eval runs/demo`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Print the figures as JSON and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, add_others_option, add_override_option, run
    from suites.engine.hosts.devices import add_device_option, add_products_option
    from suites.engine.train.profiling import StepProfile, add_profile_option

    parser = Parser(prog=prog, description="Evaluate a run, or a config with weights.")
    parser.add_argument(
        "config",
        type=Path,
        nargs="+",
        help="the folder of a run, or a config; of several runs mean and best are given. A run's metrics.json is "
        "renewed; with -o or --weights the figures go to a file of their own beside it",
    )
    add_override_option(parser)
    add_import_option(parser)
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default a run's best weights")
    add_others_option(parser)
    parser.add_argument(
        "--exported", type=Path, help="a folder of `paddock export`: evaluate it in place of the run it came from"
    )
    add_device_option(parser, "the run's own")
    add_products_option(parser)
    add_profile_option(parser, "batches")
    a = parser.parse_args(words)

    def start() -> int:
        if a.exported is not None:
            return _evaluate_export(a)
        from suites.engine.train.seeds import over_runs
        from suites.engine.train.training import evaluate_weights

        folder = a.config[0] if a.config[0].is_dir() else Path()
        profile = StepProfile(folder, say=lambda text: print(text, file=sys.stderr)) if a.profile else None
        how = {"profile": profile, "device": a.device, "products": a.products, "others": a.others}
        figures = {str(c): evaluate_weights(c, a.overrides, a.weights, **how) for c in a.config}
        print(json.dumps(over_runs(figures) if len(figures) > 1 else figures[str(a.config[0])], indent=2))
        return 0

    return run(start, a.imports)


def _evaluate_export(a: argparse.Namespace) -> int:
    from framework.errors import ConfigError
    from suites.engine.predict.inference import evaluate_export

    if len(a.config) > 1 or a.weights is not None or a.profile or a.others:
        raise ConfigError("eval: --exported takes one run, and neither --weights, --with nor --profile")
    where = {"device": a.device, "products": a.products}
    print(json.dumps(evaluate_export(a.config[0], a.exported, a.overrides, **where), indent=2))
    return 0
