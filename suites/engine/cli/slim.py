"""Make smaller models and compare them: `paddock slim distil CONFIG --teacher runs/t`, `... prune runs/t`.

`quantize`, `sensitivity` and `compare` take runs of any suite.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Make smaller models, print a table of them and return the exit status; `words` are the command line."""
    from suites.engine.command_line import run
    from suites.engine.slim import commands

    a = _parser(prog).parse_args(words)
    return run(lambda: int(getattr(commands, a.command)(a)), a.imports)


def _parser(prog: str | None) -> argparse.ArgumentParser:
    from suites.engine.command_line import Parser, add_fastest_option, add_rounding_options, add_sixteen_option

    parser = Parser(prog=prog, description="Distil, prune, quantize, compare; each ends with a table.")
    commands = parser.add_subparsers(dest="command", required=True)
    _distil(commands.add_parser("distil", help="train students with a teacher"))
    _prune(commands.add_parser("prune", help="cut channels, or heads, neurons or layers of a BERT, and train on"))
    quantize = commands.add_parser("quantize", help="compute products and convolutions in 8 bits")
    quantize.add_argument("run", type=Path, nargs="+", help="folders of runs")
    quantize.add_argument("--mode", choices=("dynamic", "static"), action="append", help="by default both")
    _calibration_options(quantize)
    add_sixteen_option(quantize)
    add_rounding_options(quantize)
    budget = quantize.add_mutually_exclusive_group()
    budget.add_argument(
        "--most-loss",
        type=float,
        metavar="FIGURE",
        help="also one where as few layers have more than 8 bits, 16 or float32, as lose no more of the main figure, "
        "such as 0.005",
    )
    budget.add_argument(
        "--most-time",
        type=float,
        metavar="SHARE",
        help="also one where as many layers have 16 bits or float32 as fit into this share of float32's time, such as "
        "0.6",
    )
    add_fastest_option(quantize)
    _table_options(quantize)
    sensitivity = commands.add_parser("sensitivity", help="what each layer alone loses in 8 bits")
    sensitivity.add_argument("run", type=Path, help="folder of a run")
    _calibration_options(sensitivity)
    _common_options(sensitivity)
    compare = commands.add_parser("compare", help="only the table")
    compare.add_argument("run", nargs="+", help="folders of runs, also as NAME=RUN")
    compare.add_argument(
        "--int8", choices=("dynamic", "static"), action="append", default=[], help="rows in 8 bits too"
    )
    _table_options(compare)
    return parser


def _distil(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, nargs="+", help="configs of students, with a section `distil`")
    parser.add_argument("--teacher", type=Path, action="append", help="run of a teacher, in place of the configs'")
    parser.add_argument("--alone", action="store_true", help="also train each student without its teacher")
    _run_options(parser)
    _table_options(parser)


def _prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, help="folder of a run")
    share = parser.add_mutually_exclusive_group()
    share.add_argument(
        "--width", type=float, help="share of channels, or of heads and neurons, that stays, such as 0.75"
    )
    share.add_argument("--macs", type=float, help="share of the multiply-adds that stays, such as 0.5")
    share.add_argument("--time", type=float, help="share of the time, measured here, that stays")
    parser.add_argument("--by", choices=("uniform", "sensitivity"), help="how channels are shared out among layers")
    parser.add_argument("--criterion", help="which channels go: l1 (small weights), fpgm (near others) or norm")
    parser.add_argument("--multiple", type=int, help="widths of wide layers are multiples of it (8)")
    parser.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="weights whose channels stay, e.g. 'head.*'"
    )
    parser.add_argument("--heads", type=float, help="of a BERT: share of the heads alone")
    parser.add_argument("--neurons", type=float, help="of a BERT: share of the neurons alone")
    parser.add_argument("--layers", help="of a BERT: how many layers stay, evenly spread; or which, from 1: `2,4,6`")
    parser.add_argument("--batches", type=int, help="to measure importance or sensitivity by (a BERT: all; else 4)")
    parser.add_argument("--no-recovery", action="store_true", help="do not train on")
    _run_options(parser)
    _table_options(parser)


def _run_options(parser: argparse.ArgumentParser) -> None:
    from suites.engine.command_line import add_override_option

    add_override_option(parser)
    parser.add_argument("--name", help="begin of the new runs' names; by default that of the config or run")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of all runs (runs)")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--resume", action="store_true", help="continue runs that are there, begin the others")
    existing.add_argument("--overwrite", action="store_true", help="replace runs of these names")


def _table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        metavar="NAME:PATH=VALUE",
        action="append",
        default=[],
        help="also evaluate on another set: `--set test:data.eval.dataset.path=data/test.tsv`",
    )
    parser.add_argument("--threads", type=int, default=1, help="that compute while times are taken (1)")
    parser.add_argument("--inputs", type=int, default=64, help="examples that are timed (64)")
    _common_options(parser)


def _common_options(parser: argparse.ArgumentParser) -> None:
    from suites.engine.command_line import add_import_option

    add_import_option(parser)
    parser.add_argument("--output", type=Path, default=Path("slim"), help="folder of exported models and table (slim)")


def _calibration_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--method", help="static: abs_max (if none is named), average, percentile, mse or kl")
    parser.add_argument(
        "--calibration",
        action="append",
        default=[],
        metavar="PATH",
        help="static: files or a folder to measure ranges on, in place of training batches",
    )
    parser.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="weights that stay in float32, e.g. 'head.*'"
    )
