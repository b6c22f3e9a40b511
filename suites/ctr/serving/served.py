"""Signs of a batch to rows, by what lies beside an export, and changes to newer rows and weights without a pause."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framework.devices import placement
from framework.errors import PaddockError
from framework.predictor import Predictor
from framework.table import TableSnapshot
from framework.table.snapshot import SnapshotVersion
from suites.ctr.schema import Schema
from suites.ctr.serving.published import FOLDER, LIST, Publication, model_key
from suites.engine.contract.feeding import Counter, Fed, Newest
from suites.engine.neighbours.items import ItemIndex

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Served:
    """What answers together."""

    publication: Publication
    rows: SnapshotVersion
    network: Predictor | None
    items: ItemIndex | None


class ServedRows:
    """What is valid beside an export; all signs of a batch see one version, and the network of that version.

    Args:
        export: folder of the export.
        schema: of the model.
        every: seconds between two looks for something newer.

    Attributes:
        rows: the snapshot that answers.
        newest: what answers, and how it is renewed.

    Raises CheckpointError where there are no rows, they are damaged, or another model's.
    """

    def __init__(self, export: Path, schema: Schema, every: float = 1.0) -> None:
        fields = schema.fields()
        self._signs = ("sparse", *(name for name, _ in (*fields.bags, *fields.sequences)))
        self._export, self._key = export, model_key(schema)
        self._device, _, self._products = placement()  # of who opens it; a server's threads look for what is newer
        found = Publication.read(export, self._key)
        paths = [export / FOLDER / name for name in found.files]
        self.rows = TableSnapshot.open(paths[0], paths[1:])
        first = _Served(found, self.rows.current, self._network(found, None), self._items(found))
        self.newest = Newest(first, self._newer, self._told, every)
        self._searched = self._exactly = 0  # searches are of the versions before

    @property
    def version(self) -> str:
        """Of what answers."""
        return self.newest.now.publication.version

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> Fed:
        """The arrays with rows float32 [..., R] in place of signs int64 [...]."""
        self.newest.look()
        now = self.newest.now
        signs = {name: arrays[name] for name in self._signs if name in arrays}  # not all models take all
        rows = self.rows.lookup(np.concatenate([keys.ravel() for keys in signs.values()]), at=now.rows)
        ends = np.cumsum([keys.size for keys in signs.values()])[:-1]
        parts = zip(signs.items(), np.split(rows, ends), strict=True)
        found = {name: part.reshape(*keys.shape, self.rows.dim) for (name, keys), part in parts}
        return Fed({**arrays, **found}, now.publication.version, now.network, now.items)

    def counters(self) -> Mapping[str, Counter]:
        """Look-ups, those without a row, versions taken up and searches for items, since the start."""
        now = self.newest.now.items
        searches = (
            {
                "item_searches": Counter("Users whose best items were asked for", self._searched + now.searched),
                "item_searches_exact": Counter("Those answered by all scores", self._exactly + now.exactly),
            }
            if now is not None
            else {}
        )
        return {
            **searches,
            "row_lookups": Counter("Signs looked up", self.rows.looked_up),
            "row_misses": Counter("Signs looked up that had no row", self.rows.missed),
            "versions": Counter("Newer versions taken up", self.newest.taken_up),
        }

    def _newer(self, before: _Served) -> _Served | None:
        """What was published since; None where nothing was."""
        found = Publication.read(self._export, self._key)
        if found == before.publication and not before.rows.lost:
            return None
        found.expect(before.publication.network, self._export / FOLDER / LIST)
        network, items = self._network(found, before), self._items(found)
        self._take_rows(found)
        if before.items is not None:
            self._searched += before.items.searched
            self._exactly += before.items.exactly
        return _Served(found, self.rows.current, network, items)

    def _told(self, served: _Served, error: PaddockError | None) -> None:
        if error is None:
            _log.info("rows: version %s is served", served.publication.version)
        else:
            _log.warning("rows: version %s stays: %s", served.publication.version, error)

    def _network(self, found: Publication, before: _Served | None) -> Predictor | None:
        """The dense part of a publication; None for the export's own."""
        if before is not None and before.publication.dense == found.dense:
            return before.network
        if found.dense is None:
            return None
        return Predictor(self._export / FOLDER / found.dense, device=self._device, products=self._products)

    def _items(self, found: Publication) -> ItemIndex | None:
        return None if found.items is None else ItemIndex.open(self._export / FOLDER / found.items)

    def _take_rows(self, found: Publication) -> None:
        """Bring the snapshot to the newest file, from where it is: a delta may have failed behind others.

        Files that were cut in their place are opened again, in case that whole ones lie there now.
        """
        paths = [self._export / FOLDER / name for name in found.files]
        ids = [name.split(".")[0] for name in found.files]
        if self.rows.version not in ids or self.rows.current.lost:
            self.rows.swap(paths[0], paths[1:])
            return
        for delta in paths[ids.index(self.rows.version) + 1 :]:
            self.rows.apply(delta)
