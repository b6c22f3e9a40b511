"""A norm that would see one value a channel, and pooling over nothing, are errors before the first step."""

import pytest

from framework import ops
from framework.errors import PaddockError
from suites.engine.config import load_config
from suites.engine.train.check import check_runs
from suites.engine.train.training import train
from tests.suites.engine import toy
from tests.suites.engine.run.test_bad_day import CONFIG


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "toy.yml"
    path.write_text(CONFIG)
    return path


class Pooled(toy.Net):
    """Pools over more than there is."""

    def forward(self, x):
        image = ops.reshape(x, shape=(-1, toy.SIZE, toy.SIZE, 3))
        pooled = ops.max_pool2d(image, kernel=(64, 64))
        return super().forward(x + ops.mean(pooled))


CASES = [
    (toy.Net, "batch_norm: x of shape .* has one value a channel"),
    (Pooled, "max_pool2d: x of shape .*, which with padding"),
]


@pytest.mark.parametrize(("network", "said"), CASES)
@pytest.mark.parametrize("start", ["check", "train"])
def test_it_is_one_error_before_the_first_step(config, tmp_path, monkeypatch, network, said, start):
    monkeypatch.setattr(toy, "Net", network)
    with pytest.raises(PaddockError, match=said):
        if start == "check":
            check_runs(load_config(config, ["data.batch_size=1"]))
        else:
            train(config, ["data.batch_size=1"], runs=tmp_path)
    assert not list(tmp_path.rglob("step_*"))
