"""The section `cluster` of a CTR config."""

from __future__ import annotations

from dataclasses import dataclass, field

from framework.errors import AttributeValueError
from framework.table.remote import BUCKETS, Durability


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """How a run is spread over processes, with `paddock train CONFIG --cluster ADDRESS`; else it plays no part.

    Args:
        shards: processes that hold the rows, 1 to 256.
        trainers: processes that read the log and compute; more may join, and some may leave.
        shares: parts of a pass over the log, which trainers take on one after the other; null for 4 a trainer.
        ahead: batches whose rows are on their way before their turn; so many of its own updates a row may lack.
        window: batches whose updates are on their way; at most so many are sent again when a shard comes back.
        dense_every: batches of a trainer between two exchanges of the dense weights.
        trainer_threads: that compute in a trainer; null for one a core of its machine.
        shard_threads: that compute in a shard.
        trainer_cpus: what Ray sets aside for a trainer.
        shard_cpus: what Ray sets aside for a shard.
        shard_memory: bytes that Ray sets aside for a shard; null for none.
        shard_resource: a resource of Ray that the machines for shards have; null for any machine.
        trainer_resource: the same for trainers.
        log: when the log of a shard is on disk.
        checkpoint_seconds: between two checkpoints of a shard, where anything changed.
        checkpoint_bytes: a log of so many bytes is followed by a checkpoint.
        folder: of the shards' checkpoints and logs, which each of their machines reaches; null for the run's.
        give_up: seconds without an answer of a shard after which the run ends.
        most_restarts: of one process within ten minutes, after which the run ends.
        secure: whether processes prove that they are of the job, with a key in the run's folder `cluster`, and encrypt
            what they send; null encrypts where the head listens at another address than this machine's own, and lets
            them prove it everywhere.
    """

    shards: int = 2
    trainers: int = 2
    shares: int | None = None
    ahead: int = 2
    window: int = 4
    dense_every: int = 4
    trainer_threads: int | None = 1
    shard_threads: int | None = 1
    trainer_cpus: float = 1.0
    shard_cpus: float = 1.0
    shard_memory: int | None = None
    shard_resource: str | None = None
    trainer_resource: str | None = None
    log: Durability = field(default_factory=Durability)
    checkpoint_seconds: float = 300.0
    checkpoint_bytes: int = 1 << 30
    folder: str | None = None
    give_up: float = 300.0
    most_restarts: int = 20
    secure: bool | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= BUCKETS:
            raise AttributeValueError(f"cluster: shards is {self.shards}; it must be 1 to {BUCKETS}")
        least = {"trainers": 1, "ahead": 0, "window": 1, "dense_every": 1, "checkpoint_bytes": 1, "most_restarts": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise AttributeValueError(f"cluster: {name} is {getattr(self, name)}; it must be {smallest} or more")
        for name in ("shares", "trainer_threads", "shard_threads", "shard_memory"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise AttributeValueError(f"cluster: {name} is {value}; it must be 1 or more, or null")
        for name in ("checkpoint_seconds", "give_up", "trainer_cpus", "shard_cpus"):
            if not getattr(self, name) > 0:
                raise AttributeValueError(f"cluster: {name} is {getattr(self, name)}; it must be above 0")

    def encrypted(self, host: str) -> bool:
        """Whether what processes send is, in a job whose head listens at `host`."""
        return host not in ("127.0.0.1", "localhost", "::1") if self.secure is None else self.secure

    @property
    def parts(self) -> int:
        """Shares of a pass."""
        return self.shares or 4 * self.trainers
