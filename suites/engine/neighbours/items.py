"""The items of a catalogue: which of them score highest for a user, exactly or by a graph of near neighbours.

Letters: N users, I items, H numbers of a vector. A score is the product of a user's vector and an item's.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from framework.atomic import atomic_folder, write_text
from framework.errors import AttributeValueError, CheckpointError, NotSupportedError
from framework.extras import install_command
from framework.io import load_tensors, save_tensors, sha256
from framework.outside import read_json
from framework.tensors import tensor
from suites.engine.neighbours.wishes import MOST, Wish

_log = logging.getLogger(__name__)
_FACTS, _VECTORS, _GRAPH = "items.json", "vectors.safetensors", "graph.faiss"
_SCORES = 1 << 22  # scores of an exact search that are in memory together
_FAR = 4 * MOST  # places of the graph that are looked at for one user; beyond, the exact search is as quick
SMALL = 20_000  # items up to which there is no graph: all scores of a user take less than its look-up of rows

Found = list[tuple[str, float]]  # items and scores, the best first


class ItemIndex:
    """The items with the largest scores: of a small catalogue by all scores, of a large one by an HNSW graph.

    >>> index = ItemIndex.build(names, vectors)  # doctest: +SKIP
    >>> index.find(users, [Wish(k=20)] * len(users))  # doctest: +SKIP

    The graph is Malkov and Yashunin's (2018) over inner products, made by faiss (extra `retrieval`). A wish with a
    list of allowed items, or with very many excluded ones, is answered exactly.

    Args:
        names: of the I items.
        vectors: float32 [I, H].
        graph: of faiss, over the vectors; None searches exactly.
        recall: the share of the true best items that the graph finds; 1 without one.

    Attributes:
        about: plain facts of whoever made it, which are saved with it.
        searched, exactly: users that items were found for, and those of them by all scores.
    """

    def __init__(self, names: Sequence[str], vectors: np.ndarray, graph: Any = None, recall: float = 1.0) -> None:
        if len(names) != len(vectors) or not len(names):
            raise AttributeValueError(f"ItemIndex: {len(names)} names for {len(vectors)} vectors; needed is one each")
        self.names, self.vectors, self.recall = list(names), np.ascontiguousarray(vectors, np.float32), recall
        self._graph, self._places = graph, {name: at for at, name in enumerate(self.names)}
        if len(self._places) < len(self.names):
            raise AttributeValueError("ItemIndex: two items have one name; each needs its own")
        self.about: dict[str, Any] = {}
        self._counting = threading.Lock()
        self.searched = self.exactly = 0

    @classmethod
    def build(
        cls,
        names: Sequence[str],
        vectors: np.ndarray,
        users: np.ndarray | None = None,
        *,
        links: int = 32,
        effort: int = 200,
        small: int = SMALL,
    ) -> ItemIndex:
        """The index of a catalogue.

        Args:
            names: of the I items.
            vectors: float32 [I, H].
            users: float32 [N, H] by which the graph's recall of 20 items is measured; None for some of the items.
            links: of each item in the graph.
            effort: candidates looked at while the graph is built; more is better and slower.
            small: items up to which there is no graph.
        """
        index = cls(names, vectors)
        if len(names) <= small:
            return index
        faiss = _faiss()
        graph = faiss.IndexHNSWFlat(vectors.shape[1], links, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = effort
        graph.add(index.vectors)
        index._graph = graph
        asked = index.vectors[:: max(len(names) // 200, 1)] if users is None else users
        index.recall = index._measured(np.ascontiguousarray(asked, np.float32), 20)
        index.searched = index.exactly = 0
        return index

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph; without, every search is exact."""
        return self._graph is not None

    def _measured(self, users: np.ndarray, k: int) -> float:
        wishes = [Wish(k)] * len(users)
        pairs = zip(
            self.find(users, wishes), self._by_all_scores(users, [k] * len(users), [[]] * len(users)), strict=True
        )
        shares = [len({at for at, _ in exact} & {self._places[name] for name, _ in own}) / k for own, exact in pairs]
        return float(np.mean(shares)) if shares else 1.0

    def find(
        self, users: np.ndarray, wishes: Sequence[Wish], seen: Sequence[Sequence[str]] | None = None, effort: int = 128
    ) -> list[Found]:
        """What each user wishes for, the best first; fewer than k where no more items may come.

        Args:
            users: float32 [N, H].
            wishes: of the N users.
            seen: the items of each user's history, for those that wish to leave them out; None for none.
            effort: candidates of the graph that are looked at; more finds more of the true best and takes longer.
        """
        without = [self._known(wish, own) for wish, own in zip(wishes, seen or [()] * len(wishes), strict=True)]
        found: dict[int, list[tuple[int, float]]] = {}
        plain = [i for i, wish in enumerate(wishes) if wish.allow is None]
        near = [i for i in plain if self.has_graph and wishes[i].k + len(without[i]) <= min(_FAR, len(self.names))]
        if near:
            found |= self._by_graph(users, near, [wishes[i].k for i in near], without, effort)
        left = [i for i in plain if i not in found]
        if left:
            exact = self._by_all_scores(users[left], [wishes[i].k for i in left], [without[i] for i in left])
            found |= dict(zip(left, exact, strict=True))
        for i, wish in enumerate(wishes):
            if wish.allow is not None:
                found[i] = self._among(users[i], wish, set(without[i]))
        with self._counting:
            self.searched += len(wishes)
            self.exactly += len(wishes) - sum(i not in left for i in near)
        return [[(self.names[at], score) for at, score in found[i]] for i in range(len(wishes))]

    def _known(self, wish: Wish, seen: Sequence[str]) -> list[int]:
        """Places of the items that may not come."""
        names = wish.exclude.union(seen) if wish.exclude_seen else wish.exclude
        return [self._places[name] for name in names if name in self._places]

    def _by_graph(
        self, users: np.ndarray, which: Sequence[int], ks: Sequence[int], without: Sequence[Sequence[int]], effort: int
    ) -> dict[int, list[tuple[int, float]]]:
        """Places and scores of the users for whom the graph gives enough."""
        faiss = _faiss()
        faiss.omp_set_num_threads(1)  # of this thread: the server's workers are the parallelism
        most = max(k + len(without[i]) for i, k in zip(which, ks, strict=True))
        asked = faiss.SearchParametersHNSW(efSearch=max(effort, most))
        scores, places = self._graph.search(np.ascontiguousarray(users[which], np.float32), most, params=asked)
        found = {}
        for i, k, row, own in zip(which, ks, places.tolist(), scores.tolist(), strict=True):
            gone = set(without[i])
            best = [(at, score) for at, score in zip(row, own, strict=True) if at >= 0 and at not in gone][:k]
            if len(best) == k:
                found[i] = best
        return found

    def _by_all_scores(
        self, users: np.ndarray, ks: Sequence[int], without: Sequence[Sequence[int]]
    ) -> list[list[tuple[int, float]]]:
        found: list[list[tuple[int, float]]] = []
        step = max(_SCORES // len(self.names), 1)
        for start in range(0, len(users), step):
            scores = users[start : start + step] @ self.vectors.T
            for row, k, gone in zip(scores, ks[start:], without[start:], strict=False):
                row[list(gone)] = -np.inf
                found.append(_largest(row, np.arange(len(row)), min(k, len(row) - len(set(gone)))))
        return found

    def _among(self, user: np.ndarray, wish: Wish, without: set[int]) -> list[tuple[int, float]]:
        """The best of the allowed items."""
        known = (self._places[name] for name in wish.allow or () if name in self._places)
        places = np.array([at for at in known if at not in without], np.int64)
        return _largest(self.vectors[places] @ user, places, min(wish.k, len(places)))

    def unknown(self, wish: Wish) -> list[str]:
        """The allowed items that the catalogue does not have."""
        return [name for name in wish.allow or () if name not in self._places]

    def save(self, folder: Path, beside: Mapping[str, Callable[[Path], None]] = MappingProxyType({})) -> None:
        """Write the items as a folder, whole or not at all.

        Args:
            folder: that is not there yet.
            beside: what writes further files, by their names; `open` compares their SHA-256 too.
        """
        with atomic_folder(folder) as part:
            save_tensors(part / _VECTORS, {"vectors": tensor(self.vectors)})
            if self.has_graph:
                _faiss().write_index(self._graph, str(part / _GRAPH))
            for name, write in beside.items():
                write(part / name)
            files = [_VECTORS, *([_GRAPH] if self.has_graph else []), *beside]
            facts = {
                "search": "graph" if self.has_graph else "exact",
                "recall@20": self.recall,
                "sha256": {name: sha256(part / name) for name in files},
                "names": self.names,
                **({"about": self.about} if self.about else {}),
            }
            write_text(part / _FACTS, json.dumps(facts))

    @classmethod
    def open(cls, folder: Path) -> ItemIndex:
        """The index that `save` wrote; CheckpointError where it is damaged or missing.

        No file is looked into before its SHA-256 is that of items.json, and none runs code.
        """
        if not (folder / _FACTS).is_file():
            raise CheckpointError(f"{folder}: there is no index ({_FACTS}); name the folder that one was written to")
        try:
            facts = read_json(folder / _FACTS)
            names, recall = [str(name) for name in facts["names"]], float(facts["recall@20"])
            needed = (_VECTORS, *([_GRAPH] if facts["search"] == "graph" else []))
            for name in dict.fromkeys([*needed, *(Path(each).name for each in facts["sha256"])]):
                if sha256(folder / name) != facts["sha256"][name]:
                    raise ValueError(f"{name} was changed")
            vectors = load_tensors(folder / _VECTORS)["vectors"].numpy()
            graph = _opened_graph(folder / _GRAPH, vectors.shape) if facts["search"] == "graph" else None
            index = cls(names, vectors, graph, recall if graph is not None else 1.0)
            index.about = dict(facts.get("about", {}))
            return index
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, AttributeValueError, CheckpointError) as error:
            raise CheckpointError(f"{folder}: the items cannot be read ({error}); write them again") from None


def _opened_graph(path: Path, shape: tuple[int, ...]) -> Any:
    """The graph in a file; None, told in the log, where faiss is not installed."""
    try:
        faiss = _faiss()
    except NotSupportedError as error:
        _log.warning("%s; until then all %d items are scored for each request", error, shape[0])
        return None
    graph = faiss.read_index(str(path))
    if (graph.ntotal, graph.d) != shape:
        raise ValueError(f"the graph is of {graph.ntotal} items of {graph.d} numbers, the vectors are {list(shape)}")
    return graph


def _largest(scores: np.ndarray, places: np.ndarray, k: int) -> list[tuple[int, float]]:
    """(place, score) of the k largest, the largest first, the first place first among equals."""
    if k < len(scores):
        least = np.partition(scores, len(scores) - k)[len(scores) - k] if k else np.inf
        kept = np.flatnonzero(scores >= least)
        scores, places = scores[kept], places[kept]
    order = np.lexsort((places, -scores))[:k]
    return list(zip(places[order].tolist(), scores[order].tolist(), strict=True))


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise NotSupportedError(
            f"ItemIndex: a graph needs the package faiss, which is not installed: {install_command('retrieval')}"
        ) from None
    return faiss
