"""What a published text encoder is, read from its config.json: one description for all families.

A field whose effect is not known here is an error, so an encoder is the published network or it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from framework.errors import CheckpointError
from suites.engine.names import did_you_mean
from suites.engine.registry import register
from suites.engine.weights.published import MOST_LAYERS, expect_size
from suites.nlp.fields import ConfigFields, check_token_numbers


@dataclass(frozen=True)
class Rotary:
    """Rotary positions and windows (Warner et al. 2024): every so many layers see all, the others their neighbours.

    Attributes:
        thetas: of layers that see all, and of the others.
        window: how far the others see to each side.
        windowed: which layers are the others.
    """

    thetas: tuple[float, float]
    window: int
    windowed: tuple[bool, ...]


@dataclass(frozen=True)
class Disentangled:
    """Disentangled attention (He et al. 2021, arXiv:2006.03654, 3.1), with logarithmic buckets as DeBERTa-v3 has them.

    Attributes:
        span: half the rows of the table of relative positions.
        buckets: above 0, positions that are farther than half of it share buckets.
        farthest: the distance of the last bucket.
        terms: "c2p", content to position, and "p2c", position to content.
        shared: positions go through the matrices of queries and keys.
        normed: the table goes through a norm.
        kernel: width of a convolution beside the first layer; 0 for none.
        kernel_groups: of that convolution.
        kernel_activation: behind it.
    """

    span: int
    buckets: int
    farthest: int
    terms: tuple[str, ...]
    shared: bool
    normed: bool
    kernel: int = 0
    kernel_groups: int = 1
    kernel_activation: str = "tanh"


@dataclass(frozen=True)
class EncoderConfig:
    """What decides the shape and the mathematics of an encoder.

    Attributes:
        kind: `model_type` of its config.json.
        vocab_size: rows of the word table.
        hidden_size: D.
        layers: number of layers.
        heads: of attention.
        ffn_size: width between the linear layers of a layer.
        activation: between them.
        eps: of the norms.
        embedding_size: width of the tables; projected to D where it is another, or where `projected`.
        projected: a linear layer stands behind the tables.
        positions: rows of the position table; 0 for none.
        max_length: tokens of a sequence at most.
        first_position: of a sequence's first token in the table.
        segment_types: rows of the segment table; 0 for none.
        task_types: rows of the task table; 0 for none.
        dropout: of embeddings and of what sub-layers give.
        attention_dropout: of attention weights.
        init_std: of starting weights.
        pooler: whether a tanh of a linear layer stands on the first token.
        groups: sets of layers that share their weights (Lan et al. 2020); `layers` where each has its own.
        inner: layers of a set, which run one after the other.
        buckets: of relative positions whose bias all layers add to their scores (Song et al. 2020); 0 for none.
        disentangled: see there.
        rotary: see there.
        biases: of the linear layers of attention.
        ffn_biases: of those behind it.
        norm_biases: of the norms.
        gated: the second half of what goes up is a gate (Shazeer 2020).
        norm_first: norms stand before sub-layers, with one at the end, and none before the first.
    """

    kind: str
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    ffn_size: int
    activation: str
    eps: float
    embedding_size: int
    max_length: int
    positions: int = 0
    projected: bool = False
    first_position: int = 0
    segment_types: int = 0
    task_types: int = 0
    dropout: float = 0.1
    attention_dropout: float = 0.1
    init_std: float = 0.02
    pooler: bool = False
    groups: int = 0
    inner: int = 1
    buckets: int = 0
    disentangled: Disentangled | None = None
    rotary: Rotary | None = None
    biases: bool = True
    ffn_biases: bool = True
    norm_biases: bool = True
    gated: bool = False
    norm_first: bool = False

    @property
    def joined(self) -> bool:
        """Whether its files have the matrices of queries, keys and values as one."""
        return self.kind == "modernbert"

    @property
    def layer_sets(self) -> int:
        """How many sets of layers have weights of their own."""
        return self.groups or self.layers


def _common(f: ConfigFields, **other: Any) -> dict[str, Any]:
    """The fields that most families call alike."""
    f.expect(is_decoder=False, add_cross_attention=False, is_encoder_decoder=False)
    if f.any("position_embedding_type", "absolute") != "absolute":
        f.expect(position_embedding_type="absolute")
    hidden, positions = f.number("hidden_size", least=1), f.number("max_position_embeddings", 512, 1)
    return {
        "vocab_size": f.number("vocab_size", least=1),
        "hidden_size": hidden,
        "embedding_size": hidden,
        "layers": f.number("num_hidden_layers", least=1),
        "heads": f.number("num_attention_heads", least=1),
        "ffn_size": f.number("intermediate_size", least=1),
        "activation": f.activation("hidden_act", "gelu"),
        "eps": f.share("layer_norm_eps", 1e-12),
        "positions": positions,
        "max_length": positions,
        "segment_types": f.number("type_vocab_size", 2),
        "dropout": f.share("hidden_dropout_prob", 0.1),
        "attention_dropout": f.share("attention_probs_dropout_prob", 0.1),
        "init_std": f.share("initializer_range", 0.02),
        **other,
    }


def _bert(f: ConfigFields) -> dict[str, Any]:
    return _common(f, pooler=True)


def _ernie(f: ConfigFields) -> dict[str, Any]:
    uses = f.switch("use_task_id", False)
    tasks = f.number("task_type_vocab_size", 3)
    f.expect(task_id=0)
    return _common(f, pooler=True, task_types=tasks if uses else 0)


def _behind_padding(f: ConfigFields, padding: int, **other: Any) -> dict[str, Any]:
    """Positions begin behind the padding's number."""
    found = _common(f, first_position=padding + 1, **other)
    return found | {"max_length": found["positions"] - padding - 1}


def _roberta(f: ConfigFields) -> dict[str, Any]:
    return _behind_padding(f, f.number("pad_token_id", 1), pooler=True)


def _mpnet(f: ConfigFields) -> dict[str, Any]:
    padding = f.number("pad_token_id", 1)
    if padding != 1:
        f.expect(pad_token_id=1)
    f.expect(relative_attention_num_buckets=32)  # transformers' code counts to 32, whatever its config says
    f.ignore("type_vocab_size")
    return _behind_padding(f, 1, pooler=True, buckets=32) | {"segment_types": 0}


def _electra(f: ConfigFields) -> dict[str, Any]:
    width = f.number("embedding_size", 128, 1)
    f.ignore(*(f"summary_{name}" for name in ("type", "use_proj", "activation", "last_dropout")))
    found = _common(f)
    return found | {"embedding_size": width, "projected": width != found["hidden_size"]}


def _albert(f: ConfigFields) -> dict[str, Any]:
    width, groups = f.number("embedding_size", 128, 1), f.number("num_hidden_groups", 1, 1)
    inner = f.number("inner_group_num", 1, 1)
    f.ignore("classifier_dropout_prob", "net_structure_type", "down_scale_factor", "output_hidden_states")
    f.expect(gap_size=0, num_memory_blocks=0)
    found = _common(f, pooler=True, projected=True, groups=groups, inner=inner) | {"embedding_size": width}
    if groups > found["layers"]:
        raise CheckpointError(f"{f.where}: num_hidden_groups is {groups}, more than the {found['layers']} layers")
    return found


def _distilbert(f: ConfigFields) -> dict[str, Any]:
    f.ignore("qa_dropout", "seq_classif_dropout", "sinusoidal_pos_embds", "tie_weights_", "max_length")
    f.expect(is_decoder=False, add_cross_attention=False, is_encoder_decoder=False)
    hidden, positions = f.number("dim", 768, 1), f.number("max_position_embeddings", 512, 1)
    return {
        "vocab_size": f.number("vocab_size", least=1),
        "hidden_size": hidden,
        "embedding_size": hidden,
        "layers": f.number("n_layers", 6, 1),
        "heads": f.number("n_heads", 12, 1),
        "ffn_size": f.number("hidden_dim", 4 * hidden, 1),
        "activation": f.activation("activation", "gelu"),
        "eps": 1e-12,
        "positions": positions,
        "max_length": positions,
        "dropout": f.share("dropout", 0.1),
        "attention_dropout": f.share("attention_dropout", 0.1),
        "init_std": f.share("initializer_range", 0.02),
    }


def _deberta(f: ConfigFields) -> dict[str, Any]:
    f.ignore(
        "pooler_dropout", "pooler_hidden_act", "pooler_hidden_size", "padding_idx", "z_steps", "legacy", "cls_dropout"
    )
    f.expect(relative_attention=True, position_biased_input=False)
    buckets, farthest = _signed(f, "position_buckets"), _signed(f, "max_relative_positions")
    found = _common(f) | {"eps": f.share("layer_norm_eps", 1e-7), "segment_types": f.number("type_vocab_size", 0)}
    farthest = farthest if farthest > 0 else found["max_length"]
    size = found["hidden_size"] // found["heads"]
    f.expect(embedding_size=found["hidden_size"], attention_head_size=size)
    kernel = f.number("conv_kernel_size", 0)
    disentangled = Disentangled(
        span=buckets if buckets > 0 else farthest,
        buckets=max(buckets, 0),
        farthest=farthest,
        terms=_terms(f),
        shared=f.switch("share_att_key", False),
        normed=_normed(f),
        kernel=kernel,
        kernel_groups=f.number("conv_groups", 1, 1),
        kernel_activation=f.activation("conv_act", "tanh"),
    )
    if kernel and not kernel % 2:
        raise CheckpointError(f"{f.where}: conv_kernel_size is {kernel}; it must be odd")
    if disentangled.kernel_groups != 1:
        raise CheckpointError(f"{f.where}: conv_groups is {disentangled.kernel_groups}; only 1 is computed")
    return found | {"positions": 0, "disentangled": disentangled}


def _signed(f: ConfigFields, name: str) -> int:
    found = f.any(name, -1)
    if type(found) is not int or not -1 <= found < 1 << 20:
        raise CheckpointError(f"{f.where}: {name} is {str(found)[:60]!r}; it must be a whole number from -1 on")
    return found


def _terms(f: ConfigFields) -> tuple[str, ...]:
    found = f.any("pos_att_type", [])
    terms = found.split("|") if isinstance(found, str) else found
    if not isinstance(terms, list) or not terms or any(term not in ("c2p", "p2c") for term in terms):
        raise CheckpointError(f"{f.where}: pos_att_type is {str(found)[:60]!r}; known are c2p and p2c")
    return tuple(sorted(set(terms)))


def _normed(f: ConfigFields) -> bool:
    found = f.any("norm_rel_ebd", "none")
    if found not in ("none", "layer_norm"):
        raise CheckpointError(f"{f.where}: norm_rel_ebd is {str(found)[:60]!r}; known are none and layer_norm")
    return bool(found == "layer_norm")


def _modernbert(f: ConfigFields) -> dict[str, Any]:
    f.ignore(
        *(
            "initializer_cutoff_factor",
            "decoder_bias",
            "classifier_pooling",
            "classifier_bias",
            "classifier_activation",
        ),
        *("deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index", "reference_compile"),
        *("repad_logits_with_grad", "position_embedding_type", "sep_token_id", "layer_norm_eps"),
    )
    f.expect(is_decoder=False, add_cross_attention=False, is_encoder_decoder=False)
    hidden, layers = f.number("hidden_size", 768, 1), min(f.number("num_hidden_layers", 22, 1), MOST_LAYERS + 1)
    longest, every = f.number("max_position_embeddings", 8192, 1), f.number("global_attn_every_n_layers", 3, 1)
    kinds = f.any("layer_types", ["sliding_attention" if i % every else "full_attention" for i in range(layers)])
    known = ("sliding_attention", "full_attention")
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in known for kind in kinds):
        raise CheckpointError(f"{f.where}: layer_types must have one of {', '.join(known)} for each of {layers} layers")
    rotary = Rotary(_thetas(f), f.number("local_attention", 128) // 2, tuple(kind == known[0] for kind in kinds))
    dropout = f.share("mlp_dropout", 0.0)
    if f.share("embedding_dropout", 0.0) != dropout:
        f.expect(embedding_dropout=dropout)
    return {
        "vocab_size": f.number("vocab_size", 50368, 1),
        "hidden_size": hidden,
        "embedding_size": hidden,
        "layers": layers,
        "heads": f.number("num_attention_heads", 12, 1),
        "ffn_size": f.number("intermediate_size", 1152, 1),
        "activation": f.activation("hidden_activation", "gelu"),
        "eps": f.share("norm_eps", 1e-5),
        "max_length": longest,
        "dropout": dropout,
        "attention_dropout": f.share("attention_dropout", 0.0),
        "init_std": f.share("initializer_range", 0.02),
        "rotary": rotary,
        "biases": f.switch("attention_bias", False),
        "ffn_biases": f.switch("mlp_bias", False),
        "norm_biases": f.switch("norm_bias", False),
        "gated": True,
        "norm_first": True,
    }


def _thetas(f: ConfigFields) -> tuple[float, float]:
    """Of layers that see all and of the others; in `rope_parameters` since transformers 5."""
    whole, local = f.share("global_rope_theta", 160000.0), f.share("local_rope_theta", 10000.0)
    rope = f.any("rope_parameters", {})
    f.ignore("rope_theta", "rope_scaling", "default_theta")
    if not isinstance(rope, dict) or not rope.keys() <= {"full_attention", "sliding_attention"}:
        raise CheckpointError(f"{f.where}: rope_parameters is {str(rope)[:80]!r}, whose effect is not known here")
    found = []
    for kind, default in (("full_attention", whole), ("sliding_attention", local)):
        fields = rope.get(kind) or {"rope_theta": default}
        odd = {
            k: v
            for k, v in fields.items()
            if k not in ("rope_theta", "rope_type") or (k == "rope_type" and v != "default")
        }
        if odd or type(fields.get("rope_theta")) not in (int, float):
            raise CheckpointError(
                f"{f.where}: rope_parameters.{kind} is {str(fields)[:80]!r}; only rope_theta is known"
            )
        found.append(float(fields["rope_theta"]))
    return found[0], found[1]


_KINDS: dict[str, Callable[[ConfigFields], dict[str, Any]]] = {
    "bert": _bert,
    "ernie": _ernie,
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "data2vec-text"), _roberta),
    "distilbert": _distilbert,
    "electra": _electra,
    "albert": _albert,
    "mpnet": _mpnet,
    "deberta-v2": _deberta,
    "modernbert": _modernbert,
}
KINDS = tuple(_KINDS)


def encoder_config(fields: Mapping[str, Any], where: str = "config.json") -> EncoderConfig:
    """The encoder that the fields of a config.json describe.

    Raises:
        CheckpointError: its `model_type` is not known, a field is missing or wrong, or has an unknown effect.
    """
    return _read(fields, where)[0]


def describe(fields: Mapping[str, Any], where: str, slot: str, weights: str) -> dict[str, Any]:
    """The encoder of a config.json as a config has it, with the fields that count; see `weights.published`."""
    if slot != "encoder":
        raise CheckpointError(f"{where}: describes an encoder of texts, which is no {slot}")
    return {"type": "PublishedEncoder", "fields": _read(fields, where)[1]}


def _read(fields: Mapping[str, Any], where: str) -> tuple[EncoderConfig, dict[str, Any]]:
    kind = fields.get("model_type")
    if not isinstance(kind, str) or kind not in _KINDS:
        hint = did_you_mean(str(kind), KINDS) or ";"
        raise CheckpointError(f"{where}: model_type is {str(kind)[:60]!r}{hint} known are {', '.join(KINDS)}")
    f = ConfigFields(fields, where)
    found = EncoderConfig(kind=kind, **_KINDS[kind](f))
    f.finish()
    if found.hidden_size % found.heads:
        raise CheckpointError(f"{where}: {found.heads} attention heads do not divide a width of {found.hidden_size}")
    if found.max_length < 1:
        raise CheckpointError(f"{where}: max_position_embeddings leaves no place for a token")
    check_token_numbers(fields, found.vocab_size, where)
    expect_size(_numbers(found), found.layers, where)
    return found, f.kept()


def _numbers(c: EncoderConfig) -> int:
    """Weights, and rows that are computed once, about."""
    rows = c.vocab_size + c.positions + c.segment_types + c.task_types
    layer = 4 * c.hidden_size**2 + (3 if c.gated else 2) * c.hidden_size * c.ffn_size
    span, kernel = (0, 0) if c.disentangled is None else (c.disentangled.span, c.disentangled.kernel)
    turns = 2 * c.max_length * (c.hidden_size // c.heads) if c.rotary else 0
    return rows * c.embedding_size + c.layers * layer + 2 * span * c.hidden_size + kernel * c.hidden_size**2 + turns


for _kind in KINDS:
    register("published", _kind)(describe)
