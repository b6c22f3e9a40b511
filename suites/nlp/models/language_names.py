"""What Hugging Face's transformers calls the tensors of a `LanguageModel`, and what its config.json says of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any

from framework.errors import AttributeValueError, CheckpointError
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.engine.weights.published import expect_size
from suites.nlp.fields import NO_EFFECT, check_token_numbers, expect_off
from suites.nlp.models.rotary import LinearScaling, Llama3Scaling, RotaryScaling, YarnScaling

KINDS = ("gpt2", "llama", "mistral", "qwen2")
_GPT2 = {
    "norm1": "ln_1",
    "qkv": "attn.c_attn",
    "out": "attn.c_proj",
    "norm2": "ln_2",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
}
_LLAMA = {
    "norm1": ("input_layernorm",),
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "out": ("self_attn.o_proj",),
    "norm2": ("post_attention_layernorm",),
    "gate": ("mlp.gate_proj",),
    "up": ("mlp.up_proj",),
    "down": ("mlp.down_proj",),
}
_SCALINGS: dict[
    str, tuple[Callable[..., RotaryScaling], dict[str, str]]
] = {  # of `rope_type`: ours, and its arguments by their names
    "linear": (LinearScaling, {"factor": "factor"}),
    "llama3": (
        Llama3Scaling,
        {
            "factor": "factor",
            "low_freq_factor": "low",
            "high_freq_factor": "high",
            "original_max_position_embeddings": "original",
        },
    ),
    "yarn": (
        YarnScaling,
        {
            "factor": "factor",
            "original_max_position_embeddings": "original",
            "beta_fast": "fast",
            "beta_slow": "slow",
            "attention_factor": "attention",
        },
    ),
}
_TELLING = """
pretraining_tp attention_dropout initializer_range is_llama_config
transformers.js_config resid_pdrop embd_pdrop attn_pdrop summary_activation summary_first_dropout
summary_proj_to_labels summary_type summary_use_proj n_ctx
"""
_NO_EFFECT = NO_EFFECT | frozenset(_TELLING.split())


def names_of_language_model(own: Collection[str], layers: int) -> Names:
    """GPT-2's names for learned positions, else Llama's.

    Args:
        own: names of the model's tensors.
        layers: how many it has.
    """
    return _gpt2_names(own, layers) if "places.weight" in own else _llama_names(own, layers)


def _gpt2_names(own: Collection[str], layers: int) -> Names:
    found = {"words.weight": Source(("transformer.wte.weight",)), "places.weight": Source(("transformer.wpe.weight",))}
    for leaf, theirs in (("scale", "weight"), ("bias", "bias")):
        found[f"norm.{leaf}"] = Source((f"transformer.ln_f.{theirs}",))
    for i in range(layers):
        for ours, theirs in _GPT2.items():
            place = f"transformer.h.{i}.{theirs}"
            if ours.startswith("norm"):
                found[f"layers.{i}.{ours}.scale"] = Source((f"{place}.weight",))
            else:  # [in, out]
                found[f"layers.{i}.{ours}.weight"] = Source((f"{place}.weight",), axes=(1, 0))
            found[f"layers.{i}.{ours}.bias"] = Source((f"{place}.bias",))
    return _with_head(own, found, [r"^transformer\.h\.\d+\.attn\.(masked_)?bias$"])


def _llama_names(own: Collection[str], layers: int) -> Names:
    found = {"words.weight": Source(("model.embed_tokens.weight",)), "norm.scale": Source(("model.norm.weight",))}
    for i in range(layers):
        for ours, parts in _LLAMA.items():
            for leaf, theirs in (("scale", "weight"), ("weight", "weight"), ("bias", "bias")):
                if (name := f"layers.{i}.{ours}.{leaf}") in own:
                    found[name] = Source(tuple(f"model.layers.{i}.{part}.{theirs}" for part in parts))
    return _with_head(own, found, [r"\.rotary_emb\.inv_freq$"])


def _with_head(own: Collection[str], found: dict[str, Source], unused: list[str]) -> Names:
    if "head.weight" in own:
        return Names(found | {"head.weight": Source(("lm_head.weight",))}, tuple(unused))
    return Names(found, tuple(unused), {r"^lm_head\.weight$": "words.weight"})


def described_language_model(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The arguments of a `LanguageModel` for a config.json of GPT-2, Llama, Mistral or Qwen2, SmolLM2 being a Llama.

    Raises CheckpointError for another kind, and for a field whose effect is not computed here.
    """
    kind = fields.get("model_type")
    if kind not in KINDS:
        raise CheckpointError(f"{where}: model_type is {str(kind)[:60]!r}; texts are written by {', '.join(KINDS)}")
    try:
        found, known = _gpt2(fields) if kind == "gpt2" else _llama(fields, where)
    except KeyError as error:
        raise CheckpointError(f"{where}: lacks {error}") from None
    for field, value in fields.items():
        if field not in known and field not in _NO_EFFECT:
            expect_off(field, value, where)
    for name in ("vocab_size", "width", "layers", "heads", "hidden", "max_length", "kv_heads", "head_size", "window"):
        value = found.get(name)
        absent = value is None and name in ("kv_heads", "head_size", "window")
        if not absent and not (type(value) is int and 0 < value < 1 << 31):
            raise CheckpointError(f"{where}: {name} is {value!r:.40}; it must be a whole number above 0")
    check_token_numbers(fields, found["vocab_size"], where)
    numbers = found["vocab_size"] * found["width"] + 4 * found["layers"] * found["width"] ** 2
    expect_size(numbers, found["layers"], where)
    return found


def describe_writer(fields: Mapping[str, Any], where: str, slot: str, name: str) -> dict[str, Any]:
    """The `LanguageModel` of a config.json as a config has it; see `suites.engine.weights.published`.

    fields: of the file `where`; slot: the key in the config; name: of the weights.
    """
    if slot != "model":
        raise CheckpointError(f"{where}: a language model is a `model`, no {slot}")
    found = described_language_model(fields, where)
    if (scaling := found.get("scaling")) is not None:
        found["scaling"] = {"type": type(scaling).__name__, **asdict(scaling)}
    return {"type": "LanguageModel", **found, "weights": name}


for _kind in KINDS:
    register("published", _kind)(describe_writer)


def _gpt2(fields: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    fixed = {
        "activation_function": "gelu_new",
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
    }
    _expect(fields, fixed)
    width = fields["n_embd"]
    found = {
        "vocab_size": fields["vocab_size"],
        "width": width,
        "layers": fields["n_layer"],
        "heads": fields["n_head"],
        "hidden": fields.get("n_inner") or 4 * width,
        "max_length": fields["n_positions"],
        "positions": "learned",
        "norm": "layer",
        "feed": "gelu",
        "biases": True,
        "tied": fields.get("tie_word_embeddings", True) is not False,
        "eps": fields.get("layer_norm_epsilon", 1e-5),
    }
    return found, {*fixed, "n_embd", "n_layer", "n_head", "n_inner", "n_positions", "layer_norm_epsilon", "vocab_size"}


def _llama(fields: Mapping[str, Any], where: str) -> tuple[dict[str, Any], set[str]]:
    _expect(fields, {"hidden_act": "silu", "mlp_bias": False})
    heads, longest = fields["num_attention_heads"], fields["max_position_embeddings"]
    rope: dict[str, Any] = {}
    for field in ("rope_scaling", "rope_parameters"):
        told = fields.get(field) or {}
        if not isinstance(told, dict):
            raise CheckpointError(f"{where}: {field} is {told!r:.60}; it must be an object")
        rope |= told
    window = fields.get("sliding_window", 4096 if fields["model_type"] == "mistral" else None)
    if not fields.get("use_sliding_window", fields["model_type"] == "mistral"):
        window = None
    qkv = bool(fields.get("attention_bias", False)) or fields["model_type"] == "qwen2"
    if fields.get("attention_bias") and fields["model_type"] != "qwen2":
        raise CheckpointError(f"{where}: attention_bias is true; only the queries, keys and values of qwen2 have one")
    found = {
        "vocab_size": fields["vocab_size"],
        "width": fields["hidden_size"],
        "layers": fields["num_hidden_layers"],
        "heads": heads,
        "kv_heads": fields.get("num_key_value_heads") or heads,
        "head_size": fields.get("head_dim"),
        "hidden": fields["intermediate_size"],
        "max_length": longest,
        "qkv_biases": qkv,
        "tied": bool(fields.get("tie_word_embeddings", False)),
        "theta": float(rope.get("rope_theta", fields.get("rope_theta", 10000.0))),
        "scaling": _scaling(rope, longest, where),
        "window": window,
        "window_from": fields.get("max_window_layers", 28) if fields["model_type"] == "qwen2" and window else 0,
        "eps": fields.get("rms_norm_eps", 1e-6),
    }
    if (kinds := fields.get("layer_types")) is not None:
        first, layers = found["window_from"] if window else found["layers"], found["layers"]
        if kinds != ["full_attention"] * min(first, layers) + ["sliding_attention"] * max(layers - first, 0):
            raise CheckpointError(f"{where}: layer_types is {str(kinds)[:80]}; windows are computed from a layer on")
    known = """
        hidden_act mlp_bias vocab_size hidden_size num_hidden_layers num_attention_heads head_dim num_key_value_heads
        intermediate_size max_position_embeddings attention_bias rms_norm_eps rope_theta rope_parameters
        rope_scaling sliding_window use_sliding_window max_window_layers
        layer_types
    """
    return found, set(known.split())


def _scaling(rope: Mapping[str, Any], longest: int, where: str) -> RotaryScaling | None:
    """The scaling of rotary positions that `rope_scaling` or `rope_parameters` says."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    told = {name: value for name, value in rope.items() if name not in ("rope_type", "type", "rope_theta")}
    if kind == "default":
        return None
    if kind not in _SCALINGS:
        raise CheckpointError(f"{where}: rope_type is {str(kind)[:40]!r}; computed are {', '.join(_SCALINGS)}")
    make, arguments = _SCALINGS[kind]
    found: dict[str, Any] = {}
    for theirs, value in told.items():
        if theirs not in arguments or not (value is None or type(value) in (int, float)):
            raise CheckpointError(f"{where}: {theirs} of rope_type {kind} is {value!r:.40}; its effect is not computed")
        if value is not None and arguments[theirs]:
            found[arguments[theirs]] = value
    if "factor" not in found:
        raise CheckpointError(f"{where}: rope_type {kind} lacks its factor")
    if "original" in arguments.values():
        found["original"] = int(found.get("original", longest))
    try:
        return make(**found)
    except AttributeValueError as error:
        raise CheckpointError(f"{where}: {error}") from None


def _expect(fields: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    for field, value in fixed.items():
        if fields.get(field, value) != value:
            raise CheckpointError(f"config.json: {field} is {fields[field]!r:.40}; only {value!r} is computed")
