"""The drawn log: its law, its drift, and that it is read back."""

import numpy as np
import pytest

from framework.data.logs import LogFolders, LogReader
from framework.errors import AttributeValueError
from suites.ctr.demo.drift import DriftingLog
from suites.ctr.schema import schema_of
from suites.ctr.schema.compiled import compiled

LOG = DriftingLog(fields=3, living=1000, drift=0.05, turn=100_000, seed=3)
BLOCK = 1 << 16


def test_a_block_depends_on_seed_and_number_alone():
    for one, other in zip(
        LOG.block(2), DriftingLog(fields=3, living=1000, drift=0.05, turn=100_000, seed=3).block(2), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert (LOG.block(1)[3] != LOG.block(2)[3]).any()


def test_labels_follow_their_probabilities():
    labels, chance, _, _ = LOG.block(0)
    assert labels.mean() == pytest.approx(chance.mean(), abs=4 * np.sqrt(0.25 / BLOCK))
    assert chance.std() > 0.1


def test_values_are_born_drawn_by_a_power_law_and_fade():
    first, later = LOG.block(0)[3], LOG.block(20)[3]
    assert later.min() > first.min() and later.max() == 1000 + int(0.05 * (21 * BLOCK - 1)) - 1
    still = DriftingLog(fields=1, living=1000, drift=0, exponent=1.5).block(0)[3].ravel()
    ranks = np.bincount(999 - still.astype(np.int64), minlength=1000) / BLOCK

    # P(rank 0) / P(rank r) of the continuous law, between r + 1 and r + 2, within five standard errors.
    def law(r):
        return (r + 1) ** -0.5 - (r + 2) ** -0.5

    for r in (0, 1, 3, 10):
        wanted = law(r) / (1 - 1001**-0.5)
        assert ranks[r] == pytest.approx(wanted, abs=5 * np.sqrt(wanted / BLOCK))


def test_it_is_read_back_as_files_and_as_passes(tmp_path):
    LOG.write(tmp_path / "log.tsv", BLOCK + 100)
    fields = compiled(schema_of(LOG.schema()), LOG.columns)
    with LogReader(tmp_path / "log.tsv", fields, 4096) as log:
        batches = list(log)
    labels = np.concatenate([LOG.block(k)[0] for k in (0, 1)])[: BLOCK + 100]
    times = np.concatenate([LOG.block(k)[2] for k in (0, 1)])[: BLOCK + 100]
    np.testing.assert_array_equal(np.concatenate([b["labels"][:, 0] for b in batches]), labels)
    np.testing.assert_array_equal(np.concatenate([b["time"] for b in batches]), times)
    LOG.write_passes(tmp_path / "passes", 1000, 3)
    names = []
    for part in (folders := LogFolders(tmp_path / "passes", fields, 500, every=5)).passes():
        names.append((folders.name, sum(len(b["labels"]) for b in part)))
    assert names == [("20260101/0000", 1000), ("20260101/0005", 1000), ("20260101/0010", 1000)]
    with pytest.raises(AttributeValueError, match="an exponent other than 1"):
        DriftingLog(exponent=1)
