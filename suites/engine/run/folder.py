"""The run folder: everything a run reads or leaves, and enough to repeat it from the folder alone.

runs/<name>/config.yml        the resolved config; environment.json has its digest and the machine
            metrics.json      figures of the best weights, flat names to numbers; under "last" those of the last
                              evaluation, where that is another one
            report.md         its tables, such as one of the classes; report-<set>.md of a further evaluation set
            metrics-<digest>.json      evaluations with other data, options or weights
            .lock             who writes into the folder
            log.txt, events/  what was said, and TensorBoard's event files
            weights/          checkpoints, last.safetensors, best.safetensors
            pictures/         drawn predictions; worst/: the worst of the last evaluation, and cases.json, why they are
            metrics.jsonl     every figure of the run; report.html shows all of it
            plots.json        plots of the last evaluation; data.json: what the data held
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.atomic import is_leftover, make_folder, remove, remove_leftovers, write_text
from framework.confined import confine, expect_no_way_out
from framework.errors import CheckpointError, ConfigError
from framework.outside import read_json, told_missing
from suites.engine.config import Config, load_config
from suites.engine.config.tree.paths import format_path
from suites.engine.predict.evaluation import item_predictor
from suites.engine.predict.items import Predict
from suites.engine.reporting.cases import draw_cases
from suites.engine.reporting.lines import LAST
from suites.engine.reporting.plots import Plot, never_predicted, to_plain
from suites.engine.reporting.tally import Tally, set_name, write_tally
from suites.engine.run import environment
from suites.engine.run.ownership import LOCK, Ownership

if TYPE_CHECKING:
    from suites.engine.contract.metric import Metric
    from suites.engine.contract.processor import Processor
    from suites.engine.contract.task import Task


_log = logging.getLogger(__name__)
# What changes no number of a run: any device continues what another one began.
_CHANGEABLE = (
    "runtime.device",
    "runtime.devices",
    "runtime.shard_optimizer",
    "runtime.hosts_timeout",
    "runtime.workers",
    "runtime.threads",
    "runtime.log_every",
    "runtime.checkpoint",
    "runtime.evaluation.pictures",
    "runtime.data.timeout",
    "runtime.limits",
    "runtime.detect_anomaly",
)
_NAMES = ("suite", "type")  # keys whose values are never paths, though a run may be called so
_PLACES = ("root", "roots", "folder")  # keys of the data that say where they lie; what they are is compared apart


class RunFolder:
    """Paths and small files of one run.

    Made by `create` or `reopen` it is this process's own until `close`: no other process can write into it.
    Made from a path alone it is for reading, which is allowed at any time.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yml"
        self.metrics = path / "metrics.json"
        self.processor = path / "processor.json"
        self.environment = path / "environment.json"
        self.log = path / "log.txt"
        self.events = path / "events"
        self.weights = path / "weights"
        self.pictures = path / "pictures"
        self.differences: list[str] = []
        self._ownership: Ownership | None = None

    @classmethod
    def create(cls, path: Path, config: Config, *, overwrite: bool = False) -> RunFolder:
        """Make a new run folder, own it, and write what it starts from.

        Raises ConfigError if somebody owns the folder, if it holds a run and `overwrite` is off or `config` names
        something in it, such as a teacher or weights, or if it holds anything else.
        """
        run = cls(path)
        run._refuse_strangers()  # before a lock file appears in a folder that is no run
        with run._owning():
            run._refuse_strangers()
            if not overwrite:
                run._refuse_runs()
            run._refuse_sources(config)
            run._clear()
            remove_leftovers(path)
            write_text(run.config, config.written())
            for folder in (run.weights, run.pictures):
                make_folder(folder)
            run.write_environment(config)
        return run

    @classmethod
    def reopen(cls, path: Path, config: Config) -> RunFolder:
        """Return the run folder of a run to be continued with `config`, which must be the run's own; own it.

        What changes no number may differ, and is in `differences`; whether the data are the same, wherever they lie,
        the checkpoint tells.

        Raises CheckpointError if there is no run or it had another config, ConfigError if somebody owns it.
        """
        run = cls(path)
        if not run.config.is_file():
            raise CheckpointError(f"{path} holds no run to resume; start one without --resume")
        saved = load_config(run.config, check=False)
        before, now = saved.as_dict(), config.as_dict()
        differ = different_keys(before, now)
        changed = [key for key in differ if not _is_changeable(key)]
        if changed:
            keys = ", ".join(changed[:8])
            wanted = ", ".join(f"{key}: {_value(before, key)}" for key in changed[:8])
            raise CheckpointError(
                f"{path} was started with another config (different: {keys}), so it cannot be continued exactly; "
                f"resume with what the run has ({wanted}), or start anew under another --name, with runtime.weights "
                "for its weights"
            )
        run.differences = [f"{key} ({_value(before, key)} -> {_value(now, key)})" for key in differ]
        with run._owning():
            for folder in (run.weights, run.pictures):
                make_folder(folder)
        return run

    def adopt(self, config: Config) -> None:
        """Keep the config that the run is continued with."""
        if self.differences:
            write_text(self.config, config.written())
            self.write_environment(config)

    def guard(self) -> None:
        """See that nothing outside of the folder is written; raise CheckpointError for a link that leads out of it."""
        expect_no_way_out(self.path)
        confine(self.path)

    def close(self) -> None:
        """Let others have the run."""
        if self._ownership is not None:
            self._ownership.release()

    @contextlib.contextmanager
    def _owning(self) -> Iterator[None]:
        """Own the run from here on, unless what is inside fails."""
        self.guard()
        self._ownership = Ownership(self.path)
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _contents(self) -> list[Path]:
        """What is in the folder, besides who owns it and what is left of a start that was killed; the config last."""
        found = [path for path in self.path.iterdir() if path.name != LOCK] if self.path.is_dir() else []
        found = [path for path in found if not is_leftover(path, of=self.config)]
        return sorted(found, key=lambda path: path == self.config)

    def _refuse_strangers(self) -> None:
        if self._contents() and not self.config.is_file():
            raise ConfigError(f"{self.path} is not empty and is no run, so it is not replaced; choose another --name")

    def _refuse_runs(self) -> None:
        if self._contents():
            what = "a run already" if any(self.weights.glob("*")) else "a run already, which saved no weights"
            raise ConfigError(
                f"{self.path} holds {what}; continue it with --resume, choose another --name, "
                "or replace it with --overwrite"
            )

    def _refuse_sources(self, config: Config) -> None:
        """Raise ConfigError where a value of `config` is a path into the run that is to be replaced."""
        if not self.config.is_file():
            return
        own = self.path.resolve()
        for key, node in config.root.leaves():
            if key[-1] in _NAMES or not isinstance(node.value, str) or "\0" in node.value:
                continue
            if own in _with_parents(node.value):
                raise ConfigError(
                    f"{format_path(key)} is {node.value}, which is in {self.path}, the run that would be replaced; "
                    "choose another --name"
                )

    def _clear(self) -> None:
        """Remove what is there. The config goes last, so that a folder half cleared is still known as a run."""
        for path in self._contents():
            remove(path)

    def write_environment(self, config: Config) -> None:
        """Write the environment report with the config's digest."""
        report = {"config_sha256": config.digest(), **environment.report()}
        write_text(self.environment, json.dumps(report, indent=2) + "\n")

    def write_processor(self, processor: Processor) -> None:
        """Keep what stands around the network when it predicts."""
        write_text(self.processor, json.dumps(processor.metadata(), indent=2) + "\n")

    def read_processor(self, kind: type[Processor]) -> Processor:
        """Return what `write_processor` kept; raise CheckpointError if it is missing or damaged."""
        try:
            return kind.from_metadata(read_json(self.processor))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.processor}: cannot be read ({error}); `paddock train` writes it at its start"
            ) from error

    def write_metrics(self, metrics: Mapping[str, float], last: Mapping[str, float] | None = None) -> None:
        """Replace the figures of the best weights, and under "last" those of the last evaluation, if another."""
        more = {} if last is None or last == metrics else {LAST: dict(last)}
        write_text(self.metrics, json.dumps({**metrics, **more}, indent=2) + "\n")

    def write_report(self, text: str, name: str = "") -> None:
        """Replace the report of the last evaluation, on the evaluation set of that name."""
        write_text(self.path / (f"report-{name}.md" if name else "report.md"), text)

    def write_told(self, metric: Metric, tally: Tally, name: str = "") -> None:
        """Replace report, plots and counts by what a metric tells of its evaluation set and a tally counted in it."""
        if text := metric.report():
            self.write_report(text, name)
        plots = metric.plots()
        if text := never_predicted(plots):
            _log.warning("%s: %s", name or "evaluation", text)
        self.write_plots(plots, name)
        write_tally(self.path, set_name(name), tally)

    def write_worst(self, task: Task, predict: Predict, metric: Metric, count: int) -> None:
        """Replace the cases by the worst ones of the main evaluation set, `count` of each part."""
        draw_cases(task, item_predictor(task, predict), self.pictures / "worst", metric, count)

    def write_plots(self, plots: Sequence[Plot], name: str = "") -> None:
        """Replace the plots of the last evaluation, on the evaluation set of that name."""
        path = self.path / "plots.json"
        found: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):  # none yet, or a damaged one, which is replaced
            found = dict(read_json(path))
        found[name] = [to_plain(plot) for plot in plots]
        write_text(path, json.dumps(found) + "\n")

    def write_other_metrics(
        self,
        metrics: Mapping[str, float],
        config: Config,
        overrides: Sequence[str],
        weights: Path | None,
        others: Sequence[Path] = (),
    ) -> Path:
        """Keep figures of other data, options or weights beside the run's own; return the file.

        The same question has the same file.
        """
        question = {"config_sha256": config.digest(), "overrides": list(overrides), "weights": weights and str(weights)}
        question |= {"with": [str(other) for other in others]} if others else {}
        asked = [config.digest(), question["weights"], *map(str, others)]
        digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        path = self.path / f"metrics-{digest[:8]}.json"
        write_text(path, json.dumps({**question, "figures": dict(metrics)}, indent=2) + "\n")
        return path


def resume_command(path: Path, config: Config) -> str:
    """Return what a person types to continue the run at `path`."""
    return shlex.join(["paddock", "train", str(path), "--resume", *_imports(config)])


def _imports(config: Config) -> list[str]:
    return [word for name in config.imports() for word in ("--import", name)]


def _with_parents(value: str) -> tuple[Path, ...]:
    """A path and the folders that it is in; none for what is too long for one."""
    try:
        path = Path(value).resolve()
    except (OSError, RuntimeError, ValueError):
        return ()
    return (path, *path.parents)


def expect_run(path: Path) -> None:
    """Raise CheckpointError where no run is."""
    if not (path / "config.yml").is_file():
        what = "no run is in there (config.yml); name a folder that `paddock train` made"
        raise CheckpointError(told_missing(path, what))


def best_weights(run: RunFolder) -> Path:
    """Return the file with the run's best weights, else with its last; raise CheckpointError if it has none."""
    for name in ("best", "last"):
        path = run.weights / f"{name}.safetensors"
        if path.is_file():
            return path
    raise CheckpointError(f"{run.weights}: no weights yet; train first, or name a file with --weights")


def _is_changeable(key: str) -> bool:
    known = any(key == one or key.startswith(f"{one}.") for one in _CHANGEABLE)
    return known or (key.startswith("data.") and key.rpartition(".")[2] in _PLACES)


def _value(values: Any, key: str) -> str:
    """The value at a key path, for a message."""
    for step in key.split("."):
        values = values.get(step) if isinstance(values, dict) else None
    return "nothing" if values is None else str(values)[:60]


def different_keys(a: Any, b: Any, path: str = "") -> list[str]:
    """Return the key paths at which two plain configs differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [*a, *(key for key in b if key not in a)]
        return [
            path_below
            for key in keys
            for path_below in different_keys(a.get(key), b.get(key), f"{path}.{key}" if path else str(key))
        ]
    return [] if a == b and type(a) is type(b) else [path]
