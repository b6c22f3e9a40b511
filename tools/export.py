"""Export a run as a program with its weights, or as ONNX: `python tools/export.py runs/demo --output exported`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main(words: list[str] | None = None) -> int:
    """Write the exported model and return the exit status; `words` are the command line."""
    from suites.engine.command_line import run

    parser = argparse.ArgumentParser(description="Export a run as a program with its weights and preprocessing.")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default the run's best weights")
    parser.add_argument(
        "--format",
        choices=("program", "onnx"),
        default="program",
        help="program: program.json and weights.safetensors, for our Predictor; onnx: model.onnx, for other runtimes",
    )
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.inference import export_run

        done = export_run(a.run, a.output, a.weights, onnx=a.format == "onnx")
        print(f"{a.output}: {done.operations} operations, {', '.join(done.inputs)} -> {', '.join(done.outputs)}")
        print(f"largest difference from the trained model, on one sample: {done.largest_difference:.3g}")
        if done.fixed_shapes:
            print(f"it takes this input shape only, because {done.fixed_shapes[0]}")
        return 0

    return run(start)


if __name__ == "__main__":
    sys.exit(main())
