"""benchmarks/ctr_serving.py: the age of a version is counted to the first answer that has it or a later one."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from ctr_serving import ages_of


def test_a_version_that_was_passed_over_is_as_old_as_its_successor_was_new():
    made = {"a": (1.0, 1.1), "b": (2.0, 2.1), "c": (2.5, 2.6), "d": (9.0, 9.1)}
    answers = [(1.2, 0.1, {"before"}), (1.5, 0.1, {"a"}), (1.6, 0.1, {"a"}), (3.0, 0.1, {"a", "c"}), (3.1, 0.1, {"c"})]
    assert ages_of(made, answers) == pytest.approx([0.5, 1.0, 0.5])
    assert ages_of({}, answers) == [] and ages_of(made, []) == []
