"""A BERT and the classics as ONNX files: other batches than the one they were traced with."""

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

import onnx
from onnx.reference import ReferenceEvaluator

import framework
from framework import nn, ops
from framework.onnx import EXPORT_PASSES, Session, export, open_model
from suites.nlp.models.bow import BagOfWords
from suites.nlp.models.cnn import TextCNN
from suites.nlp.models.crf import CrfTagger
from suites.nlp.models.heads import SequenceClassifier
from suites.nlp.models.recurrent import RecurrentClassifier
from suites.nlp.models.simnet import SimNet
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


TAGS = ["O", "B-X", "M-X", "E-X", "S-X"]
CLASSICS = {
    "bag": lambda: BagOfWords(50, 3, width=8),
    "cnn": lambda: TextCNN(50, 3, width=8, filters=6),
    "bilstm": lambda: RecurrentClassifier(50, 3, width=8, hidden=6, layers=2),
    "gru": lambda: RecurrentClassifier(50, 3, width=8, hidden=6, cell="gru", bidirectional=False, pooling="last"),
    "bigru_crf": lambda: CrfTagger(50, 5, width=8, hidden=6, pairs=40, tags=TAGS),
    "simnet_bow": lambda: SimNet(50, 3, "bow", width=8, hidden=6),
    "simnet_cnn": lambda: SimNet(50, 1, "cnn", width=8, hidden=6, score="cosine"),
    "simnet_gru": lambda: SimNet(50, 3, "gru", width=8, hidden=6),
}


@pytest.mark.parametrize("runtime", ["ours", "onnxruntime"])
@pytest.mark.parametrize("name", CLASSICS)
def test_the_classics_are_exported_for_all_batches(name, runtime, tmp_path):
    if runtime == "onnxruntime":
        onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    model = CLASSICS[name]()
    nn.init.initialize(model, seed=0)
    model.eval()

    def function(ids, offsets, segment_ids):
        found = model(ids, offsets, segment_ids)
        return ops.crf_decode(*found)[0] if isinstance(found, tuple) else found

    traced, path = Batch([4, 9], words=50), tmp_path / "model.onnx"
    for key in ("ids", "offsets", "segment_ids"):
        getattr(traced, key).name = key
    with framework.no_grad():
        compiled = framework.program(function, pass_names=EXPORT_PASSES)
        export(compiled.program_for(traced.ids, traced.offsets, traced.segment_ids).program, path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    for lengths in ([7, 2, 30, 12], [5], [2, 3]):
        batch = Batch(lengths, words=50, seed=1)
        given = (batch.ids, batch.offsets, batch.segment_ids)
        feeds = {key: t.numpy() for key, t in zip(("ids", "offsets", "segment_ids"), given, strict=True)}
        if runtime == "ours":
            (found,) = Session(open_model(path)).run(list(feeds.values()))
        else:
            session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
            (found,) = session.run(None, {port.name: feeds[port.name] for port in session.get_inputs()})
        np.testing.assert_allclose(found, function(*given).numpy(), rtol=0, atol=2e-6)
