"""Tables on other machines: shards that hold fixed buckets, and clients of them; see docs/howto/cluster.md."""

from framework.table.remote.client import Push, ShardClient
from framework.table.remote.keys import BUCKETS, Unique, bucket_of, shares, unique
from framework.table.remote.link import Patience
from framework.table.remote.log import Durability
from framework.table.remote.process import ShardSpec, announced, serve
from framework.table.remote.publication import ShardRows
from framework.table.remote.server import Server
from framework.table.remote.shard import Gap, Shard, described
from framework.table.remote.wire import ChainBrokenError, SupersededError

__all__ = [
    "BUCKETS",
    "ChainBrokenError",
    "Durability",
    "Gap",
    "Patience",
    "Push",
    "Server",
    "Shard",
    "ShardClient",
    "ShardRows",
    "ShardSpec",
    "SupersededError",
    "Unique",
    "announced",
    "bucket_of",
    "described",
    "serve",
    "shares",
    "unique",
]
