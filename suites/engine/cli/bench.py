"""Tell whether loading or training holds a run up: `paddock bench loader video/tsm_mobilenetv2_gesture`.

The loader alone, the update alone and both together are timed, each for some seconds, on any suite's config.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Print samples a second and what they mean; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, add_override_option, run

    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["loader"], help="what is looked at")
    parser.add_argument("config", type=Path, help="a config file, the name of one of Paddock's, or a run's folder")
    parser.add_argument("--seconds", type=float, default=10, help="of each of the three measurements (10)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_override_option(parser)
    add_import_option(parser)
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.config.building import read_config
        from suites.engine.train.bottleneck import measure

        found = measure(read_config(a.config, a.overrides), a.seconds)
        said = json.dumps({**asdict(found), "verdict": found.verdict}, indent=1)
        print(said if a.json else "\n".join(found.lines()))
        return 0

    return run(start, a.imports)
