"""Soft maps: a network of two classes learns edges from grey maps and answers with a probability for every pixel."""

import base64
import json

import cv2
import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.engine.config.building import build_task, read_config
from suites.engine.contract.capabilities import name_classes
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.segmentation.labelling import Labelling
from suites.segmentation.processor import SegmentationProcessor, SoftMapProcessor
from suites.segmentation.sample import soft_to_original
from suites.segmentation.visualize import draw_soft
from suites.vision.augmentation.transforms import Letterbox, Normalize
from suites.vision.geometry import Placement
from suites.vision.pictures.images import write_image
from tests.suites.segmentation.helpers import scene
from tests.suites.segmentation.test_task import CONFIG

OVERRIDES = [
    "model={$replace: {type: HED, backbone: {type: UNetEncoder, widths: [8, 16, 16]}}}",
    "losses={$replace: [{id: edges, type: BalancedCrossEntropy}]}",
    "data.num_classes=2",
    "data.train.dataset.kind=soft",
    "data.eval.dataset.kind=soft",
    "data.train.dataset.classes=[background, edge]",
    "data.eval.dataset.classes=[background, edge]",
    "inference.soft=true",
    "runtime.steps=150",
]


def write_edges(root, split, count, seed):
    """Scenes and grey maps of the borders of what is on them, blurred at 127 and below."""
    rng = np.random.default_rng(seed)
    for i in range(count):
        image, labels = scene(rng)
        labels[labels == 255] = 0
        edge = cv2.morphologyEx(labels, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
        near = cv2.dilate(edge.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
        write_image(root / split / "images" / f"{i:03d}.png", image)
        grey = np.where(edge, 204, np.where(near, 51, 0)).astype(np.uint8)
        (root / split / "labels").mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(root / split / "labels" / f"{i:03d}.png"), grey)


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    root = tmp_path_factory.mktemp("edges")
    write_edges(root, "train", 24, 1)
    write_edges(root, "val", 6, 2)
    path = root / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(root)))
    return path


@pytest.fixture(scope="module")
def run(config_file, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(config_file, OVERRIDES, runs=folder, name="run")
    return folder / "run"


def test_a_network_learns_the_edges_of_drawn_scenes(run):
    """Balanced, it rather marks too much than too little: nearly all edges, and few of the rest."""
    figures = evaluate_weights(run)
    assert figures["recall/edge"] > 0.9 and figures["recall/background"] > 0.85


def test_pictures_are_grey_and_an_export_and_a_server_say_the_same(run, tmp_path):
    image = scene(np.random.default_rng(9), (50, 60))[0]
    write_image(tmp_path / "a.png", image)
    model = open_model(run)
    infer_files(model, [tmp_path / "a.png"], tmp_path / "drawn")
    written = (tmp_path / "drawn" / "a.png").read_bytes()
    grey = cv2.imdecode(np.frombuffer(written, np.uint8), cv2.IMREAD_UNCHANGED)
    (found,) = model([image])
    assert found.value.dtype == np.float32 and found.value.shape == grey.shape == (50, 60)
    np.testing.assert_array_equal(grey, np.rint(found.value * 255))
    (said,) = json.loads((tmp_path / "drawn" / "predictions.json").read_text()).values()
    assert said["edge"] == pytest.approx((found.value >= 0.5).mean(), abs=1e-5) and said["max"] > 0.5
    export_run(run, tmp_path / "exported")
    exported = open_model(tmp_path / "exported")
    (same,) = exported([image])
    np.testing.assert_allclose(same.value, found.value, atol=1e-5)
    served = exported.processor.served(same.value)
    assert base64.b64decode(served["probabilities"]) == exported.processor.files(same.value)[".png"]
    assert served["classes"] == ["background", "edge"]


def test_a_processor_is_made_again_from_its_metadata():
    processor = SoftMapProcessor([Letterbox(32), Normalize()], ["none", "edge"], [[0] * 3, [255, 0, 0]])
    again = SegmentationProcessor.from_metadata(json.loads(json.dumps(processor.metadata())))
    assert type(again) is SoftMapProcessor and again.metadata() == processor.metadata()


def test_maps_go_back_to_the_images_own_pixels():
    """A ramp stays a ramp: of a letterboxed image, the value of a pixel is what its place says."""
    processor = SoftMapProcessor([Letterbox(64), Normalize()], ["none", "edge"], [[0] * 3] * 2)
    batch = processor.prepare([np.zeros((24, 48, 3), np.uint8)])
    ax, _, bx, _ = batch["placements"][0]
    ramp = np.broadcast_to((np.arange(64, dtype=np.float32) + 0.5) / 64, (1, 64, 64))
    (found,) = processor.results({"probabilities": ramp}, batch)
    wanted = (ax * (np.arange(48) + 0.5) + bx) / 64
    assert found.shape == (24, 48)
    np.testing.assert_allclose(found[:, 1:-1], np.broadcast_to(wanted, (24, 48))[:, 1:-1], atol=1e-3)
    values = np.random.default_rng(0).random((5, 7), np.float32)
    assert soft_to_original(values, Placement(1, 1, 0, 0), (5, 7)) is values


def test_a_drawing_has_the_colour_where_an_edge_is_certain_and_the_pale_image_elsewhere():
    image = np.full((1, 2, 3), 55, np.uint8)
    drawn = draw_soft(image, np.array([[0.0, 1.0]], np.float32), (10, 20, 30))
    assert drawn.tolist() == [[[155] * 3, [10, 20, 30]]]


def test_soft_maps_of_more_classes_or_of_windows_are_refused(config_file):
    with pytest.raises(ConfigError, match=r"inference\.soft: gives the probability of the second of 2 classes, and"):
        build_task(read_config(config_file, ["inference.soft=true"]))
    with pytest.raises(AttributeValueError, match="soft maps are of whole images"):
        Labelling("slide", soft=True)


def test_a_published_segmenter_has_colours_though_only_its_classes_names_are_known(config_file):
    task = build_task(read_config(config_file))
    name_classes(task, ["a", "b", "c"])
    assert len(set(map(tuple, task.processor().metadata()["palette"]))) == 3
