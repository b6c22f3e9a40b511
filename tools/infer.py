"""Draw predictions: `python tools/infer.py runs/demo photo.jpg folder/ --output out`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main(words: list[str] | None = None) -> int:
    """Write pictures and `predictions.json` and return the exit status; `words` are the command line."""
    from suites.engine.command_line import run
    from suites.engine.profiling import StepProfile, add_profile_option

    parser = argparse.ArgumentParser(description="Draw a model's predictions; damaged inputs are named and skipped.")
    parser.add_argument("model", type=Path, help="the folder of a run or of an exported model")
    parser.add_argument("inputs", type=Path, nargs="+", help="files, or folders of files")
    parser.add_argument("--output", type=Path, required=True, help="folder for pictures and predictions.json")
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default a run's best weights")
    add_profile_option(parser, "inputs")
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.inference import infer_files, open_model

        profile = StepProfile(a.output) if a.profile else None
        report = infer_files(open_model(a.model, a.weights), a.inputs, a.output, profile=profile)
        for line in report.skipped:
            print(f"skipped: {line}", file=sys.stderr)
        print(f"{a.output}: {len(report.pictures)} pictures and predictions.json; {len(report.skipped)} inputs skipped")
        return 0 if report.pictures else 2

    return run(start)


if __name__ == "__main__":
    sys.exit(main())
