"""A BERT as an ONNX file: other batches than the one it was traced with."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx.reference import ReferenceEvaluator

import framework
from framework.onnx import EXPORT_PASSES, export
from suites.nlp.models.heads import SequenceClassifier
from tests.suites.nlp.models.ragged import Batch
from tests.suites.nlp.models.test_bert import small


@pytest.mark.parametrize("lengths", [[7, 1, 30, 12], [5], [2, 3]])
def test_a_classifier_is_exported_for_all_batches(lengths, tmp_path):
    model = SequenceClassifier(small(preset="roberta_base"), 3).eval()
    traced = Batch([4, 9], words=50)
    with framework.no_grad():
        forward = framework.program(lambda ids, offsets: model(ids, offsets), pass_names=EXPORT_PASSES)
        export(forward.program_for(traced.ids, traced.offsets).program, tmp_path / "model.onnx")
    proto = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(proto, full_check=True)
    batch = Batch(lengths, words=50)
    names = [p.name for p in proto.graph.input]
    feeds = dict(zip(names, (batch.ids.numpy(), batch.offsets.numpy()), strict=True))
    (logits,) = ReferenceEvaluator(proto).run(None, feeds)
    want = model(batch.ids, batch.offsets).numpy()
    np.testing.assert_allclose(logits, want, rtol=0, atol=1e-5)
