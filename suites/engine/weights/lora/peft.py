"""Adapters alone in the format of PEFT: `adapter_config.json` and `adapter_model.safetensors`, read and written.

A tensor is called `base_model.model.MODULE.lora_A.weight` [r, C] or `lora_B.weight` [K, r]; of a convolution they are
[r, C, R, S] and [K, r, 1, 1]. Parts that are trained in full, such as a head, stand beside them under their own names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from framework.atomic import make_folder, write_text
from framework.errors import CheckpointError
from framework.io import save_tensors
from framework.nn import Layer
from framework.outside import read_json
from framework.tensors import from_numpy, tensor
from suites.engine.weights.formats.reading import read_weights
from suites.engine.weights.lora.layers import Adapter, adapters
from suites.engine.weights.matching import Names, shown

_CONFIG, _FILES = "adapter_config.json", ("adapter_model.safetensors", "adapter_model.bin")
_ROOT = "base_model.model."
_EXPECTED: dict[str, Any] = {
    "peft_type": "LORA",
    "bias": "none",
    "fan_in_fan_out": False,
    "use_dora": False,
    "lora_bias": False,
    "use_qalora": False,
}
_TELLING = """
task_type base_model_name_or_path revision inference_mode target_modules modules_to_save exclude_modules r lora_alpha
lora_dropout use_rslora init_lora_weights layers_to_transform layers_pattern auto_mapping megatron_core
qalora_group_size peft_version loftq_config runtime_config ensure_weight_tying
"""
_IDLE = frozenset(_TELLING.split())


def save_adapter(model: Layer, folder: Path, *, base: str | None = None, kind: str | None = None) -> list[Path]:
    """Write the adapters of a model, and what else of it is trained, as PEFT has them.

    Args:
        model: one with adapters (`add_lora`).
        folder: made where it is missing.
        base: name of the weights that the adapters stand beside.
        kind: PEFT's `task_type`, such as SEQ_CLS.

    Returns:
        The two files.

    Raises:
        CheckpointError: the model has no adapters.
    """
    found = list(adapters(model))
    if not found:
        raise CheckpointError(f"{type(model).__name__}: has no adapters; train with `lora` in the config")
    arrays, modules = {}, []
    names = _names_of(model)
    prefix = getattr(model, "prefix", "")
    for path, _, adapter in found:
        for i, plain in enumerate(_modules(path, adapter, names)):
            a, b = _theirs(adapter, i)
            module = prefix + plain if f"{path}.weight" in names.sources else plain
            arrays[f"{_ROOT}{module}.lora_A.weight"], arrays[f"{_ROOT}{module}.lora_B.weight"] = a, b
            modules.append(module)
    whole = {n: t for n, t in model.named_parameters() if t.requires_grad and ".lora." not in f".{n}"}
    for name, parameter in whole.items():
        arrays[_ROOT + _other(name, names, model)] = parameter.numpy()
    first = found[0][2]
    heads = sorted({_other(name, names, model).rpartition(".")[0] for name in whole})
    config = {
        "peft_type": "LORA",
        "task_type": kind,
        "base_model_name_or_path": base,
        "r": first.rank,
        "lora_alpha": first.alpha,
        "lora_dropout": first.dropout.p,
        "target_modules": sorted(modules),
        "modules_to_save": heads or None,
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
    }
    make_folder(folder)
    paths = [folder / _CONFIG, folder / _FILES[0]]
    save_tensors(paths[1], {n: from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()}, {"format": "pt"})
    write_text(paths[0], json.dumps(config, indent=2) + "\n")
    return paths


def load_adapter(model: Layer, folder: Path) -> list[str]:
    """Put adapters of a folder in PEFT's format into those of a model; return lines on what was taken.

    Matrices of a joined layer that the file does not have stay without effect.

    Raises:
        CheckpointError: it is no such folder, asks for what is not computed, has another rank, or adapters of layers
            that have none here; the model is unchanged.
    """
    fields = read_adapter_config(folder)
    file = next((folder / name for name in _FILES if (folder / name).is_file()), folder / _FILES[0])
    arrays = {
        name.replace(".modules_to_save.default.", ".").replace(".default.", "."): a
        for name, a in read_weights(file).items()
    }
    names, used, changes = _names_of(model), set(), []
    own = dict(model.named_parameters())
    taken = 0
    for path, _, adapter in adapters(model):
        new_a, new_b = adapter.a.numpy().copy(), adapter.b.numpy().copy()
        hits = 0
        for module, (inner, rows) in zip(_modules(path, adapter, names), adapter.places(), strict=True):
            a_name, b_name = (_find(arrays, f"{module}.lora_{side}.weight") for side in "AB")
            if a_name is None or b_name is None:
                new_b[rows] = 0
                continue
            used |= {a_name, b_name}
            a, b = _ours(arrays[a_name], arrays[b_name])
            place, other = new_a[inner], new_b[rows]
            if a.shape != place.shape or b.shape != other.shape:
                raise CheckpointError(
                    f"{file}: {a_name} {list(a.shape)} and lora_B {list(b.shape)} do not fit {path}, which takes "
                    f"{list(place.shape)} and {list(other.shape)}; lora.rank must be the file's, {fields['r']}"
                )
            place[...], other[...] = a, b
            hits += 1
        taken += bool(hits)
        changes.append((adapter, new_a, new_b))
    whole = {}
    for name, parameter in own.items():
        found = _find(arrays, _other(name, names, model)) if ".lora." not in f".{name}" else None
        if found is not None and parameter.requires_grad and arrays[found].shape == parameter.shape:
            whole[name] = arrays[found]
            used.add(found)
    left = sorted(set(arrays) - used)
    if [name for name in left if ".lora_" in name] or not taken:
        raise CheckpointError(
            f"{file}: it does not fit the adapters of this {type(model).__name__}; left over: {shown(left)}"
        )
    scale = fields["lora_alpha"] / (fields["r"] ** 0.5 if fields.get("use_rslora") else fields["r"])
    for adapter, a, b in changes:
        adapter.a.set(tensor(a))
        adapter.b.set(tensor(b * np.float32(scale / adapter.scale)))
    for name, array in whole.items():
        own[name].set(tensor(np.ascontiguousarray(array), dtype=own[name].dtype))
    lines = [f"adapters of {taken} layers and {len(whole)} other tensors from {folder}"]
    return lines + ([f"{len(left)} of the file not used: {shown(left)}"] if left else [])


def read_adapter_config(folder: Path) -> dict[str, Any]:
    """The fields of a folder's adapter_config.json; CheckpointError where it asks for what is not computed here."""
    path = folder / _CONFIG
    try:
        fields = read_json(path)
    except OSError:
        raise CheckpointError(f"{folder}: has no {_CONFIG}; is it a folder of adapters that PEFT wrote?") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: is no JSON ({error})") from None
    if not isinstance(fields, dict):
        raise CheckpointError(f"{path}: holds a {type(fields).__name__}, not an object")
    for name, value in _EXPECTED.items():
        if fields.get(name, value) not in (value, None):
            raise CheckpointError(f"{path}: {name} is {str(fields[name])[:60]!r}; only {value!r} is computed")
    odd = [
        name
        for name, value in fields.items()
        if name not in _EXPECTED and name not in _IDLE and value not in (None, False, {}, [], "")
    ]
    if odd:
        raise CheckpointError(
            f"{path}: {odd[0]} is {str(fields[odd[0]])[:60]!r}, and what it changes is not known here"
        )
    rank, alpha = fields.get("r"), fields.get("lora_alpha")
    whole = isinstance(rank, int) and not isinstance(rank, bool) and rank > 0
    if not whole or not isinstance(alpha, (int, float)) or isinstance(alpha, bool) or not alpha > 0:
        raise CheckpointError(f"{path}: r is {rank!r} and lora_alpha {alpha!r}; both must be numbers above 0")
    return fields


def _names_of(model: Layer) -> Names:
    """The published names of a model's tensors; none where it has its own only."""
    schemes = getattr(model, "schemes", ())
    if not schemes:
        return Names({})
    found: Names = model.names_in(schemes[0])  # type: ignore[attr-defined]
    return found


def _modules(path: str, adapter: Adapter, names: Names) -> Iterator[str]:
    """What the module of each matrix of a layer is called in a file, without what stands before all names."""
    source = names.sources.get(f"{path}.weight")
    count = len(adapter.rows)
    if source is not None and len(source.names) == count:
        yield from (name.removesuffix(".weight") for name in source.names)
    else:
        yield from ([path] if count == 1 else [f"{path}.{i}" for i in range(count)])


def _other(name: str, names: Names, model: Layer) -> str:
    """What a tensor that is no adapter's is called in a file."""
    heads: Mapping[str, str] = getattr(model, "head_names", {})
    source = names.sources.get(name)
    part, _, ending = name.rpartition(".")
    return source.names[0] if source is not None else f"{heads.get(part, part)}.{ending}"


def _find(arrays: Mapping[str, np.ndarray], ending: str) -> str | None:
    """The name in a file that ends so, whatever model stands before it."""
    return next((name for name in arrays if name == ending or name.endswith(f".{ending}")), None)


def _theirs(adapter: Adapter, block: int) -> tuple[np.ndarray, np.ndarray]:
    """lora_A and lora_B of one matrix."""
    inner, rows = adapter.places()[block]
    a, b = adapter.a.numpy()[inner], adapter.b.numpy()[rows]
    return (a.transpose(0, 3, 1, 2), b[:, :, None, None]) if a.ndim == 4 else (a, b)


def _ours(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inverse of `_theirs`."""
    return (a.transpose(0, 2, 3, 1), b.reshape(b.shape[:2])) if a.ndim == 4 else (a, b)
