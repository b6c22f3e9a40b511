"""Layer's promises: parts are found by assignment, states move exactly, modes are noted by traces."""

import numpy as np
import pytest

from framework import mode, nn, ops, tensor
from framework.errors import AttributeValueError, CheckpointError


class Scale(nn.Layer):
    def __init__(self, channels=3):
        super().__init__()
        self.add_parameter("factor", (channels,), nn.init.Normal(1.0))
        self.calls = nn.buffer(np.zeros(1, np.float32))
        self.constant = tensor([1.0])

    def forward(self, x):
        return x * self.factor if self.training else x


class Pair(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = Scale()
        self.rest = nn.LayerList([Scale(2), Scale(4)])


def test_parts_are_named_by_their_path_in_order_of_assignment():
    model = Pair()
    assert [n for n, _ in model.named_parameters()] == ["first.factor", "rest.0.factor", "rest.1.factor"]
    assert [n for n, _ in model.named_buffers()] == ["first.calls", "rest.0.calls", "rest.1.calls"]
    assert [n for n, _ in model.named_layers()] == ["", "first", "rest", "rest.0", "rest.1"]


def test_a_plain_tensor_is_no_part():
    assert "constant" not in Scale().state_dict()


def test_a_frozen_parameter_stays_one():
    layer = Scale()
    layer.factor.requires_grad = False
    assert [n for n, _ in layer.named_parameters()] == ["factor"]


def test_a_replaced_part_is_forgotten():
    model = Pair()
    model.first = None
    assert not any(n.startswith("first") for n in model.state_dict())


def test_a_shared_layer_is_counted_once():
    model = nn.LayerList([layer := Scale(), layer])
    assert list(model.state_dict()) == ["0.factor", "0.calls"]


def test_layers_in_a_plain_list_are_refused():
    layer = nn.Layer()
    with pytest.raises(AttributeValueError, match=r"Layer.blocks: layers in a plain list .* use nn.LayerList"):
        layer.blocks = [Scale()]


def test_parts_before_super_init_are_refused():
    class Early(nn.Layer):
        def __init__(self):
            self.part = Scale()

    with pytest.raises(AttributeValueError, match=r"Early: call super\(\).__init__\(\) before 'part' is assigned"):
        Early()


def test_a_state_is_copied_in_exactly():
    source, target = Pair(), Pair()
    nn.init.initialize(source, 1)
    nn.init.initialize(target, 2)
    target.load_state_dict(source.state_dict())
    source.first.factor.set(tensor(np.zeros(3, np.float32)))  # must not reach the target
    assert np.abs(target.first.factor.numpy()).min() > 0
    np.testing.assert_array_equal(target.rest[1].factor.numpy(), source.rest[1].factor.numpy())


def test_a_state_that_does_not_fit_is_refused_by_name_and_changes_nothing():
    model = Pair()
    state = {n: np.ones(t.shape, np.float32) for n, t in model.state_dict().items()}
    state["rest.0.factor"] = np.ones(9, np.float32)
    state["other"] = state.pop("first.calls")
    before = {n: t.numpy().copy() for n, t in model.state_dict().items()}
    with pytest.raises(CheckpointError) as error:
        model.load_state_dict(state)
    for part in ("1 missing: first.calls", "1 unexpected: other", "rest.0.factor (float32 [9], the model has float32"):
        assert part in str(error.value)
    for name, t in model.state_dict().items():
        np.testing.assert_array_equal(t.numpy(), before[name])
    lines = model.load_state_dict(state, strict=False)
    assert len(lines) == 3
    np.testing.assert_array_equal(model.first.factor.numpy(), np.ones(3))


def test_mode_reaches_all_layers_and_is_noted_when_read():
    model = Pair().eval()
    watched = {}
    with mode.watch(watched):
        model.first(tensor([1.0, 2.0, 3.0]))
    assert watched == {model.first: False}
    assert model.train().rest[0].mode_now()


def test_starting_weights_depend_on_seed_and_name_alone():
    a, b = Pair(), nn.LayerList([Scale(7)])
    b.first = Scale()
    for seed in (1, 2):
        nn.init.initialize(a, seed)
        nn.init.initialize(b, seed)
        np.testing.assert_array_equal(a.first.factor.numpy(), b.first.factor.numpy())
    one = a.rest[0].factor.numpy().copy()
    nn.init.initialize(a, 3)
    assert not np.array_equal(one, a.rest[0].factor.numpy())
    assert not np.array_equal(a.first.factor.numpy()[:2], a.rest[0].factor.numpy())


def test_repr_shows_the_tree():
    assert repr(nn.Sequential(nn.Upsample(2), nn.Dropout(0.1))) == (
        "Sequential(\n  (0): Upsample(2, nearest)\n  (1): Dropout(0.1)\n)"
    )


def test_a_layer_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="Pair defines no forward"):
        Pair()(ops.full(shape=(1,), value=1.0))


@pytest.mark.parametrize(("make", "match"), [
    (lambda: nn.Linear(4, -1), r"Linear: weight would be \[-1, 4\]; sizes are 1 or more"),
    (lambda: nn.Embedding(0, 4), r"Embedding: weight would be \[0, 4\]"),
    *((lambda kind=kind, eps=eps: kind(4, eps=eps), f"{kind.__name__}: eps is {eps}")
      for kind in (nn.BatchNorm, nn.LayerNorm, nn.RMSNorm) for eps in (-1.0, float("nan"), float("inf"))),
])  # fmt: skip
def test_layers_without_elements_and_norms_that_divide_by_no_number_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
