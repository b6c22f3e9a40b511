"""Report: the page of a run, written at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from framework.errors import PaddockError
from suites.engine.contract.capabilities import run_plots
from suites.engine.reporting.page import PAGE, write_page
from suites.engine.train.loop import Hook

if TYPE_CHECKING:
    from suites.engine.reporting.plots import Plot
    from suites.engine.train.loop import TrainingLoop


class Report(Hook):
    """Writes `report.html` after the last step, also when the run was stopped. A page that fails fails no run."""

    priority: ClassVar[int] = 90  # when all others have written what it shows

    def after_train(self, loop: TrainingLoop) -> None:
        """Write the page."""
        if loop.folder is None or not loop.world.first:
            return
        keep_page(loop.folder, partial(run_plots, loop.task), loop.log.say)


def keep_page(folder: Path, further: Callable[[Path], Sequence[Plot]], say: Callable[[str], object]) -> None:
    """Write the page of the run in `folder` with the suite's further plots of it; say why where there can be none."""
    try:
        write_page([folder], folder / PAGE, further(folder))
    except ImportError as error:
        say(f"no report.html: {error}; install matplotlib, then `paddock report {folder}`")
    except (PaddockError, OSError) as error:
        say(f"no report.html: {error}")
