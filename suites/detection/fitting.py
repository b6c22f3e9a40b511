"""Anchors by the data: what `auto` at `model.rpn.sizes` of a config becomes."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from framework.errors import ConfigError
from suites.detection.sample import GroundTruth
from suites.engine.config import Config, Factory
from suites.engine.registry import register

_log = logging.getLogger(__name__)
_PLACE = "model.rpn.sizes"
_SMALL = 0.2  # share of the objects that may be smaller than the smallest anchor
_LEAST, _MOST = 8, 64  # of the smallest anchor, in pixels


@register("measure", "detection")
def measured(config: Config) -> dict[str, Any]:
    """Values for places of a config that say `auto`, by key path; each is logged.

    The smallest anchor of a pyramid has the side that four of five objects exceed, to the next multiple of 4 from 8 to
    64 pixels; each further level has twice the side.
    """
    if config.get(_PLACE) != "auto":
        return {}
    dataset = config.part("data.train.dataset")
    truth: GroundTruth = (dataset() if isinstance(dataset, Factory) else dataset).ground_truth()
    sides = scaled_sides(truth, config["data.eval.transforms"])
    smallest = int(np.clip(4 * round(np.quantile(sides, _SMALL) / 4), _LEAST, _MOST))
    levels = len(config["model.backbone.out_strides"]) + 1
    sizes = [smallest << level for level in range(levels)]
    _log.info("%s: %s, as 4 of 5 objects are larger than %.0f pixels", _PLACE, sizes, np.quantile(sides, _SMALL))
    return {_PLACE: sizes}


def scaled_sides(truth: GroundTruth, transforms: list[dict[str, Any]]) -> np.ndarray:
    """Roots of the areas of all objects that are no crowd regions, in pixels of the network's input, float64 [T].

    Raises:
        ConfigError: there are no objects, or no `ResizeKeepRatio` says how images are scaled.
    """
    resize = next((t for t in transforms if t.get("type") == "ResizeKeepRatio"), None)
    if resize is None:
        raise ConfigError(f"{_PLACE}: auto: no ResizeKeepRatio among data.eval.transforms; write the sizes")
    scale = np.minimum(resize["short"] / truth.sizes.min(axis=1), resize["max_long"] / truth.sizes.max(axis=1))
    sides = np.sqrt((truth.boxes[:, 2:] - truth.boxes[:, :2]).prod(axis=1)) * scale[truth.owners()]
    sides = sides[~truth.crowd]
    if not len(sides):
        raise ConfigError(f"{_PLACE}: auto: the training set has no objects")
    return np.asarray(sides, np.float64)
