"""Galleries: the vectors of pictures or texts, in which those that are most alike are found again.

A gallery is a folder: an index of vectors of length 1, the name of each, and which model they are of.
Letters: N items, D numbers of a vector.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from framework.errors import AttributeValueError, CheckpointError, ConfigError, DataError
from framework.graph.files import is_export, program_files
from framework.io import sha256
from suites.engine.contract.capabilities import TakesTexts, require_input, with_texts
from suites.engine.contract.processor import Processor, ServedProcessor
from suites.engine.data.intake.naming import entries
from suites.engine.neighbours.items import ItemIndex
from suites.engine.neighbours.wishes import MOST, Wish
from suites.engine.predict.inference import Model, open_model
from suites.engine.predict.inputs import matched, new_name, read_inputs
from suites.engine.predict.items import embed_items
from suites.engine.predict.objects import Finder, require_objects
from suites.engine.run.folder import RunFolder, best_weights
from suites.engine.weights.runs import run_at

_AT_ONCE = 256  # vectors that neighbours are asked for together
_MOST_PAIRS = 1_000_000


class Alike(NamedTuple):
    """An item of a gallery and its cosine with what was asked."""

    name: str
    cosine: float


class Pair(NamedTuple):
    """Two items of a gallery and their cosine."""

    first: str
    second: str
    cosine: float


class Embedder:
    """A model that gives vectors.

    Args:
        path: a run, an export or a name of published weights.
        pooling: how an item gets one vector; None for the model's first way.
        device: see `open_model`.
        texts: each input is a text, though it looks like a file's name.
        finder: the objects that a detector finds get vectors, in place of whole inputs.

    Raises ConfigError where the model gives no vectors, or not in this way.
    """

    def __init__(
        self,
        path: Path,
        pooling: str | None = None,
        device: str | None = None,
        *,
        texts: bool = False,
        finder: Finder | None = None,
    ) -> None:
        self.model: Model = open_model(path, device=device)
        processor = with_texts(self.model.processor) if texts else self.model.processor
        known = processor.poolings if isinstance(processor, ServedProcessor) else ()
        if not isinstance(processor, ServedProcessor) or not known:
            raise ConfigError(
                f"{path}: this model gives no vectors; `paddock train retrieval/photos` makes one of pictures, "
                "`paddock embedder` one of texts"
            )
        if pooling is not None and pooling not in known:
            raise ConfigError(f"{path}: there is no pooling '{pooling}'; there are {', '.join(known)}")
        self._processor, self.pooling = processor, pooling or known[0]
        self._finder = finder
        self._objects = None if finder is None else require_objects(processor)
        self.digest = _digest(path, processor, finder)

    @property
    def takes_texts(self) -> bool:
        """Whether its items are texts; else they are pictures."""
        return isinstance(self._processor, TakesTexts)

    def vectors(self, words: Iterable[str], skipped: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        """(name, float32 [D] of length 1) of the files, folders, patterns or texts; why others are left out.

        Objects are called as their picture with their number, the best first: `photo.jpg#0`.
        """
        processor = self._processor
        named = [each for word in words for each in matched(word)]
        for word in named:
            if not os.path.isdir(word):
                require_input(processor, word)
        wanted = [place for word in named for place in _with_folders(word, processor)]
        yield from self.of_items(self._cut(read_inputs(wanted, processor, skipped), skipped), skipped)

    def of_items(self, named: Iterable[tuple[str, Any]], skipped: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        """(name, float32 [D] of length 1) of named pictures or texts; why others are left out."""
        found = iter(named)
        while chunk := list(islice(found, self._processor.batch_size)):
            items = [item for _, item in chunk]
            rows = embed_items(self._processor, self.model.inputs, self.model.predict, items, self.pooling)
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            for (name, _), row, length in zip(chunk, rows, lengths, strict=True):
                if not np.isfinite(length) or length == 0:
                    skipped.append(f"{name}: its vector is zero or no number")
                else:
                    yield name, row / length

    def _cut(self, inputs: Iterator[tuple[str, Any]], skipped: list[str]) -> Iterator[tuple[str, Any]]:
        """The inputs, or the objects that are found in each."""
        for name, item in inputs:
            if self._finder is None or self._objects is None:
                yield name, item
                continue
            rows = self._finder.rows(item)
            if not rows:
                skipped.append(f"{name}: no object was found in it")
            for number, part in enumerate(self._objects.objects_in(item, rows)):
                yield f"{name}#{number}", part


def _with_folders(word: str, processor: Processor) -> list[str]:
    """A word; of a folder those in it, at any depth, that have inputs."""
    if not os.path.isdir(word) or processor.takes(Path(word)):
        return [word]
    folders = sorted(folder for folder, _, _ in os.walk(word))
    return [folder for folder in folders if any(processor.takes(path) for path in entries(Path(folder)))] or [word]


def _digest(path: Path, processor: Processor, finder: Finder | None = None) -> str:
    """Of the network's weights and of what stands around it: vectors of other ones are not comparable.

    Those of objects and of whole pictures are not either; which detector finds the objects does not matter.
    """
    folder = run_at(path)
    files = program_files(folder)[-1:] if is_export(folder) else [best_weights(RunFolder(folder))]
    digests = [sha256(file) for file in files]
    objects = [] if finder is None else ["objects"]
    told = json.dumps([digests, processor.metadata(), *objects], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def build_gallery(embedder: Embedder, words: Sequence[str], output: Path) -> tuple[int, list[str]]:
    """Write the gallery of all inputs; how many there are, and why others were left out.

    It keeps 4 N D bytes. From 20,000 items on it has a graph of near neighbours, which needs the extra `retrieval`.

    Raises DataError where nothing could be read, AttributeValueError where the folder is there.
    """
    if output.exists():
        raise AttributeValueError(f"{output}: is there already; choose another --output, or remove it")
    skipped: list[str] = []
    rows: dict[str, np.ndarray] = {}
    for name, vector in embedder.vectors(words, skipped):
        rows[new_name(name, rows)] = vector
    if not rows:
        raise DataError(f"index: none of {len(skipped)} inputs could be read; the first: {skipped[0]}")
    index = ItemIndex.build(list(rows), np.stack(list(rows.values())))
    index.about = {"model": embedder.digest, "pooling": embedder.pooling}
    index.save(output)
    return len(rows), skipped


def open_gallery(folder: Path, embedder: Embedder | None = None) -> ItemIndex:
    """The gallery in a folder; CheckpointError where it is none, is damaged, or is of another model."""
    index = ItemIndex.open(folder)
    if "model" not in index.about:
        raise CheckpointError(f"{folder}: is no gallery; `paddock index build` makes one")
    if embedder is not None and index.about != {"model": embedder.digest, "pooling": embedder.pooling}:
        what = "model" if index.about["model"] != embedder.digest else f"pooling ({index.about.get('pooling')})"
        raise CheckpointError(
            f"{folder}: its vectors are of another {what}, so they cannot be compared; build it with this model"
        )
    return index


def find_alike(
    gallery: ItemIndex, embedder: Embedder, words: Sequence[str], count: int, skipped: list[str]
) -> Iterator[tuple[str, list[Alike]]]:
    """Each input's name with the items of the gallery that are most alike, the nearest first, `count` at most."""
    if not 1 <= count <= MOST:
        raise AttributeValueError(f"index: {count} items are asked for; it must be 1 to {MOST}")
    for name, vector in embedder.vectors(words, skipped):
        (found,) = gallery.find(vector[None], [Wish(k=count)])
        yield name, [Alike(other, round(float(cosine), 6)) for other, cosine in found]


def alike_pairs(gallery: ItemIndex, least: float, count: int = 20) -> list[Pair]:
    """Pairs of items whose cosine is `least` or more, the nearest first: near-duplicates.

    Args:
        gallery: the items.
        least: cosine, above -1 and up to 1.
        count: neighbours that are looked at for each item; of a larger group each has a pair with that many.

    Raises AttributeValueError for another `least`, DataError for more than a million pairs.
    """
    if not -1 < least <= 1:
        raise AttributeValueError(f"index: the least cosine is {least}; it lies above -1 and is 1 at most")
    places = {name: at for at, name in enumerate(gallery.names)}
    found: dict[tuple[int, int], float] = {}
    for start in range(0, len(gallery.names), _AT_ONCE):
        rows = gallery.vectors[start : start + _AT_ONCE]
        wishes: list[Any] = [Wish(k=min(count + 1, MOST))] * len(rows)
        for at, near in enumerate(gallery.find(rows, wishes), start=start):
            for name, cosine in near:
                if places[name] != at and cosine >= least - 1e-6:  # a product of floats in another order
                    found[min(at, places[name]), max(at, places[name])] = min(float(cosine), 1.0)
        if len(found) > _MOST_PAIRS:
            raise DataError(f"index: more than {_MOST_PAIRS} pairs have a cosine of {least}; ask for a higher one")
    order = sorted(found.items(), key=lambda each: (-each[1], each[0]))
    return [Pair(gallery.names[a], gallery.names[b], round(cosine, 6)) for (a, b), cosine in order]
