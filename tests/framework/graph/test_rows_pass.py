"""Gradients of tables stay rows until the optimizer: the same bits as with the whole gradient."""

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.graph import passes

PLAIN = ("fold_constants", "merge_equal_operations", "drop_dead_code", "fold_gradient_scale")
IDS = [np.array([[7, 3, 3, 900], [3, 0, 899, 7]]), np.array([[3, 4, 4, 5], [6, 6, 6, 6]])]


def train(pass_names, clip=None, tied=False, make=optim.AdamW, padding_idx=-1):
    """The table and its slots after four steps on two batches in turn, and the Program."""
    table = nn.Embedding(1000, 20, padding_idx)
    out = nn.Linear(20, 3)
    model = nn.LayerList([table, out])
    nn.init.initialize(model, 0)
    optimizer = make(model.named_parameters(), lr=0.1, weight_decay=0.1)

    @framework.program(pass_names=pass_names)
    def step(ids):
        h = table(ids)
        y = ops.matmul(h, table.weight, transpose_b=True) if tied else out(h)
        loss = ops.mean(ops.square(y))
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


def test_other_optimizers_and_small_tables_are_left_alone():
    _, _, program = train((*PLAIN, "keep_gradient_rows"), make=optim.Momentum)
    assert "embedding_grad" in names(program)
    assert "keep_gradient_rows" in passes.TRAINING_PASSES
