"""Public layouts are read: Pascal VOC with SBD, ADE20K, labelme; parts do not overlap, what is missing is named."""

import base64
import json

import cv2
import numpy as np
import pytest
from scipy.io import savemat

from framework.errors import AttributeValueError, DataError
from suites.segmentation.datasets import Ade20k, ImageLabelPairs, LabelmeSegmentation, VocSegmentation
from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import encode_image, write_image

SIZE = (12, 16)


def image(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (*SIZE, 3), np.uint8)


def labels(seed=0, classes=21):
    found = np.random.default_rng(seed).integers(0, classes, SIZE).astype(np.uint8)
    found[0] = 255
    return found


@pytest.fixture
def voc(tmp_path):
    """VOC with images a to f: a, b train, c, d val; e, f only in SBD, as b and d; a of SBD is another annotation."""
    root, sbd = tmp_path / "VOC2012", tmp_path / "sbd"
    for folder in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (root / folder).mkdir(parents=True)
    (sbd / "cls").mkdir(parents=True)
    for seed, stem in enumerate("abcdef"):
        (root / "JPEGImages" / f"{stem}.jpg").write_bytes(encode_image(image(seed), ".jpg"))
        if stem in "abcd":
            (root / "SegmentationClass" / f"{stem}.png").write_bytes(encode_labels(labels(seed), []))
        if stem in "adef":
            savemat(sbd / "cls" / f"{stem}.mat", {"GTcls": {"Segmentation": labels(10 + seed)}}, do_compression=True)
    for name, stems in {"train": "ab", "val": "cd", "trainval": "abcd"}.items():
        (root / "ImageSets/Segmentation" / f"{name}.txt").write_text("\n".join(stems) + "\n")
    (sbd / "train.txt").write_text("a\ne\n")
    (sbd / "val.txt").write_text("d\nf\n")
    return root, sbd


def test_voc_reads_its_lists_with_its_names_and_colours(voc):
    data = VocSegmentation(voc[0], "val")
    assert len(data) == 2 and data.num_classes == 21 and data.class_names[15] == "person"
    assert data.palette[:4] == ((0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0)) and data.palette[20] == (0, 64, 128)
    np.testing.assert_array_equal(data[0].labels, labels(2))


def test_sbd_adds_what_voc_does_not_have_and_nothing_of_val(voc):
    data = VocSegmentation(voc[0], "trainaug", sbd=voc[1])
    assert [data.name_of(i)[-5] for i in range(len(data))] == ["a", "b", "e", "f"]
    np.testing.assert_array_equal(data[0].labels, labels(0))  # VOC's own annotation counts
    np.testing.assert_array_equal(data[2].labels, labels(14))
    assert data[3].image_id == 3


def test_converted_label_maps_of_sbd_are_taken_from_the_root(voc):
    folder = voc[0] / "SegmentationClassAug"
    folder.mkdir()
    for seed, stem in enumerate("abdef"):
        (folder / f"{stem}.png").write_bytes(encode_labels(labels(seed), []))
    data = VocSegmentation(voc[0], "trainaug")
    assert [data.name_of(i)[-5] for i in range(len(data))] == ["a", "b", "e", "f"]


def test_what_is_wrong_with_voc_is_named(voc):
    root, sbd = voc
    with pytest.raises(DataError, match="no label maps in SegmentationClassAug; set sbd"):
        VocSegmentation(root, "trainaug")
    (sbd / "cls" / "e.mat").write_bytes(b"MATLAB 5.0 MAT-file" + b"\0" * 200)
    data = VocSegmentation(root, "trainaug", sbd=sbd)
    with pytest.raises(DataError, match=r"e\.mat: is no file of SBD's classes"):
        data[2]
    savemat(sbd / "cls" / "e.mat", {"GTcls": {"Segmentation": labels(1)[:5]}})
    with pytest.raises(DataError, match=r"e\.mat: is 16x5 but its picture .*e\.jpg is 16x12"):
        data[2]
    savemat(sbd / "cls" / "e.mat", {"GTcls": {"Segmentation": np.full(SIZE, 21, np.uint8)}})
    with pytest.raises(DataError, match=r"e\.mat: holds the label 21"):
        data[2]
    (sbd / "cls" / "e.mat").write_bytes(b"x" * (2 << 20))
    with pytest.raises(DataError, match=r"e\.mat: has 2097152 bytes"):
        data[2]
    (sbd / "cls" / "f.mat").unlink()
    with pytest.raises(DataError, match=r"cls/f\.mat is missing"):
        VocSegmentation(root, "trainaug", sbd=sbd)
    (root / "JPEGImages" / "b.jpg").unlink()
    with pytest.raises(DataError, match=r"JPEGImages/b\.jpg is missing"):
        VocSegmentation(root, "train")


@pytest.fixture
def ade(tmp_path):
    root = tmp_path / "ADEChallengeData2016"
    for seed, part in enumerate(("training", "validation")):
        write_image(root / "images" / part / f"ADE_{part}_1.jpg", image(seed))
        (root / "annotations" / part).mkdir(parents=True)
        numbers = np.random.default_rng(seed).integers(0, 151, SIZE).astype(np.uint8)
        (root / "annotations" / part / f"ADE_{part}_1.png").write_bytes(encode_labels(numbers, []))
    rows = ["Idx\tRatio\tTrain\tVal\tName"] + [f"{i}\t0.1\t1\t1\tthing{i}, other name" for i in range(1, 151)]
    (root / "objectInfo150.txt").write_text("\n".join(rows))
    return root


def test_ade_has_150_classes_and_zero_is_void(ade):
    data = Ade20k(ade, "val")
    numbers = np.random.default_rng(1).integers(0, 151, SIZE)
    assert data.class_names[0] == "thing1" and data.num_classes == 150
    np.testing.assert_array_equal(data[0].labels, np.where(numbers == 0, 255, numbers - 1))


def test_what_is_wrong_with_ade_is_named(ade):
    (ade / "annotations/training/ADE_training_1.png").unlink()
    with pytest.raises(DataError, match=r"annotations/training/ADE_training_1\.png is missing"):
        Ade20k(ade, "train")
    (ade / "objectInfo150.txt").write_text("Idx\tName\n1\twall\n")
    with pytest.raises(DataError, match=r"objectInfo150\.txt: names 1 classes; there are 150"):
        Ade20k(ade, "val")
    with pytest.raises(DataError, match=r"no images/training/\*\.jpg"):
        Ade20k(ade / "images", "train")


def square(label, x, y, side, **more):
    return {"label": label, "points": [[x, y], [x + side, y], [x + side, y + side], [x, y + side]], **more}


@pytest.fixture
def labelme(tmp_path):
    shapes = {
        "a": [square("house", 1, 1, 8), square("door", 3, 3, 2), {"label": "line", "shape_type": "line", "points": []}],
        "b": [square("__ignore__", 0, 0, 4), {**square("house", 10, 2, 5), "shape_type": "polygon"}],
    }
    for seed, (stem, each) in enumerate(shapes.items()):
        write_image(tmp_path / f"{stem}.png", image(seed))
        (tmp_path / f"{stem}.json").write_text(json.dumps({"imagePath": f"{stem}.png", "shapes": each}))
    (tmp_path / "classes.txt").write_text("house\ndoor\n")
    return tmp_path


def test_later_shapes_of_labelme_lie_over_earlier_ones(labelme):
    data = LabelmeSegmentation(labelme)
    assert data.class_names == ("_background_", "house", "door") and len(data) == 2
    expected = np.zeros(SIZE, np.uint8)
    expected[1:9, 1:9], expected[3:5, 3:5] = 1, 2
    np.testing.assert_array_equal(data[0].labels, expected)
    expected = np.zeros(SIZE, np.uint8)
    expected[:4, :4], expected[2:7, 10:15] = 255, 1
    np.testing.assert_array_equal(data[1].labels, expected)
    void = LabelmeSegmentation(labelme, background="void")
    assert void.class_names == ("house", "door")
    assert set(np.unique(void[0].labels)) == {0, 1, 255}
    parts = [LabelmeSegmentation(labelme, split, holdout=2) for split in ("train", "val")]
    assert [len(part) for part in parts] == [1, 1] and parts[1].name_of(0).endswith("b.png")


@pytest.mark.parametrize("factor", [1, 2])
def test_masks_of_labelme_keep_their_holes_also_where_the_picture_is_a_scaled_copy(labelme, factor):
    ring = np.full((6, 8), 255, np.uint8)
    ring[2:4, 2:4] = 0
    mask = base64.b64encode(cv2.imencode(".png", ring)[1]).decode()
    shape = {"label": "house", "shape_type": "mask", "points": [[2, 2], [9, 7]], "mask": mask}
    stated = {"imageHeight": SIZE[0] // factor, "imageWidth": SIZE[1] // factor}
    document = {"imagePath": "a.png", "shapes": [shape], **stated}
    (labelme / "a.json").write_text(json.dumps(document))
    labels = LabelmeSegmentation(labelme)[0].labels
    expected = np.repeat(np.repeat(ring, factor, 0), factor, 1) > 0
    found = labels[2 * factor :, 2 * factor :][: 6 * factor, : 8 * factor]
    height, width = found.shape
    np.testing.assert_array_equal(found, expected[:height, :width])
    assert labels.sum() == found.sum()


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (
            lambda r: (r / "classes.txt").write_text("house\nroof\n"),
            r"a\.json: shape 1 is labelled 'door', which is none",
        ),
        (lambda r: (r / "a.png").unlink(), r"a\.json: its picture 'a\.png' is not beside it"),
        (lambda r: (r / "a.json").write_text("{"), r"a\.json:1:2: the JSON is cut off"),
        (
            lambda r: (r / "a.json").write_text('{"shapes": [3], "imagePath": "a.png"}'),
            r"a\.json: shape 0 is no object",
        ),
    ],
)
def test_what_is_wrong_with_labelme_is_named(labelme, spoil, match):
    spoil(labelme)
    with pytest.raises(DataError, match=match):
        LabelmeSegmentation(labelme)


def test_pairs_read_colours_binary_masks_and_numbers_from_one(tmp_path):
    found = labels(0, 2)
    palette = [(200, 0, 0), (0, 200, 0)]
    colours = np.zeros((256, 3), np.uint8)
    colours[:2] = palette
    write_image(tmp_path / "images/a.png", image())
    write_image(tmp_path / "colours/a.png", colours[found])
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary/a.png").write_bytes(encode_labels(np.where(found == 1, 255, 0).astype(np.uint8), []))
    (tmp_path / "ones").mkdir()
    (tmp_path / "ones/a.png").write_bytes(encode_labels(np.where(found == 255, 0, found + 1).astype(np.uint8), []))
    names = ["no", "yes"]
    read = ImageLabelPairs(tmp_path, labels="colours", classes=names, palette=palette, kind="colours")
    np.testing.assert_array_equal(read[0].labels, found)
    read = ImageLabelPairs(tmp_path, labels="ones", classes=names, reduce_zero=True)
    np.testing.assert_array_equal(read[0].labels, found)
    read = ImageLabelPairs(tmp_path, labels="binary", kind="binary")
    assert read.class_names == ("background", "object")
    np.testing.assert_array_equal(read[0].labels, found == 1)
    for arguments, match in (
        ({"kind": "colours", "classes": names}, "label maps in colours need one of each of the 2 classes"),
        ({"kind": "binary", "classes": ["a", "b", "c"]}, "binary masks tell 2 classes apart, not 3"),
        ({"kind": "binary", "reduce_zero": True}, "reduce_zero: does nothing where .kind. is"),
    ):
        with pytest.raises(AttributeValueError, match=match):
            ImageLabelPairs(tmp_path, labels="binary", **arguments)
