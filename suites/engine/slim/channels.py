"""Pruning of channels: a run of the same network with narrower layers, whatever its suite.

The network is traced as it predicts and as it trains, and its channels are followed through both
(`framework.pruning`). What is cut is gone, not masked: the new run is smaller, trains on, exports and is read again
from its config, whose section `pruning` has the width of each layer.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from framework import from_numpy, no_grad, num_threads, program, set_num_threads, tensor
from framework.atomic import write_text
from framework.errors import AttributeValueError, ConfigError, DataError, NumericsError
from framework.graph.compiled import CompiledProgram
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.io import save_tensors
from framework.pruning import CRITERIA, channels_of, last_layers, narrow, scores, widths_by, widths_of
from suites.engine.config import Config
from suites.engine.config.building import limited, read_config
from suites.engine.config.settings import DataSettings
from suites.engine.contract.batch import Batch
from suites.engine.contract.fitting import fitting_here
from suites.engine.contract.step import OwnStep
from suites.engine.contract.task import Task
from suites.engine.names import listing
from suites.engine.pieces import whole
from suites.engine.predict.deploying import deployed_program
from suites.engine.predict.evaluation import losses_of
from suites.engine.predict.inference import open_run
from suites.engine.run.folder import RunFolder
from suites.engine.slim.sizing import LEAST, SHARES, Ranked, by_losses, evenly, meet
from suites.engine.slim.wishes import Wishes
from suites.engine.weights.eight_bits import eight_bits_of

_log = logging.getLogger(__name__)
REPORT = "pruning.json"
_BATCHES = 4  # that sensitivity is measured on
_MULTIPLE = 8
_ROUNDS, _RUNS = 5, 3  # in which a network is timed beside the whole one
_TIMED = 8  # steps of the search for a budget of time
_FAR = 1e-3  # what sums in another order may change, as a share of the largest value
_SHOWN = 3


def prune_channels(run: Path, output: Path, wishes: Wishes, *, overwrite: bool = False) -> str:
    """Write a run's network with fewer channels as a run of its own; return what was cut, in words.

    Args:
        run: the folder of a run.
        output: the folder of the new run.
        wishes: one of `width`, `macs` and `time`, and how.
        overwrite: replace a run in the folder.

    Raises:
        ConfigError: the run trains in a way that does not go with it; the folder holds another run.
        AttributeValueError: a share out of range, a budget that cannot be reached, nothing that can be cut.
        NumericsError: the narrower network does not compute what the whole one does without those channels.
    """
    name, wanted = _budget(wishes)
    task, config = open_run(run), read_config(run)
    expect_able(run, task, config)
    pruner = _Pruner(run, task, config, wishes)
    cut = pruner.choose(name, wanted)
    arrays = pruner.channels.narrowed(pruner.arrays, cut)
    pruner.check(cut)
    before = sum(p.size for p in task.model.parameters())
    widths = {**config.get("pruning.layers", {}), **widths_by(task.model, arrays)}
    smaller = _config(config, output, widths)
    with contextlib.closing(RunFolder.create(output, smaller, overwrite=overwrite)) as folder:
        folder.write_processor(task.processor())
        save_tensors(folder.weights / "best.safetensors", {key: from_numpy(array) for key, array in arrays.items()})
        write_text(output / REPORT, json.dumps(pruner.report(cut), indent=1) + "\n")
    after = sum(p.size for p in open_run(output).model.parameters())
    return f"{after:,} of {before:,} parameters, {pruner.told(cut)}"


def _budget(wishes: Wishes) -> tuple[str, float]:
    """Which share was asked for, and how much."""
    wishes.refuse(("heads", "neurons", "layers"), "are of a BERT; of other networks take --width, --macs or --time")
    given = {name: getattr(wishes, name) for name in ("width", "macs", "time") if getattr(wishes, name) is not None}
    if len(given) != 1:
        found = f"got {listing(f'--{name}' for name in given)}" if given else "nothing is to be cut"
        raise AttributeValueError(f"prune: {found}; give one of --width, --macs and --time, the share that stays")
    ((name, share),) = given.items()
    if not 0 < share < 1:
        raise AttributeValueError(
            f"prune: {name} is {share:g}; the share that stays is above 0, or nothing is left, and below 1, or nothing "
            "is cut"
        )
    if wishes.by not in (None, "uniform", "sensitivity"):
        raise AttributeValueError(f"prune: by is '{wishes.by}'; takes 'uniform', 'sensitivity'")
    if wishes.by != "sensitivity":
        wishes.refuse(("batches",), "would do nothing without --by sensitivity, which looks at them; leave it out")
    if (wishes.criterion or "l1") not in CRITERIA:
        raise AttributeValueError(f"prune: criterion is '{wishes.criterion}'; takes {', '.join(map(repr, CRITERIA))}")
    for what, number in (("multiple", wishes.multiple), ("batches", wishes.batches)):
        if number is not None and number < 1:
            raise AttributeValueError(f"prune: {what} is {number}; it must be 1 or more")
    return name, share


def expect_able(run: Path, task: Task, config: Config) -> None:
    """Raise ConfigError where a run was trained in a way that does not go with pruning."""
    reasons = {
        "lora, whose adapters stand beside the weights": config.get("lora") is not None,
        "eight_bits; prune first, then train in 8 bits": eight_bits_of(task) is not None,
        f"the update of {type(task).__name__}, which is its own": isinstance(task, OwnStep),
    }
    for reason, excludes in reasons.items():
        if excludes:
            raise ConfigError(f"prune: {run}: does not go with {reason}")


class _Pruner:
    """A network, its channels in order, and what cutting some of them costs.

    Attributes:
        channels: that can be cut.
        arrays: the whole network's parameters and buffers.
        ranked: the groups to cut from.
    """

    def __init__(self, run: Path, task: Task, config: Config, wishes: Wishes) -> None:
        self._run, self._task, self._wishes = run, task, wishes
        seed = config.get("runtime.seed", 0)
        task.begin(None, lambda line: None, seed)
        self._single = _example(run, task)
        count = wishes.batches or _BATCHES
        self._batches = _training_batches(task, count if wishes.by == "sensitivity" else 1, seed)
        with whole():
            predicts = deployed_program(task, self._single, pass_names=())
        programs = [predicts, _training_program(task, self._batches[0])]
        self.channels = channels_of(task.model, programs)
        self.arrays = {name: t.numpy().copy() for name, t in task.model.state_dict().items()}
        self._widths = widths_of(task.model)
        self._multiple = wishes.multiple or _MULTIPLE
        self.ranked = self._in_order(wishes.criterion or "l1")
        if not self.ranked:
            why = Counter(reason.partition(" (")[0] for reason in self.channels.kept.values())
            raise AttributeValueError(
                f"prune: {run}: no channel of {type(task.model).__name__} can be cut; they reach "
                f"{listing(name for name, _ in why.most_common(_SHOWN))}"
            )
        self._whole = self.channels.multiply_adds()
        self._losses: dict[str, list[float]] = {}

    def _in_order(self, criterion: str) -> list[Ranked]:
        for pattern in self._wishes.keep:
            if not any(fnmatchcase(name, pattern) for name in self.arrays):
                shown = listing([name for name in self.arrays if name.endswith("weight")][:_SHOWN])
                raise AttributeValueError(f"prune: keep has '{pattern}', which fits no weight; there are {shown}, ...")
        found = []
        for group in self.channels.groups:
            if any(_matches(name, self._wishes.keep) for name, _ in group.made):
                self.channels.kept[group.name] = "--keep"
                continue
            ranks = scores(group, self.arrays, criterion)
            if ranks is None:
                self.channels.kept[group.name] = f"no batch norm, which criterion '{criterion}' looks at"
                continue
            if len(group.sets) > 1:
                found.append(Ranked(group, group.sets[np.argsort(ranks, kind="stable")]))
        return found

    def choose(self, name: str, wanted: float) -> set[int]:
        """The sets to cut for a budget: "width", "macs" or "time"."""
        uniform = self._wishes.by != "sensitivity"
        if uniform and name == "width":
            cut = evenly(self.ranked, wanted, self._multiple)
            if not cut:
                raise AttributeValueError(
                    f"prune: width {wanted:g} cuts no channel: widths are multiples of {self._multiple} (--multiple)"
                )
            return cut
        cut_at = self._evenly if uniform else self._by_sensitivity()
        if name == "width":
            return meet(wanted, cut_at, self._width, name)
        if name == "macs":
            return meet(wanted, cut_at, lambda cut: self.channels.multiply_adds(cut) / self._whole, name)
        with _threads(self._wishes.threads):
            whole = self._compiled()
            return meet(wanted, cut_at, lambda cut: self._time(cut, whole), name, steps=_TIMED)

    def _evenly(self, strength: float) -> set[int]:
        return evenly(self.ranked, 1 - strength * (1 - LEAST), self._multiple)

    def _width(self, cut: set[int]) -> float:
        return 1 - len(cut) / sum(len(one.order) for one in self.ranked)

    def _by_sensitivity(self) -> Callable[[float], set[int]]:
        self._losses = self._measured()
        grown = sorted({0.0, *itertools.chain.from_iterable(self._losses.values())})
        most = max(grown[-1], 1e-6)

        def cut_at(strength: float) -> set[int]:
            bearable = float(np.interp(strength, np.linspace(0, 1, len(grown)), grown))
            return by_losses(self.ranked, self._losses, most if strength >= 1 else bearable, self._multiple)

        return cut_at

    def _measured(self) -> dict[str, list[float]]:
        """By a group's name how much the loss grows without shares of it, the others whole (Li et al. 2017)."""
        of_batch = losses_of(self._task)
        whole = self._loss(of_batch)
        found: dict[str, list[float]] = {}
        for one in self.ranked:
            grown = []
            for share in SHARES:
                with self._masked(one.cut(1 - share, self._multiple)):
                    grown.append(max(0.0, self._loss(of_batch) - whole))
            found[one.group.name] = grown
        return found

    def _loss(self, of_batch: Callable[[Batch], Mapping[str, tuple[float, float]]]) -> float:
        losses = [sum(mean for mean, _ in of_batch(batch).values()) for batch in self._batches]
        return float(np.mean(losses))

    @contextlib.contextmanager
    def _masked(self, cut: set[int]) -> Iterator[None]:
        """Inside, the whole network computes what it would without some channels."""
        state, masked = self._task.model.state_dict(), self.channels.masked(self.arrays, cut)
        for name, array in masked.items():
            state[name].set(tensor(array))
        try:
            yield
        finally:
            for name in masked:
                state[name].set(tensor(self.arrays[name]))

    @contextlib.contextmanager
    def _narrowed(self, cut: set[int]) -> Iterator[None]:
        """Inside, the model is the narrower one."""
        model, arrays = self._task.model, self.channels.narrowed(self.arrays, cut)
        changed = widths_by(model, arrays)
        narrow(model, changed)
        model.load_state_dict(arrays)
        try:
            yield
        finally:
            narrow(model, {path: self._widths[path] for path in changed})
            model.load_state_dict(self.arrays)

    def _compiled(self) -> Callable[[], Any]:
        """The network as it predicts on one example."""
        found = deployed_program(self._task, self._single, pass_names=INFERENCE_PASSES)
        return _runner(found, self._single, self._task.eval_inputs)

    def _time(self, cut: set[int], whole: Callable[[], Any]) -> float:
        """The share of the whole network's time that the narrower one takes, in turns."""
        with self._narrowed(cut):
            small = self._compiled()
        times: dict[str, list[float]] = {"whole": [], "small": []}
        for _ in range(_ROUNDS):
            for name, run in (("whole", whole), ("small", small)):
                run()
                for _ in range(_RUNS):
                    started = time.perf_counter()
                    run()
                    times[name].append(time.perf_counter() - started)
        return float(np.median(times["small"]) / np.median(times["whole"]))

    def check(self, cut: set[int]) -> None:
        """See that the narrower network computes what the whole one does without those channels.

        Raises NumericsError where it does not.
        """
        with self._masked(cut):
            wanted = self._ends()
        with self._narrowed(cut):
            found = self._ends()
        for (name, a), (_, b) in zip(found, wanted, strict=True):
            size = max(float(np.abs(b).max(initial=0)), 1e-6)
            if a.shape != b.shape or not float(np.abs(a.astype(np.float64) - b).max(initial=0)) <= _FAR * size:
                raise NumericsError(
                    f"prune: {self._run}: without the channels that were cut, {name} gives other numbers in the "
                    "narrower network; some layer looks at channels in a way that is not known. Name weights to leave "
                    "alone with --keep"
                )

    def _ends(self) -> list[tuple[str, np.ndarray]]:
        """What the last layers before any choice, such as of boxes, give for an example."""
        with whole():
            found, names = last_layers(deployed_program(self._task, self._single, pass_names=()))
        results = _runner(found, self._single, self._task.eval_inputs)()
        return [(name, t.numpy()) for name, t in zip(names, results, strict=True)]

    def told(self, cut: set[int]) -> str:
        """What was cut, and what was left alone, in words."""
        share = self.channels.multiply_adds(cut) / max(1, self._whole)
        total, groups = sum(len(one.order) for one in self.ranked), len(self.ranked)
        text = f"{share:.0%} of the multiply-adds; {len(cut):,} of {total:,} channels cut in {groups} groups"
        why = Counter(reason.partition(" (")[0] for reason in self.channels.kept.values())
        if why:
            told = [f"{reason} ({count})" for reason, count in why.most_common(_SHOWN)]
            more = "" if len(why) <= _SHOWN else f" and {len(why) - _SHOWN} more"
            text += f"; channels of {len(self.channels.kept)} weights stay, as they reach {', '.join(told)}{more}"
        return text

    def report(self, cut: set[int]) -> dict[str, Any]:
        """What was cut by group, and why others were left alone."""
        groups = []
        for one in self.ranked:
            group = one.group
            gone = np.isin(group.sets, list(cut))
            row: dict[str, Any] = {"made_by": [n for n, _ in group.made], "read_by": [n for n, _ in group.read]}
            row |= {"channels": len(group.sets), "stay": np.flatnonzero(~gone).tolist()}
            if group.name in self._losses:
                row["loss_grows"] = dict(zip(map(str, SHARES), self._losses[group.name], strict=True))
            groups.append(row)
        return {"groups": groups, "left_alone": self.channels.kept}


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    before = num_threads()
    set_num_threads(count)
    try:
        yield
    finally:
        set_num_threads(before)


def _runner(found: Program, batch: Mapping[str, np.ndarray], names: Sequence[str]) -> Callable[[], Any]:
    compiled, inputs = CompiledProgram(found), [from_numpy(batch[name]) for name in names]
    return lambda: compiled.run(inputs)


def _example(run: Path, task: Task) -> dict[str, np.ndarray]:
    """One example of the evaluation set as the network takes it."""
    processor = RunFolder(run).read_processor(task.processor_class)
    item = next((item for _, item in task.examples(1)), None)
    if item is None:
        raise DataError(f"prune: {run}: the evaluation set is empty, so there is nothing to follow channels with")
    batch = processor.prepare([item])
    return {name: batch[name] for name in task.eval_inputs}


def _training_batches(task: Task, count: int, seed: int) -> list[Batch]:
    with limited(task.train_loader(seed=seed, workers=0), DataSettings(), "another") as loader:
        batches = list(itertools.islice(loader.stream(), count))
    if not batches:
        raise DataError("prune: the training set is empty, so there is nothing to follow channels with")
    return batches


def _training_program(task: Task, batch: Batch) -> Program:
    """What training computes, its losses included, as it is traced."""
    arrays, fitting = {name: batch[name] for name in task.train_inputs}, fitting_here(task)
    inputs = {name: from_numpy(a) for name, a in (fitting.fill(arrays) if fitting else arrays).items()}

    def compute(inputs: dict[str, Any]) -> dict[str, Any]:
        terms = task.train_step(inputs)
        return {name: getattr(term, "mean", getattr(term, "value", term)) for name, term in terms.items()}

    task.model.train()
    with no_grad():
        found = program(compute, pass_names=()).program_for(inputs).program
    task.model.eval()
    return found


def _config(config: Config, output: Path, widths: Mapping[str, Sequence[int]]) -> Config:
    """The run's config with narrower layers and the weights to start from."""
    layers = {path: list(map(int, each)) for path, each in widths.items()}
    starts = {"weights": str(output / "weights" / "best.safetensors")}
    smaller = config.changed({"runtime": starts, "pruning": {"$replace": {"layers": layers}}})
    smaller.check()
    return smaller
