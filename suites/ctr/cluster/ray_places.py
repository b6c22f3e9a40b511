"""RayPlaces: shards and trainers as actors of a Ray cluster, which finds machines for them.

An actor runs one shard or trainer and ends with it. Who watches is the head (`suites.ctr.cluster.watch`): a shard has
to come back with what its folder holds, wherever that is, and a trainer under another name. So Ray restarts nothing by
itself, and nothing of value is in its object store. Actors end with their owner, the head.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.errors import ConfigError, NotSupportedError
from framework.extras import install_command
from suites.ctr.cluster.places import Kind, Places, Running
from suites.ctr.cluster.settings import ClusterSettings

_NAMESPACE = "paddock"


def ray_module() -> Any:
    """The module `ray`; raises NotSupportedError with the command that installs it."""
    try:
        import ray
    except ImportError:
        raise NotSupportedError(
            f"--cluster: Ray is not installed; run: {install_command('cluster')}; or try --cluster processes, which "
            "needs "
            "no Ray"
        ) from None
    return ray


class Member:
    """What an actor runs."""

    def run(self, kind: Kind, spec: str, folder: str) -> int:
        """Be a shard or a trainer until that ends; the exit status."""
        if Path(folder).is_dir():  # relative paths of a config are those of the head
            os.chdir(folder)
        if kind == "shard":
            from framework.table.remote.process import ShardSpec, serve

            told = ShardSpec.of(spec)
            serve(replace(told, host=told.host or ray_module().util.get_node_ip_address()))
        else:
            from suites.ctr.cluster.trainer import ClusterTrainer, TrainerSpec

            ClusterTrainer(TrainerSpec.of(spec)).run()
        return 0


class RayPlaces(Places):
    """Actors of a Ray cluster.

    Args:
        address: "local" for a Ray of this machine that ends with the run, "auto" for the one this machine is part of.
        run: folder of the run.
        settings: what is set aside for each process.

    Raises NotSupportedError where Ray is not installed, ConfigError where there is no cluster.
    """

    def __init__(self, address: str, run: Path, settings: ClusterSettings) -> None:
        ray = self._ray = ray_module()
        self._settings, self._run = settings, re.sub(r"\W+", "-", str(run.absolute()))
        self._local = address == "local"
        self._actors: list[Any] = []
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
        paths = os.pathsep.join(p for p in sys.path if p)
        options: dict[str, Any] = {"namespace": _NAMESPACE, "log_to_driver": False, "logging_level": "WARNING"}
        if self._local:
            cpus = settings.shards * settings.shard_cpus + (settings.trainers + 4) * settings.trainer_cpus
            names = {n for n in (settings.shard_resource, settings.trainer_resource) if n}
            options |= {"num_cpus": int(cpus) + 1, "resources": dict.fromkeys(names, 1000.0)}
            options |= {"include_dashboard": False, "runtime_env": {"env_vars": {"PYTHONPATH": paths}}}
        try:
            ray.init(address="local" if self._local else "auto", **options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"--cluster {address}: there is no Ray that this machine is part of ({str(error).splitlines()[0]}); "
                "start one with `ray start`, hand the run to a cluster with --cluster http://HEAD:8265, or try "
                "--cluster local"
            ) from None
        self.host = "127.0.0.1" if self._local else str(ray.util.get_node_ip_address())

    def start(self, kind: Kind, name: str, spec: str) -> Running:
        """See `Places`."""
        s = self._settings
        resource = s.shard_resource if kind == "shard" else s.trainer_resource
        options: dict[str, Any] = {
            "name": f"{self._run}/{name}",
            "num_cpus": s.shard_cpus if kind == "shard" else s.trainer_cpus,
            "max_restarts": 0,
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        if kind == "shard" and s.shard_memory is not None:
            options["memory"] = s.shard_memory
        if resource is not None:
            options["resources"] = {resource: 1e-3}  # to be on such a machine, not to use it up
        actor = self._ray.remote(Member).options(**options).remote()
        self._actors.append(actor)
        return _Actor(self._ray, actor, actor.run.remote(kind, spec, os.getcwd()), name)

    def shard_host(self) -> str:
        """See `Places`."""
        return "127.0.0.1" if self._local else ""

    def close(self) -> None:
        """See `Places`."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        self._ray.shutdown()


class _Actor(Running):
    def __init__(self, ray: Any, actor: Any, result: Any, name: str) -> None:
        self._ray, self._actor, self._result, self._name = ray, actor, result, name
        self._why = "at work"

    def status(self) -> int | None:
        done, _ = self._ray.wait([self._result], timeout=0)
        if not done:
            return None
        try:
            return int(self._ray.get(self._result))
        except self._ray.exceptions.RayError as error:
            self._why = str(error)[-2000:]
            return -9 if isinstance(error, self._ray.exceptions.RayActorError) else 2

    def kill(self) -> None:
        self._ray.kill(self._actor)

    def about(self) -> str:
        return f"actor {self._name}: {self._why}"
