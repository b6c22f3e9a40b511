"""A server of the toy model, for a whole module of tests."""

import pytest

from suites.engine.serving.batcher import Limits
from suites.engine.serving.service import Settings

pytest.importorskip("fastapi", reason="the extra serve is not installed")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    from tests.suites.engine.serving import toy

    return toy.model(tmp_path_factory.mktemp("words"))


@pytest.fixture
def held(tmp_path):
    from tests.suites.engine.serving import toy

    hold = toy.Hold(tmp_path)
    yield hold
    hold.release()


@pytest.fixture(scope="module")
def server(model):
    from tests.suites.engine.serving import toy

    settings = Settings(
        name="words", timeout=5.0, max_body=200_000, max_items=50, max_chars=5000, limits=Limits(max_cost=1000)
    )
    with toy.running(model, settings) as found:
        yield found
