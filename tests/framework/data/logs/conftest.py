"""Logs for the tests of this folder: drawn ones, and the real pieces."""

import zipfile

import numpy as np
import pytest

pytest.importorskip("xxhash", reason="the package xxhash is not installed")


@pytest.fixture
def real(shared_data):
    """`real("criteo_small", "train.tsv")` is the text of a member of a real data set."""

    def read(name, member):
        with zipfile.ZipFile(shared_data(f"ctr/{name}/{name}.zip")) as archive:
            found = next(n for n in archive.namelist() if n.endswith(member))
            return archive.read(found).decode()

    return read


@pytest.fixture
def criteo_text():
    """300 drawn rows in Criteo's form, some values missing."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        numbers = [str(rng.integers(-2, 3000)) if rng.random() > 0.2 else "" for _ in range(13)]
        words = [f"{rng.integers(0, 2**32):08x}" if rng.random() > 0.1 else "" for _ in range(26)]
        lines.append("\t".join([str(rng.integers(0, 2)), *numbers, *words]))
    return "\n".join(lines) + "\n"
