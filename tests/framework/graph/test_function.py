"""`program` as a decorator of methods, with keyword arguments, inside of others."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import framework
from framework import nn, ops

X = framework.tensor([[1.0, 2.0, 3.0]])


class Head(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    @framework.program
    def forward(self, x, scale=1.0):
        """Scaled."""
        return self.fc(x) * scale


def test_keyword_arguments_are_traced_as_positional_ones():
    f = framework.program(lambda x, *, scale=1.0, shift=None: x * scale + (0.0 if shift is None else shift))
    assert f(X, scale=2.0).tolist() == [[2.0, 4.0, 6.0]]
    assert f(X, shift=X, scale=2.0).tolist() == f(X, scale=2.0, shift=X).tolist() == [[3.0, 6.0, 9.0]]
    assert f.traces_made == 2
    assert len(f.program_for(X, scale=2.0).program.inputs) == 1


def test_a_method_has_programs_for_each_object():
    one, two = Head(), Head()
    two.fc.weight.set(framework.zeros(3, 2) if one.fc.weight.shape == (3, 2) else framework.zeros(2, 3))
    plain = one.fc(X).numpy()
    np.testing.assert_allclose(one(X, scale=2.0).numpy(), plain * 2, rtol=1e-6)
    np.testing.assert_allclose(two(X).numpy(), np.broadcast_to(two.fc.bias.numpy(), (1, 2)))
    assert one.forward is one.forward and one.forward is not two.forward
    assert Head.forward.__doc__ == "Scaled."


def test_a_copied_object_runs_with_its_own_weights():
    one = Head()
    one(X)
    twin = copy.deepcopy(one)
    twin.fc.weight.set(framework.zeros(*twin.fc.weight.shape))
    assert twin(X).tolist() == [twin.fc.bias.tolist()] and one(X).tolist() != twin(X).tolist()


def test_inside_of_another_program_it_becomes_a_part():
    head = Head()

    @framework.program
    def loss(x):
        return ops.sum(ops.square(head(x)))

    np.testing.assert_allclose(loss(X).item(), (head.fc(X).numpy() ** 2).sum(), rtol=1e-6)
    loss(X).item()
    assert head.forward.traces_made == 0


def test_a_shallow_copy_of_an_object_has_programs_of_its_own():
    class Scale:
        def __init__(self, factor):
            self.factor = framework.tensor(factor)

        @framework.program
        def times(self, x):
            return x * self.factor

    one = Scale(2.0)
    assert one.times(framework.tensor(1.0)).item() == 2.0
    other = copy.copy(one)
    other.factor = framework.tensor(5.0)
    assert other.times(framework.tensor(1.0)).item() == 5.0 and one.times(framework.tensor(1.0)).item() == 2.0
    assert one.times is one.times and one.times is not other.times


def test_threads_that_reach_a_method_first_share_one_function():
    class Model:
        @framework.program
        def times(self, x):
            return x * 2.0

    for _ in range(50):
        model, ready = Model(), threading.Barrier(4)

        def reach(model=model, ready=ready):
            ready.wait()
            return model.times

        with ThreadPoolExecutor(4) as pool:
            found = [pool.submit(reach) for _ in range(4)]
            assert len({id(each.result()) for each in found}) == 1


def test_numbers_that_are_equal_and_differ_have_traces_of_their_own():
    inverse = framework.program(lambda x, zero: x / (x * zero))
    one = framework.tensor(1.0)
    assert inverse(one, 0.0).item() == np.inf and inverse(one, -0.0).item() == -np.inf
    scaled = framework.program(lambda x, factor: x * factor)
    for _ in range(3):
        assert np.isnan(scaled(one, float("nan")).item())
    assert inverse.traces_made == 2 and scaled.traces_made == 1
