"""The device of XLA that tests run on: `PADDOCK_TEST_DEVICE=gpu pytest tests/framework/xla` takes a machine's GPU."""

import os

DEVICE = os.environ.get("PADDOCK_TEST_DEVICE", "xla-cpu")
