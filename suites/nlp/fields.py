"""Configs of other tools, read field by field: one whose effect is not known is an error, never skipped."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping
from typing import Any

from framework.errors import CheckpointError

_log = logging.getLogger(__name__)
_ROBERTAS = ("roberta", "camembert", "xlm-roberta", "data2vec-text")  # positions begin behind the padding's number
_MODELS = ("", "bert", "ernie", *_ROBERTAS)

# What must have this value, as another computes something else.
_FIXED: dict[str, tuple[Any, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "position_embedding_type": ("absolute",),
    "pool_act": ("tanh",),
    "fuse": (False,),
    "task_id": (0,),
}
_WITHOUT_EFFECT = """
classifier_dropout gradient_checkpointing tf_legacy_loss use_recompute enable_recompute problem_type
max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p
typical_p repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids
num_return_sequences output_scores return_dict_in_generate forced_bos_token_id forced_eos_token_id
remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens prefix use_cache
task_specific_params cross_attention_hidden_size decoder_start_token_id
_name_or_path name_or_path name architectures transformers_version paddlenlp_version torch_dtype dtype return_dict
output_attentions output_hidden_states torchscript output_past id2label label2id num_labels num_classes
finetuning_task tokenizer_class bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id pad_token_id
unk_token_id tie_word_embeddings tie_encoder_decoder chunk_size_feed_forward directionality pooler_fc_size
pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type language use_bfloat16
attn_implementation _attn_implementation _attn_implementation_autoset _commit_hash init_class init_args
model_type use_task_id model_max_length
"""
_TOKEN_NUMBERS = tuple(f"{name}_token_id" for name in ("bos", "eos", "pad", "cls", "sep", "mask", "unk"))
NO_EFFECT = frozenset(_WITHOUT_EFFECT.split())  # of training, of making text, and what only tells


def check_encoder(fields: Mapping[str, Any], known: Collection[str], name: str) -> None:
    """Raise CheckpointError where an encoder's config asks for what ours does not compute.

    Args:
        fields: of config.json.
        known: those that are read elsewhere.
        name: of the file, for messages.
    """
    width = fields.get("embedding_size", fields.get("emb_size"))
    if width not in (None, fields.get("hidden_size")):
        raise CheckpointError(f"{name}: embedding_size is {width}, not hidden_size: another kind of encoder")
    for field, value in fields.items():
        if field in _FIXED:
            if value is not None and value not in _FIXED[field]:
                raise CheckpointError(f"{name}: {field} is {value!r}; only {_FIXED[field][0]!r} is computed")
        elif field not in known and field not in NO_EFFECT and field not in ("embedding_size", "emb_size"):
            expect_off(field, value, name)


def check_token_numbers(fields: Mapping[str, Any], size: int, name: str) -> None:
    """Look at the numbers of special tokens, -1 where there is none.

    One beyond the vocabulary is told: transformers writes GPT-2's 50256 for networks of any size. It has no effect, as
    texts are put together and end by the tokenizer's own.

    Args:
        fields: of config.json.
        size: tokens of the vocabulary.
        name: of the file, for messages.

    Raises:
        CheckpointError: one is no whole number from -1 on.
    """
    for field in _TOKEN_NUMBERS:
        value = fields.get(field)
        for each in value if isinstance(value, list) else [value]:
            if each is not None and (type(each) is not int or each < -1):
                raise CheckpointError(
                    f"{name}: {field} is {str(value)[:60]}, which is no token: it must be a whole number; correct it "
                    "as its tokenizer has it, or take it out"
                )
            if each is not None and each >= size:
                _log.warning(
                    "%s: %s is %d, beyond its vocabulary of %d; the tokenizer's is used", name, field, each, size
                )


def check_kind(fields: Mapping[str, Any], name: str) -> None:
    """Raise CheckpointError for the config of an encoder of another kind."""
    kind = str(fields.get("model_type") or "").lower()
    if kind not in _MODELS:
        raise CheckpointError(f"{name}: model_type is '{kind}'; known are {', '.join(_MODELS[1:])}")


def is_roberta(fields: Mapping[str, Any]) -> bool:
    """Whether positions begin behind the number of the padding token."""
    return str(fields.get("model_type") or "").lower() in _ROBERTAS


def expect_off(field: str, value: Any, name: str) -> None:
    """Raise CheckpointError for a field that nobody here knows, unless it is off: null, false or empty."""
    if not (value is None or value is False or (isinstance(value, (str, list, dict)) and not value)):
        raise CheckpointError(
            f"{name}: {field} is {str(value)[:60]!r}, and what it changes is not known here, so the result would be "
            "another network's; take the field out if it changes nothing"
        )


_MOST = 1 << 31
_ACTIVATIONS = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"), "gelu_tanh"),
    **{name: name for name in ("relu", "silu", "tanh")},
    "swish": "silu",
}


class ConfigFields:
    """config.json, field by field: every one is taken, told to be without effect, or an error."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self.fields, self.where = fields, where
        self._taken: set[str] = {"model_type"}
        self._idle: set[str] = set()

    def number(self, name: str, default: int | None = None, least: int = 0) -> int:
        """A whole number."""
        found = self._get(name, default)
        if type(found) is not int or not least <= found < _MOST:
            raise self._wrong(name, found, f"a whole number from {least} on, below 2^31")
        return found

    def optional(self, name: str) -> int | None:
        """A whole number above 0; None where there is none."""
        self._taken.add(name)
        return None if self.fields.get(name) is None else self.number(name, least=1)

    def part(self, name: str) -> dict[str, Any]:
        """An object; an empty one where there is none."""
        found = self._get(name, {})
        if found and not isinstance(found, dict):
            raise self._wrong(name, found, "an object")
        return dict(found or {})

    def share(self, name: str, default: float) -> float:
        """A number from 0 on."""
        found = self._get(name, default)
        if type(found) not in (int, float) or not math.isfinite(found) or found < 0:
            raise self._wrong(name, found, "a number from 0 on")
        return float(found)

    def switch(self, name: str, default: bool) -> bool:
        """True or false."""
        found = self._get(name, default)
        if type(found) is not bool:
            raise self._wrong(name, found, "true or false")
        return found

    def activation(self, name: str, default: str) -> str:
        """One of ours."""
        found = self._get(name, default)
        if not isinstance(found, str) or found not in _ACTIVATIONS:
            raise self._wrong(name, found, f"one of {', '.join(_ACTIVATIONS)}")
        return _ACTIVATIONS[found]

    def any(self, name: str, default: Any) -> Any:
        """As it is; the caller checks it."""
        return self._get(name, default)

    def expect(self, **wanted: Any) -> None:
        """Raise CheckpointError where one of these has another value, which would compute something else."""
        for name, value in wanted.items():
            found = self._get(name, value)
            if found != value:
                raise CheckpointError(f"{self.where}: {name} is {found!r}; only {value!r} is computed")

    def ignore(self, *names: str) -> None:
        """Fields of training, of heads, and of other programs' speed."""
        self._idle.update(names)

    def finish(self) -> None:
        """Raise CheckpointError for a field that nobody took."""
        for name, value in self.fields.items():
            if name not in self._taken | self._idle and name not in NO_EFFECT:
                expect_off(name, value, self.where)

    def kept(self) -> dict[str, Any]:
        """Those that count."""
        return {name: value for name, value in self.fields.items() if name in self._taken and value is not None}

    def _get(self, name: str, default: Any) -> Any:
        self._taken.add(name)
        found = self.fields.get(name)
        if found is None and default is None:
            raise CheckpointError(f"{self.where}: {name} is missing")
        return default if found is None else found

    def _wrong(self, name: str, found: Any, wanted: str) -> CheckpointError:
        return CheckpointError(f"{self.where}: {name} is {str(found)[:60]!r}; it must be {wanted}")
