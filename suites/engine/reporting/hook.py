"""Report: the page of a run, written at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from framework.errors import PaddockError
from suites.engine.hooks.base import Hook
from suites.engine.reporting.page import PAGE, write_page

if TYPE_CHECKING:
    from suites.engine.loop import TrainingLoop


class Report(Hook):
    """Writes `report.html` after the last step, also when the run was stopped. A page that fails fails no run."""

    priority: ClassVar[int] = 90  # when all others have written what it shows

    def after_train(self, loop: TrainingLoop) -> None:
        """Write the page."""
        if loop.folder is None or not loop.world.first:
            return
        try:
            write_page([loop.folder], loop.folder / PAGE, loop.task.run_plots(loop.folder))
        except ImportError as error:
            loop.log.say(f"no report.html: {error}; install matplotlib, then `paddock report {loop.folder}`")
        except (PaddockError, OSError) as error:
            loop.log.say(f"no report.html: {error}")
