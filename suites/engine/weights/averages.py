"""The mean of several files of weights, or of a run's checkpoints, which often scores better than the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from framework import from_numpy
from framework.errors import CheckpointError, ConfigError
from framework.io import load_tensors, save_tensors
from framework.tensors import Tensor
from suites.engine.contract.resources import FOLDER, has_resources
from suites.engine.run.checkpoint import Checkpoints, load
from suites.engine.run.folder import RunFolder, expect_run
from suites.engine.weights.eight_bits import PLAN

AVERAGED = "averaged.safetensors"  # beside a run's other weights
_MODEL = "model"  # the part of a checkpoint


def last_checkpoints(run: Path, count: int | None = None, steps: Sequence[int] = ()) -> list[Path]:
    """The folders of a run's newest `count` checkpoints (all for None), or of those of `steps`, oldest first.

    Raises CheckpointError where the run has fewer, or none of such a step.
    """
    expect_run(run)
    folder = RunFolder(run)
    folder.guard()
    kept = Checkpoints(folder.weights)
    known = kept.steps()
    if wrong := [step for step in steps if step not in known]:
        raise CheckpointError(f"{run}: has no checkpoint of step {wrong[0]}; there are {_listed(known)}")
    if count is not None and len(known) < count:
        raise CheckpointError(
            f"{run}: has {len(known)} checkpoints ({_listed(known)}), not {count}; runtime.checkpoint.keep says how "
            "many of them a training keeps"
        )
    chosen = sorted(set(steps)) if steps else known if count is None else known[-count:]
    return [kept.folder(step) for step in chosen]


def average(sources: Sequence[Path], output: Path) -> int:
    """Write the mean of weights as a file of weights; return how many tensors are means.

    Sums are in float64. A tensor of whole numbers or truth values, such as a count of batches, is the last source's.

    Args:
        sources: folders of checkpoints, or safetensors files; two or more, of one network.
        output: the file to write.

    Raises:
        ConfigError: there is one source only, or a file would be written over.
        CheckpointError: sources differ in names, shapes or types, one is damaged, or one has tables of rows, which have
            no mean.
    """
    if len(sources) < 2:
        raise ConfigError(f"average: there are {len(sources)} sources; a mean is of two or more")
    if any(source.exists() and output.exists() and source.samefile(output) for source in sources):
        raise ConfigError(f"average: {output} is a source itself; choose another --output")
    first: dict[str, Tensor] = {}
    sums: dict[str, np.ndarray] = {}
    last: dict[str, Tensor] = {}
    for source in sources:
        last = _weights_of(source)
        if not first:
            first = last
        _expect_alike(first, sources[0], last, source)
        for name, tensor in last.items():
            if _has_mean(tensor):
                value = tensor.numpy().astype(np.float64)
                sums[name] = sums[name] + value if name in sums else value
    means = {name: from_numpy((total / len(sources)).astype(first[name].numpy().dtype)) for name, total in sums.items()}
    save_tensors(output, {**last, **means})
    return len(means)


def _has_mean(tensor: Tensor) -> bool:
    return tensor.dtype.startswith(("float", "bfloat"))


def _weights_of(source: Path) -> dict[str, Tensor]:
    if not source.is_dir():
        if has_resources(source):
            raise CheckpointError(f"{source}: the model keeps tables of rows beside its weights, which have no mean")
        return load_tensors(source)
    found = load(source)
    if FOLDER in found:
        raise CheckpointError(f"{source}: the model keeps tables of rows beside its weights, which have no mean")
    if not isinstance(found.get(_MODEL), dict):
        raise CheckpointError(f"{source}: holds no weights of a model; name a run's weights/step_... or files")
    return dict(found[_MODEL])


def _expect_alike(first: dict[str, Tensor], one: Path, found: dict[str, Tensor], other: Path) -> None:
    if differ := sorted(first.keys() ^ found.keys()):
        has, lacks = (one, other) if differ[0] in first else (other, one)
        raise CheckpointError(
            f"average: {has} has '{differ[0]}' and {lacks} has not ({len(differ)} names differ): they are of different "
            "networks"
        )
    if PLAN in found and not np.array_equal(found[PLAN].numpy(), first[PLAN].numpy()):
        raise CheckpointError(
            f"average: {one} and {other} were trained in 8 bits with steps of their own, which have no mean; average "
            "checkpoints of one run"
        )
    for name, tensor in found.items():
        if (tensor.shape, tensor.dtype) != (first[name].shape, first[name].dtype):
            raise CheckpointError(
                f"average: '{name}' is {first[name].dtype} {list(first[name].shape)} in {one} but {tensor.dtype} "
                f"{list(tensor.shape)} in {other}: they are of different networks"
            )


def _listed(steps: Sequence[int]) -> str:
    return ", ".join(map(str, steps)) or "none"
