"""What a config.json of transformers describes, as a backbone of ours: ViT, DINOv2, ConvNeXt and Swin.

A field whose effect is not known here is an error, so a backbone is the published network or it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framework.errors import CheckpointError
from suites.engine.registry import register
from suites.engine.weights.published import ROLE, expect_size
from suites.vision.backbones import convnext, swin, vit

# Of training, of heads, and what only tells.
_IDLE_NAMES = """
architectures model_type transformers_version torch_dtype dtype id2label label2id num_labels problem_type
initializer_range hidden_dropout_prob attention_probs_dropout_prob drop_path_rate finetuning_task return_dict
output_hidden_states output_attentions out_features out_indices stage_names encoder_stride pooler_output_size pooler_act
layer_scale_init_value layerscale_value use_mask_token reshape_hidden_states apply_layernorm _name_or_path
_attn_implementation_autoset tie_word_embeddings chunk_size_feed_forward is_encoder_decoder num_stages path_norm
image_size
"""
_IDLE = frozenset(_IDLE_NAMES.split())
_VIT_NAMES = {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "mlp_ratio", "patch_size"}


def backbone_of(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The backbone that the fields of a config.json describe, as a config has it, with the one map that is classified.

    Raises CheckpointError for a network that is not known, or a field with an unknown effect.
    """
    kind = fields.get("model_type")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CheckpointError(f"{where}: model_type is {str(kind)[:60]!r}; known are {', '.join(_KINDS)}")
    return _KINDS[kind](fields, where)


def describe(fields: Mapping[str, Any], where: str, slot: str, weights: str) -> dict[str, Any]:
    """The backbone of a config.json as a config has it; see `weights.published`."""
    if slot != "backbone":
        raise CheckpointError(f"{where}: describes a backbone of images, which is no {slot}")
    return {**backbone_of(fields, where), "pretrained": weights}


def _expect(fields: Mapping[str, Any], where: str, known: set[str], **wanted: Any) -> None:
    """Raise CheckpointError for a field of another value than wanted, and for one that nobody knows."""
    for name, value in fields.items():
        if name in wanted and value is not None and value != wanted[name]:
            raise CheckpointError(f"{where}: {name} is {str(value)[:60]!r}; only {wanted[name]!r} is computed")
        if name not in known | _IDLE and name not in wanted and value not in (None, False, [], {}, 0):
            raise CheckpointError(f"{where}: {name} is {str(value)[:60]!r}, and what it changes is not known here")


def _number(fields: Mapping[str, Any], where: str, name: str, default: int) -> int:
    value = fields.get(name, default)
    if type(value) is not int or not 0 < value < 1 << 16:
        raise CheckpointError(f"{where}: {name} is {str(value)[:60]!r}; it must be a whole number from 1 on")
    return value


def _transformer(fields: Mapping[str, Any], where: str, patch: int, side: int) -> dict[str, Any]:
    """Size, patch and image size of a ViT or DINOv2."""
    width, heads = _number(fields, where, "hidden_size", 768), _number(fields, where, "num_attention_heads", 12)
    size = next((name for name, (dim, _, count) in vit.SIZES.items() if (dim, count) == (width, heads)), None)
    if size is None:
        known = ", ".join(f"{dim} with {count} heads" for dim, _, count in vit.SIZES.values())
        raise CheckpointError(f"{where}: hidden_size is {width} with {heads} heads; known are {known}")
    found: dict[str, Any] = {"size": size, "image_size": _number(fields, where, "image_size", side)}
    found["blocks"] = _number(fields, where, "num_hidden_layers", 12)
    cell = _number(fields, where, "patch_size", patch)
    if cell != patch and patch == 14:
        raise CheckpointError(f"{where}: patch_size is {fields['patch_size']}; DINOv2 has 14")
    tokens = (found["image_size"] // cell) ** 2 + _number(fields, where, "num_register_tokens", 1)
    expect_size(width * (tokens + 3 * cell**2 + 12 * width * found["blocks"]), found["blocks"], where)
    return found


def _vit(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    found = _transformer(fields, where, 16, 224)
    patch = _number(fields, where, "patch_size", 16)
    _expect(
        fields, where, _VIT_NAMES | {"layer_norm_eps"}, intermediate_size=4 * vit.SIZES[found["size"]][0],
        hidden_act="gelu", num_channels=3, qkv_bias=True,
    )  # fmt: skip
    eps = fields.get("layer_norm_eps", 1e-12)
    return {"type": "ViT", **found, "patch": patch, "out_strides": [patch], "norm_eps": eps}


def _dinov2(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    found = _transformer(fields, where, 14, 518)
    _expect(
        fields, where, _VIT_NAMES | {"num_register_tokens"}, mlp_ratio=4, hidden_act="gelu", num_channels=3,
        qkv_bias=True, layer_norm_eps=1e-6, use_swiglu_ffn=False,
    )  # fmt: skip
    registers = _number(fields, where, "num_register_tokens", 4) if "registers" in fields["model_type"] else 0
    return {"type": "DINOv2", **found, "registers": registers, "out_strides": [14]}


def _convnext(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    depths, widths = fields.get("depths", [3, 3, 9, 3]), fields.get("hidden_sizes", [96, 192, 384, 768])
    plans = {name: ([*counts], [width << i for i in range(4)]) for name, (counts, width) in convnext.PLANS.items()}
    size = next((name for name, plan in plans.items() if plan == (depths, widths)), None)
    if size is None:
        raise CheckpointError(
            f"{where}: depths are {str(depths)[:40]} and hidden_sizes {str(widths)[:40]}; known are {plans}"
        )
    _expect(
        fields, where, {"depths", "hidden_sizes", "layer_norm_eps"}, hidden_act="gelu", num_channels=3, patch_size=4
    )
    return {"type": "ConvNeXt", "size": size, "out_strides": [32]}


def _swin(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    given = fields.get("depths", [2, 2, 6, 2]), fields.get("embed_dim", 96)
    size = next((name for name, (counts, width, _) in swin.PLANS.items() if ([*counts], width) == given), None)
    if size is None:
        raise CheckpointError(f"{where}: depths and embed_dim are {str(given)[:80]}; known are {swin.PLANS}")
    heads = [swin.PLANS[size][2] << i for i in range(4)]
    _expect(
        fields, where, {"depths", "embed_dim", "hidden_size", "layer_norm_eps"}, num_heads=heads, window_size=7,
        mlp_ratio=4.0, hidden_act="gelu", num_channels=3, patch_size=4, use_absolute_embeddings=False, qkv_bias=True,
        num_layers=4,
    )  # fmt: skip
    return {"type": "Swin", "size": size, "out_strides": [32]}


_KINDS: dict[Any, Callable[[Mapping[str, Any], str], dict[str, Any]]] = {
    "vit": _vit,
    "dinov2": _dinov2,
    "dinov2_with_registers": _dinov2,
    "convnext": _convnext,
    "swin": _swin,
}

for _kind in _KINDS:
    register(ROLE, _kind)(describe)
