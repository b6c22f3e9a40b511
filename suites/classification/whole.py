"""Published classifiers of images as a whole, by their config.json and preprocessor_config.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.errors import CheckpointError
from framework.outside import read_json
from suites.engine.registry import register
from suites.engine.weights.published import WHOLE, WholeModel, names_of_labels
from suites.vision.published import backbone_of

_PREPARED = "preprocessor_config.json"
_NORMAL = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}  # transformers' own where nothing is said


@register(WHOLE, "ForImageClassification")
def classifier(fields: Mapping[str, Any], where: str, name: str) -> WholeModel:
    """A class for each image."""
    names = names_of_labels(fields, where)
    overrides = {
        "model.backbone": {"$replace": backbone_of(fields, where)},
        "model.pretrained": name,
        "model.top": True,
        "data.num_classes": len(names),
        "data.eval.transforms": _transforms(Path(where).parent),
    }
    texts = [f"{path}={json.dumps(value)}" for path, value in overrides.items()]
    return WholeModel("classification/imagenet_published", texts, names)


def _transforms(folder: Path) -> list[dict[str, Any]]:
    """What the network is shown."""
    path = folder / _PREPARED
    if not path.is_file():
        raise CheckpointError(f"{folder}: has no {_PREPARED}, so what the network is shown is not known")
    try:
        found = read_json(path)
        side = _side(found.get("size", 224))
        share = found.get("crop_pct")
        normal = {key: [float(each) for each in found.get(key, value)] for key, value in _NORMAL.items()}
        crop = _side(found["crop_size"]) if found.get("do_center_crop") else None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise CheckpointError(f"{path}: is not as transformers writes it ({error})") from None
    if not found.get("do_rescale", True) or not found.get("do_normalize", True) or not found.get("do_resize", True):
        raise CheckpointError(f"{path}: images are resized, divided by 255 and normalised here; it asks for less")
    short = int(side / share) if share and side < 384 else side  # ConvNeXt's: more is seen, and its middle taken
    crop = crop or (side if short > side else None)
    steps: list[dict[str, Any]] = [{"id": "resize", "type": "Resize", "size": side}]
    if crop is not None:
        steps = [{"id": "resize", "type": "ResizeShort", "size": short}]
        steps += [{"id": "crop", "type": "CenterCrop", "size": crop}]
    mean, std = normal.values()
    return [*steps, {"id": "normalize", "type": "Normalize", "mean": mean, "std": std}]


def _side(value: Any) -> int:
    """A side in pixels, in any of the ways that it is written."""
    if isinstance(value, Mapping):
        value = value.get("shortest_edge", value.get("height"))
    if type(value) is not int or not 1 <= value <= 4096:
        raise ValueError(f"a size of {value}")
    return value
