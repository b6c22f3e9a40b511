"""The library that ends a process, or lets a disk refuse, at the n-th call that changes files."""

import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "killing.c"


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the library that kills")
    path = tmp_path_factory.mktemp("library") / "killing.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, SOURCE, "-ldl"], check=True)
    return path
