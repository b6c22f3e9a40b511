"""What a run's settings do beyond its length."""

import threading

import pytest

from framework import limits
from framework.errors import AttributeValueError
from suites.engine.config.building import begin
from suites.engine.config.settings import Runtime


def test_the_limits_of_a_run_hold_in_its_thread():
    seen = []

    def run():
        begin(Runtime(steps=1, limits={"pixels": 7}))
        seen.append(limits.current().pixels)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [7] and limits.current().pixels > 7


def test_wrong_limits_of_a_run_are_refused():
    for given in ({"pixel": 7}, {"pixels": 0}):
        with pytest.raises(AttributeValueError, match="limits: "):
            Runtime(steps=1, limits=given)
