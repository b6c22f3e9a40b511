"""WiderFace reads the benchmark's list and levels; the figures are those of its tools, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from framework.errors import DataError
from suites.detection.datasets import WiderFace
from suites.detection.metrics import WiderEvaluator
from suites.vision.pictures.images import write_image
from suites.vision.structures import Boxes, Instances
from tests.suites.detection.datasets.helpers import image, zip_folder

LIST = """0--Parade/a.png
3
2 3 10 12 0 0 0 0 0 0
30 5 20 20 0 0 0 1 0 0
40 20 8 9 1 0 0 0 2 0
1--Handshaking/b.png
0
0 0 0 0 0 0 0 0 0 0
1--Handshaking/c.png
2
5 5 16 16 0 0 0 0 0 0
20 20 0 4 0 0 0 0 0 0
"""


@pytest.fixture
def root(tmp_path):
    for split in ("train", "val"):
        for at, name in enumerate(("0--Parade/a", "1--Handshaking/b", "1--Handshaking/c")):
            write_image(tmp_path / "wider" / f"WIDER_{split}" / "images" / f"{name}.png", image(at))
        folder = tmp_path / "wider" / "wider_face_split"
        folder.mkdir(exist_ok=True)
        (folder / f"wider_face_{split}_bbx_gt.txt").write_text(LIST)
    return tmp_path / "wider"


def cells(rows):
    """A .mat cell array of cell arrays."""
    outer = np.empty((len(rows), 1), object)
    for i, row in enumerate(rows):
        inner = np.empty((len(row), 1), object)
        for j, value in enumerate(row):
            inner[j, 0] = value
        outer[i, 0] = inner
    return outer


@pytest.fixture
def levels(tmp_path):
    folder = tmp_path / "ground_truth"
    folder.mkdir()
    savemat(folder / "wider_face_val.mat", {"file_list": cells([["a"], ["b", "c"]])})
    chosen = {"easy": [[[1]], [[], []]], "medium": [[[1]], [[], [1]]], "hard": [[[1, 3]], [[], [1]]]}
    for level, rows in chosen.items():
        table = [[np.array(r, np.uint8).reshape(-1, 1) for r in row] for row in rows]
        savemat(folder / f"wider_{level}_val.mat", {"gt_list": cells(table)})
    return folder


def test_a_sample_has_its_faces_and_invalid_ones_are_crowd(root):
    data = WiderFace(root, "train")
    assert (len(data), data.class_names) == (3, ("face",))
    sample = data[0]
    np.testing.assert_array_equal(sample.image, image(0))
    assert sample.instances.boxes.array.tolist() == [[2, 3, 12, 15], [30, 5, 50, 25], [40, 20, 48, 29]]
    assert sample.instances.crowd.tolist() == [False, True, False]
    assert len(data[1].instances) == 0 and len(data[2].instances) == 1
    assert data.counts["dropped"] == 1


def test_options_leave_out_empty_images_and_small_faces_and_read_zips(root, tmp_path):
    data = WiderFace(zip_folder(root, tmp_path / "wider.zip"), "val", skip_empty=True, min_side=9)
    assert len(data) == 2
    assert data[0].instances.crowd.tolist() == [False, True, True]


def test_levels_mark_the_faces_of_the_list(root, levels):
    truth = WiderFace(root, "val", subsets=levels).ground_truth()
    assert truth.offsets.tolist() == [0, 3, 3, 5] and len(truth.boxes) == 5
    assert {name: mark.tolist() for name, mark in truth.subsets.items()} == {
        "easy": [True, False, False, False, False],
        "medium": [True, False, False, True, False],
        "hard": [True, False, True, True, False],
    }
    assert truth.crowd.tolist() == [False, True, False, False, False]


def found(*rows):
    rows = np.array(rows, np.float32).reshape(-1, 5)
    return Instances(Boxes(rows[:, :4]), np.zeros(len(rows), np.int64), rows[:, 4])


def test_the_figures_are_the_benchmarks(root, levels):
    evaluator = WiderEvaluator(WiderFace(root, "val", subsets=levels).ground_truth())
    evaluator.add(0, found((2, 3, 12, 15, 0.9), (3, 3, 12, 15, 0.8), (40, 20, 48, 29, 0.5), (30, 5, 50, 25, 0.95)))
    evaluator.add(1, found((0, 0, 9, 9, 0.7)))
    evaluator.add(2, found((5, 5, 21, 21, 0.6)))
    figures = evaluator.compute()
    # easy: hit .9, a repeat .8, elsewhere .7; .6, .5 and .95 are faces of other levels: AP 1
    # medium: 1/1, then 2 of 4 at .6: (1 + 0.5) / 2; hard: 1/1, 2/4, 3/5: (1 + 0.6 + 0.6) / 3
    assert figures["AP/easy"] == pytest.approx(1)
    assert figures["AP/medium"] == pytest.approx(0.75)
    assert figures["AP/hard"] == pytest.approx((1 + 0.6 + 0.6) / 3)
    # all four valid faces of the list, one of them without width, which nothing finds
    assert figures["AP"] == pytest.approx((1 + 0.6 + 0.6) / 4)


def figure_of_the_tools(faces, levels, predictions):
    """The AP of WIDER FACE's evaluation.m, written from its steps: faces [T, 4] and the numbers of those that count
    (from 0) of each image, predictions [P, 5] best first, both of corners; the curve is read at 1000 scores."""
    curve, count = np.zeros((1000, 2)), sum(map(len, levels))
    for boxes, kept, rows in zip(faces, levels, predictions, strict=True):
        recalled, counts = np.zeros(len(boxes)), np.ones(len(rows))
        found = np.zeros(len(rows))
        for h, (x1, y1, x2, y2, _) in enumerate(rows):
            width = np.minimum(x2, boxes[:, 2]) - np.maximum(x1, boxes[:, 0]) + 1
            height = np.minimum(y2, boxes[:, 3]) - np.maximum(y1, boxes[:, 1]) + 1
            inner = np.where((width > 0) & (height > 0), width * height, 0)
            areas = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
            overlap = inner / ((x2 - x1 + 1) * (y2 - y1 + 1) + areas - inner)
            at = int(overlap.argmax())
            if overlap[at] >= 0.5:
                if at not in kept:
                    recalled[at], counts[h] = -1, -1
                elif recalled[at] == 0:
                    recalled[at] = 1
            found[h] = (recalled == 1).sum()
        for t in range(1000):
            above = np.flatnonzero(rows[:, 4] >= 1 - (t + 1) / 1000)
            if len(above):
                curve[t] += (counts[: above[-1] + 1] == 1).sum(), found[above[-1]]
    precision, recall = curve[:, 1] / np.maximum(curve[:, 0], 1), curve[:, 1] / count
    precision, recall = np.array([0, *precision, 0]), np.array([0, *recall, 1])
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.flatnonzero(recall[1:] != recall[:-1])
    return ((recall[steps + 1] - recall[steps]) * precision[steps + 1]).sum()


def test_the_figures_are_those_of_the_tools_steps_on_many_faces(tmp_path):
    rng, images, level_of = np.random.default_rng(0), 12, {"easy": 0.3, "hard": 0.8}
    lines, faces, rows = [], [], []
    scores = (rng.permutation(1000)[:600].reshape(images, 50) + 0.5) / 1000  # apart by more than what is read
    (tmp_path / "WIDER_val" / "images" / "0--Parade").mkdir(parents=True)
    for n in range(images):
        write_image(tmp_path / "WIDER_val" / "images" / "0--Parade" / f"{n}.png", np.zeros((200, 200, 3), np.uint8))
        corners, sides = rng.integers(0, 150, (20, 2)), rng.integers(8, 50, (20, 2))
        boxes = np.concatenate([corners, corners + sides], axis=1)
        given = np.concatenate([corners, sides], axis=1).tolist()
        lines += [f"0--Parade/{n}.png", "20", *(" ".join(map(str, [*box, 0, 0, 0, 0, 0, 0])) for box in given)]
        near = boxes[rng.integers(0, 20, 50)] + rng.integers(-6, 7, (50, 4))  # repeats and misses among them
        near[:, 2:] = np.maximum(near[:, 2:], near[:, :2] + 1)
        faces.append(boxes.astype(float))
        rows.append(np.column_stack([near.clip(0, 200), np.sort(scores[n])[::-1]]))
    chosen = {name: [np.flatnonzero(rng.random(20) < share) for _ in range(images)] for name, share in level_of.items()}
    (tmp_path / "wider_face_split").mkdir()
    (tmp_path / "wider_face_split" / "wider_face_val_bbx_gt.txt").write_text("\n".join(lines) + "\n")
    truth = WiderFace(tmp_path, "val").ground_truth()
    order = [int(name.rpartition("/")[2].removesuffix(".png")) for name in lines[::22]]
    subsets = {name: np.concatenate([np.isin(np.arange(20), kept[n]) for n in order]) for name, kept in chosen.items()}
    evaluator = WiderEvaluator(replace(truth, subsets=subsets))
    for n in order:
        evaluator.add(n, found(*rows[n]))
    figures = evaluator.compute()
    for name, kept in chosen.items():
        assert figures[f"AP/{name}"] == pytest.approx(figure_of_the_tools(faces, kept, rows), abs=1e-9)
        assert 0.1 < figures[f"AP/{name}"] < 0.9
    every = figure_of_the_tools(faces, [np.arange(20)] * images, rows)
    assert figures["AP"] == pytest.approx(every, abs=1e-9)


def test_overlap_counts_the_last_pixel(root):
    truth = WiderFace(root, "val").ground_truth()
    evaluator = WiderEvaluator(truth)
    for image_id in (0, 1):
        evaluator.add(image_id, found())
    # 7 of 16 columns: 7 * 16 / 256 = 0.44 without, 8 * 17 / 289 = 0.47 with the last pixel; 8 of 16: 0.5, 0.53
    evaluator.add(2, found((5, 5, 13, 21, 0.6)))
    assert evaluator.compute() == {"AP": pytest.approx(1 / 3)}


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("0--Parade/a.png\nmany\n", r"wider_face_train_bbx_gt.txt:2: 'many' stands where 1 numbers or more are needed"),
        ("0--Parade/a.png\n2\n1 2 3 4\n", r":4: the end of the file stands where 4 numbers"),
        ("0--Parade/a.png\n2\n1 2 3 4\n1--H/b.png\n0\n", r":4: '1--H/b.png' stands where 4 numbers"),
        ("0--Parade/a.png\n1\n1 2 3 4\n5 6 7 8\n", r":4: a line beyond the 1 faces of 0--Parade/a.png"),
        ("0--Parade/a.png\n-1\n", r":2: -1 is no number of faces"),
        ("0--Parade/a.png\n1e99\n1 2 3 4\n", r":4: the end of the file stands where 4 numbers"),
        ("0--Parade/a.png\n1\n1 2 nan 4\n", r":3: '1 2 nan 4' stands where 4 numbers"),
        ("0--Parade/x.png\n1\n1 2 3 4\n", r"images/0--Parade/x\.png: the picture is missing"),
    ],
)
def test_wrong_lists_name_file_and_line(root, text, match):
    (root / "wider_face_split" / "wider_face_train_bbx_gt.txt").write_text(text)
    with pytest.raises(DataError, match=match):
        WiderFace(root, "train")


def test_wrong_levels_are_refused(root, levels):
    with pytest.raises(DataError, match=r"no wider_face_split/wider_face_val_bbx_gt\.txt"):
        WiderFace(root / "WIDER_val", "val")
    savemat(levels / "wider_hard_val.mat", {"gt_list": cells([[np.array([[9]])], [np.array([]), np.array([])]])})
    with pytest.raises(DataError, match=r"wider_hard_val.mat: face 9 of a, which has 3 faces"):
        WiderFace(root, "val", subsets=levels)
    savemat(levels / "wider_hard_val.mat", {"other": 1})
    with pytest.raises(DataError, match=r"wider_hard_val.mat: has no 'gt_list'; it has other"):
        WiderFace(root, "val", subsets=levels)


MARKS = """# 0--Parade/a.png
2 3 10 12 3 4 0 8 4 0 5 7 0 4 10 0 8 10 0 0.82
30 5 0 20 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 0.1
40 20 8 9 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 0.1
# 1--Handshaking/b.png
"""


def test_landmarks_stand_beside_their_faces(root):
    (root / "label.txt").write_text(MARKS)
    data = WiderFace(root, "train", landmarks=root / "label.txt")
    assert len(data) == 2
    instances = data[0].instances
    assert instances.boxes.array.tolist() == [[2, 3, 12, 15], [40, 20, 48, 29]]
    assert instances.keypoints[0].tolist() == [[3, 4, 2], [8, 4, 2], [5, 7, 2], [4, 10, 2], [8, 10, 2]]
    assert not instances.keypoints[1].any()
    assert data[1].instances.keypoints.shape == (0, 5, 3)
    (root / "label.txt").write_text("1 2 3 4\n")
    with pytest.raises(DataError, match=r"label.txt:1: '1 2 3 4' stands where 19 numbers"):
        WiderFace(root, "train", landmarks=root / "label.txt")
