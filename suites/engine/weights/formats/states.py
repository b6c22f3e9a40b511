"""Which network in a training script's file is meant: by an order that is written down, said, and can be overruled.

Files hold a state_dict by itself, or under a key, beside an average of it, or a teacher beside its student. Without a
wish the first key of `STATE_KEYS` counts, in the file's containers and in what stands before the names of its tensors.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from framework.errors import CheckpointError

STATE_KEYS = (
    *("state_dict", "model_state_dict", "model_state", "model", "net", "network", "module", "params", "weights"),
    *("model_ema", "state_dict_ema", "ema", "ema_state_dict", "params_ema"),
    *("teacher", "student", "encoder_q", "online", "encoder_k", "target", "momentum_encoder"),
)
_OF_OPTIMIZERS = ("optim", "scheduler", "scaler", "sampler", "history", "loss")
_LEVELS = 3  # of containers around a state
_log = logging.getLogger(__name__)


def rank(keys: Iterable[str]) -> int:
    """How late a network comes in the order, by the keys around it: that of its latest one, 0 for none of the order."""
    return max((STATE_KEYS.index(key) + 1 for key in keys if key in STATE_KEYS), default=0)


def chosen_state(value: dict[Any, Any], part: str | None = None) -> dict[Any, Any]:
    """The state_dict in what a training script saved; `value` itself where it is one.

    Args:
        value: what the file holds.
        part: a key around the one that is wanted, such as "teacher"; by default the first in the order counts.

    Raises:
        CheckpointError: there are several and none is under a key of the order, or none is under `part`.
    """
    found = dict(_states(value, ()))
    known = [keys for keys in found if rank(keys)]
    if part is not None and any(part in keys for keys in found):
        chosen = min((keys for keys in found if part in keys), key=rank)
    elif () in found and not known and (part is None or any(part in str(name).split(".") for name in value)):
        return value  # the part stands before its names
    elif part is not None:
        raise CheckpointError(f"it holds no tensors under '{part}'; it has them under {_listed(found)}")
    elif known:
        chosen = min(known, key=rank)
    elif len(found) <= 1:
        chosen = next(iter(found), ())
    else:
        raise CheckpointError(f"it holds several networks, under {_listed(found)}; add '#' and one of them to its path")
    _say(chosen, [keys for keys in found if keys and keys != chosen])
    state: dict[Any, Any] = found.get(chosen, value)
    return state


def _states(value: dict[Any, Any], keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[Any, Any]]]:
    """Containers that hold tensors by name, by the keys around them; not those of optimizers."""
    if any(_is_tensor(item) for item in value.values()):
        yield keys, value
    if len(keys) == _LEVELS:
        return
    for key, item in value.items():
        if isinstance(key, str) and isinstance(item, dict) and not any(word in key.lower() for word in _OF_OPTIMIZERS):
            yield from _states(item, (*keys, key))


def _is_tensor(item: Any) -> bool:
    return isinstance(item, np.ndarray) or (isinstance(item, tuple) and len(item) == 2 and _is_tensor(item[1]))


def _listed(found: Iterable[tuple[str, ...]]) -> str:
    return ", ".join(f"'{'.'.join(keys)}'" for keys in found) or "no key"


def _say(chosen: tuple[str, ...], others: list[tuple[str, ...]]) -> None:
    if not chosen:
        return
    rest = f"; it also has {_listed(others)}: add '#{others[0][-1]}' to its path for that" if others else ""
    _log.info("the weights are those under '%s'%s", ".".join(chosen), rest)
