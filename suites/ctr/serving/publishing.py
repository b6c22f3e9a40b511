"""A run that publishes what it learns while it trains."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from framework.errors import AttributeValueError, CheckpointError
from suites.ctr.serving.published import Published, RowType, publish
from suites.engine.train.hooks import Hook

if TYPE_CHECKING:
    from framework.graph.ir import Program
    from suites.ctr.schema import Schema
    from suites.engine.neighbours.items import ItemIndex
    from suites.engine.train.loop import TrainingLoop

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishSettings:
    """What a run publishes while it trains.

    Args:
        to: folder of an export of this model.
        every: seconds between two publications.
        dtype: of the rows.
        dense: publish the network's weights with the rows; without, those of the export stay. Models that retrieve
            items need them.
    """

    to: str
    every: float = 60.0
    dtype: RowType = "float32"
    dense: bool = True

    def __post_init__(self) -> None:
        if not self.every > 0:
            raise AttributeValueError(f"publish: every is {self.every}; it must be above 0 seconds")

    def expect_export(self) -> None:
        """Raise CheckpointError for a folder that holds no export."""
        if not (Path(self.to) / "program.json").is_file():
            raise CheckpointError(f"publish: {self.to} holds no exported model; run `paddock export` first")


class Publishable(Protocol):
    """A task whose rows and network can be published."""

    model: Any

    @property
    def schema(self) -> Schema:
        """What its rows are made from."""

    def served_program(self) -> Program:
        """The network with the weights of now, from rows to scores."""

    def item_index(self) -> ItemIndex | None:
        """The items that it retrieves, if it does."""


class Publish(Hook):
    """Publishes rows that changed, and the network, beside an export, and once more at the end of the run.

    A publication that fails, as on a full disk, is told and tried again; the run goes on.

    Args:
        settings: see there.
    """

    priority: ClassVar[int] = 60

    def __init__(self, settings: PublishSettings) -> None:
        self._settings = settings
        self._next = time.monotonic() + settings.every

    def before_train(self, loop: TrainingLoop) -> None:
        """Refuse a folder that holds no export before hours are spent."""
        self._settings.expect_export()

    def after_step(self, loop: TrainingLoop) -> None:
        """Publish when it is time."""
        if time.monotonic() >= self._next:
            self._publish(loop)
            self._next = time.monotonic() + self._settings.every

    def after_train(self, loop: TrainingLoop) -> None:
        """Publish what is left."""
        self._publish(loop)

    def _publish(self, loop: TrainingLoop) -> None:
        if not loop.world.first:
            return
        own, task = self._settings, loop.task
        with loop.evaluation_weights():  # no update is on its way
            self._publish_now(loop, own, task)

    def _publish_now(self, loop: TrainingLoop, own: PublishSettings, task: Any) -> None:
        try:
            name = publish_as(task, task.table, own)
        except CheckpointError as error:
            _log.warning("publish: %s", error)
        else:
            loop.log.say(f"step {loop.step}: published as {name}")


def publish_as(task: Publishable, rows: Published, settings: PublishSettings) -> str:
    """Publish these rows, the task's network and its items, if it has some; return the file of the rows."""
    return publish(
        rows,
        task.schema,
        Path(settings.to),
        settings.dtype,
        dense=task.served_program() if settings.dense else "kept",
        items=task.item_index(),
        network=type(task.model.body).__name__,
    )
