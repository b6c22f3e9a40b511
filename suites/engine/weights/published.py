"""`{type: Published, weights: NAME}` in a config: the component of ours that a checkpoint's config.json describes.

A suite registers what it knows in the role `published`, by the `model_type` of a config.json, or timm's `architecture`:
a function of its fields, the file's name for messages, the key in the config (`encoder`, `backbone`, `model`) and the
name of the weights. It returns the component as a config has it, `{"type": ..., ...}`, and raises CheckpointError for
what it does not compute. The description takes the place of `Published` when a config is read, and a run keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework import limits
from framework.errors import CheckpointError
from framework.outside import read_json_object
from suites.engine.names import did_you_mean, listing
from suites.engine.registry import REGISTRY, Registry, load_suites, suite_names
from suites.engine.weights.pretrained import divided, resolve

TYPE = "Published"
ROLE = "published"
WHOLE = "whole"  # models, by the end of the architecture's name
SENTENCES = "SentenceTransformer"  # in its place for a checkpoint with sentence-transformers' modules.json
_KEYS = ("type", "weights")
_MOST = 100_000  # classes
MOST_LAYERS = 1 << 12
WEIGHT_FILES = (".safetensors", ".bin", ".pt", ".pth", ".pdparams")


@dataclass(frozen=True)
class WholeModel:
    """A config of ours with a published model as a whole.

    Attributes:
        config: its name.
        overrides: `path=value` texts that make it that model.
        names: of its classes, where the config does not say them.
    """

    config: str
    overrides: list[str]
    names: list[str] | None = None


def names_of_labels(fields: Mapping[str, Any], where: str) -> list[str]:
    """The names of the classes in a config.json, in the order of their numbers.

    A name that comes again, as "crane" does among ImageNet's, has its number behind it.

    Raises CheckpointError where they do not number 0, 1, 2 ...
    """
    found = fields.get("id2label") or {str(k): f"LABEL_{k}" for k in range(2)}  # transformers' default
    places = {str(k) for k in range(len(found))} if isinstance(found, dict) and len(found) <= _MOST else set()
    if not places or set(found) != places or not all(isinstance(each, str) for each in found.values()):
        raise CheckpointError(f"{where}: id2label must name the classes 0, 1, 2 ...; it is {str(found)[:80]}")
    names: dict[str, None] = {}
    for k in range(len(found)):
        name = found[str(k)]
        names[f"{name} ({k})" if name in names else name] = None
    return list(names)


def whole_model(name: str) -> WholeModel:
    """The whole model that the config.json of a checkpoint names in `architectures`.

    Raises CheckpointError where it names none that a suite reads.
    """
    fields, where = read_description(name)
    given = fields.get("architectures")
    architecture = given[0] if isinstance(given, list) and given and isinstance(given[0], str) else ""
    if (checkpoint_folder(name) / "modules.json").is_file():
        architecture = SENTENCES
    load_suites(suite_names())
    known = {end: REGISTRY.owned_by(suite) for suite in suite_names() for end in REGISTRY.owned_by(suite).names(WHOLE)}
    for end, registry in known.items():
        if architecture.endswith(end):
            found: WholeModel = registry.get(WHOLE, end)(fields, where, name)
            return found
    raise CheckpointError(
        f"{where}: architectures is {str(given)[:80]}; as whole models those are read that end in {listing(known)}. "
        "Name it as the weights of a config of yours: `-o model.weights=...`"
    )


def expect_size(numbers: int, layers: int, where: str) -> None:
    """Refuse a network that a config describes before any of it is made.

    Args:
        numbers: of its weights, about.
        layers: how many it has.
        where: the config's file. Weights beside it bound the size, as files of weights are bounded.

    Raises CheckpointError where it is larger than a weight file may be, or than those beside the config can fill.
    """
    if layers > MOST_LAYERS:
        raise CheckpointError(f"{where}: describes {layers} layers; at most {MOST_LAYERS} are made")
    limits.check("weight_bytes", 4 * numbers, f"{where}: the network that it describes has too many bytes")
    file = Path(where)
    beside = [each for each in file.parent.iterdir() if each.suffix in WEIGHT_FILES] if file.is_file() else []
    held, allowed = sum(each.stat().st_size for each in beside), limits.current()
    if beside and 4 * numbers > allowed.free_bytes + allowed.growth * held:
        raise CheckpointError(
            f"{where}: describes a network of {4 * numbers} bytes, and the weights beside it have {held}; one of them "
            "is of another network"
        )


def checkpoint_folder(name: str | Path) -> Path:
    """The folder of the checkpoint that a name of weights means, or of the path of a file or folder.

    Raises CheckpointError where it is not here.
    """
    path, _ = resolve(divided(name)[0])
    return path if path.is_dir() else path.parent


def read_description(name: str | Path) -> tuple[dict[str, Any], str]:
    """The fields of the config.json of a checkpoint, and that file's name.

    Raises CheckpointError where there is none, or it is damaged.
    """
    path = checkpoint_folder(name) / "config.json"
    if not path.is_file():
        raise CheckpointError(
            f"{name}: has no config.json, so what network it is of is not known; write the network out"
        )
    return read_json_object(path), str(path)


def described(name: str, slot: str, registry: Registry) -> dict[str, Any]:
    """The component for a key of a config that a checkpoint's config.json describes, as plain data.

    Args:
        name: of the weights.
        slot: the key, such as `encoder`.
        registry: what the suite sees.

    Raises:
        CheckpointError: the checkpoint is not here, or describes what the suite does not know.
    """
    fields, where = read_description(name)
    kind = fields.get("model_type", fields.get("architecture"))
    known = registry.names(ROLE)
    if not isinstance(kind, str) or kind not in known:
        hint = did_you_mean(str(kind), known) or ";"
        raise CheckpointError(f"{where}: model_type is {str(kind)[:60]!r}{hint} this suite knows {listing(known)}")
    found: dict[str, Any] = registry.get(ROLE, kind)(fields, where, slot, name)
    return found


def holds_published(config: Mapping[str, Any]) -> bool:
    """Whether a config has a `{type: Published, weights: NAME}`."""
    return any(True for _ in _places(config))


def overrides_of(config: Mapping[str, Any], registry: Registry) -> Iterator[str]:
    """`path=value` texts that put descriptions in the place of each `{type: Published, weights: NAME}`.

    Keys beside `weights` are arguments of the component and go before what is described. Weights that are not here yet
    are left for the component to ask for.
    """
    for path, written in _places(config):
        if not _is_here(str(written["weights"])):
            continue
        slot = path.rpartition(".")[2]
        found = {
            **described(str(written["weights"]), slot, registry),
            **{k: v for k, v in written.items() if k not in _KEYS},
        }
        if "weights" not in found:
            found["weights"] = "$delete"
        yield f"{path}={json.dumps(found)}"


def _is_here(name: str) -> bool:
    try:
        return checkpoint_folder(name).is_dir()
    except CheckpointError:
        return False


def _places(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for key, inner in value.items():
        if not isinstance(inner, dict):
            continue
        here = f"{path}.{key}" if path else key
        if inner.get("type") == TYPE and isinstance(inner.get("weights"), str):
            yield here, inner
        else:
            yield from _places(inner, here)
