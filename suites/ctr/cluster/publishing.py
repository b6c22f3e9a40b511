"""Publishing from a cluster: the head writes what changed on the shards beside an export, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from framework.errors import PaddockError
from framework.table.remote import ChainBrokenError, ShardClient, ShardRows
from suites.ctr.cluster.dense import DenseWeights
from suites.ctr.serving import PublishSettings
from suites.ctr.serving.publishing import publish_as
from suites.ctr.task.ground import ClickTask

_ATTEMPTS = 3  # of a publication while shards are started again


class Publisher:
    """Publishes as `suites.ctr.serving.publishing.Publish` does on one machine: same files, same list.

    A delta follows the file before it. Where a shard was started since, all rows are written. A publication that fails
    is told and tried again next time; the last one stays whole, and the run goes on.

    Args:
        settings: what is published where.
        task: of the run, this object's own: its table becomes the shards' rows, its weights the common ones.
        client: of the shards.
        where: pass, and batches that are done; where they stand still there is nothing to publish.
        say: tells a line.

    Raises CheckpointError where the folder holds no export.
    """

    def __init__(
        self,
        settings: PublishSettings,
        task: ClickTask,
        client: ShardClient,
        where: Callable[[], tuple[int, int]],
        say: Callable[[str], None],
    ) -> None:
        settings.expect_export()
        self._settings, self._task, self._client = settings, task, client
        self._where, self._say = where, say
        self._last = (0, 0)  # where the last publication was made
        self._weights = DenseWeights(task.model)
        self._rows = ShardRows(client, task.table.name)
        task.model.table = self._rows
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Publish again and again, once the shards are there."""
        self._thread = threading.Thread(target=self._run, name="paddock-publish", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Publish no more; one that is under way is waited for."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def publish(self) -> None:
        """Publish what changed since the last time, or tell why not."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                where = self._where()
                self._weights.set(self._client.dense())
                name = publish_as(self._task, self._rows, self._settings)
            except ChainBrokenError as error:
                if attempt == _ATTEMPTS:
                    self._say(f"publish: {error}")
            except (PaddockError, OSError) as error:
                self._say(f"publish: {error}")
                return
            else:
                self._last = where
                self._say(f"batch {where[1]}: published as {name}")
                return

    def _run(self) -> None:
        while not self._ending.wait(self._settings.every):
            if self._where() != self._last:
                self.publish()
