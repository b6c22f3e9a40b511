"""What all tests share: where the real data sets lie, and a skip with its reason where they do not."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import framework
import suites.ctr.cluster.run
import suites.engine.reporting.hook

# A busy machine makes no test fail.
settings.register_profile("paddock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paddock")

pytest_plugins = ["tests.skips", "pytester"]


def pytest_configure():
    """Tests of Ctrl-C work in a job started in the background too, whose shell had it ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Pages:
    drawn = False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures, of which some train a run for a whole module."""
    _Pages.drawn = item.get_closest_marker("pages") is not None


@pytest.fixture(autouse=True, scope="session")
def _pages_are_drawn_where_they_are_looked_at() -> Iterator[None]:
    """A run's page takes more time than the training of most tests: only tests marked `pages` have one."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (suites.engine.reporting.hook, suites.ctr.cluster.run):

            def keep(*arguments: Any, draw: Callable[..., None] = module.keep_page) -> None:
                if _Pages.drawn:
                    draw(*arguments)

            patch.setattr(module, "keep_page", keep)
        yield


@pytest.fixture(autouse=True)
def _subnormal_numbers_are_exact_again() -> Iterator[None]:
    """A run says how kernels take them (`runtime.flush_subnormals`) for the rest of its process."""
    yield
    framework.set_flush_subnormals(False)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """`shared_data("detection/bccd/bccd.zip")` is that file's path; skips the test where there are no data sets at all.

    Looks in $PADDOCK_DATA, else in `shared/data` beside the repository.
    """
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("PADDOCK_DATA", default))

    def find(name: str) -> Path:
        if not folder.is_dir():
            pytest.skip(f"no {folder}: set PADDOCK_DATA to the folder of the real data sets")
        assert (folder / name).exists(), f"{folder} lacks {name}"
        return folder / name

    return find


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder with MiniLM's weights and vocabulary; skips where scripts/fetch_minilm has not been run."""
    folder = Path(__file__).resolve().parents[1] / "cache" / "minilm_l6"
    if not (folder / "tokenizer.json").exists():
        pytest.skip(f"no {folder}: run scripts/fetch_minilm")
    return folder
