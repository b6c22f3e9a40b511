"""Classes of a training set: one alone is an error, names that are almost alike are told."""

import logging

import pytest

from framework.errors import DataError
from suites.engine.data.classes import expect_several, say_alike


def test_one_class_alone_is_an_error_that_names_it():
    with pytest.raises(DataError, match=r"all 7 samples are of one class, 'cat'.* needs samples of two at least"):
        expect_several("photos", {"cat": 7, "dog": 0})
    expect_several("photos", {"cat": 7, "dog": 1})
    expect_several("nothing", {})


@pytest.mark.parametrize(("names", "told"), [
    (["POS", "neg", "pos"], "'POS' and 'pos'"),
    (["no mask", "nomask", "mask"], "'no mask' and 'nomask'"),
    (["Straße", "STRASSE"], "'Straße' and 'STRASSE'"),
])  # fmt: skip
def test_names_that_are_almost_alike_are_told(caplog, names, told):
    with caplog.at_level(logging.WARNING):
        say_alike("photos", names)
    assert f"the classes {told} are written almost alike" in caplog.text


def test_other_names_are_not(caplog):
    with caplog.at_level(logging.WARNING):
        say_alike("photos", ["cat", "dog", "class 1", "class 2"])
    assert not caplog.text
