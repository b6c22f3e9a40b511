"""PassEnd: what leaves the table at the end of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from suites.engine.train.hooks import Hook

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop


class PassEnd(Hook):
    """Tells the table that a pass is over, where something leaves it then."""

    priority: ClassVar[int] = 20

    def after_step(self, loop: TrainingLoop) -> None:
        """See the class."""
        task: Any = loop.task
        if loop.pass_ended and task.table_settings.eviction is not None:
            with loop.evaluation_weights():  # no update is on its way
                gone = task.table.shrink()
            loop.log.say(f"end of pass {loop.passes}: {gone} rows left the table, {len(task.table)} stay")
