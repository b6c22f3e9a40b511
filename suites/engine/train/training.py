"""Train and evaluate from a config file or a run folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from framework.errors import ConfigError
from suites.engine.config import Config
from suites.engine.config.building import build_runtime, build_task, limited, read_config
from suites.engine.contract.capabilities import evaluations
from suites.engine.contract.cluster import check_address, cluster_of
from suites.engine.contract.resources import load_deployed
from suites.engine.hosts.devices import placed
from suites.engine.hosts.job import submit, submits
from suites.engine.predict.evaluation import evaluate, named_figures, predict_of
from suites.engine.predict.inference import join_others
from suites.engine.predict.items import Predict
from suites.engine.reporting.tally import Tally
from suites.engine.run.folder import RunFolder, best_weights
from suites.engine.run.ownership import is_owned
from suites.engine.run.reopening import read_task, task_to_continue
from suites.engine.run.screen import Screen
from suites.engine.train.hooks import Hook
from suites.engine.train.loop import TrainingLoop
from suites.engine.train.profiling import StepProfile
from suites.engine.train.rates import Sweep
from suites.engine.train.trainer import Trainer
from suites.engine.weights import load_wanted, wants_weights

if TYPE_CHECKING:
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.metric import Metric
    from suites.engine.contract.task import Task

_log = logging.getLogger(__name__)


def train(
    source: Path,
    overrides: Sequence[str] = (),
    *,
    runs: Path = Path("runs"),
    name: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    profile: bool = False,
    verbose: bool = False,
    hooks: Sequence[Hook] = (),
) -> TrainingLoop:
    """Train a run to its end, or until Ctrl-C.

    Args:
        source: a config file, the name of one that comes with Paddock, or the folder of a run.
        overrides: `path=value` texts, as with `-o`.
        runs: folder of all runs.
        name: name of the run; by default that of the config file or of the run folder.
        resume: continue from the last checkpoint.
        overwrite: replace a run of this name.
        profile: record a few steps, show where their time went and keep it in the run folder.
        verbose: show details at the start; the run's log has them always.
        hooks: further hooks.

    Raises:
        ConfigError, DataError, CheckpointError, NumericsError: what is wrong, in one message.
    """
    config = read_config(source, overrides)
    path = source if source.is_dir() and name is None else runs / (name or source.stem)
    task = task_to_continue(RunFolder(path), config) if resume else build_task(config)
    trainer = Trainer.from_config(config, task, hooks)
    return trainer.fit(path, resume=resume, overwrite=overwrite, profile=profile, verbose=verbose)


def find_rate(
    source: Path,
    overrides: Sequence[str] = (),
    *,
    runs: Path = Path("runs"),
    name: str | None = None,
    overwrite: bool = False,
) -> Sweep:
    """Try learning rates for a config, see `Trainer.find_rate`; the folder is `<name>_find_lr`."""
    config = read_config(source, overrides)
    trainer = Trainer.from_config(config, build_task(config))
    return trainer.find_rate(runs / f"{name or source.stem}_find_lr", overwrite=overwrite)


def train_on_cluster(
    source: Path,
    overrides: Sequence[str] = (),
    *,
    address: str,
    runs: Path = Path("runs"),
    name: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    imports: Sequence[str] = (),
) -> bool:
    """Train a run on many machines; see docs/howto/cluster.md.

    Args:
        source, overrides, runs, name, resume, overwrite: see `train`.
        address: of the cluster; see `suites.engine.contract.cluster.check_address`.
        imports: plug-ins, for a job elsewhere.

    Returns whether it came to its end; False where it was interrupted.

    Raises ConfigError for an address that cannot be, NotSupportedError for a suite that trains in one process only.
    """
    if submits(check_address(address)):
        return submit(address, source, overrides, runs, name, resume=resume, overwrite=overwrite, imports=imports)
    config = read_config(source, overrides)
    path = source if source.is_dir() and name is None else runs / (name or source.stem)
    return cluster_of(config).train(config, path, address, resume=resume, overwrite=overwrite)


def evaluate_weights(
    source: Path,
    overrides: Sequence[str] = (),
    weights: Path | None = None,
    *,
    profile: StepProfile | None = None,
    device: str | None = None,
    products: str | None = None,
    others: Sequence[Path] = (),
) -> dict[str, float]:
    """Return the figures of a run, or of a config with `weights`, over the evaluation set.

    A run's figures go to its `metrics.json`; with overrides or other weights, or while the run is being trained, to a
    file of their own beside it, which is logged. `profile` records some of the batches; `device` is by default the
    run's own, where it is usable, and `products` the run's. `others` answer together with it, see `open_model`.
    Raises ConfigError if a config is given without weights and its model is not pretrained as a whole.
    """
    run = RunFolder(source) if source.is_dir() else None
    if run is not None:
        run.guard()
    config, task = read_task(source, overrides)
    if run is not None or weights is not None:
        load_deployed(task, weights or best_weights(run or RunFolder(source)))
    elif wants_weights(task.model):
        for line in load_wanted(task.model):
            _log.info("%s", line)
    else:
        raise ConfigError(
            f"{source}: a config has no weights; name a file with --weights, or a run folder, or let the model be "
            "`pretrained`"
        )
    join_others(task, source, others)
    runtime = build_runtime(config)
    with placed(device, runtime, products):
        predict = predict_of(task, eager=runtime.eager, conv_algorithm=runtime.conv_algorithm)
    if profile is not None:
        predict = profile.around(predict)
    metrics: dict[str, float] = {}
    own = run is not None and not (overrides or others) and weights is None and not is_owned(run.path)
    for name, view in evaluations(task).items():
        tally = Tally()

        def look(metric: Metric, name: str = name, view: Task = view, tally: Tally = tally) -> None:
            if text := metric.report():
                _log.info("%s\n%s", name or "evaluation:", text)
            if own and run is not None:
                run.write_told(metric, tally, name)
                if not name:
                    run.write_worst(view, predict, metric, runtime.evaluation.pictures)

        metrics |= named_figures(name, _shown_evaluation(view, predict, runtime, look, tally))
    if profile is not None:
        profile.report()
    if run is not None:
        _keep_figures(run, metrics, config, overrides, weights, others)
    return metrics


def _shown_evaluation(
    task: Task, predict: Predict, runtime: Runtime, look: Callable[[Metric], object], tally: Tally
) -> dict[str, float]:
    console = Console(file=Screen(sys.stderr, raw=True))  # type: ignore[arg-type]
    with (
        limited(task.eval_loader(workers=runtime.workers), runtime.data, "nothing") as loader,
        Progress(console=console, transient=True, disable=not console.is_terminal) as bar,
    ):
        shown = bar.add_task("evaluating", total=loader.length)
        return evaluate(
            task,
            predict,
            loader,
            after_batch=lambda done: bar.update(shown, completed=done),
            look=look,
            tally=tally,
        )


def _keep_figures(
    run: RunFolder,
    metrics: dict[str, float],
    config: Config,
    overrides: Sequence[str],
    weights: Path | None,
    others: Sequence[Path],
) -> None:
    if overrides or others or weights is not None or is_owned(run.path):
        path = run.write_other_metrics(metrics, config, overrides, weights, others)
        _log.info("the run's own metrics.json stays as it is; these figures are in %s", path)
    else:
        run.write_metrics(metrics)
