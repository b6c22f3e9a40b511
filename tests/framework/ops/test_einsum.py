"""einsum against NumPy's, with its gradients, in Programs whose extents vary, and what it refuses."""

import numpy as np
import pytest

import framework
from framework import ops
from framework.autograd.check import check_gradients
from framework.errors import AttributeValueError, ShapeError
from tests.framework.ops.harness import normal

CASES = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,kj->ik", (3, 4), (5, 4)),
    ("ji,jk", (4, 3), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bthd,bshd->bhts", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("bhts,bshd->bthd", (2, 2, 3, 5), (2, 5, 2, 4)),
    ("bij,jk->bik", (2, 3, 4), (4, 5)),
    ("abcd,cdef->abef", (2, 3, 4, 2), (4, 2, 3, 2)),
    ("ij->ji", (3, 4)),
    ("ijk->", (2, 3, 4)),
    ("ijk->ki", (2, 3, 4)),
    ("ii->i", (4, 4)),
    ("ii", (4, 4)),
    ("iij->ji", (3, 3, 2)),
    ("i,i->i", (5,), (5,)),
    ("i,i->", (5,), (5,)),
    ("i,j->ij", (3,), (4,)),
    ("i,j->ji", (3,), (4,)),
    ("ij,k->", (3, 4), (2,)),
    (",ij->ij", (), (3, 4)),
    ("...ij,...jk->...ik", (2, 3, 4), (1, 4, 5)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (6, 4, 2)),
    ("...i,...i", (2, 3), (3,)),
    ("...ij->...", (2, 3, 4)),
    ("i...->...i", (2, 3, 4)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)),
    (" a b , b -> a ", (3, 4), (4,)),
    ("ij,jk->ik", (3, 0), (0, 5)),
    ("ij,jk->ik", (0, 4), (4, 5)),
]


@pytest.mark.parametrize(("equation", "shapes"), [(e, s) for e, *s in CASES], ids=[f"{e} {s}" for e, *s in CASES])
def test_results_gradients_and_programs(equation, shapes):
    xs = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = np.einsum(equation.replace(" ", ""), *xs)
    got = ops.einsum(equation, *[framework.tensor(x) for x in xs]).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)
    program = framework.program(lambda *given: ops.einsum(equation, *given))
    np.testing.assert_array_equal(program(*[framework.tensor(x) for x in xs]).numpy(), got)
    if all(x.size for x in xs):
        check_gradients(lambda *given: ops.einsum(equation, *given), xs, order=2)


def test_one_trace_serves_other_extents():
    program = framework.program(lambda a, b: ops.einsum("bthd,bshd->bhts", a, b))
    for b, t, s in ((2, 3, 4), (1, 7, 2), (5, 1, 1)):
        x, y = normal(b, t, 2, 8), normal(b, s, 2, 8, seed=1)
        got = program(framework.tensor(x), framework.tensor(y)).numpy()
        np.testing.assert_allclose(got, np.einsum("bthd,bshd->bhts", x, y), rtol=1e-12, atol=1e-13)
    assert program.traces_made == 1


def test_a_product_that_reads_its_operands_as_they_lie_moves_nothing():
    x, y = framework.tensor(normal(2, 3, 4)), framework.tensor(normal(2, 5, 4))
    block = framework.program(lambda a, b: ops.einsum("bij,bkj->bik", a, b)).program_for(x, y).program.block
    assert [op.name for op in block] == ["matmul"]


X, Y = framework.tensor(normal(3, 4)), framework.tensor(normal(4, 5))


@pytest.mark.parametrize(("equation", "operands", "error", "message"), [
    ("ij,jk->ik", [X], AttributeValueError, "it has 2 terms but there are 1 operands"),
    ("i1,jk->ik", [X, Y], AttributeValueError, "'i1' is no term; takes letters and one '...'"),
    ("i...j...,jk", [X, Y], AttributeValueError, "is no term"),
    ("ij->ijk", [X], AttributeValueError, "'k' right of the arrow must occur there once, and left of it"),
    ("ij->ii", [X], AttributeValueError, "'i' right of the arrow must occur there once"),
    ("...j->j", [X], AttributeValueError, r"the axes under '...' must stay"),
    ("ijk->i", [X], ShapeError, "term 0, 'ijk', does not fit an operand of 2 axes"),
    ("i->i", [X], ShapeError, "term 0, 'i', does not fit an operand of 2 axes"),
    ("ij,ik->jk", [X, Y], ShapeError, "'i' has extent 3 in operand 0 but 4 in operand 1"),
    ("ii->i", [X], ShapeError, "'i' has extent"),
    ("...ij,...jk->...ik", [framework.tensor(normal(2, 3, 4)), framework.tensor(normal(3, 4, 5))], ShapeError,
     "an axis under '...' has extent 2 in operand 0 but 3 in operand 1"),
])  # fmt: skip
def test_bad_equations_are_refused_with_one_message(equation, operands, error, message):
    with pytest.raises(error, match=message) as caught:
        ops.einsum(equation, *operands)
    assert str(caught.value).startswith("einsum:")
