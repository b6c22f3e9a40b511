"""Write the page of a run: `paddock report runs/mine`, with others beside it: `paddock report runs/mine runs/other`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.engine.reporting import Plot


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write one self-contained HTML file and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_import_option, run

    parser = Parser(prog=prog, description="Write one HTML file with figures, curves, plots and pictures of runs.")
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, the one that the page is about first")
    parser.add_argument("--output", type=Path, help="the file to write; by default report.html in the first run")
    add_import_option(parser)
    a = parser.parse_args(words)

    def start() -> int:
        from suites.engine.config.building import read_config, task_class
        from suites.engine.contract.capabilities import run_plots
        from suites.engine.reporting.page import PAGE, write_page

        first = a.runs[0]
        further: Sequence[Plot] = ()
        if (first / "config.yml").is_file():
            further = run_plots(task_class(read_config(first)["suite"]), first)
        print(write_page(a.runs, a.output or first / PAGE, further))
        return 0

    return run(start, a.imports)
