"""The predictor in C++ gives the bits of Python's for networks of every kind, and for other shapes than exported."""

import numpy as np
import pytest

import framework
from framework import nn, no_grad, ops, tensor
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.predictor import Predictor
from framework.quantization import quantize
from suites.detection.models.rcnn import MaskRCNN
from suites.nlp.models.crf import CrfTagger
from suites.nlp.models.heads import SequenceClassifier
from suites.nlp.models.recurrent import RecurrentClassifier
from tests.native import NativePredictor
from tests.suites.detection.models.helpers import images_of
from tests.suites.detection.models.test_rcnn import tiny as tiny_rcnn
from tests.suites.detection.models.test_yolov3 import tiny as tiny_yolo
from tests.suites.nlp.models.ragged import Batch
from tests.suites.nlp.models.test_bert import small
from tests.suites.segmentation.models.zoo import tiny as tiny_segmentation


def exported(folder, function, inputs, change=lambda program: program):
    with no_grad():
        program = framework.program(function, pass_names=INFERENCE_PASSES).program_for(*map(tensor, inputs)).program
    save_program(change(program), folder)


def assert_same_bits(folder, *batches):
    """Of each batch, twice: the first run of a shape makes its plan, the second one finds it."""
    native, python = NativePredictor(folder), Predictor(folder)
    clone = native.clone()
    for arrays in batches:
        expected = python.run(arrays)
        for model in (native, clone, native):
            found = model.run(arrays)
            assert [(a.dtype, a.shape) for a in found] == [(a.dtype, a.shape) for a in expected]
            assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
    return native


def pixels(*size, count=2, seed=0):
    return np.random.default_rng(seed).standard_normal((count, *size, 3)).astype(np.float32)


def words(*lengths):
    batch = Batch(list(lengths), words=50)
    return [batch.ids.numpy(), batch.offsets.numpy(), batch.segment_ids.numpy()]


@pytest.mark.parametrize("name", ["deeplab_resnet_vd", "fast_scnn"])
def test_a_network_of_convolutions_for_any_size(name, tmp_path):
    net = tiny_segmentation(name).eval()
    exported(tmp_path, lambda x: net(x), [pixels(32, 48)])
    assert_same_bits(tmp_path, [pixels(32, 48)], [pixels(33, 49, count=1)], [pixels(8, 57)])


@pytest.mark.parametrize("make", [tiny_yolo, lambda: tiny_rcnn(MaskRCNN)], ids=["yolov3", "mask_rcnn"])
def test_a_detector_with_its_suppression_of_overlaps(make, tmp_path):
    model = make().eval()
    batches = [[images_of(2, size, seed=5), np.array([size, size], np.int64)] for size in ((64, 96), (96, 64))]
    exported(tmp_path, lambda images, size: model.detect(images, size).by_name(), batches[0])
    assert_same_bits(tmp_path, *batches)


def test_a_text_encoder_of_ragged_rows(tmp_path):
    model = SequenceClassifier(small(preset="roberta_base"), 3).eval()
    exported(tmp_path, lambda ids, offsets: model(ids, offsets), words(4, 9)[:2])
    assert_same_bits(tmp_path, *(words(*lengths)[:2] for lengths in ([4, 9], [7, 1, 30, 12], [5])))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_recurrent_network(cell, tmp_path):
    model = RecurrentClassifier(50, 3, width=8, hidden=6, layers=2, cell=cell)
    nn.init.initialize(model, seed=0)
    model.eval()
    exported(tmp_path, model, words(4, 9))
    assert_same_bits(tmp_path, words(4, 9), words(7, 2, 30, 12), words(5))


def test_a_tagger_whose_best_path_is_searched(tmp_path):
    model = CrfTagger(50, 5, width=8, hidden=6, pairs=40, tags=["O", "B-X", "M-X", "E-X", "S-X"])
    nn.init.initialize(model, seed=0)
    model.eval()
    exported(tmp_path, lambda *given: ops.crf_decode(*model(*given))[0], words(4, 9))
    assert_same_bits(tmp_path, words(4, 9), words(7, 2, 30, 12))


def test_products_of_8_bits(tmp_path):
    model = nn.Sequential(nn.Linear(64, 512), nn.Linear(512, 64))
    nn.init.initialize(model, seed=0)
    x = np.random.default_rng(0).standard_normal((30, 64)).astype(np.float32)
    exported(tmp_path, model, [x], lambda p: quantize(p, mode="static", calibration=[[x]]))
    native = assert_same_bits(tmp_path, [x], [x[:7]])
    assert native.memory_report()["weight_bytes"] < 0.3 * 4 * 2 * 64 * 512


@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_products_of_half_types_with_half_inputs_and_results(half, tmp_path):
    model = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 64))
    nn.init.initialize(model, seed=0)

    def run(x):
        with framework.autocast(half):
            return ops.cast(model(x), dtype=half), model(ops.cast(x, dtype="float32"))

    x = framework.ops.cast(tensor(np.linspace(-1, 1, 640, dtype=np.float32).reshape(10, 64)), dtype=half).numpy()
    exported(tmp_path, run, [x])
    assert_same_bits(tmp_path, [x], [x[:3]])


def test_a_loop_that_the_data_end(tmp_path):
    def halved(x, limit):
        small = framework.while_loop(lambda y: ops.max(ops.abs(y)) > limit, lambda y: y * 0.5, x)
        sums = framework.scan(lambda total, row: (total + row, total), x[0] * 0.0, x)[1]
        return small, framework.cond(ops.sum(sums) > 0.0, lambda: sums * 2.0, lambda: -sums)

    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    exported(tmp_path, halved, [x, np.float32(0.1)])
    limits = (np.array(v, np.float32) for v in (0.1, 0.001, 100))
    assert_same_bits(tmp_path, *([x[: 3 + k], limit] for k, limit in enumerate(limits)))
