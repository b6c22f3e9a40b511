"""Keypoints: heatmaps become points, mirrored pictures exchange left and right, results have names and a skeleton."""

import json
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.detection.datasets.coco import CocoDetection
from suites.detection.metrics import CocoEvaluator
from suites.detection.models.rcnn.names import keypoint_head
from suites.detection.pose import located
from suites.detection.processor import DetectionProcessor, found_on_originals
from suites.detection.task import DetectionTask
from suites.detection.transforms import RandomFlip
from suites.vision.pose import COCO_PERSON, Pose
from suites.vision.settings import EvalData
from suites.vision.structures import Boxes, Instances

THREE = Pose(("nose", "left", "right"), (0, 2, 1), ((0, 1), (0, 2)))
RNG = np.random.default_rng(0)


def test_a_point_is_the_centre_of_the_largest_pixel_of_the_enlarged_map():
    maps = RNG.random((2, 8, 8, 3)).astype(np.float32)
    boxes = np.array([[10.0, 20.0, 30.5, 52.0], [0.0, 0.0, 0.4, 0.2]], np.float32)  # the second less than a pixel
    found = located(maps, boxes)
    for point in range(3):
        large = cv2.resize(maps[0, ..., point], (21, 32), interpolation=cv2.INTER_CUBIC)
        y, x = np.unravel_index(large.argmax(), large.shape)
        np.testing.assert_allclose(found[0, point], (10 + (x + 0.5) * 20.5 / 21, 20 + y + 0.5), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.full((3, 2), 0.5))
    peak = np.zeros((1, 8, 8, 1), np.float32)
    peak[0, 2, 5] = 1
    assert np.abs(located(peak, np.array([[0, 0, 80, 80]], np.float32))[0, 0] - (55, 25)).max() <= 5
    assert located(maps[:0], boxes[:0]).shape == (0, 3, 2)


def test_cocos_person_is_the_data_sets(shared_data):
    path = shared_data("keypoints/coco_mini/coco_mini.zip")
    from suites.detection.datasets.coco import read_json

    (person,) = read_json(f"{path}/annotations/person_keypoints_val2017.json")["categories"]
    assert list(COCO_PERSON.names) == person["keypoints"]
    assert [[a + 1, b + 1] for a, b in COCO_PERSON.skeleton] == person["skeleton"]
    for at, other in enumerate(COCO_PERSON.mirrored):
        swapped = {"left": "right", "right": "left"}
        side, _, rest = COCO_PERSON.names[at].partition("_")
        assert COCO_PERSON.names[other] == (f"{swapped[side]}_{rest}" if rest else side)


def outputs_of(mirrored=False):
    """One object in the box [8, 8, 24, 40] of a picture of 64 x 48 pixels with points at three places."""
    maps = np.zeros((1, 1, 16, 16, 3), np.float32)
    for point, (y, x) in enumerate(((2, 8), (8, 3), (8, 12))):
        maps[0, 0, y, 15 - x if mirrored else x, point] = 1
    if mirrored:
        maps = maps[..., [0, 2, 1]]  # the network calls what is left in the picture that it sees by its place there
    box = [48 - 24, 8, 48 - 8, 40] if mirrored else [8, 8, 24, 40]
    return {
        "boxes": np.array([[box]], np.float32), "scores": np.ones((1, 1), np.float32),
        "classes": np.zeros((1, 1), np.int64), "counts": np.array([1]), "heatmaps": maps,
    }  # fmt: skip


def batch_of(mirrored=False):
    placement = [-1.0, 1.0, 48.0, 0.0] if mirrored else [1.0, 1.0, 0.0, 0.0]
    return {"placements": np.array([placement]), "original_sizes": np.array([[64, 48]])}


def test_a_mirrored_look_finds_the_points_under_their_names():
    (plain,), (mirrored,) = (found_on_originals(outputs_of(flip), batch_of(flip), THREE) for flip in (False, True))
    np.testing.assert_allclose(mirrored.boxes.array, plain.boxes.array)
    np.testing.assert_allclose(mirrored.keypoints, plain.keypoints, atol=1e-4)
    assert plain.keypoints[0, 1, 0] < plain.keypoints[0, 0, 0] < plain.keypoints[0, 2, 0]


def test_results_have_names_and_pictures_a_skeleton():
    processor = DetectionProcessor([], ["mouse"], 0.3, pose=THREE)
    ((row,),) = processor.results(outputs_of(), batch_of())
    assert list(row["keypoints"]) == ["nose", "left", "right"] and "landmarks" not in row
    again = DetectionProcessor(**{**processor.metadata(), "transforms": []})
    assert json.loads(json.dumps(again.metadata()["pose"])) == json.loads(json.dumps(processor.metadata()["pose"]))
    picture = np.zeros((64, 48, 3), np.uint8)
    dots = DetectionProcessor([], ["mouse"], 0.3, pose=Pose(THREE.names)).draw(picture, [row])
    lines = again.draw(picture, [row])
    assert lines.any(axis=2).sum() > dots.any(axis=2).sum()
    (x1, y1), (x2, y2) = row["keypoints"]["nose"], row["keypoints"]["left"]
    factor = len(lines) / 64
    assert lines[round((y1 + y2) / 2 * factor), round((x1 + x2) / 2 * factor)].any()


# -- the data set
def openfield(shared_data, **options):
    path = shared_data("keypoints/openfield/openfield.zip")
    return CocoDetection(f"{path}/keypoints_val.json", f"{path}/val", keypoints=True, **options)


def test_a_coco_file_gives_the_points_of_its_objects_and_a_mirror_exchanges_them(shared_data):
    dataset = openfield(shared_data)
    sample = dataset[0]
    points = sample.instances.keypoints
    assert points.shape == (1, 4, 3) and (points[..., 2] == 2).all()
    np.testing.assert_array_equal(dataset.ground_truth().points[:1], points)
    mirrored = RandomFlip(1.0)(sample, RNG).instances.keypoints
    width = sample.size[1]
    np.testing.assert_allclose(mirrored[0, 1, :2], (width - points[0, 2, 0], points[0, 2, 1]))


def written(folder, keypoints, names=("a", "b"), pairs=None, **category):
    cv2.imwrite(str(folder / "0.png"), np.zeros((20, 20, 3), np.uint8))
    annotation = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [2, 2, 9, 9], "keypoints": keypoints}
    document = {
        "images": [{"id": 1, "file_name": "0.png", "height": 20, "width": 20}], "annotations": [annotation],
        "categories": [{"id": 1, "name": "x", **({"keypoints": list(names)} if names else {}), **category}],
    }  # fmt: skip
    (folder / "a.json").write_text(json.dumps(document))
    return CocoDetection(folder / "a.json", folder, keypoints=True, point_pairs=pairs)


def test_published_heatmaps_stand_under_the_names_of_their_points():
    turned, weights = keypoint_head(1, COCO_PERSON.names[::-1]), RNG.random((4, 17, 2, 2))
    found = turned["keypoint_head.up_weight"].ours(weights)
    np.testing.assert_array_equal(found, weights.transpose(0, 2, 3, 1)[..., ::-1])
    assert turned["keypoint_head.up_bias"].ours(np.arange(17)).tolist() == list(range(17))[::-1]
    assert keypoint_head(1, ("a", "b"))["keypoint_head.up_bias"].rows is None


def test_an_object_without_points_has_none_to_see(tmp_path):
    assert (written(tmp_path, None)[0].instances.keypoints == 0).all()


def test_points_in_another_order_than_the_networks_are_refused(tmp_path):
    model, data = Pose(("b", "a")), EvalData(dataset=written(tmp_path, [5, 5, 2, 9, 5, 2]), transforms=[], batch_size=1)
    task = DetectionTask(
        SimpleNamespace(num_classes=1, needs_masks=False, landmarks=2, takes_padding=False, pose=model)
    )
    with pytest.raises(ConfigError, match="its points are a, b; the network's are, in another order, b, a: give the"):
        task.with_eval(data).names_of_classes()


@pytest.mark.parametrize("area", [0, None])
def test_an_object_whose_area_is_not_told_has_that_of_its_box(tmp_path, area):
    written(tmp_path, [5, 5, 2, 9, 5, 2])
    document = json.loads((tmp_path / "a.json").read_text())
    document["annotations"][0]["area"] = area
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert CocoDetection(tmp_path / "a.json", tmp_path).ground_truth().areas.tolist() == [81]


def test_points_outside_of_the_picture_are_unlabelled_and_counted(tmp_path):
    dataset = written(tmp_path, [5, 5, 2, 21, 5, 2])
    assert dataset[0].instances.keypoints[0].tolist() == [[5, 5, 2], [0, 0, 0]]
    assert dataset.left_out() == {"points outside of their image left out": 1}


def test_names_without_sides_need_pairs_to_be_mirrored(tmp_path):
    with pytest.raises(DataError, match="'0' and so on, do not tell left from right: give their pairs"):
        RandomFlip(1.0)(written(tmp_path, [5, 5, 2, 9, 5, 2], ("0", "1"))[0], RNG)
    dataset = written(tmp_path, [5, 5, 2, 9, 5, 2], ("0", "1"), [("0", "1")])
    assert RandomFlip(1.0)(dataset[0], RNG).instances.keypoints[0].tolist() == [[11, 5, 2], [15, 5, 2]]
    with pytest.raises(DataError, match="no point is called 'c'"):
        written(tmp_path, [5, 5, 2, 9, 5, 2], pairs=[("a", "c")])


@pytest.mark.parametrize(
    ("skeleton", "match"),
    [([[1, 3]], "names the point 3; there are 1 to 2: a, b"), ([["a", "c"]], "no point is called 'c'"),
     ("ab", "must be pairs of numbers")],
)  # fmt: skip
def test_a_skeleton_of_unknown_points_is_an_error(tmp_path, skeleton, match):
    with pytest.raises(DataError, match=match):
        written(tmp_path, [5, 5, 2, 9, 5, 2], skeleton=skeleton)


def test_a_skeleton_counts_from_one_or_names_its_points(tmp_path):
    assert written(tmp_path, [5, 5, 2, 9, 5, 2], skeleton=[[1, 2]]).pose.skeleton == ((0, 1),)
    assert written(tmp_path, [5, 5, 2, 9, 5, 2], skeleton=[["b", "a"]]).pose.skeleton == ((1, 0),)


@pytest.mark.parametrize("wrong", [[1, 2, 2], [1, 2, 2, 3, 4, "x"], "abc", [1, 2, 2, 3, 4, 1e999], {"a": 1}])
def test_wrong_points_are_an_error_with_their_annotation(tmp_path, wrong):
    with pytest.raises(DataError, match=r"annotation 1: keypoints is .*; it must be 2 times x, y, visible"):
        written(tmp_path, wrong)


def test_a_category_without_names_of_points_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r"keypoints: its categories name \[0\] points"):
        written(tmp_path, [1, 2, 2], names=())


# -- the figures
def test_oks_figures_are_pycocotools_own(shared_data, tmp_path):
    path = shared_data("keypoints/coco_mini/coco_mini.zip")
    file = f"{path}/annotations/person_keypoints_val2017.json"
    dataset = CocoDetection(file, f"{path}/val2017", keypoints=True)
    truth = dataset.ground_truth()
    evaluator, results = CocoEvaluator(truth), []
    for at, image_id in enumerate(truth.image_ids.tolist()):
        rows = slice(truth.offsets[at], truth.offsets[at + 1])
        boxes, points = truth.boxes[rows], truth.points[rows].copy()
        points[..., :2] += RNG.normal(0, 0.04, points[..., :2].shape) * np.sqrt(truth.areas[rows])[:, None, None]
        scores = RNG.random(len(boxes)).astype(np.float32)
        evaluator.add(image_id, Instances(Boxes(boxes), truth.classes[rows], scores, keypoints=points))
        for triples, score in zip(points, scores, strict=True):
            flat = np.concatenate([triples[:, :2], np.ones((17, 1))], axis=1).reshape(-1).tolist()
            results.append({"image_id": image_id, "category_id": 1, "keypoints": flat, "score": float(score)})
    from suites.detection.datasets.coco import read_json

    (tmp_path / "truth.json").write_text(json.dumps(read_json(file)))
    (tmp_path / "found.json").write_text(json.dumps(results))
    coco = COCO(str(tmp_path / "truth.json"))
    run = COCOeval(coco, coco.loadRes(str(tmp_path / "found.json")), "keypoints")
    run.evaluate()
    run.accumulate()
    run.summarize()
    figures = evaluator.compute()
    names = ("AP", "AP50", "AP75", "APm", "APl", "AR20")
    wanted = dict(zip(names, run.stats[:6], strict=True))
    assert 0.1 < wanted["AP"] < 0.95
    assert {name: figures[f"keypoint_{name}"] for name in names} == pytest.approx(wanted, abs=1e-3)
    other = CocoEvaluator(truth)
    other.merge(evaluator.state())
    assert other.compute() == figures


def test_wrong_sigmas_are_refused(shared_data):
    with pytest.raises(AttributeValueError, match=r"sigmas is \[0.1\]; it needs a positive number for each of 4"):
        CocoEvaluator(openfield(shared_data).ground_truth(), sigmas=(0.1,))
