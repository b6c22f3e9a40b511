"""`pretrained: NAME-or-path`: published weights, of a record or of a file, into a network or a part of one.

A network says what others call its tensors: `schemes` lists whose names it knows, `names_in(scheme)` gives them, and
`class_tensors` which of its tensors depend on the number of classes. Without them it takes files under its own names.
`class_rows()` says where the rows of classes lie in those: rows of no class, and of classes of the same name, are kept.
`class_names_in(scheme)` is for layers that know their classes themselves: the names of theirs, and of a record's.
A layer that adds something to what is published, as a deformable convolution does, begins with it: `new_tensors`.
`current_name(name)` is what a file's older name is called today. `cfg_file` is the darknet cfg that a layer is
built of, which gives the shapes of darknet's files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import CheckpointError
from framework.io import read_arrays
from framework.nn import Layer, init
from framework.outside import expanded
from suites.engine.names import did_you_mean
from suites.engine.weights.answers import check_answers, unchanged_if_refused
from suites.engine.weights.eight_bits import refuse_folded
from suites.engine.weights.fetching import check_file
from suites.engine.weights.formats.reading import read_weights
from suites.engine.weights.formats.states import rank
from suites.engine.weights.hub.libraries import our_name
from suites.engine.weights.hub.names import is_hub, with_file
from suites.engine.weights.loading import load_weights
from suites.engine.weights.matching import Classes, LoadReport, Names, Source, load_mapped, shown
from suites.engine.weights.origins import check_origin
from suites.engine.weights.records import Record, find_record, is_address, record_names

_log = logging.getLogger(__name__)
OWN = "paddock"  # the scheme of our own names
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}  # what `Normalize` has by default
_NEAR = 0.02  # by which means and deviations may differ
_LEAST = 0.2  # share of a model's names that a file has, or it is no file of that model's family
_COUNTERS = (r"(^|\.)num_batches_tracked$",)  # PyTorch's batch norms count, which nothing here reads


@dataclass
class _Wanted:
    """What a layer was asked to start from, and what became of it."""

    source: str
    report: LoadReport | None = None


def start_from(layer: Layer, source: str | None) -> None:
    """Say that `layer` starts from published weights; the last line of a constructor that takes `pretrained`.

    They are loaded now, or by `load_wanted` where the model is drawn only after it is built, as from a config.
    """
    if source is None:
        return
    layer.__dict__["_pretrained"] = wanted = _Wanted(source)
    if init.drawing():
        wanted.report = load_pretrained(layer, source)


def forget_wanted(model: Layer) -> list[str]:
    """Let no part of a model start from published weights any more; return what they asked for."""
    return [part.__dict__.pop("_pretrained").source for _, part, _ in list(_wanting(model))]


def load_what_fits(model: Layer, path: Path) -> list[str]:
    """Put weights to train on from into a model; return lines that say what did not fit.

    What fits of a safetensors file of ours, or all of a file of another framework whose names the model knows.

    Raises CheckpointError where nothing fits.
    """
    if path.suffix == ".safetensors" and has_our_names(model, path):
        return load_weights(model, path, partial=True)
    return [str(load_pretrained(model, path))]


def _wanting(model: Layer) -> Iterator[tuple[str, Layer, _Wanted]]:
    """Path, layer and wish of each part that starts from published weights; parts before what they are in."""
    found = [(path, part, part.__dict__.get("_pretrained")) for path, part in model.named_layers()]
    yield from ((path, part, wanted) for path, part, wanted in reversed(found) if wanted is not None)


def load_wanted(model: Layer, classes: Sequence[str] = ()) -> list[str]:
    """Load what parts of `model` start from and do not hold yet; return a line on each.

    `classes` are the names of the model's classes, where they are known.

    Raises CheckpointError where weights are missing, with the command that fetches them.
    """
    lines = []
    for path, part, wanted in _wanting(model):
        if wanted.report is None:
            wanted.report = load_pretrained(part, wanted.source, classes=classes)
        lines.append(f"{path or type(model).__name__}: pretrained {wanted.source}: {wanted.report}")
    return lines


def shown_otherwise(model: Layer, transforms: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line on each part whose weights were trained on pictures that were normalised otherwise.

    Args:
        model: with parts that are pretrained.
        transforms: those of evaluation as plain data; a `Normalize` among them says mean and deviation.
    """
    found = [t for t in transforms if t.get("type") == "Normalize"]
    lines = []
    for path, part, wanted in _wanting(model):
        record = find_record(wanted.source)
        shown = record.preprocessing if record else None
        if shown is None or not found:
            continue
        ours = {name: list(found[-1].get(name, default)) for name, default in _IMAGENET.items()}
        theirs = {"mean": shown.mean, "std": shown.std}
        if any(abs(a - b) > _NEAR for name in ours for a, b in zip(ours[name], theirs[name], strict=True)):
            lines.append(
                f"{path or type(part).__name__}: {wanted.source} was trained with Normalize mean {shown.mean} and std "
                f"{shown.std}, and this config has mean {ours['mean']} and std {ours['std']}"
            )
    return lines


def loaded_names(model: Layer) -> set[str]:
    """Names of the tensors of `model` that hold published weights already."""
    return {
        f"{path}.{name}" if path else name
        for path, _, wanted in _wanting(model)
        if wanted.report is not None
        for name in wanted.report.loaded
    }


def wants_weights(model: Layer) -> bool:
    """Whether all of `model`, by itself or in parts, starts from published weights."""
    places = [f"{path}." if path else "" for path, _, _ in _wanting(model)]
    return bool(places) and all(name.startswith(tuple(places)) for name in model.state_dict())


def load_pretrained(
    layer: Layer, source: str | Path, *, scheme: str | None = None, classes: Sequence[str] = ()
) -> LoadReport:
    """Put published weights into a network or a part of one, such as a backbone.

    Args:
        layer: whose parameters and buffers are replaced.
        source: the name of a record (`paddock zoo list`), of the hub (`hf:OWNER/NAME@REVISION`), an address
            (`https://host/w.pth#sha256=DIGEST`), or a weight file; see `read_weights`. Of a file with several
            networks the first counts in the order `states.STATE_KEYS`; `FILE#teacher` is the one under that key.
            `FILE@torchvision` says which network it is of, where names do not tell; see `origins`.
        scheme: whose names the file has; by default the record's, or found out.
        classes: names of the layer's classes; those that the record names too keep their rows of the file.

    Returns:
        What was taken, what is new in the model and what of the file was left over.

    Raises:
        CheckpointError: the file is not there (the message has the command that fetches it), is damaged, does not fit,
            is or may be of another network, or its network gives other answers than its record; the layer is unchanged.
    """
    source, part, told = divided(source)
    path, record = resolve(source)
    arrays = read_weights(path, part, _cfg_of(layer))
    where = f"{path} ({record.name})" if record else str(path)
    refuse_folded(layer, arrays, where)
    if (current := getattr(layer, "current_name", None)) is not None:
        arrays = {current(name): array for name, array in arrays.items()}
    chosen, names, arrays = _recognised(layer, arrays, scheme or (record.scheme if record else None), where, part)
    if record is None or not record.answers:
        check_origin(layer, chosen, path, where, told or (record.origin if record else None))
    resized = tuple(getattr(layer, "class_tensors", ()))
    theirs = record.names_of_classes() if record and classes else None
    if record and hasattr(layer, "class_names_in"):
        classes, theirs = layer.class_names_in(chosen)
    with unchanged_if_refused(layer, record):
        try:
            report = load_mapped(
                layer,
                arrays,
                names.sources,
                file=where,
                unused=(*names.unused, *_COUNTERS),
                resized=resized,
                rows=layer.class_rows() if hasattr(layer, "class_rows") else {},
                classes=Classes(tuple(classes), tuple(theirs or ())),
                copies=names.copies,
            )
        except CheckpointError as error:
            raise CheckpointError(f"{error} (names of {chosen})") from None
        check_answers(layer, record, report.loaded)
    return report


def _cfg_of(layer: Layer) -> Path | None:
    """The darknet cfg that a part of a layer is built of."""
    return next((part.cfg_file for _, part in layer.named_layers() if hasattr(part, "cfg_file")), None)


def divided(source: str | Path) -> tuple[str | Path, str | None, str | None]:
    """A file, the part of it that is meant and what it is of: `FILE#teacher@torchvision`.

    A file whose own name has such an ending is one.
    """
    source = our_name(source, record_names()) if isinstance(source, str) else source
    if is_hub(str(source)):  # what is behind @ is a revision
        name, _, word = str(source).partition("#")
        return name, word or None, None
    source, told = _cut(source, "@")
    if is_address(str(source)):  # `#sha256=DIGEST` is a part of it
        return source, None, told
    source, part = _cut(source, "#")
    return source, part, told


def _cut(source: str | Path, sign: str) -> tuple[str | Path, str | None]:
    path, found, word = str(source).rpartition(sign)
    named = found and path and word and "/" not in word
    return (path, word) if named and not Path(source).exists() else (source, None)


def resolve(source: str | Path) -> tuple[Path, Record | None]:
    """The weight file that a name or path means, and its record.

    Raises:
        CheckpointError: there is no such record or file, or the record's file is not fetched yet or another one.
    """
    path = expanded(source)
    record = find_record(str(source))
    if record is not None:
        for file in record.files:
            check_file(record.folder() / file.name, file, record)
        return record.weights(), record
    if path.exists():
        return path, None
    hint = did_you_mean(str(source), record_names())
    raise CheckpointError(
        f"pretrained: '{source}' is no file and no weights of that name are known{hint or ';'} "
        "`paddock zoo list` shows those that are"
    )


def with_names(path: str) -> str:
    """A path whose first part may be the name of published weights: `minilm_l6/vocab.txt` is that record's file.

    Raises:
        CheckpointError: the record's file is not fetched yet, or is another one.
    """
    name, slash, rest = path.partition("/")
    if (of_hub := with_file(path)) is not None:
        name, rest = of_hub
    record = find_record(name) if slash and not Path(name).exists() else None
    file = next((file for file in record.files if file.name == rest), None) if record else None
    if record is None or file is None:
        return path
    check_file(record.folder() / file.name, file, record)
    return str(record.folder() / file.name)


def schemes_of(layer: Layer) -> dict[str, Callable[[], Names]]:
    """What gives a layer's names, by scheme; our own always."""
    offered: Mapping[str, Callable[[], Names]] = {
        scheme: (lambda scheme=scheme: layer.names_in(scheme))  # type: ignore[attr-defined, misc]
        for scheme in getattr(layer, "schemes", ())
    }
    return {OWN: lambda: Names({name: Source((name,)) for name in layer.state_dict()}), **offered}


def has_our_names(layer: Layer, path: Path) -> bool:
    """Whether a safetensors file has tensors of a layer under our names, and no more under another scheme's.

    torchvision's ResNet shares `fc.weight` with ours, and no other name.
    """
    arrays = read_arrays(path)
    if not layer.state_dict().keys() & arrays.keys():
        return False
    try:
        return _recognised(layer, arrays, None, str(path))[0] == OWN
    except CheckpointError:  # few names of any scheme
        return True


def _recognised(
    layer: Layer, arrays: Mapping[str, np.ndarray], scheme: str | None, where: str, part: str | None = None
) -> tuple[str, Names, dict[str, np.ndarray]]:
    """The scheme of a file's names, the layer's names in it, and the tensors without what stands before those names.

    Without a scheme, that of which the file has most names; our own where schemes have as many.
    """
    offered = schemes_of(layer)
    if scheme is not None and scheme not in offered:
        known = ", ".join(offered)
        raise CheckpointError(f"{where}: {type(layer).__name__} has no names of {scheme}; it has those of {known}")
    best: tuple[float, str, Names, str] | None = None
    for name, names_of in offered.items() if scheme is None else [(scheme, offered[scheme])]:
        names = names_of()
        theirs = names.theirs
        for prefix in _prefixes(theirs, arrays, part):
            hits = sum(prefix + n in arrays for n in theirs) / len(theirs)
            if best is None or hits > best[0]:
                best = (hits, name, names, prefix)
    assert best is not None
    hits, name, names, prefix = best
    if hits < _LEAST:
        raise CheckpointError(
            f"{where}: not the weights of this {type(layer).__name__}: they begin with {shown(list(arrays)[:3])}, and "
            f"it knows the names of {', '.join(offered)}"
        )
    if not prefix:
        return name, names, dict(arrays)
    _say_others(where, prefix, names, arrays)
    # What is not below the prefix belongs to what this layer is a part of.
    inside = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
    outside = {n: a for n, a in arrays.items() if not n.startswith(prefix)}
    unused = (*names.unused, *(f"^{re.escape(n)}$" for n in outside))
    return (
        name,
        Names(names.sources, unused, names.copies),
        {**inside, **{n: a for n, a in outside.items() if n not in inside}},
    )


def _prefixes(theirs: set[str], names: Iterable[str], part: str | None = None) -> list[str]:
    """What may stand before the names: of the model that the layer is a part of, such as `backbone.`.

    They come in the order of `states.STATE_KEYS`, then the shorter first. With `part`, those that hold it, if any do.
    """
    first = min(theirs)
    found = {n.removesuffix(first) for n in names if n.endswith("." + first)}
    ordered = ["", *sorted(found, key=lambda prefix: (rank(prefix.split(".")), len(prefix), prefix))]
    wanted = [prefix for prefix in ordered if part in prefix.split(".")]
    return wanted or ordered


def _say_others(where: str, prefix: str, names: Names, arrays: Mapping[str, np.ndarray]) -> None:
    """Logs which of several copies of a network is taken, and how to get another."""
    theirs = names.theirs
    others = [p for p in _prefixes(theirs, arrays) if p != prefix and sum(p + n in arrays for n in theirs) > 0]
    if others:
        key = others[0].rstrip(".").rpartition(".")[2]
        _log.info("%s: taken are the tensors under '%s'; add '#%s' for those under '%s'", where, prefix, key, others[0])
