"""What a system knows of a connection."""

from __future__ import annotations

import struct


def unsent_bytes(fd: int) -> int:
    """Bytes that were handed to the system and not taken by the other side; 0 where it does not say, or is closed."""
    try:
        import fcntl
        import termios

        return int(struct.unpack("i", fcntl.ioctl(fd, termios.TIOCOUTQ, bytes(4)))[0])
    except (ImportError, AttributeError, OSError, ValueError):  # closed: -1
        return 0
