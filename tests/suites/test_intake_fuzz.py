"""Small data sets of twelve formats with drawn oddities are read as they were meant, or refused by name."""

import pytest

from tests.suites.intake_fuzz import FINE, KINDS, run


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[kind.__name__ for kind in KINDS])
def test_drawn_sets_are_read_rightly_or_refused_by_name(kind, tmp_path):
    results = [run(kind + len(KINDS) * at, tmp_path) for at in range(13)]
    assert not [said for result, said in results if result not in FINE]
    assert sum(result == "right" for result, _ in results) > len(results) / 2


@pytest.mark.slow
def test_many_drawn_sets_are_read_rightly_or_refused_by_name(tmp_path):
    faults = [said for result, said in (run(seed, tmp_path) for seed in range(10_000, 20_000)) if result not in FINE]
    assert not faults, "\n".join(faults[:20])
