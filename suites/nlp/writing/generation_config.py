"""How a published model's texts are chosen and where they end, as the generation_config.json beside it says."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.errors import AttributeValueError, CheckpointError
from framework.outside import read_json_object
from suites.nlp.fields import check_token_numbers
from suites.nlp.writing.search import CONTINUED, Search

FILE = "generation_config.json"
_log = logging.getLogger(__name__)
_TOP_K = 50  # transformers' own, where a file draws words and says no other
# What changes a text and is not computed here, with the value that changes nothing.
_NOT_COMPUTED: dict[str, Any] = {
    **dict.fromkeys(("typical_p", "length_penalty", "encoder_repetition_penalty", "num_beam_groups"), 1),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty", "min_length", "min_new_tokens"), 0),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "penalty_alpha"), 0),
    **dict.fromkeys(("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias", "stop_strings")),
    **dict.fromkeys(("forced_bos_token_id", "forced_eos_token_id", "exponential_decay_length_penalty")),
    "guidance_scale": 1,
}


def search_of(folder: Path, fields: Mapping[str, Any], closing: int, size: int) -> dict[str, Any]:
    """The arguments of `Search` that a checkpoint asks for; what is not computed is told.

    Args:
        folder: of the checkpoint.
        fields: of its config.json, whose `eos_token_id` counts where generation_config.json names none.
        closing: the tokenizer's token at the end of a text.
        size: tokens of the vocabulary.

    Returns none where it asks for nothing.

    Raises CheckpointError for a file that cannot be read, and for values that are none.
    """
    where = folder / FILE
    told = read_json_object(where) if where.is_file() else {}
    check_token_numbers(told, size, str(where))
    found: dict[str, Any] = {}
    if told.get("do_sample"):
        found["temperature"] = _number(told, "temperature", 1.0, where)
        if (top_k := told.get("top_k", _TOP_K)) != 0:
            found["top_k"] = top_k
        found |= {name: _number(told, name, 1.0, where) for name in ("top_p", "min_p") if told.get(name) is not None}
    elif "do_sample" in told:
        found["temperature"] = 0.0
        if (beam := told.get("num_beams")) is not None:
            found["beam"] = beam
    if told.get("repetition_penalty") is not None:
        found["repetition_penalty"] = _number(told, "repetition_penalty", 1.0, where)
    if told.get("max_new_tokens") is not None:
        found["max_length"] = told["max_new_tokens"]
    for name in ("top_k", "beam", "max_length"):
        if name in found and found[name] is not None and type(found[name]) is not int:
            raise CheckpointError(f"{where}: {name} is {found[name]!r:.40}; it must be a whole number")
    if ends := _other_ends(told.get("eos_token_id", fields.get("eos_token_id")), closing, size):
        found["stop_ids"] = ends
    try:
        Search(**found)
    except AttributeValueError as error:
        raise CheckpointError(f"{where}: {error}") from None
    _tell(where, told, found)
    usual: dict[str, Any] = {"max_length": CONTINUED.max_length}
    if "temperature" not in found:
        usual |= {"temperature": CONTINUED.temperature, "top_p": CONTINUED.top_p}
    return usual | found if found else {}


def _number(told: Mapping[str, Any], name: str, default: float, where: Path) -> float:
    value = told.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not math.isfinite(value):
        raise CheckpointError(f"{where}: {name} is {value!r:.40}; it must be a number")
    return float(value)


def _other_ends(said: Any, closing: int, size: int) -> list[int]:
    """Tokens besides the tokenizer's own at which texts end."""
    numbers = said if isinstance(said, list) else [said]
    return sorted({each for each in numbers if each is not None and 0 <= each < size} - {closing})


def _tell(where: Path, told: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    if found:
        said = ", ".join(f"{name} {value}" for name, value in found.items())
        _log.info("%s: its texts are chosen as they ask for: %s (problem.search)", where.parent, said)
    left = [
        f"{name} {str(told[name])[:40]}"
        for name, nothing in _NOT_COMPUTED.items()
        if told.get(name) not in (None, nothing, []) and not (name == "length_penalty" and "beam" not in found)
    ]
    if left:
        _log.warning("%s: asks for %s, which is not computed here; texts may differ", where, ", ".join(left))
