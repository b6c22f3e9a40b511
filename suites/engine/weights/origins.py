"""Which network a file of weights is of, where the names and shapes of its tensors do not tell.

Libraries have several networks of the same parameters: timm's resnetblur50 is its resnet50 with blurred pooling. So a
layer says what others call the networks that compute what it does. The file's own word counts: timm's `config.json`
beside it, the header of a safetensors file, or a name such as `resnet50-0676ba61.pth` whose digits begin the file's
digest. Where a file says nothing, the user does: `FILE@torchvision`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.errors import CheckpointError
from framework.io import load_metadata, sha256
from framework.nn import Layer
from framework.outside import read_json
from suites.engine.weights.formats.reading import find_weights

_CONFIGURED = ("model.safetensors", "pytorch_model.bin")  # what a config.json beside them describes
_HUB = re.compile(r"(?P<stem>[A-Za-z0-9_.]{1,80})-(?P<digits>[0-9a-f]{8,64})\.(?:pth|pt|bin|safetensors)")
_PLAIN = ("num_classes", "in_chans", "img_size", "drop_rate", "drop_path_rate", "drop_block_rate", "pretrained")


@dataclass(frozen=True)
class Origins:
    """What others call the networks that compute what a layer does, in one scheme of names.

    Attributes:
        same: architectures that compute the same; a library's name, where it has only these.
        alike: architectures of the same names and shapes that compute something else; the file or the user has to say
            which one it is if there are any.
    """

    same: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()

    def holds(self, architecture: str) -> bool:
        """Whether the layer computes what a network of this name does: `resnet50`, `timm/resnet50.a1_in1k`."""
        return architecture.rpartition("/")[2].partition(".")[0] in self.same


def check_origin(layer: Layer, scheme: str, path: Path, where: str, told: str | None) -> None:
    """Raise CheckpointError unless a file is of a network that computes what `layer` does, as far as that is asked.

    Args:
        layer: whose `origins_in(scheme)` says so; layers without it are told by the names of their tensors.
        scheme: whose names the file has.
        path: the file, or a folder with it.
        where: for messages.
        told: what the user says that it is.
    """
    offers = getattr(layer, "origins_in", None)
    origins: Origins = offers(scheme) if offers is not None else Origins()
    if not origins.same:
        return
    who = f"this {type(layer).__name__} computes {' or '.join(origins.same[:3])}"
    said = _stated(path, origins)
    for what, text in (("says that it is", said), ("is said to be", told)):
        if text is not None and not origins.holds(text):
            raise CheckpointError(f"{where} {what} {text}, and {who}; take the network that it is of")
    if said is None and told is None and origins.alike:
        raise CheckpointError(
            f"{where}: its names do not say which network it is of: {', '.join(origins.alike)} have the same names and "
            f"shapes and compute something else; {who}. Say where it is from: {path}@{origins.same[0]}"
        )


def _stated(path: Path, origins: Origins) -> str | None:
    """What a file says by itself that it is; None where it says nothing."""
    (file, *_) = find_weights(path)
    said = _configured(file)
    if said is None and file.suffix == ".safetensors":
        said = load_metadata(file).get("architecture")
    return said if said is not None else _named(file, origins)


def _configured(file: Path) -> str | None:
    """The `architecture` of timm's config.json beside a file.

    Raises:
        CheckpointError: it gives the network an argument whose effect is not known here.
    """
    beside = file.with_name("config.json")
    if file.name not in _CONFIGURED or not beside.is_file():
        return None
    try:
        config = read_json(beside)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{beside}: not JSON ({error})") from None
    said = config.get("architecture") if isinstance(config, dict) else None
    if not isinstance(said, str):
        return None
    arguments: dict[str, Any] = config.get("model_args") or {}
    odd = [str(key) for key in arguments if key not in _PLAIN]
    if not isinstance(arguments, dict) or odd:
        names = ", ".join(odd) or "no names"
        raise CheckpointError(f"{beside}: model_args has {names}, whose effect is not known here")
    if config.get("global_pool", "avg") not in ("avg", ""):
        raise CheckpointError(f"{beside}: global_pool is {config['global_pool']!r}; here it is the mean ('avg')")
    return said


def _named(file: Path, origins: Origins) -> str | None:
    """The architecture in a name such as `resnet50_a1-0676ba61.pth`, if the digits begin the file's digest."""
    found = _HUB.fullmatch(file.name)
    if found is None or not sha256(file).startswith(found["digits"]):
        return None
    names = list(_shortened(found["stem"]))
    return next((name for name in names if origins.holds(name) or name in origins.alike), None)


def _shortened(stem: str) -> Iterator[str]:
    while stem:
        yield stem
        stem = stem.rpartition("_")[0]
