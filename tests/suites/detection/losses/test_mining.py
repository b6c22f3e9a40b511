"""Hard examples: the largest losses of the candidates count, as many as asked for, and nothing else."""

import numpy as np

import framework
from framework import tensor
from framework.nn import parameter
from suites.vision.mining import hardest, negatives_for

LOSSES = np.array([[0.5, 2.0, 0.0, 1.0, 3.0, 1.0], [4.0, 0.25, 0.75, 0.0, 0.0, 0.5]], np.float32)
CANDIDATES = np.array([[1, 1, 1, 1, 0, 1], [0, 1, 1, 1, 1, 1]], bool)


def run(count):
    leaf = parameter(LOSSES)
    total = hardest(leaf, tensor(CANDIDATES), tensor(np.array(count, np.float32)))
    total.sum().backward()
    return total.numpy().tolist(), leaf.grad.numpy().tolist()


def test_the_largest_losses_of_candidates_count_once():
    total, gradient = run([2, 1])
    assert total == [3.0, 0.75]
    assert gradient == [[0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 0]]  # of the two ones, the first


def test_no_more_than_the_candidates_and_none_where_none_is_asked_for():
    total, gradient = run([99, 0])
    assert total == [4.5, 0.0]
    assert gradient == [[1, 1, 1, 1, 0, 1], [0] * 6]


def test_it_is_the_same_in_a_program():
    step = framework.program(lambda a, b, c: hardest(a, b, c))
    found = step(tensor(LOSSES), tensor(CANDIDATES), tensor(np.array([2, 1], np.float32)))
    assert found.numpy().tolist() == [3.0, 0.75]


def test_three_negatives_a_positive():
    positive = tensor(np.array([[1, 0, 1], [0, 0, 0]], bool))
    assert negatives_for(positive, 3).numpy().tolist() == [6, 0]
    assert negatives_for(positive, 3, least=4).numpy().tolist() == [6, 4]
