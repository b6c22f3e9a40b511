"""The run folder: everything a run reads or leaves, and enough to repeat it from the folder alone.

runs/<name>/config.yml        the resolved config; environment.json has its digest and the machine
            metrics.json      the last evaluation: flat names to numbers
            log.txt, events/  what was said, and TensorBoard's event files
            weights/          checkpoints, last.safetensors, best.safetensors
            pictures/         drawn predictions
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework.atomic import write_text
from framework.errors import CheckpointError, ConfigError
from suites.engine import environment
from suites.engine.config import Config, load_config

if TYPE_CHECKING:
    from suites.engine.task import Processor


class RunFolder:
    """Paths and small files of one run."""

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

    @classmethod
    def create(cls, path: Path, config: Config, *, overwrite: bool = False) -> RunFolder:
        """Make a new run folder and write what it starts from.

        A run that never saved anything, because it failed at the start, is replaced.
        Raises ConfigError if the folder holds another run and `overwrite` is off.
        """
        run = cls(path)
        if path.exists() and any(path.iterdir()):
            if not run.config.is_file():
                raise ConfigError(f"{path} is not empty and is no run, so it is not replaced; choose another --name")
            if not overwrite and not run.is_empty():
                raise ConfigError(
                    f"{path} holds a run already; continue it with --resume, choose another --name, "
                    "or replace it with --overwrite"
                )
            shutil.rmtree(path)
        for folder in (run.weights, run.pictures):
            folder.mkdir(parents=True)
        write_text(run.config, config.dump())
        run.write_environment(config)
        return run

    @classmethod
    def reopen(cls, path: Path, config: Config) -> RunFolder:
        """Return the run folder of a run to be continued with `config`, which must be the run's own.

        Raises CheckpointError if there is no run or it had another config.
        """
        run = cls(path)
        if not run.config.is_file():
            raise CheckpointError(f"{path} holds no run to resume; start one without --resume")
        saved = load_config(run.config, check=False)
        if saved.digest() != config.digest():
            keys = ", ".join(different_keys(saved.as_dict(), config.as_dict())[:8])
            raise CheckpointError(
                f"{path} was started with another config (different: {keys}), so it cannot be continued exactly; "
                f"resume with `tools/train.py {path} --resume`, or start anew under another --name, "
                "with runtime.weights for its weights"
            )
        return run

    def is_empty(self) -> bool:
        """Whether no weights were saved."""
        return not self.weights.is_dir() or not any(self.weights.iterdir())

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
            return kind.from_metadata(json.loads(self.processor.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{self.processor}: cannot be read ({error}); train.py writes it at its start"
            ) from error

    def write_metrics(self, metrics: Mapping[str, float]) -> None:
        """Replace the figures of the last evaluation."""
        write_text(self.metrics, json.dumps(dict(metrics), indent=2) + "\n")


def best_weights(run: RunFolder) -> Path:
    """Return the file with the run's best weights, else with its last; raise CheckpointError if it has none."""
    for name in ("best", "last"):
        path = run.weights / f"{name}.safetensors"
        if path.is_file():
            return path
    raise CheckpointError(f"{run.weights}: no weights yet; train first, or name a file with --weights")


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
