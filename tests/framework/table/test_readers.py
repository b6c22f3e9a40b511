"""Look-ups beside changes: whole rows, no lost one, whether they wait for locks or need none."""

import threading
from contextlib import nullcontext

import numpy as np
import pytest

from framework import no_grad
from framework.table import SGD, Normal, Table

DIM, ROWS, LATER = 7, 3000, 200_000


@pytest.fixture
def table():
    table = Table(DIM, rule=SGD(lr=1.0), init=Normal(0.0))
    table.update(np.arange(ROWS), np.full((ROWS, DIM), -1.0, np.float32))
    return table


@pytest.mark.parametrize("train", [False, True])
def test_rows_are_whole_while_others_are_trained_added_and_forgotten(table, train):
    stop, faults, looks = threading.Event(), [], []
    keys = np.arange(ROWS)

    def read():
        least = np.ones(ROWS, np.float32)
        while not stop.is_set():
            with nullcontext() if train else no_grad():
                rows = table.lookup(keys).numpy()
            looks.append(1)
            if (rows != rows[:, :1]).any() or (rows[:, 0] < least).any():
                faults.append(rows)
                return
            least = rows[:, 0].copy()

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for turn in range(20):  # indexes grow, rows move into the places of those that go
        others = np.arange(LATER // 20) + ROWS + turn * LATER // 20
        table.update(np.concatenate([keys, others]), np.full((ROWS + len(others), DIM), -1.0, np.float32))
        table.forget(others)
    stop.set()
    for reader in readers:
        reader.join()
    assert not faults and len(looks) > len(readers)
    np.testing.assert_array_equal(table.lookup(keys).numpy(), 21.0)
