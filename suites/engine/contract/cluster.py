"""Cluster: what a suite offers that trains on many machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from framework.errors import ConfigError, NotSupportedError
from suites.engine.config.building import component_of
from suites.engine.registry import register_role

if TYPE_CHECKING:
    from suites.engine.config import Config


class Cluster(ABC):
    """Trains a run on many machines."""

    @abstractmethod
    def train(self, config: Config, path: Path, address: str, *, resume: bool, overwrite: bool) -> bool:
        """Train to the end; False where it was interrupted.

        Args:
            config: of the run.
            path: of its folder.
            address: of the cluster, or "local".
            resume: continue a run.
            overwrite: replace one.
        """


register_role("cluster", Cluster, doc="Training on many machines.", suite="engine")


def cluster_of(config: Config) -> Cluster:
    """What trains a config's suite on many machines; NotSupportedError where nothing does."""
    made = component_of(config["suite"], "cluster")
    if made is None:
        raise NotSupportedError(
            f"--cluster: the suite '{config['suite']}' trains in one process; only click models (ctr) do not"
        )
    cluster: Cluster = made()
    return cluster


def check_address(address: str) -> str:
    """The address, unless it is Ray's interactive client or nothing that can be reached."""
    if address.startswith("ray://"):
        raise ConfigError(
            "--cluster: ray:// is Ray's interactive client: the run would end with the first break of that "
            "connection, and all data go through it. Give the address of the cluster's dashboard, such as --cluster "
            "http://head:8265, and the run becomes a job there; or start it on the cluster with --cluster auto"
        )
    known = address in ("local", "auto", "processes") or address.startswith(("http://", "https://"))
    host, _, port = address.rpartition(":")
    if not known and not (host and port.isdigit()):
        raise ConfigError(
            f"--cluster: {address!r} is no address; it is 'local' (a Ray of this machine), 'processes' (this machine "
            "without Ray), 'auto' (the cluster that this machine is part of) or the dashboard's, such as http://head:8265"
        )
    return address
