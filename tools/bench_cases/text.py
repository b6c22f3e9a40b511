"""Text: fine-tuning and inference of BERT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tools.bench_cases.common import Cases, Step, on_device

if TYPE_CHECKING:
    from framework import Tensor
    from framework.nn import Layer


LENGTHS = [128, 24, 37, 52, 18, 95, 41, 30]  # the mixed batches': short sentences, one long


def sentences(batch: int, lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Random token ids [T], offsets [B + 1] and classes [B] of `batch` sentences; lengths from `lengths` in turn."""
    import numpy as np

    from framework import tensor

    rng = np.random.default_rng(0)
    offsets = np.cumsum([0, *(lengths[i % len(lengths)] for i in range(batch))])
    return tensor(rng.integers(0, 30522, offsets[-1])), tensor(offsets), tensor(rng.integers(0, 2, batch))


def sentence_classifier(sizes: Mapping[str, Any]) -> Layer:
    """BERT (base where `sizes` says nothing else) with two classes."""
    from framework.nn import init
    from suites.nlp.models.bert import Bert
    from suites.nlp.models.heads import SequenceClassifier

    model = SequenceClassifier(Bert(**sizes), num_classes=2)
    init.initialize(model, 0)
    return model


def finetuning(batch: int, lengths: list[int], **sizes: int) -> tuple[Step, int]:
    """A step of fine-tuning on sentences, with dropout and AdamW, and the number of sentences."""
    from framework import ops, program
    from framework.optim import AdamW

    ids, offsets, labels = sentences(batch, lengths)
    model = sentence_classifier(sizes)
    optimizer = AdamW(model.named_parameters(), lr=2e-5, weight_decay=0.01, decay_vectors=True)

    @program
    def step(ids: Any, offsets: Any, labels: Any) -> Any:
        loss = ops.mean(ops.cross_entropy(model(ids, offsets), labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return on_device(step, ids, offsets, labels), batch


def sentence_inference(batch: int, lengths: list[int], **sizes: int) -> tuple[Step, int]:
    """The logits of one batch of sentences, and their number."""
    from framework import no_grad, program
    from framework.graph.passes import INFERENCE_PASSES

    ids, offsets, _ = sentences(batch, lengths)
    model = sentence_classifier(sizes)
    model.eval()
    forward = program(lambda ids, offsets: model(ids, offsets), pass_names=INFERENCE_PASSES)

    def step() -> Any:
        with no_grad():
            return forward(ids, offsets)

    return step, batch


CASES: Cases = {
    "bert_base_finetune_b8_len128": lambda: finetuning(8, [128]),
    "bert_base_finetune_b8_mixed": lambda: finetuning(8, LENGTHS),
    "bert_mini_finetune_b32_mixed": lambda: finetuning(32, LENGTHS, hidden_size=256, layers=4, heads=4, ffn_size=1024),
    "bert_base_infer_b8_mixed": lambda: sentence_inference(8, LENGTHS),
}
