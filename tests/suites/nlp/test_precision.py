"""A small BERT in mixed precision: the losses of float32 within roundings, in less memory, and float32 outside."""

import numpy as np
import pytest

import framework
from framework import autocast, nn, ops, program
from framework.optim import AdamW, LossScaler
from suites.nlp.models.bert import Bert
from suites.nlp.models.heads import SequenceClassifier

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
LENGTHS = np.array([0, 40, 51, 96, 128])


def trained(precision, steps):
    """Losses of the first steps, and the Program."""
    framework.random.seed(0)
    model = SequenceClassifier(Bert(vocab_size=200, hidden_size=64, layers=4, heads=4, ffn_size=128), num_classes=2)
    nn.init.initialize(model, 0)
    optimizer = AdamW(model.named_parameters(), lr=1e-3)
    scaler = LossScaler() if precision == "float16" else None

    @program
    def step(ids, offsets, labels):
        with autocast(precision):
            loss = ops.mean(ops.cross_entropy(model(ids, offsets), labels))
        optimizer.zero_grad()
        (scaler.scaled(loss) if scaler else loss).backward()
        factor = scaler.factor(model.parameters(), max_norm=1.0) if scaler else None
        optimizer.step(None, factor)
        if scaler:
            scaler.update(factor)
        return loss

    rng = np.random.default_rng(0)
    ids, labels = rng.integers(100, 200, 128), np.array([0, 1, 1, 0])
    ids[LENGTHS[:-1][labels == 1]] = 5  # what is to be learned
    inputs = [framework.tensor(a) for a in (ids, LENGTHS, labels)]
    losses = [step(*inputs).item() for _ in range(steps)]
    return losses, step.program_for(*inputs), model


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_few_steps_go_as_in_float32_and_take_less_memory(precision):
    full, plain, _ = trained("float32", 12)
    half, compiled, model = trained(precision, 12)
    assert full[-1] < 0.5 * full[0] and half[-1] < 0.5 * half[0]
    # Four layers of eight products and norms, each rounded once, on a loss of about 0.7.
    assert abs(half[0] - full[0]) <= 32 * UNIT[precision] * full[0]
    assert compiled.memory_report().arena_bytes < 0.75 * plain.memory_report().arena_bytes
    assert {t.dtype for t in model.state_dict().values()} == {"float32"}
    text = str(compiled.program)
    for fused in ("residual_layer_norm(", "residual_layer_norm_grad(", "ragged_self_attention(", "adam_steps("):
        assert fused in text  # half types keep no pass from its work
