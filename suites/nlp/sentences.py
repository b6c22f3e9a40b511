"""What sentence-transformers keeps beside an encoder, read field by field: pooling, length, what becomes of a vector.

`modules.json` lists what a text goes through; `sentence_bert_config.json` has the longest text, and
`config_sentence_transformers.json` a prompt that may stand before each text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.errors import CheckpointError
from framework.outside import read_json
from suites.nlp.fields import expect_off

_POOLINGS = {  # of our names by theirs
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "last",
}
_MODES = {"cls": "cls", "mean": "mean", "max": "max", "lasttoken": "last"}  # of `pooling_mode` since version 5
_UNKNOWN = ("pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens")
_TELLING = ("word_embedding_dimension", "embedding_dimension", "include_prompt")
_ABOUT = ("__version__", "similarity_fn_name", "prompts", "model_type")
EVERY = 1 << 40  # tokens: no limit but the encoder's positions
_LENGTHS = ("max_seq_length", "do_lower_case")


@dataclass(frozen=True)
class Sentences:
    """How a text becomes one vector.

    Attributes:
        pooling: how token vectors become one; None where nothing says so.
        normalize: whether vectors have length 1.
        max_length: tokens of a text at most, the special ones among them, perhaps more than there are positions for;
            None where nothing says so.
    """

    pooling: str | None = None
    normalize: bool = False
    max_length: int | None = None


def sentences_of(folder: Path, *, lower_case: bool = True) -> Sentences:
    """What the files of sentence-transformers in a checkpoint's folder say; nothing where there are none.

    Args:
        folder: with config.json and weights.
        lower_case: whether the tokenizer makes texts lower case.

    Raises:
        CheckpointError: a file is damaged, or asks for what is not computed here: a dense layer, several poolings at a
            time, a prompt before each text.
    """
    _check_prompt(folder / "config_sentence_transformers.json")
    length = _length(folder / "sentence_bert_config.json", lower_case)
    path = folder / "modules.json"
    if not path.is_file():
        return Sentences(max_length=length)
    kinds = []
    pooling = None
    for module in _list(path):
        kind = str(module.get("type", "")).rpartition(".")[2]
        where = folder / str(module.get("path", ""))
        if where.resolve() != folder.resolve() and folder.resolve() not in where.resolve().parents:
            raise CheckpointError(f"{path}: the path of {kind} leads out of the folder")
        if kind == "Pooling":
            pooling = _pooling(where / "config.json")
        kinds.append(kind)
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise CheckpointError(
            f"{path}: a text goes through {', '.join(kinds) or 'nothing'}; only Transformer, Pooling and perhaps "
            "Normalize are computed"
        )
    return Sentences(pooling, kinds[-1] == "Normalize", length or _tokenizers_length(folder / "tokenizer_config.json"))


def _pooling(path: Path) -> str:
    fields = _object(path)
    for field, value in fields.items():
        if field not in (*_POOLINGS, *_UNKNOWN, *_TELLING, "pooling_mode"):
            expect_off(field, value, str(path))
    told = fields.get("pooling_mode")
    named = [told] if isinstance(told, str) else list(told or ())
    wanted = [_MODES.get(str(mode)) for mode in named]
    wanted += [_POOLINGS.get(field) for field in (*_POOLINGS, *_UNKNOWN) if fields.get(field)]
    if len(wanted) != 1 or wanted[0] is None:
        asked = [*map(str, named), *(field for field in (*_POOLINGS, *_UNKNOWN) if fields.get(field))]
        raise CheckpointError(
            f"{path}: vectors are pooled by {' and '.join(asked) or 'nothing'}; known is one of {', '.join(_POOLINGS)}"
        )
    return wanted[0]


def _length(path: Path, lower_case: bool) -> int | None:
    if not path.is_file():
        return None
    fields = _object(path)
    for field, value in fields.items():
        if field not in _LENGTHS:
            expect_off(field, value, str(path))
    if fields.get("do_lower_case") and not lower_case:
        raise CheckpointError(f"{path}: do_lower_case is true and the tokenizer's is not; that is not computed here")
    length = fields.get("max_seq_length")
    if length is not None and (type(length) is not int or length < 1):
        raise CheckpointError(f"{path}: max_seq_length is {length!r}; it must be a whole number from 1 on")
    return length


def _tokenizers_length(path: Path) -> int:
    """What sentence-transformers takes where it keeps no length: the tokenizer's, else as much as fits."""
    length = _object(path).get("model_max_length") if path.is_file() else None
    return length if type(length) is int and length > 0 else EVERY


def _check_prompt(path: Path) -> None:
    if not path.is_file():
        return
    fields = _object(path)
    name = fields.get("default_prompt_name")
    prompts = fields.get("prompts") or {}
    if name is not None and (not isinstance(prompts, dict) or prompts.get(name) != ""):
        raise CheckpointError(
            f"{path}: default_prompt_name is {name!r}, a text before each text, which is not put there here; set it to "
            "null and write the prompt into your texts"
        )
    for field, value in fields.items():
        if field not in (*_ABOUT, "default_prompt_name"):
            expect_off(field, value, str(path))


def _object(path: Path) -> dict[str, Any]:
    found = _json(path)
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: it holds a {type(found).__name__}, not an object")
    return found


def _list(path: Path) -> list[dict[str, Any]]:
    found = _json(path)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise CheckpointError(f"{path}: it does not hold a list of modules")
    return found


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None
