"""Export a run as a program with its weights, or as ONNX: `paddock export runs/demo --output exported`."""

from __future__ import annotations

import argparse
from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write the exported model and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, add_others_option, given_options, run

    parser = Parser(prog=prog, description="Export a run as a program with its weights and preprocessing.")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default the run's best weights")
    add_others_option(parser)
    parser.add_argument(
        "--format",
        choices=("program", "onnx", "peft"),
        default="program",
        help="program: program.json and weights.safetensors, for our Predictor; onnx: model.onnx, for other runtimes; "
        "peft: the adapters of low rank alone, as PEFT reads them",
    )
    add_import_option(parser)
    _add_quantization(parser)
    _add_seal(parser)
    a = parser.parse_args(words)

    def start() -> int:
        from framework.errors import NotSupportedError

        _expect_used(parser, a)
        if a.format == "peft":
            if a.others:
                raise NotSupportedError("export: adapters are of one run; leave out --with")
            if idle := given_options(parser, a, ("encrypt", "sign", "quantize")):
                raise NotSupportedError(f"export: adapters are written as they are; leave out {' and '.join(idle)}")
            return _adapter(a.run, a.output, a.weights)
        from framework.sealing import Seal
        from suites.engine.predict.inference import export_run
        from suites.engine.predict.quantizing import Quantization, rounding_of, speed_said

        how = None
        if a.quantize:
            how = Quantization(
                a.quantize,
                a.method,
                a.calibration_batches,
                tuple(a.calibration),
                a.calibration_inputs,
                tuple(a.keep),
                tuple(a.sixteen),
                tables=not a.float_tables,
                fastest=a.fastest,
                **rounding_of(a),
            )
        seal = Seal(a.encrypt, a.sign) if a.encrypt or a.sign else None
        done = export_run(
            a.run,
            a.output,
            a.weights,
            onnx=a.format == "onnx",
            quantization=how,
            seal=seal,
            others=a.others,
            speed=a.format == "program",
        )
        print(f"{a.output}: {done.operations} operations, {', '.join(done.inputs)} -> {', '.join(done.outputs)}")
        print(f"largest difference from the trained model, on one sample: {done.largest_difference:.3g}")
        if how is not None:
            count = len(done.quantized.matched)
            said = f"{count or 'no'} products, tables and convolutions in 8 bits"
            said += "" if count else ": the export is the float32 model, no smaller and no faster"
            fast = [] if done.speed is None or not count else speed_said(done.speed, a.fastest)
            print("\n".join([said, *done.quantized.missed, *done.rounding, *fast]))
        if seal is not None:
            made = [word for word, key in (("signed", a.sign), ("encrypted", a.encrypt)) if key]
            print(f"it is {' and '.join(made)}: docs/howto/sealed.md says how it is opened")
        if done.fixed_shapes:
            print(f"it takes this input shape only, because {done.fixed_shapes[0]}")
        return 0

    return run(start, a.imports)


def _expect_used(parser: argparse.ArgumentParser, a: argparse.Namespace) -> None:
    """Raise ConfigError for options of 8 bits that would do nothing."""
    from framework.errors import ConfigError
    from suites.engine.command_line import given_options

    rounding = ("equalization", "adaround", "adaround_steps", "adaround_seconds", "adaround_megabytes")
    measured = ("method", "calibration_batches", "calibration", "calibration_inputs", *rounding)
    if a.quantize is None:
        given = (*measured, "keep", "sixteen", "fastest", "float_tables")
        idle, needs = given_options(parser, a, given), "without --quantize"
    elif a.quantize == "dynamic":
        idle, needs = given_options(parser, a, measured), "with --quantize dynamic, which measures nothing"
    elif a.calibration:
        idle, needs = given_options(parser, a, ("calibration_batches",)), "with --calibration, which it stands against"
    else:
        idle, needs = given_options(parser, a, ("calibration_inputs",)), "without --calibration"
    if idle:
        raise ConfigError(f"export: {', '.join(idle)} would do nothing {needs}; leave it out")


def _adapter(run: Path, output: Path, weights: Path | None) -> int:
    from framework.confined import confine
    from suites.engine.predict.inference import open_run
    from suites.engine.weights.lora.peft import save_adapter

    confine(output)
    task = open_run(run, weights, merged=False)
    wanted = task.model.__dict__.get("_pretrained")
    for path in save_adapter(task.model, output, base=wanted.source if wanted else None):
        print(path)
    return 0


def _add_seal(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "seal", "a key comes from a file, env:NAME, or command:WORDS (what a program prints); see docs/howto/sealed.md"
    )
    group.add_argument("--encrypt", metavar="SOURCE", help="encrypt all of it with this key of 32 bytes")
    group.add_argument("--sign", metavar="SOURCE", help="sign all of it with this private key of Ed25519")


def _add_quantization(parser: argparse.ArgumentParser) -> None:
    from suites.engine.command_line import add_fastest_option, add_rounding_options, add_sixteen_option

    said = "matrix products and convolutions in 8 bits; see docs/howto/quantization.md"
    group = parser.add_argument_group("8 bits", said)
    group.add_argument(
        "--quantize",
        choices=("dynamic", "static"),
        help="round activations by the range of each row (products only), or by ranges measured on given data",
    )
    group.add_argument("--method", default="abs_max", help="static: abs_max, average, percentile, mse or kl")
    group.add_argument("--calibration-batches", type=int, default=8, metavar="N", help="static: batches to measure on")
    group.add_argument(
        "--calibration",
        action="append",
        default=[],
        metavar="PATH",
        help="static: files or a folder to measure on, such as 100 pictures, in place of training batches",
    )
    group.add_argument(
        "--calibration-inputs", type=int, default=100, metavar="N", help="static: at most so many of them (100)"
    )
    group.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="weights that stay in float32, e.g. '*.pooler.*'"
    )
    add_sixteen_option(group)
    add_rounding_options(group)
    add_fastest_option(group)
    group.add_argument("--float-tables", action="store_true", help="tables of embeddings stay in float32")
