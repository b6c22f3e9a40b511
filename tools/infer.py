"""Predict: `python tools/infer.py runs/demo photo.jpg folder/ --output out`, `... runs/sst2 "a fine film"`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main(words: list[str] | None = None) -> int:
    """Write pictures and `predictions.json`, or print lines about texts; return the exit status.

    `words` are the command line.
    """
    from suites.engine.command_line import run
    from suites.engine.profiling import StepProfile, add_profile_option

    parser = argparse.ArgumentParser(description="Show a model's predictions; damaged inputs are named and skipped.")
    parser.add_argument("model", type=Path, help="the folder of a run or of an exported model")
    parser.add_argument(
        "inputs", nargs="+", help="files, or folders of files; of a model of text also texts, or files with one a line"
    )
    parser.add_argument("--output", type=Path, help="folder for pictures and predictions.json; text needs none")
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default a run's best weights")
    add_profile_option(parser, "inputs")
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.inference import infer_files, open_model

        profile = StepProfile(a.output or Path()) if a.profile else None
        report = infer_files(open_model(a.model, a.weights), a.inputs, a.output, profile=profile)
        for line in report.skipped:
            print(f"skipped: {line}", file=sys.stderr)
        for line in report.lines:
            print(line)
        if a.output is not None:
            said = f"{len(report.pictures)} pictures and " if report.pictures else ""
            print(f"{a.output}: {said}predictions.json; {len(report.skipped)} inputs skipped")
        return 0 if report.pictures or report.lines else 2

    return run(start)


if __name__ == "__main__":
    sys.exit(main())
