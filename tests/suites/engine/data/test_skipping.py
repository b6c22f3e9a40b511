"""Rows that cannot be used are left out and named up to a share; above it there is one error."""

import pytest

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import SetError, leave_out, usable
from suites.engine.reporting import Tally


def halved(number):
    if number % 2:
        raise DataError(f"list:{number}: odd")
    return number // 2


def test_wrong_rows_are_left_out_named_and_tallied(caplog):
    tally = Tally()
    assert usable("list", [2, 3, 4, 6], halved, 0.25, tally, "numbers") == [(2, 1), (4, 2), (6, 3)]
    assert "list: 1 of 4 numbers are wrong and were left out: list:3: odd" in caplog.text
    assert (tally.skipped, tally.reasons) == (1, [("list", "list:3: odd")])


def test_above_the_share_one_error_names_the_first_and_counts_the_others():
    tally = Tally()
    with pytest.raises(DataError, match=r"^list:3: odd; so are 1 others of 4 rows, max_skipped allows 0.25 of them$"):
        usable("list", [2, 3, 4, 5], halved, 0.25, tally)
    with pytest.raises(DataError, match=r"^list:3: odd$"):
        usable("list", [2, 3], halved, 0.0, tally)
    assert not tally.skipped


def test_a_fault_of_the_whole_set_is_raised_at_once():
    seen = []

    def make(row):
        seen.append(row)
        raise SetError("no such class")

    with pytest.raises(SetError, match="no such class"):
        usable("list", range(10), make, 1.0)
    assert seen == [0]


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_from_0_to_1(share):
    with pytest.raises(AttributeValueError, match=r"list: max_skipped is .*; it is a share, 0 to 1"):
        leave_out("list", [], 0, share)
