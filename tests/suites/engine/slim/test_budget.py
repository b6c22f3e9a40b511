"""8 bits within a budget: the fewest layers in float32 that keep the figure, or as many as fit into the time."""

import pytest

from framework.errors import AttributeValueError
from framework.quantization import LayerLoss
from suites.engine.predict.quantizing import Quantization
from suites.engine.slim import budget
from suites.engine.slim.budget import Budget, within

NAMES = [f"layer{i}.weight" for i in range(9)]
STATIC = Quantization("static", keep=("head.*",))


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """A network of nine layers, of which `cost` says what it has with so many in float32; what was asked for."""
    asked = []

    def begin(cost, *, lower=False):
        monkeypatch.setattr(budget, "measured", lambda run, how: [LayerLoss("conv2d", name, 9, 0.1) for name in NAMES])

        def export_run(run, folder, *, quantization=None):
            asked.append(None if quantization is None else len(quantization.keep) - 1)

        def figure(run, exported):
            return {"figure": cost(asked[-1])}

        class Clock:
            def __init__(self, count):
                self.count = count

            @classmethod
            def of(cls, run, exported, inputs):
                return cls(None if exported.name == "float32" else asked[-1])

            def alone(self):
                pass

            def percentile(self, share):
                return cost(self.count)

        monkeypatch.setattr(budget, "export_run", export_run)
        monkeypatch.setattr(budget, "evaluate_export", figure)
        monkeypatch.setattr(budget, "open_run", lambda run: None)
        monkeypatch.setattr(budget, "read_config", lambda run: None)
        monkeypatch.setattr(budget, "build_runtime", lambda config: type("Runtime", (), {"evaluation": None}))
        monkeypatch.setattr(budget, "main_figure", lambda task, settings: ("figure", lower))
        monkeypatch.setattr(budget, "Timed", Clock)
        return lambda wanted: within(tmp_path, STATIC, wanted, tmp_path, say=lambda line: None)

    begin.asked = asked
    return begin


@pytest.mark.parametrize("needed", range(10))
def test_as_few_layers_stay_in_float32_as_keep_the_figure(measure, needed):
    find = measure(lambda count: 0.9 if count is None or count >= needed else 0.8)
    assert find(Budget(loss=0.01)).keep == ("head.*", *NAMES[:needed])
    assert len(measure.asked) <= 6  # float32 and a bisection of ten


def test_a_figure_of_which_less_is_better_may_grow_by_the_loss(measure):
    find = measure(lambda count: 1.0 if count is None else 1.5 - 0.1 * count, lower=True)
    assert find(Budget(loss=0.25)).keep == ("head.*", *NAMES[:3])


def test_a_better_figure_in_8_bits_loses_nothing(measure):
    find = measure(lambda count: 0.9 if count is None else 0.95)
    assert find(Budget(loss=0.0)).keep == ("head.*",)


def test_a_figure_that_is_no_number_never_fits(measure):
    find = measure(lambda count: 0.9 if count is None or count >= 4 else float("nan"))
    assert find(Budget(loss=0.5)).keep == ("head.*", *NAMES[:4])


def test_a_loss_that_cannot_be_kept_is_an_error(measure):
    find = measure(lambda count: 0.9 if count is None else 0.1)
    with pytest.raises(AttributeValueError, match=r"--most-loss 0\.01 cannot be kept"):
        find(Budget(loss=0.01))


@pytest.mark.parametrize("fitting", range(10))
def test_as_many_layers_stay_in_float32_as_fit_into_the_time(measure, fitting):
    find = measure(lambda count: 20.0 if count is None else 10.0 if count <= fitting else 19.0)
    assert find(Budget(time=0.6)).keep == ("head.*", *NAMES[:fitting])


def test_a_time_that_cannot_be_reached_is_an_error(measure):
    find = measure(lambda count: 20.0 if count is None else 15.0)
    with pytest.raises(AttributeValueError, match=r"with all layers in 8 bits it is 0\.75"):
        find(Budget(time=0.5))


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "take one of"),
        ({"loss": 0.1, "time": 0.5}, "take one of"),
        ({"loss": -0.1}, "must be 0 or more"),
        ({"loss": float("nan")}, "must be 0 or more"),
        ({"time": 0.0}, r"in \(0, 1\]"),
        ({"time": 1.1}, r"in \(0, 1\]"),
    ],
)
def test_a_budget_that_means_nothing_is_an_error(wanted, said):
    with pytest.raises(AttributeValueError, match=said):
        Budget(**wanted)
