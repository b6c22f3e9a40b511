"""Evaluate a run, or a config with weights: `python tools/eval.py runs/demo`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main(words: list[str] | None = None) -> int:
    """Print the figures as JSON and return the exit status; `words` are the command line."""
    from suites.engine.command_line import add_override_option, run
    from suites.engine.profiling import StepProfile, add_profile_option

    parser = argparse.ArgumentParser(description="Evaluate a run, or a config with weights.")
    parser.add_argument("config", type=Path, help="the folder of a run (its metrics.json is renewed), or a config")
    add_override_option(parser)
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default a run's best weights")
    add_profile_option(parser, "batches")
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.training import evaluate_weights

        folder = a.config if a.config.is_dir() else Path()
        profile = StepProfile(folder, say=lambda text: print(text, file=sys.stderr)) if a.profile else None
        print(json.dumps(evaluate_weights(a.config, a.overrides, a.weights, profile=profile), indent=2))
        return 0

    return run(start)


if __name__ == "__main__":
    sys.exit(main())
