"""What Hugging Face's transformers calls the tensors of a `LanguageModel`, and what its config.json says of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any

from framework.errors import AttributeValueError, CheckpointError
from suites.engine.registry import register
from suites.engine.weights import Names, Source
from suites.engine.weights.published import expect_size
from suites.nlp.fields import ConfigFields, check_token_numbers
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
_WINDOW = 4096  # of Mistral and Qwen2, where a file says none


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

    Raises CheckpointError for another kind, for a value that is none, and for a field whose effect is not computed
    here.
    """
    kind = fields.get("model_type")
    if kind not in KINDS:
        raise CheckpointError(f"{where}: model_type is {str(kind)[:60]!r}; texts are written by {', '.join(KINDS)}")
    f = ConfigFields(fields, where)
    f.ignore(*_TELLING.split())
    found = _gpt2(f) if kind == "gpt2" else _llama(f, str(kind))
    f.finish()
    check_token_numbers(fields, found["vocab_size"], where)
    expect_size(_numbers(found), found["layers"], where)
    return found


def _numbers(found: Mapping[str, Any]) -> int:
    """Weights, and the tables of places, about."""
    width, size = found["width"], found.get("head_size") or found["width"] // found["heads"]
    columns = (2 * found["heads"] + 2 * (found.get("kv_heads") or found["heads"])) * size
    places = width if found.get("positions") == "learned" else size
    layer = width * (columns + (3 if "theta" in found else 2) * found["hidden"])
    return found["vocab_size"] * width + found["max_length"] * places + found["layers"] * layer


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


def _gpt2(f: ConfigFields) -> dict[str, Any]:
    f.expect(
        activation_function="gelu_new",
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        reorder_and_upcast_attn=False,
    )
    width = f.number("n_embd", least=1)
    return {
        "vocab_size": f.number("vocab_size", least=1),
        "width": width,
        "layers": f.number("n_layer", least=1),
        "heads": f.number("n_head", least=1),
        "hidden": f.optional("n_inner") or 4 * width,
        "max_length": f.number("n_positions", least=1),
        "positions": "learned",
        "norm": "layer",
        "feed": "gelu",
        "biases": True,
        "tied": f.switch("tie_word_embeddings", True),
        "eps": f.share("layer_norm_epsilon", 1e-5),
    }


def _llama(f: ConfigFields, kind: str) -> dict[str, Any]:
    f.expect(hidden_act="silu", mlp_bias=False)
    biased = f.switch("attention_bias", False)
    if biased and kind != "qwen2":
        raise CheckpointError(f"{f.where}: attention_bias is true; only the queries, keys and values of qwen2 have one")
    heads, longest = f.number("num_attention_heads", least=1), f.number("max_position_embeddings", least=1)
    rope = {"rope_theta": f.any("rope_theta", 10000.0)} | f.part("rope_scaling") | f.part("rope_parameters")
    layers = f.number("num_hidden_layers", least=1)
    window, first = _windows(f, kind, layers)
    return {
        "vocab_size": f.number("vocab_size", least=1),
        "width": f.number("hidden_size", least=1),
        "layers": layers,
        "heads": heads,
        "kv_heads": f.optional("num_key_value_heads") or heads,
        "head_size": f.optional("head_dim"),
        "hidden": f.number("intermediate_size", least=1),
        "max_length": longest,
        "qkv_biases": kind == "qwen2",
        "tied": f.switch("tie_word_embeddings", False),
        "theta": _theta(rope, f.where),
        "scaling": _scaling(rope, longest, f.where),
        "window": window,
        "window_from": first if window else 0,
        "eps": f.share("rms_norm_eps", 1e-6),
    }


def _windows(f: ConfigFields, kind: str, layers: int) -> tuple[int | None, int]:
    """How far the layers see that have a window, and the first of them; None where none has."""
    said = f.optional("sliding_window")
    uses = {"llama": False, "mistral": True, "qwen2": kind == "qwen2" and f.switch("use_sliding_window", False)}[kind]
    window = _WINDOW if uses and "sliding_window" not in f.fields else said if uses else None
    first = f.number("max_window_layers", 28) if kind == "qwen2" else 0
    f.ignore("max_window_layers", *(("use_sliding_window",) if kind == "mistral" else ()))
    if (kinds := f.fields.get("layer_types")) is not None:
        whole = min(first, layers) if window else layers
        if kinds != ["full_attention"] * whole + ["sliding_attention"] * (layers - whole):
            raise CheckpointError(f"{f.where}: layer_types is {str(kinds)[:80]}; windows are computed from a layer on")
    f.ignore("layer_types")
    return window, first


def _theta(rope: Mapping[str, Any], where: str) -> float:
    found = rope["rope_theta"]
    if type(found) not in (int, float) or not 1 < found < math.inf:
        raise CheckpointError(f"{where}: rope_theta is {found!r:.40}; it must be a number above 1")
    return float(found)


def _scaling(rope: Mapping[str, Any], longest: int, where: str) -> RotaryScaling | None:
    """The scaling of rotary positions that `rope_scaling` or `rope_parameters` says."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    told = {name: value for name, value in rope.items() if name not in ("rope_type", "type", "rope_theta")}
    if not isinstance(kind, str) or kind not in ("default", *_SCALINGS):
        raise CheckpointError(f"{where}: rope_type is {str(kind)[:40]!r}; computed are {', '.join(_SCALINGS)}")
    make, arguments = _SCALINGS.get(kind, (None, {}))
    found: dict[str, Any] = {}
    for theirs, value in told.items():
        number = type(value) in (int, float) and math.isfinite(value)
        if value is not None and not (theirs in arguments and number):
            raise CheckpointError(f"{where}: {theirs} of rope_type {kind} is {value!r:.40}; its effect is not computed")
        if value is not None:
            found[arguments[theirs]] = value
    if make is None:
        return None
    if "factor" not in found:
        raise CheckpointError(f"{where}: rope_type {kind} lacks its factor")
    if "original" in arguments.values():
        found["original"] = int(found.get("original", longest))
    try:
        return make(**found)
    except AttributeValueError as error:
        raise CheckpointError(f"{where}: {error}") from None
