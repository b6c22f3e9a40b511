"""Galleries: the vectors of pictures or texts, in which those that are most alike are found again.

A gallery is a folder: an index of vectors of length 1, the name of each, and which model they are of.
Letters: N items, D numbers of a vector.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from framework.atomic import move, remove, remove_folder
from framework.errors import AttributeValueError, CheckpointError, ConfigError, DataError
from suites.engine.contract.capabilities import TakesTexts, require_input, with_texts
from suites.engine.contract.processor import Processor, ServedProcessor
from suites.engine.data.intake.naming import entries
from suites.engine.neighbours.items import ItemIndex
from suites.engine.neighbours.wishes import MOST, Wish
from suites.engine.predict.gallery.files import FILE, Changes, Files, Stamp, stamp_of
from suites.engine.predict.inference import Model, open_model
from suites.engine.predict.inputs import matched, new_name, read_inputs
from suites.engine.predict.items import embed_items
from suites.engine.predict.objects import Finder, require_objects

_log = logging.getLogger(__name__)
_AT_ONCE = 256  # vectors that neighbours are asked for together
_MOST_PAIRS = 1_000_000
_OTHER_NUMBERS = "its vectors and the model's are of the same weights, rounded to 8 bits another way or not at all"

K = TypeVar("K")


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
        self._texts = texts
        if self.model.origin is None:
            raise ConfigError(f"{path}: this model gives no vectors that could be known again")
        self.origin = self.model.origin()
        self.digest = _digest(self.origin.network, processor, finder)

    @property
    def takes_texts(self) -> bool:
        """Whether its items are texts; else they are pictures."""
        return isinstance(self._processor, TakesTexts)

    def vectors(self, words: Iterable[str], skipped: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        """(name, float32 [D] of length 1) of the files, folders, patterns or texts; why others are left out.

        Objects are called as their picture with their number, the best first: `photo.jpg#0`.
        """
        for (name, _), row in self.of_places(self.places(words), skipped):
            yield name, row

    def places(self, words: Iterable[str], *, aloud: bool = True) -> Iterator[str]:
        """The files, at any depth of folders, and the texts that words stand for.

        `aloud`: what has no input is an error, and what is passed over is logged; else both are left out.
        """
        processor = self._processor
        for word in [each for one in words for each in matched(one)]:
            if not os.path.isdir(word):
                if aloud:
                    require_input(processor, word)
                yield word
            elif processor.takes(Path(word)):
                yield word
            elif aloud:
                folders = _folders_with_inputs(word, processor)
                yield from (str(file) for folder in folders for file in processor.files_in(Path(folder)))
                if not folders:
                    yield word  # which tells that nothing is in it
            else:
                for folder in sorted(folder for folder, _, _ in os.walk(word)):
                    yield from (str(path) for path in entries(Path(folder)) if processor.takes(path))

    def file_of(self, place: str) -> str | None:
        """The file that one of `places` is; None of a text."""
        texts = isinstance(self._processor, TakesTexts) and (self._texts or not os.path.isfile(place))
        return None if texts else place

    def of_places(
        self, places: Iterable[str], skipped: list[str], stamps: dict[str, Stamp] | None = None
    ) -> Iterator[tuple[tuple[str, str | None], np.ndarray]]:
        """((name, its file), float32 [D] of length 1) of `places`; `stamps` gets what is known of each file."""

        def read() -> Iterator[tuple[tuple[str, str | None], Any]]:
            for place in places:
                file = self.file_of(place)
                stamp = None if file is None or stamps is None else stamp_of(Path(file))
                if stamps is not None and file is not None and stamp is not None:
                    stamps[file] = stamp
                for name, item in self._cut(read_inputs([place], self._processor, skipped), skipped):
                    yield (name, file), item

        return self._rows(read(), lambda key: key[0], skipped)

    def of_items(self, named: Iterable[tuple[str, Any]], skipped: list[str]) -> Iterator[tuple[str, np.ndarray]]:
        """(name, float32 [D] of length 1) of named pictures or texts; why others are left out."""
        return self._rows(named, str, skipped)

    def _rows(
        self, keyed: Iterable[tuple[K, Any]], name_of: Callable[[K], str], skipped: list[str]
    ) -> Iterator[tuple[K, np.ndarray]]:
        found = iter(keyed)
        while chunk := list(islice(found, self._processor.batch_size)):
            items = [item for _, item in chunk]
            rows = embed_items(self._processor, self.model.inputs, self.model.predict, items, self.pooling)
            lengths = np.linalg.norm(rows, axis=1, keepdims=True)
            for (key, _), row, length in zip(chunk, rows, lengths, strict=True):
                if not np.isfinite(length) or length == 0:
                    skipped.append(f"{name_of(key)}: its vector is zero or no number")
                else:
                    yield key, row / length

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


def _folders_with_inputs(word: str, processor: Processor) -> list[str]:
    folders = sorted(folder for folder, _, _ in os.walk(word))
    return [folder for folder in folders if any(processor.takes(path) for path in entries(Path(folder)))]


def _digest(network: str, processor: Processor, finder: Finder | None = None) -> str:
    """Of the network and of what stands around it: vectors of other ones are not comparable.

    Those of objects and of whole pictures are not either; which detector finds the objects does not matter.
    """
    objects = [] if finder is None else ["objects"]
    told = json.dumps([network, processor.metadata(), *objects], sort_keys=True, default=str)
    return hashlib.sha256(told.encode()).hexdigest()


def build_gallery(embedder: Embedder, words: Sequence[str], output: Path) -> tuple[int, list[str]]:
    """Write the gallery of all inputs; how many there are, and why others were left out.

    It keeps 4 N D bytes. From 20,000 items on it has a graph of near neighbours, which needs the extra `retrieval`.
    It remembers of each file its size, time and SHA-256, by which `changes_of` knows it again.

    Raises DataError where nothing could be read, AttributeValueError where the folder is there.
    """
    if output.exists():
        raise AttributeValueError(
            f"{output}: is there already; `paddock index update` brings a gallery up to date; else choose another "
            "--output, or remove it"
        )
    skipped: list[str] = []
    stamps: dict[str, Stamp] = {}
    rows, files = dict[str, np.ndarray](), list[str | None]()
    for (name, file), vector in embedder.of_places(embedder.places(words), skipped, stamps):
        rows[new_name(name, rows)] = vector
        files.append(file)
    if not rows:
        raise DataError(f"index: none of {len(skipped)} inputs could be read; the first: {skipped[0]}")
    said = [word for word in words if embedder.file_of(word) or os.path.isdir(word) or matched(word) != [word]]
    _write(embedder, rows, Files(os.getcwd(), tuple(said), stamps, _owners(files, stamps)), output)
    return len(rows), skipped


class Updated(NamedTuple):
    """What `update_gallery` did: items now, what had changed, and why inputs were left out."""

    total: int
    changes: Changes
    skipped: list[str]


def update_gallery(embedder: Embedder, folder: Path) -> Updated:
    """Bring a gallery up to date: files that changed or came are read, those that went leave it, all others stay.

    Raises:
        CheckpointError: it is no gallery, is damaged, or its vectors are of other numbers than the model's.
        DataError: nothing is left in it, or none of its files is where it was.
    """
    index = open_gallery(folder, embedder)
    if index.about["numbers"] != embedder.origin.numbers:
        raise CheckpointError(f"{folder}: {_OTHER_NUMBERS}; update it with the model that it was built with")
    known = _files(index, folder)
    changes = changes_of(index, folder, embedder)
    if changes.moved:
        raise DataError(f"{folder}: none of its files is where it was, below {known.folder}; build it anew")
    stale = changes.changed | changes.gone
    kept = [(item, file) for item, file in enumerate(known.of_items()) if file not in stale]
    rows = {index.names[item]: index.vectors[item] for item, _ in kept}
    files = [file for _, file in kept]
    stamps = {name: stamp for name, stamp in known.stamps.items() if name not in stale}
    skipped: list[str] = []
    fresh: dict[str, Stamp] = {}
    wanted = [str(known.path(name)) for name in (*sorted(changes.changed), *changes.new)]
    for (name, file), vector in embedder.of_places(wanted, skipped, fresh):
        rows[new_name(known.named(name), rows)] = vector
        files.append(None if file is None else known.named(file))
    if not rows:
        raise DataError(f"{folder}: nothing would be left in it; remove it")
    stamps |= {known.named(name): stamp for name, stamp in fresh.items()}
    beside = folder.with_name(f"{folder.name}.updated")
    remove(beside)
    _write(embedder, rows, Files(known.folder, known.words, stamps, _owners(files, stamps)), beside)
    remove_folder(folder)  # under another name at once
    move(beside, folder)
    return Updated(len(rows), changes, skipped)


def _owners(files: Sequence[str | None], stamps: Mapping[str, Stamp]) -> np.ndarray:
    places = {name: at for at, name in enumerate(stamps)}
    return np.array([-1 if file is None else places.get(file, -1) for file in files], np.int64)


def _write(embedder: Embedder, rows: Mapping[str, np.ndarray], files: Files, output: Path) -> None:
    index = ItemIndex.build(list(rows), np.stack(list(rows.values())))
    index.about = {
        "model": embedder.digest,
        "numbers": embedder.origin.numbers,
        "pooling": embedder.pooling,
        "files": files.facts(),
    }
    index.save(output, {FILE: files.write})


def open_gallery(folder: Path, embedder: Embedder | None = None) -> ItemIndex:
    """The gallery in a folder; CheckpointError where it is none, is damaged, or is of another model.

    Exports of a run are the same model. One in 8 bits has other numbers, which is logged: its vectors lie near to those
    in float32, not on them.
    """
    index = ItemIndex.open(folder)
    if not {"model", "pooling"} <= index.about.keys():
        raise CheckpointError(f"{folder}: is no gallery; `paddock index build` makes one")
    if not {"numbers", "files"} <= index.about.keys():
        raise CheckpointError(f"{folder}: was written by an earlier version, which kept no files; build it again")
    if embedder is None:
        return index
    if (index.about["model"], index.about["pooling"]) != (embedder.digest, embedder.pooling):
        what = "model" if index.about["model"] != embedder.digest else f"pooling ({index.about.get('pooling')})"
        raise CheckpointError(
            f"{folder}: its vectors are of another {what}, so they cannot be compared; build it with this model"
        )
    if index.about["numbers"] != embedder.origin.numbers:
        _log.warning(
            "%s: %s, so cosines are lower and near neighbours may change places; build a gallery with each",
            *(folder, _OTHER_NUMBERS),
        )
    return index


def _files(index: ItemIndex, folder: Path) -> Files:
    return Files.read(folder / FILE, index.about["files"], len(index.names))


def changes_of(index: ItemIndex, folder: Path, embedder: Embedder | None = None) -> Changes:
    """What became of the files of a gallery since it was written; new ones are looked for with its model."""
    if embedder is None:
        return _files(index, folder).changes()
    return _files(index, folder).changes(lambda words: embedder.places(words, aloud=False))


def stale_items(index: ItemIndex, folder: Path, changes: Changes) -> dict[str, str]:
    """ "changed" or "gone" of the items whose file no longer is what their vector is of, by name."""
    files = zip(index.names, _files(index, folder).of_items(), strict=True)
    return {
        name: "changed" if file in changes.changed else "gone"
        for name, file in files
        if file in changes.changed or file in changes.gone
    }


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
