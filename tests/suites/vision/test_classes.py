"""Classes of the sets of a run: numbers to a network, so that one number is one class everywhere."""

import logging

import pytest

from framework.errors import ConfigError
from suites.vision.classes import expect_same_classes


@pytest.mark.parametrize("names", [("dog", "cat", "owl"), ("cat", "owl", "eel")])
def test_a_class_that_has_another_number_in_another_set_is_an_error_that_names_both(names):
    with pytest.raises(ConfigError, match=r"data.eval: class \d is '\w+', but that of the run is '\w+'"):
        expect_same_classes("data.eval", names, "the run", ("cat", "dog", "owl"))


def test_classes_under_other_names_are_told_and_equal_ones_are_not(caplog):
    with caplog.at_level(logging.WARNING):
        expect_same_classes("data.eval", ("crane", "crane", "owl"), "the run", ("crane", "crane", "owl"))
        assert not caplog.records
        expect_same_classes("data.eval", ("crane bird", "crane", "owl"), "the run", ("crane", "crane", "owl"))
        assert "'crane bird' for 'crane'" in caplog.text
        expect_same_classes("data.eval", ("person", "dog"), "the run", ("pedestrian", "dog"))
    assert "names its classes otherwise than the run: 'person' for 'pedestrian'" in caplog.text
