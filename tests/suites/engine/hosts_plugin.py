"""A plug-in for test_hosts.py: the toy suite, slowly, or with other data or a hang on host 1, as a variable says."""

import itertools
import os
import time

import numpy as np

import suites.engine.hosts.agreement
from framework import hosts
from tests.suites.engine import toy

HOW = "PADDOCK_TEST_HOSTS"
HANGS_AT = 60  # samples; within the second epoch
_item = toy.Images.__getitem__
_read = itertools.count()


def _changed(self, index):
    sample = _item(self, index)
    if os.environ.get(HOW) == "slow":
        time.sleep(0.05)
    if os.environ.get(HOW) == "hang" and hosts.world().rank == 1 and next(_read) >= HANGS_AT:
        time.sleep(3600)
    if os.environ.get(HOW) == "other" and hosts.world().rank == 1:
        sample["image"] = sample["image"] + np.float32(1e-3)
    return sample


toy.Images.__getitem__ = _changed
if os.environ.get(HOW) == "slow":
    suites.engine.hosts.agreement._SECONDS = (
        0.2  # hosts talk at every step or two, so that a signal is seen before the last one
    )
