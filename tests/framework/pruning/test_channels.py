"""Channels that go together: a network without some computes what the whole one does with zeros where they are read."""

import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, ops, program, tensor
from framework.errors import AttributeValueError, CheckpointError
from framework.nn import init
from framework.pruning import CRITERIA, channels_of, last_layers, narrow, scores, widths_by, widths_of
from framework.pruning.labels import Classes
from framework.pruning.rules import _blocks

X = np.random.default_rng(0).normal(size=(2, 12, 12, 3)).astype(np.float32)


class Residual(nn.Layer):
    """A sum: what is added goes together with what it is added to."""

    def __init__(self):
        super().__init__()
        self.stem, self.inner = nn.ConvBNAct(3, 8, 3), nn.ConvBNAct(8, 12, 3)
        self.outer, self.fc = nn.ConvBNAct(12, 8, 3), nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        return self.fc(ops.mean(x + self.outer(self.inner(x)), axes=(1, 2)))


class Depthwise(nn.Layer):
    """An inverted residual with a gate: expansion, depthwise filters and both sides of the gate go together."""

    def __init__(self):
        super().__init__()
        self.wide, self.depth = nn.ConvBNAct(3, 16, 1, act="hardswish"), nn.ConvBNAct(16, 16, 3, groups=16)
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.twice, self.out = nn.Conv2d(16, 32, 3, groups=16), nn.Conv2d(32, 4, 1)

    def forward(self, x):
        x = self.depth(self.wide(x))
        gate = self.excite(ops.relu(self.squeeze(ops.mean(x, axes=(1, 2), keepdims=True))))
        return self.out(self.twice(x * ops.hardsigmoid(gate)))


class Grouped(nn.Layer):
    """Groups stay as many, and alike."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.ConvBNAct(3, 16, 3), nn.ConvBNAct(16, 24, 3, groups=4), nn.Conv2d(24, 4, 1)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


class Joined(nn.Layer):
    """A concatenation of layers at two resolutions, flattened into a linear layer."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.ConvBNAct(3, 6, 3), nn.ConvBNAct(3, 10, 3, stride=2)
        self.mix, self.fc = nn.ConvBNAct(16, 4, 3, stride=4), nn.Linear(9 * 4, 7)
        self.last = nn.Linear(7, 3)

    def forward(self, x):
        up = ops.resize_bilinear(self.b(x), scale=(2.0, 2.0))
        return self.last(ops.relu(self.fc(ops.flatten(self.mix(ops.concat([self.a(x), up], axis=-1)), start=1))))


class Shared(nn.Layer):
    """One layer called twice, as a head that all levels share."""

    def __init__(self):
        super().__init__()
        self.stem, self.head, self.out = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        x = self.stem(x)
        return self.out(ops.relu(self.head(ops.relu(self.head(x)))))


def ready(model):
    """A model with numbers that no two channels share."""
    init.initialize(model, 0)
    rng = np.random.default_rng(1)
    for name, t in model.state_dict().items():
        if not name.endswith("weight"):
            low, high = (0.5, 2.0) if name.endswith(("var", "scale")) else (-0.5, 0.5)
            t.set(tensor(rng.uniform(low, high, t.shape).astype(np.float32)))
    return model.eval()


def traced(model, x=X):
    with no_grad():
        return program(lambda x: model(x), pass_names=()).program_for(from_numpy(x)).program


def output(model, x=X):
    with no_grad():
        return model(from_numpy(x)).numpy()


def half(channels, arrays, criterion="l1"):
    cut = set()
    for group in channels.groups:
        ranks = scores(group, arrays, criterion)
        cut |= set(group.sets[np.argsort(ranks)[: len(group.sets) // 2]].tolist())
    return cut


@pytest.mark.parametrize("net", [Residual, Depthwise, Grouped, Joined, Shared])
@pytest.mark.parametrize("criterion", ["l1", "fpgm"])
def test_the_narrower_network_computes_what_the_masked_one_does(net, criterion):
    model = ready(net())
    channels = channels_of(model, [traced(model)])
    arrays = {name: t.numpy().copy() for name, t in model.state_dict().items()}
    cut = half(channels, arrays, criterion)
    before = channels.multiply_adds()
    model.load_state_dict({**arrays, **channels.masked(arrays, cut)})
    wanted = output(model)
    small = channels.narrowed(arrays, cut)
    narrow(model, widths_by(model, small))
    model.load_state_dict(small)
    # Sums without terms that are exactly 0: another order at most, of fewer than 300 terms of size 1.
    assert np.abs(output(model) - wanted).max() < 300 * 2**-23 * max(1, np.abs(wanted).max())
    again = channels_of(model, [traced(model)])
    assert again.multiply_adds() == channels.multiply_adds(cut) < 0.7 * before
    assert sum(p.size for p in model.parameters()) < sum(a.size for a in arrays.values()) * 0.8


def groups_of(model, *more):
    return {group.name: group for group in channels_of(model, [traced(model), *more]).groups}


def test_a_sum_makes_one_group_and_what_is_inside_another():
    groups = groups_of(ready(Residual()))
    assert {name: len(group.sets) for name, group in groups.items()} == {"stem.conv.weight": 8, "inner.conv.weight": 12}
    assert {n for n, _ in groups["stem.conv.weight"].made} == {"stem.conv.weight", "outer.conv.weight"}
    assert {n for n, _ in groups["stem.conv.weight"].read} == {"inner.conv.weight", "fc.weight"}


def test_a_depthwise_multiplier_s_filters_go_with_their_channel():
    model = ready(Depthwise())
    groups = groups_of(model)
    assert len(groups["wide.conv.weight"].sets) == 16 and "twice.weight" in {
        n for n, _ in groups["wide.conv.weight"].made
    }
    arrays = {name: t.numpy() for name, t in model.state_dict().items()}
    channels = channels_of(model, [traced(model)])
    wide = next(g for g in channels.groups if g.name == "wide.conv.weight")
    small = channels.narrowed(arrays, {int(wide.sets[3])})
    assert small["twice.weight"].shape[0] == 30 and small["out.weight"].shape[3] == 30


def test_results_and_unknown_operators_keep_their_channels_and_say_why():
    class Odd(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 6, 3), nn.Conv2d(6, 4, 3)

        def forward(self, x):
            left, right = ops.split(self.a(x), sizes=(4, 4), axis=-1)
            return self.c(ops.softmax(self.b(ops.concat([left, right], axis=-1)), axis=-1))

    found = channels_of(ready(Odd()), [traced(ready(model := Odd()))]) and channels_of(model, [traced(model)])
    assert found.groups == []
    assert found.kept["c.weight"] == "result 0 of the network"
    assert found.kept["a.weight"].startswith("split") and found.kept["b.weight"].startswith("softmax")


def test_a_layer_of_another_kind_keeps_its_channels():
    class Scaled(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3)
            self.add_parameter("gamma", (8,), init.Constant(1.0))

        def forward(self, x):
            return self.b(self.a(x) * self.gamma)

    found = channels_of(model := ready(Scaled()), [traced(model)])
    assert found.groups == [] and found.kept["a.weight"] == "gamma belongs to a Scaled"


def test_what_only_training_reads_counts_too():
    class Helped(nn.Layer):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.aside = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3), nn.Conv2d(8, 2, 3)

        def forward(self, x):
            x = self.a(x)
            return [self.b(x), self.aside(x)] if self.training else [self.b(x)]

    model = ready(Helped())
    predicting = traced(model)
    training = traced(model.train())
    (group,) = channels_of(model, [predicting, training]).groups
    assert {name for name, _ in group.read} == {"b.weight", "aside.weight"}


def test_a_reshape_to_a_written_width_keeps_it_and_a_free_one_does_not():
    class Shaped(nn.Layer):
        def __init__(self, width):
            super().__init__()
            self.a, self.b, self.width = nn.Conv2d(3, 8, 3), nn.Linear(8, 4), width

        def forward(self, x):
            return self.b(ops.reshape(self.a(x), shape=(0, 144, self.width)))

    assert groups_of(ready(Shaped(-1))) and not groups_of(ready(Shaped(8)))


def test_scores_are_those_of_the_papers():
    model = ready(Residual())
    (inner,) = [g for name, g in groups_of(model).items() if name.startswith("inner")]
    arrays = {name: t.numpy() for name, t in model.state_dict().items()}
    filters = arrays["inner.conv.weight"].reshape(12, -1).astype(np.float64)
    l1 = np.abs(filters).sum(axis=1)
    apart = np.array([sum(np.linalg.norm(a - b) for b in filters) for a in filters])
    norm = np.abs(arrays["inner.norm.scale"].astype(np.float64))
    for criterion, wanted in (("l1", l1), ("fpgm", apart), ("norm", norm)):
        # Distances by products lose half of the digits of a number near 0, that of a filter to itself.
        assert scores(inner, arrays, criterion) == pytest.approx(wanted / wanted.mean(), rel=1e-6)
    with pytest.raises(AttributeValueError, match="criterion is 'l2'; takes 'l1', 'fpgm', 'norm'"):
        scores(inner, arrays, "l2")
    assert set(CRITERIA) == {"l1", "fpgm", "norm"}


def test_a_group_without_batch_norm_has_no_scores_by_it():
    model = ready(Shared())
    arrays = {name: t.numpy() for name, t in model.state_dict().items()}
    assert all(scores(group, arrays, "norm") is None for group in groups_of(model).values())


@pytest.mark.parametrize(
    ("widths", "said"),
    [
        ({"nowhere": [3]}, "no layer 'nowhere'"),
        ({"a": [3]}, "'a' is a ConvBNAct; only Conv2d, Linear, BatchNorm have widths"),
        ({"a.norm": [3, 4]}, "is given \\[3, 4\\]; a BatchNorm has channels"),
        ({"a.conv": [3, 0]}, "each 1 or more"),
        ({"b.conv": [15, 24]}, "which 4 groups do not divide"),
    ],
)
def test_widths_that_cannot_be_are_refused_and_nothing_changes(widths, said):
    model = Grouped()
    before = widths_of(model)
    with pytest.raises(CheckpointError, match=said):
        narrow(model, {"c": [8, 4], **widths})
    assert widths_of(model) == before


def test_the_last_layers_are_those_before_any_choice():
    model = ready(Residual())
    with no_grad():
        found = program(lambda x: ops.topk(model(x), k=2)[0], pass_names=()).program_for(from_numpy(X)).program
    (result,) = last_layers(found)[0].results
    assert result.shape == (2, 5)


def test_axes_that_hold_the_same_elements_are_found():
    assert _blocks((2, 3, 4, 5), (2, 12, 5)) == [([0], [0]), ([1, 2], [1]), ([3], [2])]
    assert _blocks((2, 60), (2, 3, 4, 5)) == [([0], [0]), ([1], [1, 2, 3])]


def test_a_reason_to_stay_outlives_the_union():
    classes = Classes()
    a, b = classes.fresh(2), classes.fresh(2)
    classes.keep(b, "why")
    classes.join(a, b, "")
    assert [classes.reason(label) for label in a] == ["why", "why"]
