"""A served reader gives the texts that `paddock infer` gives, though each batch follows what the last one found."""

import base64

import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.engine.predict.inference import Model
from suites.engine.predict.items import predict_items
from suites.engine.serving.client import Client
from suites.engine.serving.service import Settings
from suites.ocr.finding import Finding
from suites.ocr.page import INPUTS, Lines, Reading
from suites.ocr.processor import PageProcessor
from suites.vision.pictures.images import encode_image
from tests.suites.engine.serving import toy
from tests.suites.ocr.helpers import LETTERS, page, played


def test_a_client_gets_the_texts_of_each_picture():
    processor = PageProcessor(Finding(unclip=0.01), Reading(), Lines(LETTERS, 48, True))
    model = Model(processor, INPUTS, played, lambda: played)
    pictures = [page((100, 100, 300, 140)), page(), page((100, 100, 300, 140), (100, 300, 400, 340))]
    wanted = [processor.summary(result) for result in predict_items(processor, INPUTS, played, pictures)]
    with toy.running(model, Settings(name="texts")) as server, Client(server.url) as client:
        found = client.score([base64.b64encode(encode_image(each, ".png")).decode() for each in pictures])
    assert [[text["text"] for text in texts] for texts in found] == [["word"], [], ["word", "word"]]
    assert found == wanted
