"""8 bits within a budget: the fewest layers with more bits that keep the figure, or as many as fit into the time."""

import pytest

from framework.errors import AttributeValueError
from framework.quantization import LayerLoss, Speed
from suites.engine.predict.quantizing import Quantization
from suites.engine.slim import budget
from suites.engine.slim.budget import Budget, within

NAMES = [f"layer{i}.weight" for i in range(9)]
STATIC = Quantization("static", keep=("head.*",), sixteen=("neck.*",))


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """A network of nine layers, of which `cost` says what it has with so many in float32, and so many with 16 bits.

    None for float32 throughout. `begin.asked` is what was asked for.
    """
    asked = []

    def begin(cost, *, lower=False, speedups=(1.5,) * 9):
        rows = [LayerLoss("conv2d", name, 9, 0.1, speedup=gain) for name, gain in zip(NAMES, speedups, strict=True)]
        monkeypatch.setattr(budget, "measured", lambda run, how: rows)

        def export_run(run, folder, *, quantization=None):
            asked.append(None if quantization is None else counts(quantization))

        def figure(run, exported):
            return {"figure": cost(*asked[-1] or (None, None))}

        class Clock:
            def __init__(self, counts):
                self.counts = counts or (None, None)

            @classmethod
            def of(cls, run, exported, inputs):
                return cls(None if exported.name == "float32" else asked[-1])

            def alone(self):
                pass

            def percentile(self, share):
                return cost(*self.counts)

        monkeypatch.setattr(budget, "export_run", export_run)
        monkeypatch.setattr(budget, "evaluate_export", figure)
        monkeypatch.setattr(budget, "judged_by", lambda run: ("figure", lower))
        monkeypatch.setattr(budget, "Timed", Clock)
        return lambda wanted: within(tmp_path, STATIC, wanted, tmp_path, say=lambda line: None)

    begin.asked = asked
    return begin


def counts(how):
    """How many layers stay in float32 and how many read 16 bits; they are the first ones, and none is both."""
    whole, words = how.keep[1:], how.sixteen[1:]
    assert (how.keep[0], how.sixteen[0]) == ("head.*", "neck.*") and {*whole, *words} == {*NAMES[: len(whole + words)]}
    return len(whole), len(words)


@pytest.mark.parametrize("needed", range(10))
@pytest.mark.parametrize("share", [0, 1, 2])
def test_as_few_layers_have_more_bits_as_keep_the_figure_and_as_few_of_them_float32(measure, needed, share):
    """`needed` layers need more than 8 bits, half of them, or none, float32."""
    floats = needed * share // 2

    def cost(whole, words):
        return 0.9 if whole is None or (whole >= floats and whole + words >= needed) else 0.8

    assert counts(measure(cost)(Budget(loss=0.01))) == (floats, needed - floats)
    assert len(measure.asked) <= 6 + 4  # float32, a bisection of ten and one of at most nine
    assert len(set(measure.asked)) == len(measure.asked)  # nothing is measured twice


@pytest.mark.parametrize("budget", [Budget(loss=0.01), Budget(time=0.6)])
def test_layers_that_16_bits_make_no_faster_stay_in_float32(measure, budget):
    speedups = (1.5, 0.9, None, 1.0, 1.2, *[2.0] * 4)

    def cost(whole, words):
        if whole is None:
            return 0.9 if budget.loss else 20.0
        fits = whole + words >= 5 if budget.loss else whole + words <= 5 and whole <= 3
        return (0.9 if fits else 0.8) if budget.loss else (10.0 if fits else 19.0)

    found = measure(cost, speedups=speedups)(budget)
    assert found.keep[1:] == tuple(NAMES[i] for i in (1, 2, 3)) and found.sixteen[1:] == (NAMES[0], NAMES[4])


def test_a_figure_of_which_less_is_better_may_grow_by_the_loss(measure):
    find = measure(lambda whole, words: 1.0 if whole is None else 1.5 - 0.1 * whole, lower=True)
    assert counts(find(Budget(loss=0.25))) == (3, 0)


def test_a_better_figure_in_8_bits_loses_nothing(measure):
    find = measure(lambda whole, words: 0.9 if whole is None else 0.95)
    assert counts(find(Budget(loss=0.0))) == (0, 0)


def test_a_figure_that_is_no_number_never_fits(measure):
    find = measure(lambda whole, words: 0.9 if whole is None or whole >= 4 else float("nan"))
    assert counts(find(Budget(loss=0.5))) == (4, 0)


def test_a_loss_that_cannot_be_kept_is_an_error(measure):
    find = measure(lambda whole, words: 0.9 if whole is None else 0.1)
    with pytest.raises(AttributeValueError, match=r"--most-loss 0\.01 cannot be kept"):
        find(Budget(loss=0.01))


@pytest.mark.parametrize("fitting", range(10))
@pytest.mark.parametrize("share", [0, 1, 2])
def test_as_many_layers_have_more_bits_as_fit_into_the_time_and_as_many_of_them_float32(measure, fitting, share):
    """`fitting` layers fit with 16 bits, and of these all, half or none in float32."""
    floats = fitting * share // 2

    def cost(whole, words):
        return 20.0 if whole is None else 10.0 if whole + words <= fitting and whole <= floats else 19.0

    assert counts(measure(cost)(Budget(time=0.6))) == (floats, fitting - floats)


def test_a_time_that_cannot_be_reached_is_an_error(measure):
    find = measure(lambda whole, words: 20.0 if whole is None else 15.0)
    with pytest.raises(AttributeValueError, match=r"with all layers in 8 bits it is 0\.75"):
        find(Budget(time=0.5))


@pytest.mark.parametrize("wanted", [Budget(fastest=True), Budget(loss=0.01, fastest=True), Budget(0.01)])
def test_layers_that_are_slower_in_8_bits_stay_in_float32_first(measure, monkeypatch, wanted):
    """The budget shares out the others; five of all nine have to be in float32 for the loss."""
    slow = tuple(NAMES[7:4:-1]) if wanted.fastest else ()
    monkeypatch.setattr(budget, "speed_here", lambda *given: Speed(0.8, {NAMES[7]: 0.4}, slow, 1.2))

    def cost(whole, words):
        return 0.9 if whole is None or whole >= 5 else 0.8

    monkeypatch.setattr(f"{__name__}.counts", lambda how: (len(how.keep) - 1, len(how.sixteen) - 1))
    found = measure(cost)(wanted)
    more = 0 if wanted.loss is None else 5 - len(slow)
    assert found.keep == ("head.*", *slow, *NAMES[:more]) and found.sixteen == ("neck.*",)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({}, "take one of"),
        ({"loss": 0.1, "time": 0.5}, "take one of"),
        ({"loss": 0.1, "time": 0.5, "fastest": True}, "take one of"),
        ({"loss": -0.1}, "must be 0 or more"),
        ({"loss": float("nan")}, "must be 0 or more"),
        ({"time": 0.0}, r"in \(0, 1\]"),
        ({"time": 1.1}, r"in \(0, 1\]"),
    ],
)
def test_a_budget_that_means_nothing_is_an_error(wanted, said):
    with pytest.raises(AttributeValueError, match=said):
        Budget(**wanted)
