"""Python that runs under emulation starts others by a launcher: the system itself cannot run its program."""

import os
import sys

sys.executable = os.environ.get("PADDOCK_EMULATED_PYTHON", sys.executable)
