"""MoveNet: its points by the formulas in NumPy, its published file, what it refuses, export."""

import numpy as np
import pytest

from framework import nn, no_grad, program, tensor
from framework.errors import ConfigError
from framework.graph.passes import INFERENCE_PASSES
from framework.tflite import Session, open_model
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.weights import load_wanted
from suites.keypoints.decoding import Reader
from suites.keypoints.models.movenet import MoveNet

FILE = "weights/coral/movenet_single_pose_lightning_ptq.tflite"


def drawn(seed=0):
    model = MoveNet()
    nn.init.initialize(model, seed)
    model.eval()
    return model


def picture(seed, size=(1, 64, 96, 3)):
    return np.random.default_rng(seed).uniform(-1, 1, size).astype(np.float32)


def points_of(centre, heat, offset, regress):
    """Points [L, 3] of one picture's maps [h, w, ...] in float64."""
    h, w, count = heat.shape
    rows, columns = np.mgrid[:h, :w]
    weight = 1 / (np.hypot(rows - h // 2, columns - w // 2) + 1.8)
    y, x = np.unravel_index((centre[..., 0] * weight).argmax(), (h, w))
    found = []
    for k in range(count):
        down, across = regress[y, x, 2 * k : 2 * k + 2] + (y, x)
        i, j = np.unravel_index((heat[..., k] / (np.hypot(rows - down, columns - across) + 1.8)).argmax(), (h, w))
        dy, dx = offset[i, j, 2 * k : 2 * k + 2]
        found.append([4 * (j + dx), 4 * (i + dy), heat[i, j, k]])
    return np.array(found)


def test_points_are_those_of_the_formulas_for_each_picture_of_a_batch():
    model, images = drawn(), picture(1, (3, 64, 96, 3))
    with no_grad():
        maps = [m.numpy().astype(np.float64) for m in model.maps(tensor(images))]
        found = model.points(tensor(images)).numpy()
    assert [m.shape for m in maps] == [(3, 16, 24, c) for c in (1, 17, 34, 34)] and found.shape == (3, 17, 3)
    for n in range(3):
        np.testing.assert_allclose(found[n], points_of(*(m[n] for m in maps)), rtol=1e-4, atol=1e-4)


def test_a_program_gives_the_same_points():
    model, images = drawn(), tensor(picture(2))
    with no_grad():
        wanted = model.points(images).numpy()
        found = program(model.points, pass_names=INFERENCE_PASSES)(images).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_points_of_inputs_are_led_back_to_their_files():
    outputs = {"points": np.array([[[10.0, 20.0, 0.5], [0.0, 4.0, 0.25]]], np.float32)}
    points, scores = Reader(4, 2.0).read(outputs, np.array([[[2.0, 0, 4], [0, 2, 8]]]))
    np.testing.assert_allclose(points, [[[3, 6], [-2, -2]]], atol=1e-6)
    np.testing.assert_array_equal(scores, [[0.5, 0.25]])


def test_the_published_weights_find_what_the_8_bit_file_finds(shared_data):
    """A person in the middle, in whole pixels: the file's own places have steps of 0.8 pixels."""
    model = MoveNet(pretrained=str(shared_data(FILE)))
    load_wanted(model)
    model.eval()
    zipped = shared_data("detection/coco_val20/coco_val20.zip")
    image = person(zipped)
    file = Session(open_model(shared_data(FILE)))
    ((((wanted,),),)) = file.run([image[None]])[0][None]
    with no_grad():
        found = model.points(tensor(image[None].astype(np.float32) / 127.5 - 1)).numpy()[0]
    far = np.hypot(found[:, 0] - 192 * wanted[:, 1], found[:, 1] - 192 * wanted[:, 0])
    assert np.median(far) < 2 and (far < 6).all()


def person(zipped):
    """The man in front of the bus, 192 x 192."""
    import zipfile

    import cv2

    from suites.vision.pictures.images import decode_image

    with zipfile.ZipFile(zipped) as archive:
        image = decode_image(archive.read("images/000000334371.jpg"), "334371")
    height, width = image.shape[:2]
    factor = 192 / max(height, width)
    small = cv2.resize(image, (round(width * factor), round(height * factor)), interpolation=cv2.INTER_AREA)
    top, left = (192 - small.shape[0]) // 2, (192 - small.shape[1]) // 2
    return cv2.copyMakeBorder(
        small, top, 192 - top - small.shape[0], left, 192 - left - small.shape[1], cv2.BORDER_CONSTANT
    )


def test_it_is_not_trained(tmp_path):
    data = {"type": "CocoKeypoints", "annotations": "a.json", "images": "b"}
    words = [f"data.train={{dataset: {data}, transforms: [], batch_size: 1}}", "model.pretrained=$delete"]
    with pytest.raises(ConfigError, match=r"MoveNet gives points of its own and is not trained; leave it out"):
        build_task(load_config("keypoints/movenet_lightning", words))
