"""Sizes of the BERT family, by name and from the config.json of a checkpoint folder.

Sources: google-research/bert, PaddlePaddle/ERNIE (config/ernie_config.json), PaddleNLP (ernie/configuration.py), and
the config.json files on the Hugging Face hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from framework.errors import CheckpointError
from framework.outside import read_json_object
from suites.engine.weights.published import expect_size
from suites.nlp.fields import check_encoder, check_kind, check_token_numbers, is_roberta


@dataclass(frozen=True)
class BertConfig:
    """What decides the shape and the mathematics of a BERT.

    Attributes:
        vocab_size: rows of the word table.
        hidden_size: D.
        layers: number of encoder layers.
        heads: attention heads.
        ffn_size: width between the linear layers of an encoder layer.
        activation: between them and in the head of the masked language model.
        max_positions: rows of the position table.
        segment_types: rows of the segment table; 0 for none.
        task_types: rows of the task table; 0 for none.
        dropout: of embeddings and of what sub-layers give.
        attention_dropout: of attention weights.
        eps: of the layer norms.
        head_size: width of an attention head; None for hidden_size / heads. Another only where heads were cut away.
        first_position: position of a sequence's first token: 0, or RoBERTa's padding id + 1.
        init_std: standard deviation of the starting weights, which are cut off at twice that.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    layers: int = 12
    heads: int = 12
    ffn_size: int = 3072
    activation: str = "gelu"
    max_positions: int = 512
    segment_types: int = 2
    task_types: int = 0
    dropout: float = 0.1
    attention_dropout: float = 0.1
    eps: float = 1e-12
    head_size: int | None = None
    first_position: int = 0
    init_std: float = 0.02


def _sizes(layers: int, hidden: int, heads: int, ffn: int = 0) -> dict[str, int]:
    return {"layers": layers, "hidden_size": hidden, "heads": heads, "ffn_size": ffn or 4 * hidden}


_BERT = BertConfig()
_LARGE = _sizes(24, 1024, 16)
# Paddle's layer norm adds 1e-5 unless told otherwise, and these models were not.
_ERNIE = replace(_BERT, vocab_size=18000, activation="relu", max_positions=513, eps=1e-5)
_ERNIE2_EN = replace(_BERT, segment_types=4, task_types=16, eps=1e-5)
_ERNIE2_ZH = replace(_ERNIE, segment_types=4)
_ERNIE3 = replace(_BERT, vocab_size=40000, max_positions=2048, segment_types=4, task_types=16, eps=1e-5)
_ROBERTA = replace(_BERT, vocab_size=50265, max_positions=514, segment_types=1, first_position=2, eps=1e-5)

PRESETS: dict[str, BertConfig] = {
    "bert_base_uncased": _BERT,
    "bert_base_cased": replace(_BERT, vocab_size=28996),
    "bert_base_chinese": replace(_BERT, vocab_size=21128),
    "bert_base_multilingual_cased": replace(_BERT, vocab_size=119547),
    "bert_large_uncased": replace(_BERT, **_LARGE),  # type: ignore[arg-type]
    "bert_tiny": replace(_BERT, **_sizes(2, 128, 2)),  # type: ignore[arg-type]
    "bert_mini": replace(_BERT, **_sizes(4, 256, 4)),  # type: ignore[arg-type]
    "bert_small": replace(_BERT, **_sizes(4, 512, 8)),  # type: ignore[arg-type]
    "bert_medium": replace(_BERT, **_sizes(8, 512, 8)),  # type: ignore[arg-type]
    "minilm_l6": replace(_BERT, **_sizes(6, 384, 12)),  # type: ignore[arg-type]
    "roberta_base": _ROBERTA,
    "roberta_large": replace(_ROBERTA, **_LARGE),  # type: ignore[arg-type]
    "ernie_1.0": _ERNIE,
    "ernie_2.0_base_en": _ERNIE2_EN,
    "ernie_2.0_large_en": replace(_ERNIE2_EN, **_LARGE),  # type: ignore[arg-type]
    "ernie_2.0_base_zh": _ERNIE2_ZH,
    "ernie_2.0_large_zh": replace(_ERNIE2_ZH, vocab_size=12800, max_positions=512, **_LARGE),  # type: ignore[arg-type]
    "ernie_gram": replace(_BERT, vocab_size=18018, eps=1e-5),
    "ernie_tiny": replace(_ERNIE, vocab_size=50006, max_positions=600, **_sizes(3, 1024, 16)),  # type: ignore[arg-type]
    "ernie_3.0_xbase": replace(_ERNIE3, **_sizes(20, 1024, 16)),  # type: ignore[arg-type]
    "ernie_3.0_base": replace(_ERNIE3, task_types=3),
    "ernie_3.0_medium": replace(_ERNIE3, layers=6),
    "ernie_3.0_mini": replace(_ERNIE3, **_sizes(6, 384, 12)),  # type: ignore[arg-type]
    "ernie_3.0_micro": replace(_ERNIE3, **_sizes(4, 384, 12)),  # type: ignore[arg-type]
    "ernie_3.0_nano": replace(_ERNIE3, **_sizes(4, 312, 12)),  # type: ignore[arg-type]
}

# Our field: the spellings of Hugging Face, PaddleNLP and the ERNIE kit.
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "vocab_size": ("vocab_size",),
    "hidden_size": ("hidden_size",),
    "layers": ("num_hidden_layers",),
    "heads": ("num_attention_heads",),
    "ffn_size": ("intermediate_size",),
    "activation": ("hidden_act",),
    "max_positions": ("max_position_embeddings",),
    "segment_types": ("sent_type_vocab_size", "type_vocab_size"),
    "task_types": ("task_type_vocab_size",),
    "dropout": ("hidden_dropout_prob",),
    "attention_dropout": ("attention_probs_dropout_prob",),
    "eps": ("layer_norm_eps",),
    "init_std": ("initializer_range",),
}
_MOST = 1 << 31
_REQUIRED = ("vocab_size", "hidden_size", "layers", "heads", "max_positions")
_ACTIVATIONS = {
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"), "gelu_tanh"),
    "relu": "relu",
}


def config_from_json(fields: Mapping[str, Any], name: str = "config.json") -> BertConfig:
    """The sizes in a checkpoint's config.json (or ERNIE's ernie_config.json), in any of the spellings.

    An ERNIE without layer_norm_eps has Paddle's 1e-5; a task table counts only where `use_task_id` is not false.

    Raises:
        CheckpointError: a size is missing, or the activation is not known; the message starts with `name`.
    """
    check_kind(fields, name)
    found: dict[str, Any] = {}
    for ours, spellings in _SPELLINGS.items():
        for theirs in spellings:
            if fields.get(theirs) is not None:
                found.setdefault(ours, fields[theirs])
    missing = [_SPELLINGS[key][0] for key in _REQUIRED if key not in found]
    if missing:
        raise CheckpointError(f"{name}: {', '.join(missing)} missing; is this the config of a BERT, ERNIE or RoBERTa?")
    for key, value in found.items():
        _expect_number(key, value, f"{name}: {' or '.join(_SPELLINGS[key])}")
    if str(found.setdefault("activation", "gelu")) not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise CheckpointError(f"{name}: hidden_act is '{found['activation']}'; known are {known}")
    found["activation"] = _ACTIVATIONS[str(found["activation"])]
    found.setdefault("ffn_size", 4 * found["hidden_size"])
    check_encoder(fields, {spelling for known in _SPELLINGS.values() for spelling in known}, name)
    kind = str(fields.get("model_type", "")).lower()
    paddle = kind == "ernie" or "sent_type_vocab_size" in fields or "use_task_id" in fields
    found.setdefault("eps", 1e-5 if paddle else 1e-12)
    if not fields.get("use_task_id", "task_type_vocab_size" in fields):
        found["task_types"] = 0
    if is_roberta(fields):
        _expect_number("first_position", fields.get("pad_token_id", 1), f"{name}: pad_token_id")
        found["first_position"] = fields.get("pad_token_id", 1) + 1
    config = BertConfig(**found)
    check_token_numbers(fields, config.vocab_size, name)
    tables = config.vocab_size + config.max_positions + config.segment_types + config.task_types
    layer = 4 * config.hidden_size + 2 * config.ffn_size
    expect_size((tables + config.layers * layer) * config.hidden_size, config.layers, name)
    return config


def _expect_number(key: str, value: Any, name: str) -> None:
    """Raise CheckpointError for a size that is no whole number, and for a rate that is no number from 0 on."""
    if isinstance(getattr(_BERT, key), str):
        return
    whole = isinstance(getattr(_BERT, key), int)
    if type(value) not in ((int,) if whole else (int, float)) or not 0 <= value < _MOST:
        kind = "a whole number" if whole else "a number"
        raise CheckpointError(f"{name} is {str(value)[:60]!r}; it must be {kind} from 0 on, below 2^31")


def config_to_json(config: BertConfig) -> dict[str, Any]:
    """The fields of Hugging Face's config.json: what `config_from_json` reads back.

    Raises CheckpointError for heads that no such config can describe.
    """
    if config.head_size is not None and config.head_size * config.heads != config.hidden_size:
        raise CheckpointError(
            f"{config.heads} heads of {config.head_size} are not as wide as the model, {config.hidden_size}: a BERT "
            "with heads cut away has no Hugging Face config.json; keep its run folder, or export it"
        )
    kind = "roberta" if config.first_position else "ernie" if config.task_types else "bert"
    fields = {_SPELLINGS[name][-1]: getattr(config, name) for name in _SPELLINGS}
    fields["hidden_act"] = {"gelu_tanh": "gelu_new"}.get(config.activation, config.activation)
    fields |= {"model_type": kind, "pad_token_id": max(0, config.first_position - 1)}
    if config.task_types:
        fields["use_task_id"] = True
    else:
        del fields["task_type_vocab_size"]
    return fields


def config_of_folder(folder: Path) -> BertConfig:
    """The sizes of the checkpoint in a folder: its config.json, model_config.json or ernie_config.json.

    Raises:
        CheckpointError: there is no such file, or it is damaged.
    """
    for name in ("config.json", "model_config.json", "ernie_config.json"):
        path = folder / name
        if path.exists():
            return config_from_json(_unwrapped(read_json_object(path)), str(path))
    raise CheckpointError(f"{folder}: there is no config.json; give the folder of a checkpoint")


def _unwrapped(fields: dict[str, Any]) -> dict[str, Any]:
    """PaddleNLP's old model_config.json keeps the encoder's arguments in `init_args`, of the innermost of its parts."""
    while "num_hidden_layers" not in fields and isinstance(fields.get("init_args"), list) and fields["init_args"]:
        fields = fields["init_args"][0]
    return fields
