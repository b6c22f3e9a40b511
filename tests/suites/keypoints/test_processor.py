"""Objects in pictures: their points are where those of the object alone are, in pixels of the whole picture."""

import numpy as np

from suites.keypoints.decoding import Reader
from suites.keypoints.processor import PoseProcessor
from suites.keypoints.transforms import Normalize, ObjectCrop
from suites.vision.pose import Pose

POSE = Pose(("left_end", "right_end"), skeleton=((0, 1),))
PROCESSOR = PoseProcessor([ObjectCrop(size=64, padding=1.0), Normalize()], ["bar"], POSE, Reader(4, 2.0))


def heatmaps(cells):
    maps = np.zeros((len(cells), 16, 16, 2), np.float32)
    for n, places in enumerate(cells):
        for point, (x, y) in enumerate(places):
            maps[n, y, x, point] = 1
    return maps


def test_points_of_objects_are_in_pixels_of_the_picture():
    image = np.random.default_rng(0).integers(0, 255, (128, 200, 3), np.uint8)
    part = np.ascontiguousarray(image[40:104, 100:164])
    rows = [{"box": [100, 40, 164, 104]}, {"box": [0, 0, 32, 32], "class": "bar", "score": 0.5}]
    batch = PROCESSOR.prepare(PROCESSOR.objects_in(image, rows))
    alone = PROCESSOR.prepare([part])
    np.testing.assert_allclose(batch["images"][0][1:-1, 1:-1], alone["images"][0][1:-1, 1:-1], atol=1e-5)
    outputs = {"heatmaps": heatmaps([[(3, 5), (12, 8)]] * 2)}
    first, second = PROCESSOR.results(outputs, batch)
    (wanted,) = PROCESSOR.results({"heatmaps": outputs["heatmaps"][:1]}, alone)
    for name, (x, y, score) in wanted["keypoints"].items():
        assert first["keypoints"][name] == [x + 100, y + 40, score]
        assert second["keypoints"][name] == [x / 2, y / 2, score]
    plain = PROCESSOR.draw_objects(image, [], [])
    drawn = PROCESSOR.draw_objects(image, rows, [first, second])
    assert drawn.shape == plain.shape and (drawn != plain).any(axis=-1).sum() > 100
