"""A served model of images and strangers: pictures that cost much are refused, and the next one is answered."""

import base64
import json
import struct

import numpy as np
import pytest

from suites.engine.predict.inference import export_run, open_model
from suites.engine.serving.service import Settings
from suites.engine.train.training import train
from suites.vision.pictures.images import encode_image
from tests.bombs.files import HEADERS, png
from tests.suites.classification.test_task import config_file, picture  # noqa: F401  (a fixture)
from tests.suites.engine.serving import hostile, toy
from tests.suites.engine.serving.test_hostile import address


def as_text(data):
    return base64.b64encode(data).decode()


def sent(body):
    """A request after whose answer the connection ends, so that nothing waits for more."""
    return hostile.post("/v1/scores", body, "Connection: close")


def asking(*pictures):
    return sent(json.dumps({"input": [as_text(p) for p in pictures]}).encode())


@pytest.fixture
def server(config_file, tmp_path):  # noqa: F811
    train(config_file, ["runtime.steps=1"], runs=tmp_path, name="run")
    export_run(tmp_path / "run", tmp_path / "exported")
    settings = Settings(name="wedges", max_decoded=8 << 20)
    with toy.running(open_model(tmp_path / "exported"), settings) as found:
        yield found
    assert not any("Traceback" in line for line in found.said)


def test_pictures_that_cost_much_are_refused_and_the_next_is_answered(server):
    whole = encode_image(picture("a", np.random.default_rng(0)), ".png")
    wide = png(30_000, 30_000 // 100)[:16] + struct.pack(">II", 30_000, 30_000) + png(30_000, 300)[24:]
    bombs = {
        "900 million pixels by the header": asking(wide),
        "a small file of 8 million pixels, 20 times": asking(*[png(4000, 2000)] * 20),
        "1,024 pictures that take 2 GB together": asking(*[png(1000, 700)] * 1024),
        "a picture that is cut off": asking(whole[: len(whole) // 2]),
        "noise": asking(b"no picture at all"),
        "nothing": asking(b""),
        "no base64": sent(b'{"input": ["\\u0000***"]}'),
        "a list in a list": sent(b'{"input": [["a"], {"b": 1}]}'),
        **{f"a {kind} of terabytes": asking(header) for kind, header in HEADERS.items()},
    }
    for name, request in bombs.items():
        found = hostile.statuses(address(server), request, patience=5)
        assert found and set(found) <= {400, 413, 422, 503}, (name, found)
        assert hostile.statuses(address(server), asking(whole), patience=5) == [200], name
