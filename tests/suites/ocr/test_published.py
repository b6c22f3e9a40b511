"""PP-OCRv4's published networks as ours: maps, characters, directions of ONNX Runtime; a drawn picture is read."""

import cv2
import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, optim
from suites.engine.predict.inference import load
from suites.engine.weights import resolve
from suites.ocr.models.crnn import Crnn
from suites.ocr.models.dbnet import DBNet
from suites.ocr.models.direction import LineDirection
from suites.ocr.models.svtr import SvtrLcnet
from tests.zoo import fetched

PARTS = {
    "ch_PP-OCRv4_det_infer.onnx": (lambda: DBNet(thresholds=False), (1, 96, 160, 3)),
    "ch_PP-OCRv4_rec_infer.onnx": (SvtrLcnet, (2, 48, 328, 3)),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (LineDirection, (3, 48, 192, 3)),
}


def drawn(text, size, scale):
    """Dark letters on white, uint8 [H, W, 3]."""
    image = np.full((*size, 3), 255, np.uint8)
    place = size[1] // 16, 5 * size[0] // 8
    cv2.putText(image, text, place, cv2.FONT_HERSHEY_SIMPLEX, scale, (20, 20, 20), round(2 * scale), cv2.LINE_AA)
    return image


def pretrained(file, make):
    from suites.engine.weights import load_pretrained

    model = make()
    report = load_pretrained(model, f"ocr/{file}")
    assert set(report.loaded) == set(model.state_dict()) and not report.new
    return model.eval()


@pytest.mark.parametrize("file", PARTS)
def test_what_onnx_runtime_computes(file, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    fetched("ocr", monkeypatch)
    make, shape = PARTS[file]
    given = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
    session = onnxruntime.InferenceSession(str(resolve(f"ocr/{file}")[0]), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": given.transpose(0, 3, 1, 2)})
    model = pretrained(file, make)
    with no_grad():
        found = model(from_numpy(given))
    found = found if isinstance(model, DBNet) else ops.softmax(found, axis=-1)
    np.testing.assert_allclose(found.numpy().reshape(wanted.shape), wanted, rtol=0, atol=1e-4)
    assert np.ptp(wanted) > 1e-6


def test_the_map_of_a_word_is_onnx_runtimes(monkeypatch):
    """Of noise the map is 0 nearly everywhere."""
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    fetched("ocr", monkeypatch)
    given = drawn("word", (64, 160), 1.2)[None].astype(np.float32) / 127.5 - 1
    session = onnxruntime.InferenceSession(
        str(resolve("ocr/ch_PP-OCRv4_det_infer.onnx")[0]), providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.run(None, {"x": given.transpose(0, 3, 1, 2)})
    model = pretrained(*next((file, make) for file, (make, _) in PARTS.items()))
    with no_grad():
        found = model(from_numpy(given)).numpy()
    np.testing.assert_allclose(found, wanted[:, 0], rtol=0, atol=1e-4)
    assert wanted.max() > 0.3


def test_a_recogniser_of_another_alphabet_keeps_the_rows_of_shared_characters(monkeypatch):
    fetched("ocr", monkeypatch)
    whole, own = (SvtrLcnet(name, pretrained="ocr/ch_PP-OCRv4_rec_infer.onnx") for name in ("ppocr", "=zya\u2603"))
    rows, kept = (model.fc.weight.numpy() for model in (whole, own))
    for at, character in enumerate("zya", start=1):
        np.testing.assert_array_equal(kept[at], rows[whole.alphabet.encode(character)[0]])
    np.testing.assert_array_equal(kept[0], rows[0])  # the blank's


@pytest.mark.parametrize(("make", "scheme"), [(Crnn, "easyocr"), (SvtrLcnet, "ppocr")])
def test_every_recogniser_with_published_weights_says_their_alphabet(make, scheme):
    assert make.schemes == (scheme,)
    ours, theirs = make(alphabet="digits").class_names_in(scheme)
    assert ours == tuple("0123456789") and set(ours) < set(theirs)
    assert make(alphabet="digits").class_names_in("other")[1] == ()


def test_it_learns_on_from_there(monkeypatch):
    """Batch norms that the files hold are in training form, and every weight has a gradient."""
    fetched("ocr", monkeypatch)
    model = pretrained("ch_PP-OCRv4_rec_infer.onnx", SvtrLcnet).train()
    lines = from_numpy(np.random.default_rng(0).uniform(-1, 1, (2, 48, 64, 3)).astype(np.float32))
    optimizer = optim.Adam(model.named_parameters(), lr=1e-3)
    targets = from_numpy(np.full((2, 8), 5, np.int64))
    losses = []
    for _ in range(2):
        loss = ops.mean(ops.cross_entropy(model(lines), targets))
        loss.backward()
        assert all(p.grad is not None for _, p in model.named_parameters())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    assert losses[1] < losses[0]


def test_a_photograph_is_read_by_the_records_name(monkeypatch, tmp_path):
    fetched("ocr", monkeypatch)
    image = drawn("Reading 2026", (160, 640), 2.0)
    model = load("ocr")
    (upright,) = model(image)
    (turned,) = model(np.ascontiguousarray(image[::-1, ::-1]))
    (empty,) = model(np.full((160, 640, 3), 255, np.uint8))
    assert [text["text"] for text in upright.to_json()] == ["Reading 2026"]
    assert [text["text"] for text in turned.to_json()] == ["Reading 2026"] and turned.to_json()[0]["turned"]
    assert empty.to_json() == []
