"""CtrCluster: what `paddock train CONFIG --cluster ADDRESS` does for click models."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from framework.atomic import make_folder, remove
from framework.errors import CheckpointError, ConfigError
from suites.ctr.cluster.head import Head
from suites.ctr.cluster.layout import FILE as LAYOUT
from suites.ctr.cluster.places import Places, Processes
from suites.ctr.cluster.settings import ClusterSettings
from suites.ctr.task.ground import ClickTask
from suites.ctr.task.ranking import CtrTask
from suites.engine.config import Config, load_config
from suites.engine.config.building import build_task
from suites.engine.contract.cluster import Cluster
from suites.engine.registry import register
from suites.engine.reporting.hook import keep_page
from suites.engine.reporting.tally import TRAIN, Tally, write_tally
from suites.engine.run.folder import RunFolder, different_keys
from suites.engine.run.log import RunLog, heard
from suites.engine.run.reopening import task_to_continue
from suites.engine.train.training import evaluate_weights

_log = logging.getLogger(__name__)


@register("cluster")
class CtrCluster(Cluster):
    """Shards, trainers and their head; see docs/howto/cluster.md."""

    def train(self, config: Config, path: Path, address: str, *, resume: bool, overwrite: bool) -> bool:
        """See `Cluster`."""
        settings: ClusterSettings = config.build("cluster")
        if resume:
            config = _as_saved(path, config)
        run = RunFolder.reopen(path, config) if resume else RunFolder.create(path, config, overwrite=overwrite)
        with contextlib.ExitStack() as stack:
            stack.callback(run.close)
            log = RunLog(run.log)
            stack.callback(log.close)
            stack.enter_context(heard(log.say))
            try:
                if not resume:
                    begin_anew(settings, run, overwrite=overwrite)
                head = self._head(run, config, settings, address, log, stack, resume=resume)
                head.train()
            except Exception as error:
                log.keep(f"failed: {type(error).__name__}: {error}")
                raise
            if head.interrupted:
                log.say(f"stopped; continue with: paddock train {path} --resume --cluster {address}")
                return False
        evaluate_weights(path)
        keep_page(path, CtrTask.run_plots, _log.warning)
        _log.info("done; weights, rows and figures are in %s, as those of a run in one process", path)
        return True

    def _head(
        self,
        run: RunFolder,
        config: Config,
        settings: ClusterSettings,
        address: str,
        log: RunLog,
        stack: contextlib.ExitStack,
        *,
        resume: bool,
    ) -> Head:
        task = task_to_continue(run, config) if resume else build_task(config)
        assert isinstance(task, ClickTask)
        if resume and run.processor.is_file():
            task.adopt(run.read_processor(task.processor_class))
        run.write_processor(task.processor())
        held = Tally()
        task.count(held, None, training=True)
        write_tally(run.path, TRAIN, held)
        places = places_at(address, run, settings)
        stack.callback(places.close)
        return Head(run, config, task, settings, places, log)


def places_at(address: str, run: RunFolder, settings: ClusterSettings) -> Places:
    """Where processes are started: on this machine, or by Ray."""
    folder = run.path / "cluster"
    make_folder(folder)
    if address == "processes":
        return Processes(folder)
    from suites.ctr.cluster.ray_places import RayPlaces

    return RayPlaces(address, run.path, settings)


def begin_anew(settings: ClusterSettings, run: RunFolder, *, overwrite: bool) -> None:
    """See that no rows of an earlier run of this name lie in `cluster.folder`.

    Raises ConfigError where some do, and `overwrite` is off.
    """
    if settings.folder is None:
        return
    folder = Path(settings.folder) / run.path.name
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not overwrite or not (folder / LAYOUT).is_file():
        raise ConfigError(
            f"cluster.folder: {folder} is not empty: it may hold the rows of another run of this name; choose another "
            "--name, continue that run with --resume, or replace it with --overwrite"
        )
    remove(folder)


def _as_saved(path: Path, config: Config) -> Config:
    """The config of a run that is to be continued; only how it is spread may be another."""
    file = RunFolder(path).config
    if not file.is_file():
        raise CheckpointError(f"{path} holds no run to resume; start one without --resume")
    saved = load_config(file, trusted=False)
    keys = different_keys(saved.as_dict(), config.as_dict())
    return saved if all(key.partition(".")[0] == "cluster" for key in keys) else config
