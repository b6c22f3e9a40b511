"""A model with narrower layers than its settings say: what pruning left of it."""

from __future__ import annotations

import logging

from framework.errors import CheckpointError, ConfigError
from framework.nn import Layer
from framework.pruning import narrow, widths_of
from suites.engine.config.sections import PruningSettings
from suites.engine.names import did_you_mean, listing
from suites.engine.weights.pretrained import forget_wanted

_log = logging.getLogger(__name__)


def make_narrow(model: Layer, settings: PruningSettings, *, starts: bool) -> None:
    """Give a model's layers the widths of a config's `pruning`; they are drawn anew.

    Published weights that parts of the model ask for do not fit any more and are not loaded.

    Args:
        model: as its settings built it.
        settings: the section `pruning`.
        starts: whether training starts from weights of its own (`runtime.weights`).

    Raises:
        ConfigError: the model has no such layer, or it is no wider than that.
    """
    known = widths_of(model)
    for path, wanted in settings.layers.items():
        if path not in known:
            near = did_you_mean(path, list(known))
            raise ConfigError(f"pruning.layers: the model has no layer '{path}' that can be narrower{near}")
        if len(wanted) == len(known[path]) and any(a > b for a, b in zip(wanted, known[path], strict=True)):
            raise ConfigError(f"pruning.layers: '{path}' is {wanted}, wider than the model's {known[path]}")
    try:
        narrow(model, settings.layers)
    except CheckpointError as error:
        raise ConfigError(f"pruning.layers: {error}") from None
    asked = forget_wanted(model)
    if asked and not starts:
        _log.warning(
            "pruning: published weights (%s) do not fit narrower layers and are not loaded; training starts from "
            "random numbers, unless runtime.weights names others",
            listing(asked),
        )
