"""Linear probe and nearest neighbours on frozen features: `paddock probe classification/photos -o data.root=photos`."""

from __future__ import annotations

import json
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Print the figures as JSON and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, add_override_option, natural, run
    from suites.engine.hosts.devices import add_device_option

    parser = Parser(
        prog=prog,
        description="Say how well a frozen network's features tell classes apart: by a logistic regression whose C is "
        "chosen on a part of the training set, and by votes of nearest neighbours. Nothing is trained on.",
    )
    parser.add_argument("config", type=Path, help="a config with weights, or the folder of a run")
    add_override_option(parser)
    add_import_option(parser)
    parser.add_argument("--seed", type=natural, default=0, help="of the part of the training set that C is chosen on")
    parser.add_argument("--fetch", action="store_true", help="fetch the weights that the config names")
    add_device_option(parser, "the config's own")
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.predict.probing import probe
        from suites.engine.weights.wanted import offer_weights

        offer_weights(a.config, a.overrides, fetch_all=a.fetch)
        print(json.dumps(probe(a.config, a.overrides, device=a.device, seed=a.seed), indent=2))
        return 0

    return run(start, a.imports)
