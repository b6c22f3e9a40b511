"""pyzmq, which only processes that talk to shards need."""

from __future__ import annotations

from typing import Any

from framework.errors import NotSupportedError
from framework.extras import install_command


def zmq() -> Any:
    """The module `zmq`; raises NotSupportedError with the command that installs it."""
    try:
        import zmq as found
    except ImportError:
        raise NotSupportedError(
            f"shards of tables talk over ZeroMQ, which is not installed; run: {install_command('cluster')}"
        ) from None
    return found
