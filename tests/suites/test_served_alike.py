"""Views and windows act alike wherever a model predicts: served results are those of `infer`, in the same bounds."""

import base64
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.detection.processor import DetectionProcessor
from suites.detection.views import Slices, Views
from suites.engine.predict.inference import Model
from suites.engine.predict.items import predict_items
from suites.engine.serving.batcher import Limits
from suites.engine.serving.client import Client
from suites.engine.serving.service import Settings
from suites.segmentation.processor import SegmentationProcessor
from suites.segmentation.windows import Windows
from suites.vision.augmentation.transforms import Normalize, ResizeKeepRatio
from suites.vision.pictures.images import encode_image
from tests.suites.detection.test_views import bright
from tests.suites.engine.serving.toy import running

RNG = np.random.default_rng(0)
MOST = 3  # rows that views and windows may have together
ANY = 99


def shades(arrays):
    """Scores of pixels that depend on the pixel alone."""
    images = arrays["images"]
    scores = np.stack([images[..., 0], -images[..., 1], images[..., 2] * 0.5], axis=-1).astype(np.float32)
    return {"scores": scores}


def labels(arrays):
    return {"labels": shades(arrays)["scores"].argmax(-1).astype(np.uint8)}


def detector(views, padded_to=None):
    return DetectionProcessor([ResizeKeepRatio(96, 160), Normalize()], ("spot",), 0.1, padded_to, views)


def segmenter(windows):
    return SegmentationProcessor([Normalize()], ("a", "b", "c"), [(0, 0, 0), (9, 9, 9), (99, 9, 9)], windows)


CASES = {
    "one look": (detector(None, 32), bright, ANY),
    "mirrored": (detector(Views(flip=True, together=2)), bright, 2),
    "larger": (detector(Views(scales=(1.0, 1.5), together=1), 32), bright, 1),
    "slices": (detector(Views(slices=Slices(48, overlap=0.5), together=MOST)), bright, MOST),
    "labels": (segmenter(None), labels, ANY),
    "windows": (segmenter(Windows(24, 16, MOST)), shades, MOST),
}


def pictures():
    sizes = [(64, 96), (80, 56), (40, 40), (64, 96), (33, 71), (50, 90)]
    found = []
    for number, (height, width) in enumerate(sizes):
        image = np.repeat(np.repeat(RNG.integers(0, 60, (height // 8 + 1, width // 8 + 1, 3)), 8, 0), 8, 1)
        image = image[:height, :width].astype(np.uint8)
        image[5 + number : 20 + number, 8:24] = 255
        found.append(image)
    return found


@pytest.mark.parametrize("readers", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_server_answers_what_infer_says_and_puts_no_more_rows_together(name, readers):
    processor, network, most = CASES[name]
    rows = []

    def predict(arrays):
        rows.append(len(arrays["images"]))
        return network(arrays)

    items = pictures()
    expected = [processor.served(predict_items(processor, ("images",), network, [item])[0]) for item in items]
    values = [base64.b64encode(encode_image(item)).decode() for item in items]
    model = Model(processor, ("images",), predict, lambda: predict)
    settings = Settings(name="seen", readers=readers, limits=Limits(max_wait=0.1))
    with running(model, settings) as server, ThreadPoolExecutor(3) as pool:

        def ask(part):
            with Client(server.url) as client:
                return client.score(part)

        parts = pool.map(ask, [values[:3], values[3:4], values[4:]])
        assert [result for part in parts for result in part] == expected
    assert max(rows) == most or (most == ANY and max(rows) <= len(items))


def test_a_batch_that_fails_in_the_middle_leaves_its_reader_of_use():
    """The reader waits with the batch after the one that failed."""
    processor, network, _ = CASES["windows"]
    calls, broken = [], []

    def predict(arrays):
        calls.append(1)
        if broken and len(calls) == 2:
            raise ValueError("no memory for it")
        return network(arrays)

    (item,) = pictures()[:1]
    value = base64.b64encode(encode_image(item)).decode()
    with running(Model(processor, ("images",), predict, lambda: predict), Settings(name="seen")) as server:
        broken.append(True)
        for _ in range(3):
            calls.clear()
            assert asked(server, value) == 500
        broken.clear()
        assert asked(server, value) == 200
        assert len(server.service.readers._all) == 2 and not any("replaced" in line for line in server.said)


def asked(server, value):
    from tests.suites.engine.serving.web.test_server import ask

    return ask(server, "/v1/scores", {"input": value})[0]
