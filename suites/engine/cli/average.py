"""Average checkpoints of a run, or files of weights, into one: `paddock average runs/demo --last 5`."""

from __future__ import annotations

from pathlib import Path


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write a file of weights and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, run

    parser = Parser(
        prog=prog,
        description="Write the mean of weights, for `paddock eval RUN --weights FILE` and all other commands that take "
        "--weights.",
    )
    parser.add_argument(
        "sources", type=Path, nargs="+", help="the folder of a run; or files of weights and folders of checkpoints"
    )
    parser.add_argument("--last", type=int, metavar="N", help="of a run: its newest N checkpoints (all that it keeps)")
    parser.add_argument(
        "--step", type=int, action="append", default=[], metavar="N", help="of a run: the checkpoint of this step; "
        "may be repeated"
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="by default averaged.safetensors in a run's weights"
    )
    add_import_option(parser)
    a = parser.parse_args(words)

    def start() -> int:
        from framework.errors import ConfigError
        from suites.engine.weights.averages import AVERAGED, average, last_checkpoints

        run_folder = a.sources[0] if len(a.sources) == 1 else None
        if run_folder is None and (a.last is not None or a.step):
            raise ConfigError("average: --last and --step choose among the checkpoints of one run; name one")
        if a.last is not None and (a.step or a.last < 2):
            raise ConfigError(f"average: --last is {a.last}; it takes 2 or more, and goes without --step")
        if run_folder is None and a.output is None:
            raise ConfigError("average: several files need --output, the file to write")
        sources = a.sources if run_folder is None else last_checkpoints(run_folder, a.last, a.step)
        output = a.output or a.sources[0] / "weights" / AVERAGED
        count = average(sources, output)
        print(f"{output}: {count} tensors, means of {', '.join(source.name for source in sources)}")
        return 0

    return run(start, a.imports)
