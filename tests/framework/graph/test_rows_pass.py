"""Gradients of tables stay rows until the optimizer: the same bits as with the whole gradient."""

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.errors import AttributeValueError
from framework.graph import passes

PLAIN = ("fold_constants", "merge_equal_operations", "drop_dead_code", "fold_gradient_scale")
IDS = [np.array([[7, 3, 3, 900], [3, 0, 899, 7]]), np.array([[3, 4, 4, 5], [6, 6, 6, 6]])]


def train(pass_names, clip=None, tied=False, make=optim.AdamW, padding_idx=-1, weight_decay=0.1, again=0, **options):
    """The table and its slots after four steps on two batches in turn, and the Program."""
    table = nn.Embedding(1000, 20, padding_idx)
    out = nn.Linear(20, 3)
    model = nn.LayerList([table, out])
    nn.init.initialize(model, 0)
    optimizer = make(model.named_parameters(), lr=0.1, weight_decay=weight_decay, **options)

    @framework.program(pass_names=pass_names)
    def step(ids):
        h = table(ids)
        y = ops.matmul(h, table.weight, transpose_b=True) if tied else out(h)
        loss = ops.mean(ops.square(y))
        for k in range(again):
            loss = loss + ops.mean(ops.square(out(table(ids + (k + 1)))))
        optimizer.zero_grad()
        loss.backward()
        if clip:
            optim.clip_by_global_norm(model.parameters(), clip)
        optimizer.step()
        return loss

    losses = [step(IDS[i % 2]).numpy() for i in range(4)]
    state = [t.numpy().copy() for t in (*model.state_dict().values(), *optimizer.state_dict().values())]
    return state, losses, step.program_for(IDS[0]).program


def names(program):
    return [op.name for op in program.block]


@pytest.mark.parametrize("clip", [None, 0.01])
@pytest.mark.parametrize("padding_idx", [-1, 3])
def test_training_gives_the_same_bits_with_rows(clip, padding_idx):
    dense, _, plain = train(PLAIN, clip, padding_idx=padding_idx)
    rows, _, fused = train((*PLAIN, "keep_gradient_rows"), clip, padding_idx=padding_idx)
    assert "embedding_grad" in names(plain)
    assert "embedding_grad" not in names(fused) and names(fused).count("adam_rows_step") == 1
    if clip is None:
        for a, b in zip(dense, rows, strict=True):
            assert a.tobytes() == b.tobytes()
    else:  # the norm sums the same squares in other groups: one rounding of float32 in the factor
        for a, b in zip(dense, rows, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_a_table_that_is_the_output_too_keeps_its_whole_gradient():
    _, _, program = train((*PLAIN, "keep_gradient_rows"), tied=True)
    assert "adam_rows_step" not in names(program)


@pytest.mark.parametrize(
    ("make", "options", "step"),
    [
        (optim.SGD, {"weight_decay": 0.0}, "sgd_rows_step"),
        (optim.SGD, {"lazy_rows": ("0.weight",)}, "sgd_rows_step"),
        (optim.Momentum, {"lazy_rows": ("0.weight",), "nesterov": True}, "momentum_rows_step"),
        (optim.Adam, {"lazy_rows": ("0.weight",)}, "adam_rows_step"),
        (optim.AdamW, {"lazy_rows": ("0.weight",)}, "adam_rows_step"),
    ],
)
def test_every_rule_has_a_step_of_rows_with_the_same_bits(make, options, step):
    dense, _, plain = train(PLAIN, make=make, **options)
    rows, _, fused = train((*PLAIN, "keep_gradient_rows"), make=make, **options)
    assert "embedding_grad" in names(plain) and "embedding_grad" not in names(fused)
    assert names(fused).count(step) == 1
    for a, b in zip(dense, rows, strict=True):
        assert a.tobytes() == b.tobytes()
    assert not any(v.shape == (1000,) for v in fused.constants)  # the numbers of all rows


@pytest.mark.parametrize("clip", [None, 0.01])
@pytest.mark.parametrize(
    ("make", "options"), [(optim.Adam, {}), (optim.SGD, {"weight_decay": 0.0}), (optim.Adam, {"lazy_rows": ("0.*",)})]
)
def test_several_lookups_of_a_table_are_one_gradient_of_rows(make, options, clip):
    """Gradients of a row are summed in another order: one rounding each, which Adam's division can enlarge."""
    dense, _, _ = train(PLAIN, clip, make=make, again=2, **options)
    rows, _, fused = train((*PLAIN, "keep_gradient_rows"), clip, make=make, again=2, **options)
    assert "embedding_grad" not in names(fused) and names(fused).count("embedding_grad_rows") == 1
    for a, b in zip(dense, rows, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_lazy_rows_stand_still_without_a_gradient():
    for make in (optim.SGD, optim.Momentum, optim.Adam, optim.AdamW):
        table = nn.Embedding(50, 4)
        nn.init.initialize(nn.LayerList([table]), 0)
        optimizer = make(table.named_parameters(), lr=0.1, weight_decay=0.1, lazy_rows=("weight",))
        before = table.weight.numpy().copy()
        for ids in ([1, 2], [1]):
            optimizer.zero_grad()
            ops.sum(ops.square(table(np.array(ids)))).backward()
            optimizer.step()
            if ids == [1, 2]:
                once = table.weight.numpy()[2].copy()
        moved = (table.weight.numpy() != before).any(axis=1)
        assert moved.nonzero()[0].tolist() == [1, 2]
        np.testing.assert_array_equal(table.weight.numpy()[2], once)


def test_lazy_rows_are_those_of_tables():
    params = [("a", framework.tensor(np.zeros(3, np.float32), requires_grad=True))]
    with pytest.raises(AttributeValueError, match="SGD: lazy_rows: no parameter is called 'b'; names look like a"):
        optim.SGD(params, lazy_rows=("b",))
    with pytest.raises(AttributeValueError, match="SGD: lazy_rows: 'a' has 1 axes; a table of rows has 2"):
        optim.SGD(params, lazy_rows=("a",))


def test_other_optimizers_and_small_tables_are_left_alone():
    _, _, program = train((*PLAIN, "keep_gradient_rows"), make=optim.Momentum)
    assert "embedding_grad" in names(program)
    _, _, program = train((*PLAIN, "keep_gradient_rows"), make=optim.SGD)  # its weight decay moves every row
    assert "embedding_grad" in names(program)
    assert "keep_gradient_rows" in passes.TRAINING_PASSES
