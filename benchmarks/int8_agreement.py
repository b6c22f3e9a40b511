#!/usr/bin/env python3
"""How often a classifier in 8 bits names the class that it names in float32, above all where that is sure.

    python benchmarks/int8_agreement.py RUN --calibration FOLDER --pictures FOLDER [--method percentile ...]
    python benchmarks/int8_agreement.py RUN ... --method mse --steps 300    # also equalised, and with AdaRound
    python benchmarks/int8_agreement.py RUN ... --method mse --sixteen '*'  # layers that read 16 bits

RUN is a run of a classifier, such as `paddock zoo run mobilenetv2_imagenet_v1` makes; the pictures need no labels. For
each method: how often 8 bits name float32's first class, of all pictures and of those where float32 gives it more than
a half; how often it is among their first five; the cosine of the logits (logarithms of probabilities, less their mean).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import framework
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program
from framework.quantization import METHODS, AdaRound, quantize
from suites.engine.command_line import add_sixteen_option
from suites.engine.predict.deploying import deployed_program
from suites.engine.predict.inference import open_run
from suites.engine.run.folder import RunFolder

SURE = 0.5


def probabilities(program: Program, batches: list[list[np.ndarray]]) -> np.ndarray:
    """[N, K] of pictures that are given one by one."""
    compiled = CompiledProgram(program)
    found = [compiled.run([framework.from_numpy(np.ascontiguousarray(x)) for x in batch])[0] for batch in batches]
    return np.concatenate([t.numpy() for t in found])


def logits(p: np.ndarray) -> np.ndarray:
    """Logarithms less their mean, of length 1."""
    logs = np.log(p + 1e-9)
    logs -= logs.mean(axis=1, keepdims=True)
    return np.asarray(logs / np.linalg.norm(logs, axis=1, keepdims=True))


def main(words: list[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--calibration", required=True, help="a folder of pictures")
    parser.add_argument("--pictures", required=True, help="a folder of other pictures")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="by default all")
    parser.add_argument(
        "--steps", type=int, help="also each method equalised, with AdaRound of so many steps, and both"
    )
    parser.add_argument("--keep", action="append", default=[], metavar="PATTERN", help="weights that stay in float32")
    add_sixteen_option(parser)
    a = parser.parse_args(words)
    task = open_run(a.run)
    for name, parameter in task.model.named_parameters():
        parameter.name = name
    processor = RunFolder(a.run).read_processor(task.processor_class)

    def read(folder: str) -> list[list[np.ndarray]]:
        batches = [processor.prepare([read()]) for _, read in processor.inputs(folder)]
        return [[batch[name] for name in task.eval_inputs] for batch in batches]

    calibration, pictures = read(a.calibration), read(a.pictures)
    whole = deployed_program(task, dict(zip(task.eval_inputs, pictures[0], strict=True)))
    wanted = probabilities(whole, pictures)
    best, sure = wanted.argmax(axis=1), wanted.max(axis=1) > SURE
    print(f"{len(pictures)} pictures, {sure.sum()} of them sure; calibrated on {len(calibration)}\n")
    print(
        "| method | bias correction | equalised | AdaRound | agrees | where sure | in five | cosine |\n|" + " --- |" * 8
    )
    for method in a.method or METHODS:
        for corrected, equalized, learnt in ways(a.steps):
            rounding = AdaRound(steps=a.steps) if learnt else None
            how = {
                "bias_correction": corrected,
                "equalization": equalized,
                "adaround": rounding,
                "keep": a.keep,
                "sixteen": a.sixteen,
            }
            small = quantize(whole, mode="static", calibration=calibration, method=method, **how)
            found = probabilities(small, pictures)
            same = found.argmax(axis=1) == best
            five = np.mean([k in row for k, row in zip(best, np.argsort(-found, axis=1)[:, :5], strict=True)])
            cosine = (logits(found) * logits(wanted)).sum(axis=1).mean()
            cells = [
                method,
                str(corrected),
                str(equalized),
                str(learnt),
                f"{same.mean():.3f}",
                f"{same[sure].mean():.3f}",
            ]
            print("| " + " | ".join([*cells, f"{five:.3f}", f"{cosine:.4f}"]) + " |", flush=True)


def ways(steps: int | None) -> list[tuple[bool, str | None, bool]]:
    """Bias correction, equalisation and AdaRound of each row."""
    if steps is None:
        return [(False, None, False), (True, None, False)]
    return [(True, equalized, learnt) for learnt in (False, True) for equalized in (None, "activations")]


if __name__ == "__main__":
    main()
