"""What the commands share: the options `-o` and `--import`, and errors printed as text instead of a traceback."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from framework.errors import PaddockError
from framework.remedies import with_remedy
from suites.engine.config.plugins import import_plugins
from suites.engine.run.log import heard

_MOST, _LONGEST = 1 << 63, 32  # a whole number, and digits that are looked at
INTERRUPTED = 130  # exit status after Ctrl-C, as shells have it


class Parser(argparse.ArgumentParser):
    """Reads a command's words; refuses numbers that no option means: NaN, infinities, more than 64 bits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("type", float, _finite)
        self.register("type", int, _whole)


def natural(text: str) -> int:
    """The whole number of a word, 0 or more, such as a seed."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"is {text}; it must be 0 or more")
    return number


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"is {text!r}, which is no number") from None
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"is {text}; it must be a finite number")
    return number


def _whole(text: str) -> int:
    try:
        number = int(text) if len(text) < _LONGEST else _MOST
    except ValueError:
        raise argparse.ArgumentTypeError(f"is {text!r}, which is no whole number") from None
    if not -_MOST < number < _MOST:
        raise argparse.ArgumentTypeError(f"is {text[:_LONGEST]}; it must have 64 bits at most")
    return number


class Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Ends an option's help with its default, where it has one that says something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, []) else super()._get_help_string(action)


def add_override_option(parser: argparse.ArgumentParser) -> None:
    """Add ``-o path=value``, which may be given many times; the texts are in ``arguments.overrides``."""
    parser.add_argument(
        "-o",
        dest="overrides",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="override one value, in YAML syntax, e.g. -o data.train.batch_size=4 "
        "or -o 'data.train.transforms[resize].size=416'; may be repeated",
    )


def given_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Of these options, by their names in `arguments`, those that say something else than their default."""
    words = {action.dest: action.option_strings[-1] for action in parser._actions if action.option_strings}
    return [words[name] for name in names if getattr(arguments, name) != parser.get_default(name)]


def add_boxes_options(parser: argparse.ArgumentParser) -> None:
    """Add `--boxes DETECTOR` and `--of CLASS`, in `arguments.boxes` and `arguments.only`."""
    parser.add_argument(
        "--boxes", type=Path, metavar="DETECTOR", help="look at each object that this model finds: a run or a name"
    )
    parser.add_argument("--of", dest="only", metavar="CLASS", help="the detector's class whose objects count (all)")


def add_sixteen_option(parser: argparse._ActionsContainer) -> None:
    """Add `--sixteen PATTERN`, which may be given many times."""
    said = "weights (of 8 bits) of layers whose input has 16 bits in place of 8, e.g. 'head.*'"
    parser.add_argument("--sixteen", action="append", default=[], metavar="PATTERN", help=said)


def add_fastest_option(parser: argparse._ActionsContainer) -> None:
    """Add `--fastest`."""
    said = "leave layers in float32 that are slower in 8 bits, measured on this machine, where the whole gains by it"
    parser.add_argument("--fastest", action="store_true", help=said)


def add_rounding_options(parser: argparse._ActionsContainer) -> None:
    """Add `--equalize` and `--adaround` with its bounds; see `suites.engine.predict.quantizing.rounding_of`."""
    parser.add_argument(
        "--equalize",
        dest="equalization",
        choices=("weights", "activations"),
        help="static: give the channels between neighbouring layers one reach, by the first layer's weights or by what "
        "calibration saw between",
    )
    parser.add_argument(
        "--adaround", action="store_true", help="static: learn which weights are rounded up and which down (minutes)"
    )
    bounds = (("steps", "updates of each layer (1000)"), ("seconds", "of all layers; the others stay (1800)"))
    for name, said in (*bounds, ("megabytes", "of a layer's inputs and results that are kept (512)")):
        parser.add_argument(f"--adaround-{name}", type=int, metavar="N", help=f"--adaround: at most so many {said}")


def add_others_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--with RUN``, which may be given many times; the paths are in ``arguments.others``."""
    parser.add_argument(
        "--with",
        dest="others",
        metavar="RUN",
        type=Path,
        action="append",
        default=[],
        help="a run, or a file of weights of this run, that answers together with it (models that write); may be "
        "repeated",
    )


def add_import_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--import NAME``, which may be given many times; the names are in ``arguments.imports``."""
    parser.add_argument(
        "--import",
        dest="imports",
        metavar="NAME",
        action="append",
        default=[],
        help="import this module first, installed or in the working folder: a plug-in; may be repeated",
    )


def run(main: Callable[[], int], imports: Iterable[str] = ()) -> int:
    """Import plug-ins and call a command's main function; return its exit status.

    Errors raised on purpose become text on stderr and exit status 2.

    What data sets and others report through `logging` goes to stderr, unless the tool hears it itself.
    """
    try:
        with heard(lambda text: print(text, file=sys.stderr)):
            import_plugins(imports, "--import")
            return main()
    except PaddockError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except (OSError, MemoryError) as error:  # a full disk, a folder that may not be written, a limit of the shell
        print(f"error: {with_remedy(error)}", file=sys.stderr)
        return 2
