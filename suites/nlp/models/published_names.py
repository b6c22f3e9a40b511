"""What Hugging Face's transformers calls the tensors of `PublishedEncoder`, by family."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from suites.engine.weights import Names, Source
from suites.nlp.models.published_config import EncoderConfig

_BERT_LAYER = {
    "attention.qkv": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.out": ("attention.output.dense",),
    "norm1": ("attention.output.LayerNorm",),
    "up": ("intermediate.dense",),
    "down": ("output.dense",),
    "norm2": ("output.LayerNorm",),
}


@dataclass(frozen=True)
class _Family:
    """The names of one family; `{i}` is a layer's number.

    Attributes:
        layer: what stands before the parts of a layer.
        parts: ours of a layer -> theirs, without weight and bias.
        others: ours outside of layers -> theirs.
        word: the word table.
        norm: of the embeddings.
    """

    layer: str = "encoder.layer.{i}."
    parts: Mapping[str, tuple[str, ...]] | None = None
    others: Mapping[str, str] | None = None
    word: str = "embeddings.word_embeddings"
    norm: str = "embeddings.LayerNorm"


_FAMILIES = {
    "distilbert": _Family(
        "transformer.layer.{i}.",
        {
            "attention.qkv": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            "attention.out": ("attention.out_lin",),
            "norm1": ("sa_layer_norm",),
            "up": ("ffn.lin1",),
            "down": ("ffn.lin2",),
            "norm2": ("output_layer_norm",),
        },
    ),
    "electra": _Family(others={"embeddings.project": "embeddings_project"}),
    "albert": _Family(
        "encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
        {
            "attention.qkv": ("attention.query", "attention.key", "attention.value"),
            "attention.out": ("attention.dense",),
            "norm1": ("attention.LayerNorm",),
            "up": ("ffn",),
            "down": ("ffn_output",),
            "norm2": ("full_layer_layer_norm",),
        },
        {"embeddings.project": "encoder.embedding_hidden_mapping_in", "pooler": "pooler"},
    ),
    "mpnet": _Family(
        parts={
            **_BERT_LAYER,
            "attention.qkv": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
            "attention.out": ("attention.attn.o",),
            "norm1": ("attention.LayerNorm",),
        },
        others={"places.bias": "encoder.relative_attention_bias"},
    ),
    "deberta-v2": _Family(
        parts={
            **_BERT_LAYER,
            "attention.qkv": ("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
            "attention.pos_key": ("attention.self.pos_key_proj",),
            "attention.pos_query": ("attention.self.pos_query_proj",),
        },
        others={
            "places.table": "encoder.rel_embeddings",
            "places.norm": "encoder.LayerNorm",
            "beside.norm": "encoder.conv.LayerNorm",
        },
    ),
    "modernbert": _Family(
        "layers.{i}.",
        {
            "attention.qkv": ("attn.Wqkv",),
            "attention.out": ("attn.Wo",),
            "norm1": ("attn_norm",),
            "up": ("mlp.Wi",),
            "down": ("mlp.Wo",),
            "norm2": ("mlp_norm",),
        },
        {"norm": "final_norm"},
        "embeddings.tok_embeddings",
        "embeddings.norm",
    ),
}
_TABLES = {"position": "position_embeddings", "segment": "token_type_embeddings", "task": "task_type_embeddings"}
# What a file has of heads, of optimizers' buffers, and of poolers that the encoder of its family does not have.
UNUSED = (
    r"position_ids$", r"token_type_ids$", r"(^|\.)cls\.", r"(^|\.)lm_head\.", r"(^|\.)classifier\.",
    r"(^|\.)qa_outputs\.",
    r"(^|\.)pre_classifier\.", r"(^|\.)vocab_(transform|layer_norm|projector)\.", r"(^|\.)discriminator_predictions\.",
    r"(^|\.)generator_(predictions|lm_head)\.", r"(^|\.)(sop_classifier|predictions|lm_predictions|mask_predictions)\.",
    r"^(head|decoder)\.", r"^score\.", r"(^|\.)pooler\.",
)  # fmt: skip


# Of published classifiers of texts: the linear layer on the first token ("" for the encoder's own pooler), what
# follows it, and the one that gives classes.
_DENSE = ("classifier.dense", "tanh", "classifier.out_proj")
SUMMARIES = {
    **dict.fromkeys(("bert", "ernie", "albert"), ("", "tanh", "classifier")),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet"), _DENSE),
    "electra": ("classifier.dense", "gelu", "classifier.out_proj"),
    "distilbert": ("pre_classifier", "relu", "classifier"),
    "deberta-v2": ("pooler.dense", "gelu", "classifier"),
}


@dataclass(frozen=True)
class LanguageHead:
    """What a family calls the head for hidden words.

    Attributes:
        transform: the linear layer on a token's vector.
        norm: behind it.
        bias: of the words.
        activation: between the two; None for the encoder's.
        biases: whether the linear layer has one.
    """

    transform: str
    norm: str
    bias: str
    activation: str | None = None
    biases: bool = True


_OF_BERT = LanguageHead(
    "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"
)
LANGUAGE_HEADS = {
    **dict.fromkeys(("bert", "ernie", "deberta-v2"), _OF_BERT),
    **dict.fromkeys(
        ("roberta", "xlm-roberta", "camembert", "data2vec-text", "mpnet"),
        LanguageHead("lm_head.dense", "lm_head.layer_norm", "lm_head.bias", "gelu"),
    ),
    "distilbert": LanguageHead("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
    "electra": LanguageHead(
        "generator_predictions.dense", "generator_predictions.LayerNorm", "generator_lm_head.bias", "gelu"
    ),
    "albert": LanguageHead("predictions.dense", "predictions.LayerNorm", "predictions.bias"),
    "modernbert": LanguageHead("head.dense", "head.norm", "decoder.bias", "gelu", biases=False),
}
# Of hidden words' heads: in files whose writer keeps the word table once more.
OUTPUT_MATRIX = (
    r"^(cls\.predictions\.decoder|lm_head\.decoder|vocab_projector|generator_lm_head|predictions\.decoder|decoder)"
    r"\.weight$"
)


def names_of_encoder(config: EncoderConfig) -> Names:
    """For each tensor of an encoder, what it is called in a file, without the prefix of the model around it."""
    family = _FAMILIES.get(config.kind, _Family())
    found = {"embeddings.word.weight": Source((f"{family.word}.weight",))}
    for ours, table in _TABLES.items():
        found[f"embeddings.{ours}.weight"] = Source((f"embeddings.{table}.weight",))
    found |= _norm("embeddings.norm", family.norm)
    for number in range(config.layer_sets * config.inner):
        group, inner = divmod(number, config.inner)
        before = family.layer.format(i=number, group=group, inner=inner)
        for part, theirs in (family.parts or _BERT_LAYER).items():
            found |= _part(f"layers.{number}.{part}", tuple(before + each for each in theirs))
    others = {"pooler": "pooler.dense", **(family.others or {})}
    for ours, name in others.items():
        found |= _part(ours, (name,))
    if config.disentangled is not None and config.disentangled.kernel:
        found["beside.weight"] = Source(("encoder.conv.conv.weight",), axes=(0, 2, 1))
        found["beside.bias"] = Source(("encoder.conv.conv.bias",))
    return Names({ours: source for ours, source in found.items() if _is_there(ours, config)}, UNUSED)


def _part(ours: str, theirs: tuple[str, ...]) -> dict[str, Source]:
    if "norm" in ours.rpartition(".")[2]:
        return _norm(ours, theirs[0])
    return {f"{ours}.{end}": Source(tuple(f"{each}.{end}" for each in theirs)) for end in ("weight", "bias")}


def _norm(ours: str, theirs: str) -> dict[str, Source]:
    return {f"{ours}.scale": Source((f"{theirs}.weight",)), f"{ours}.bias": Source((f"{theirs}.bias",))}


def _is_there(name: str, c: EncoderConfig) -> bool:
    """Whether an encoder has this tensor."""
    d = c.disentangled
    absent = {
        "embeddings.position.": not c.positions,
        "embeddings.segment.": not c.segment_types,
        "embeddings.task.": not c.task_types,
        "embeddings.project.": not c.projected,
        "pooler.": not c.pooler,
        "norm.": not c.norm_first,
        "places.bias.": not c.buckets,
        "places.table.": d is None,
        "places.norm.": d is None or not d.normed,
        "beside.": d is None or not d.kernel,
        "layers.0.norm1.": c.norm_first,
    }
    if any(gone and name.startswith(start) for start, gone in absent.items()):
        return False
    if ".pos_key." in name or ".pos_query." in name:
        return d is not None and not d.shared and ("c2p" if ".pos_key." in name else "p2c") in d.terms
    if name in ("places.bias.bias", "places.table.bias"):  # tables have none
        return False
    if name.endswith(".bias"):
        place = name.rpartition(".")[0]
        if "norm" in place.rpartition(".")[2]:
            return c.norm_biases
        if ".attention." in name:
            return c.biases
        if name.startswith("layers."):
            return c.ffn_biases
    return True


_OLDER = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),  # of TensorFlow's days
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)


def current_name(name: str) -> str:
    """A name of Hugging Face's today."""
    for pattern, now in _OLDER:
        name = pattern.sub(now, name)
    return name


_PREFIXES = {
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "data2vec-text": "data2vec_text",
    "deberta-v2": "deberta",
}


def prefix_of(kind: str) -> str:
    """What stands before an encoder's names in files of whole models: `bert.`."""
    return f"{'model' if kind == 'modernbert' else _PREFIXES.get(kind, kind)}."
