"""Copies, hooks, buffers and dicts of layers."""

import copy
import pickle

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.errors import AttributeValueError

X = framework.ones(2, 3)


def test_a_copied_layer_has_weights_of_its_own():
    layer = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4))
    twin = copy.deepcopy(layer)
    names = list(layer.state_dict())
    assert list(twin.state_dict()) == names
    for name, t in layer.state_dict().items():
        np.testing.assert_array_equal(twin.state_dict()[name].numpy(), t.numpy())
    twin[0].weight.set(framework.zeros(*twin[0].weight.shape))
    assert layer[0].weight.numpy().any() and twin[0].weight.requires_grad and twin[0].weight.persistable


def test_a_weight_that_two_layers_share_is_shared_in_the_copy():
    pair = nn.LayerList([nn.Linear(3, 3), nn.Linear(3, 3)])
    pair[1].weight = pair[0].weight
    twin = copy.deepcopy(pair)
    assert twin[1].weight is twin[0].weight is not pair[0].weight


def test_a_copied_tensor_has_no_history_and_keeps_its_gradient():
    x = framework.ones(2, requires_grad=True)
    (x * 3.0).sum().backward()
    twin = copy.deepcopy(x)
    assert twin.grad.tolist() == [3.0, 3.0] and twin.grad is not x.grad and twin.requires_grad
    assert copy.deepcopy(x * 2.0).node is None


def test_a_tensor_is_not_pickled():
    with pytest.raises(TypeError, match=r"cannot be pickled.*framework\.save"):
        pickle.dumps(X)


def test_hooks_see_and_change_what_goes_in_and_out():
    layer, seen = nn.Linear(3, 2), []
    plain = layer(X).numpy()
    with layer.register_forward_hook(lambda m, args, out: seen.append((m, args[0], out))):
        layer(X)
    assert seen[0][0] is layer and seen[0][1] is X and len(seen) == 1
    doubled = layer.register_forward_hook(lambda m, args, out: out * 2.0)
    np.testing.assert_array_equal(layer(X).numpy(), plain * 2)
    doubled.remove()
    doubled.remove()  # again: does nothing
    with layer.register_forward_pre_hook(lambda m, args: args[0] * 0.0):
        np.testing.assert_array_equal(layer(X).numpy(), np.broadcast_to(layer.bias.numpy(), (2, 2)))
    np.testing.assert_array_equal(layer(X).numpy(), plain)


def test_a_hook_is_a_part_of_what_is_traced():
    layer = nn.Linear(3, 2)
    with layer.register_forward_hook(lambda m, args, out: (out, ops.mean(out))):
        out, mean = framework.program(layer)(X)
    np.testing.assert_allclose(mean.item(), out.numpy().mean(), rtol=1e-6)


def test_a_registered_buffer_is_saved_and_not_trained():
    layer = nn.Linear(3, 2)
    layer.register_buffer("count", np.array(3, np.int64))
    assert layer.state_dict()["count"].item() == 3 and len(layer.parameters()) == 2
    layer.load_state_dict({**layer.state_dict(), "count": framework.tensor(5)})
    assert layer.count.item() == 5


def test_a_dict_of_layers_names_their_parameters():
    heads = nn.LayerDict({"boxes": nn.Linear(3, 4)})
    heads["classes"] = nn.Linear(3, 2)
    assert [n for n, _ in heads.named_parameters()] == ["boxes.weight", "boxes.bias", "classes.weight", "classes.bias"]
    assert list(heads) == ["boxes", "classes"] and "boxes" in heads and len(heads) == 2
    assert heads["classes"] is dict(heads.items())["classes"]
    del heads["boxes"]
    assert list(heads) == ["classes"]
    with pytest.raises(KeyError):
        heads["boxes"]
    for name in ("a b", "forward", "_parts"):
        with pytest.raises(AttributeValueError, match=f"LayerDict: '{name}' cannot name a layer"):
            heads[name] = nn.Linear(1, 1)
