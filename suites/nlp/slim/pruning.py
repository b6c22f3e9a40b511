"""Pruning of a BERT: fewer heads and neurons a layer, the least important ones gone, or fewer layers.

What comes out is a run folder of a smaller model: it evaluates, exports and trains on like any other. Cutting costs
accuracy; training on, with the whole model as teacher, gets most of it back (DynaBERT, Hou et al. 2020).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from framework import from_numpy
from framework.errors import AttributeValueError, ConfigError
from framework.io import save_tensors
from suites.engine.config import Config
from suites.engine.config.building import limited, read_config
from suites.engine.config.settings import DataSettings
from suites.engine.contract.task import Task
from suites.engine.predict.inference import open_run
from suites.engine.registry import register
from suites.engine.run.folder import RunFolder
from suites.engine.slim.channels import expect_able
from suites.engine.slim.importance import importance, keep_best
from suites.engine.slim.wishes import Wishes
from suites.nlp.models.bert import Bert

_PART = "encoder.layers."


@dataclass(frozen=True)
class Cut:
    """What stays of a BERT.

    Attributes:
        heads: share of each layer's attention heads.
        neurons: share of each layer's neurons between its two linear layers.
        layers: how many layers, spread evenly with the last among them; or which, from 1; None for all.
    """

    heads: float = 1.0
    neurons: float = 1.0
    layers: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("heads", "neurons"):
            share = getattr(self, name)
            if not 0 < share <= 1:
                raise AttributeValueError(f"prune: {name} is {share}; the share that stays is above 0 and at most 1")
        if self.heads == self.neurons == 1 and self.layers is None:
            raise AttributeValueError("prune: nothing is to be cut; give a share below 1, or layers")

    def kept_layers(self, count: int) -> list[int]:
        """The layers that stay of `count`, from 0."""
        if self.layers is None:
            return list(range(count))
        if isinstance(self.layers, int):
            if not 1 <= self.layers <= count:
                raise AttributeValueError(
                    f"prune: layers is {self.layers} but the model has {count}; keep 1 to {count}"
                )
            return [round((i + 1) * count / self.layers) - 1 for i in range(self.layers)]
        wrong = [layer for layer in self.layers if not 1 <= layer <= count]
        if wrong or len(set(self.layers)) != len(self.layers) or not self.layers:
            raise AttributeValueError(
                f"prune: layers are {list(self.layers)} but the model has 1 to {count}; name each layer that stays once"
            )
        return sorted(layer - 1 for layer in self.layers)


@dataclass(frozen=True)
class PruneReport:
    """What was cut: parameters before and after, the layers that stay (from 1), heads and neurons of each layer."""

    before: int
    after: int
    layers: list[int]
    heads: int
    neurons: int


def prune_run(
    run: Path, output: Path, cut: Cut, *, batches: int | None = None, teach: bool = True, overwrite: bool = False
) -> PruneReport:
    """Write a smaller model of a run as a run of its own, whose config trains it on.

    Args:
        run: a run whose model is on a Bert.
        output: the folder of the new run.
        cut: what stays.
        batches: of the evaluation set, by which importance is measured; None for all. Cutting layers alone reads none.
        teach: the new config learns from `run` as it trains on, by classes and layers; classifiers only.
        overwrite: replace a run in the folder.

    Raises:
        ConfigError: the model is on no Bert, in 8 bits, or has adapters; the folder holds another run.
        AttributeValueError: more layers than there are.
    """
    task, config = open_run(run), read_config(run)
    encoder = getattr(task.model, "encoder", None)
    if not isinstance(encoder, Bert):
        raise ConfigError(f"prune: {run} is a {type(task.model).__name__}; only models on a Bert are pruned")
    expect_able(run, task, config)
    layers = cut.kept_layers(len(encoder.layers))
    chosen = _chosen(task, encoder, cut, batches)
    arrays = {name: tensor.numpy() for name, tensor in task.model.state_dict().items()}
    before = sum(p.size for p in task.model.parameters())
    arrays = _without_layers(_narrower(arrays, chosen, encoder), layers)
    sizes = _sizes(encoder, chosen, layers)
    smaller = _config(config, run, output, sizes, {0: 0} | {i + 1: k + 1 for i, k in enumerate(layers)}, teach=teach)
    with contextlib.closing(RunFolder.create(output, smaller, overwrite=overwrite)) as folder:
        folder.write_processor(task.processor())
        save_tensors(folder.weights / "best.safetensors", {name: from_numpy(array) for name, array in arrays.items()})
    after = sum(p.size for p in open_run(output).model.parameters())
    return PruneReport(before, after, [k + 1 for k in layers], sizes["heads"], sizes["ffn_size"])


@register("pruner", "bert")
def pruned(run: Path, output: Path, wishes: Wishes, overwrite: bool) -> str | None:
    """Prune the run of a model on a Bert; return what was cut, in words. None for other models. See `prune_run`."""
    if not isinstance(getattr(open_run(run).model, "encoder", None), Bert):
        return None
    wishes.refuse(("macs", "time", "by", "criterion", "multiple", "keep"), "are of networks of convolutions")
    width = 1.0 if wishes.width is None else wishes.width
    heads, neurons = (width if share is None else share for share in (wishes.heads, wishes.neurons))
    if heads == neurons == 1:
        wishes.refuse(("batches",), "would do nothing: no importance is measured where layers alone go; leave it out")
    report = prune_run(
        run, output, Cut(heads, neurons, _layers(wishes.layers)), batches=wishes.batches, overwrite=overwrite
    )
    return (
        f"{report.after:,} of {report.before:,} parameters; layers {report.layers}, {report.heads} heads and "
        f"{report.neurons} neurons each"
    )


def _layers(written: str | None) -> int | tuple[int, ...] | None:
    if written is None:
        return None
    try:
        numbers = tuple(int(part) for part in written.split(","))
    except ValueError:
        raise ConfigError(f"--layers {written}: expects a number of layers, or those that stay, as in 2,4,6") from None
    return numbers if "," in written else numbers[0]


def _chosen(task: Task, encoder: Bert, cut: Cut, batches: int | None) -> dict[str, np.ndarray]:
    """The heads and neurons that stay, by "<layer>.heads" and "<layer>.neurons"; all where nothing is cut in width."""
    c, count = encoder.config, len(encoder.layers)
    if cut.heads == cut.neurons == 1:
        every = {f"{i}.heads": np.arange(c.heads) for i in range(count)}
        return every | {f"{i}.neurons": np.arange(c.ffn_size) for i in range(count)}

    def gates(products: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = {}
        for i in range(count):
            out, down = products[f"{_PART}{i}.attention.out.weight"], products[f"{_PART}{i}.down.weight"]
            found[f"{i}.heads"] = out.sum(axis=0).reshape(c.heads, -1).sum(axis=1)  # columns head by head
            found[f"{i}.neurons"] = down.sum(axis=0)
        return found

    with limited(task.eval_loader(workers=0), DataSettings(), "nothing") as loader:
        scores = importance(task, loader, gates, batches)
    return {name: keep_best(s, cut.heads if name.endswith("heads") else cut.neurons) for name, s in scores.items()}


def _narrower(
    arrays: Mapping[str, np.ndarray], chosen: Mapping[str, np.ndarray], encoder: Bert
) -> dict[str, np.ndarray]:
    """The weights with the chosen heads and neurons alone."""
    found = dict(arrays)
    for i in range(len(encoder.layers)):
        part, neurons = f"{_PART}{i}.", chosen[f"{i}.neurons"]
        inner = found[f"{part}attention.out.weight"].shape[1]
        size = inner // encoder.config.heads
        columns = (chosen[f"{i}.heads"][:, None] * size + np.arange(size)).ravel()
        rows = np.concatenate([columns + k * inner for k in range(3)])  # of queries, keys and values
        for name, axis, places in (
            ("attention.qkv.weight", 0, rows),
            ("attention.qkv.bias", 0, rows),
            ("attention.out.weight", 1, columns),
            ("up.weight", 0, neurons),
            ("up.bias", 0, neurons),
            ("down.weight", 1, neurons),
        ):
            found[part + name] = np.ascontiguousarray(np.take(found[part + name], places, axis=axis))
    return found


def _without_layers(arrays: Mapping[str, np.ndarray], layers: Sequence[int]) -> dict[str, np.ndarray]:
    """The weights with these layers alone, numbered anew."""
    found = {name: array for name, array in arrays.items() if not name.startswith(_PART)}
    for new, old in enumerate(layers):
        part = f"{_PART}{old}."
        found |= {f"{_PART}{new}.{name.removeprefix(part)}": a for name, a in arrays.items() if name.startswith(part)}
    return found


def _sizes(encoder: Bert, chosen: Mapping[str, np.ndarray], layers: Sequence[int]) -> dict[str, int]:
    """The smaller encoder's arguments."""
    c, heads = encoder.config, len(chosen["0.heads"])
    sizes = {"layers": len(layers), "heads": heads, "ffn_size": len(chosen["0.neurons"])}
    if heads != c.heads or c.head_size is not None:
        sizes["head_size"] = c.head_size or c.hidden_size // c.heads
    return sizes


def _config(
    config: Config, run: Path, output: Path, sizes: Mapping[str, int], layers: dict[int, int], *, teach: bool
) -> Config:
    """The run's config with the smaller encoder, its weights to start from, and the run as teacher."""
    starts = {"weights": str(output / "weights" / "best.safetensors")}
    values: dict[str, Any] = {"model": {"encoder": dict(sizes)}, "runtime": starts, "distil": None}
    if teach and config["problem.type"] == "Classification":
        mapped = {str(ours): theirs for ours, theirs in layers.items()}
        lessons = {"teachers": [str(run)], "online": True, "layers": {"map": mapped}}
        values |= {"distil": {"$replace": lessons}, "r_drop": None}  # which does not go with a teacher
    smaller = config.changed(values)
    smaller.check()
    return smaller
