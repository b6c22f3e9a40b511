"""A served segmentation model gives the label map of each picture, the one that `paddock infer` writes."""

import base64

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.serving.client import Client
from suites.engine.serving.service import Settings
from suites.engine.train.training import train
from suites.segmentation.labels import decode_labels
from suites.vision.pictures.images import write_image
from tests.suites.engine.serving import toy
from tests.suites.segmentation.helpers import scene
from tests.suites.segmentation.test_task import config_file as config_file  # fixtures
from tests.suites.segmentation.test_task import root as root

WINDOWS = "inference={mode: slide, window: 32, stride: 24}"


@pytest.mark.parametrize("override", [[], [WINDOWS]])
def test_a_client_gets_the_label_map_that_infer_writes(config_file, tmp_path, override):
    train(config_file, ["runtime.steps=1", *override], runs=tmp_path, name="run")
    export_run(tmp_path / "run", tmp_path / "exported")
    model = open_model(tmp_path / "exported")
    rng = np.random.default_rng(0)
    for name, size in (("a", (48, 64)), ("b", (40, 56))):
        write_image(tmp_path / f"{name}.png", scene(rng, size)[0])
    pictures = [tmp_path / "a.png", tmp_path / "b.png"]
    infer_files(model, pictures, tmp_path / "drawn")
    with toy.running(model, Settings(name="scenes")) as server, Client(server.url) as client:
        found = client.score([base64.b64encode(path.read_bytes()).decode() for path in pictures])
        described = client.request("GET", "/openapi.json")
    assert "`label_map`, a PNG in base64" in described["paths"]["/v1/scores"]["post"]["description"]
    for path, result in zip(pictures, found, strict=True):
        written = (tmp_path / "drawn" / f"{path.stem}.png").read_bytes()
        assert base64.b64decode(result["label_map"]) == written
        labels = decode_labels(written, "the map")
        shares = {result["classes"][k]: np.mean(labels == k) for k in np.unique(labels)}
        assert result["shares"] == pytest.approx(shares, abs=1e-5)
