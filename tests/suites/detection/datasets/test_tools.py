"""Files of annotation tools: CVAT's XML, VIA's and Datumaro's JSON; read right, or refused by file and image."""

import json

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.detection.datasets import CvatDetection, DatumaroDetection, DetectionFolder, ViaDetection
from suites.vision.structures import encode

BOX = [8, 6, 24, 18]


def photos(root, count=10):
    (root / "images").mkdir(parents=True)
    for at in range(count):
        picture = np.random.default_rng(at).integers(0, 255, (24, 32, 3), np.uint8)
        cv2.imwrite(str(root / f"images/{at}.png"), picture)


def cvat(count=10, extra=""):
    box = '<box label="{}" xtl="8" ytl="6" xbr="24" ybr="18"/>'
    images = (
        f'<image id="{i}" name="{i}.png" width="32" height="24">{box.format(("cat", "dog")[i % 2])}{extra}</image>'
        for i in range(count)
    )
    labels = "<meta><task><labels><label><name>dog</name></label><label><name>cat</name></label></labels></task></meta>"
    return f"<annotations><version>1.1</version>{labels}{''.join(images)}</annotations>"


def via(count=10, project=False, shape=None, attributes=None):
    shape = shape or {"name": "rect", "x": 8, "y": 6, "width": 16, "height": 12}
    images = {
        f"{i}.png123": {
            "filename": f"{i}.png", "size": 123,
            "regions": [
                {"shape_attributes": shape, "region_attributes": attributes or {"label": ("cat", "dog")[i % 2]}}
            ],
        }
        for i in range(count)
    }  # fmt: skip
    return json.dumps({"_via_settings": {}, "_via_img_metadata": images} if project else images)


def datumaro(count=10, label=None):
    items = [
        {
            "id": str(i), "image": {"path": f"{i}.png", "size": [24, 32]},
            "annotations": [{"type": "bbox", "label_id": i % 2 if label is None else label, "bbox": [8, 6, 16, 12]}],
        }
        for i in range(count)
    ]  # fmt: skip
    return json.dumps({"categories": {"label": {"labels": [{"name": "cat"}, {"name": "dog"}]}}, "items": items})


@pytest.mark.parametrize(
    ("name", "text", "classes"),
    [
        ("annotations.xml", cvat(), ("dog", "cat")),
        ("via_region_data.json", via(), ("cat", "dog")),
        ("project.json", via(project=True), ("cat", "dog")),
        ("default.json", datumaro(), ("cat", "dog")),
    ],
)
def test_a_folder_with_a_tool_s_file_opens_with_its_parts(tmp_path, name, text, classes):
    photos(tmp_path)
    (tmp_path / name).write_text(text)
    train, val = (DetectionFolder(str(tmp_path), part) for part in ("train", "val"))
    assert (len(train), len(val)) == (8, 2) and train.class_names == val.class_names == classes
    assert train[0].instances.boxes.array.tolist() == [BOX]
    assert [train.class_names[k] for k in train.ground_truth().classes[:2]] == ["cat", "dog"]


def test_outlines_of_cvat_are_shapes_and_points_are_left_out(tmp_path):
    photos(tmp_path, 1)
    extra = (
        '<polygon label="cat" points="1,1;9,1;9,9"/><points label="cat" points="3,3"/>'
        '<box label="dog" xtl="10" ytl="8" xbr="20" ybr="12" rotation="90"/>'
        '<ellipse label="dog" cx="10" cy="10" rx="4" ry="2"/>'
    )
    (tmp_path / "a.xml").write_text(cvat(1, extra))
    dataset = CvatDetection(tmp_path, "a.xml", masks=True)
    found = dataset[0].instances.boxes.array
    np.testing.assert_allclose(found, [BOX, [1, 1, 9, 9], [13, 5, 17, 15], [6, 8, 14, 12]], atol=1e-2)
    areas = dataset[0].instances.masks.bitmaps().reshape(4, -1).sum(axis=1)
    assert areas[0] == 192 and 24 <= areas[1] <= 40


def test_turned_outlines_are_turned_in_all_tools(tmp_path):
    photos(tmp_path, 1)
    (tmp_path / "a.xml").write_text(cvat(1, '<ellipse label="dog" cx="10" cy="10" rx="4" ry="2" rotation="90"/>'))
    np.testing.assert_allclose(CvatDetection(tmp_path, "a.xml")[0].instances.boxes.array[1], [8, 6, 12, 14], atol=1e-2)
    turned = {"name": "ellipse", "cx": 10, "cy": 10, "rx": 4, "ry": 2, "theta": np.pi / 2}
    (tmp_path / "a.json").write_text(via(1, shape=turned))
    np.testing.assert_allclose(ViaDetection(tmp_path, "a.json")[0].instances.boxes.array, [[8, 6, 12, 14]], atol=1e-2)
    document = json.loads(datumaro(1))
    document["items"][0]["annotations"][0] |= {"bbox": [6, 8, 8, 4], "attributes": {"rotation": 90.0}}
    (tmp_path / "b.json").write_text(json.dumps(document))
    np.testing.assert_allclose(
        DatumaroDetection(tmp_path, "b.json")[0].instances.boxes.array, [[8, 6, 12, 14]], atol=1e-2
    )


def test_shapes_of_one_group_are_one_object_and_points_of_skeletons_are_no_classes(tmp_path):
    photos(tmp_path, 1)
    parts = "".join(
        f'<polygon label="{label}" group_id="{group}" points="{x},1;{x + 3},1;{x + 3},5;{x},5"/>'
        for label, group, x in (("cat", 1, 1), ("cat", 1, 11), ("dog", 1, 21), ("cat", 0, 25), ("cat", 0, 27))
    )
    text = cvat(1, parts).replace("</labels>", "<label><name>paw</name><parent>cat</parent></label></labels>")
    (tmp_path / "a.xml").write_text(text)
    dataset = CvatDetection(tmp_path, "a.xml", masks=True)
    found = dataset[0].instances
    assert dataset.class_names == ("dog", "cat") and len(found) == 5
    assert [1, 1, 14, 5] in found.boxes.array.tolist() and found.masks.areas().max() == 192
    document = json.loads(datumaro(1))
    outline = {"type": "polygon", "label_id": 0, "points": [8, 6, 12, 6, 12, 10, 8, 10], "group": 3}
    document["items"][0]["annotations"] = [{**document["items"][0]["annotations"][0], "group": 3}, outline]
    (tmp_path / "b.json").write_text(json.dumps(document))
    found = DatumaroDetection(tmp_path, "b.json", masks=True)[0].instances
    assert found.boxes.array.tolist() == [BOX] and 12 <= found.masks.areas()[0] <= 25  # the box tells no shape


RING = np.ones((6, 6), bool)
RING[2:4, 2:4] = False


def test_masks_of_cvat_keep_their_holes_and_what_is_left_out_is_told(tmp_path):
    photos(tmp_path, 1)
    runs = np.diff(np.flatnonzero(np.concatenate([[True], np.diff(RING.reshape(-1)), [True]])))
    extra = (
        f'<mask label="cat" rle="{", ".join(map(str, [0, *runs]))}" left="3" top="2" width="6" height="6"/>'
        '<points label="cat" points="3,3"/><cuboid label="cat"/><tag label="cat"/>'
    )
    (tmp_path / "a.xml").write_text(cvat(1, extra))
    dataset = CvatDetection(tmp_path, "a.xml", masks=True)
    np.testing.assert_array_equal(dataset[0].instances.boxes.array[1], [3, 2, 9, 8])
    bitmap = dataset[0].instances.masks.bitmaps()[1]
    np.testing.assert_array_equal(bitmap[2:8, 3:9], RING)
    assert bitmap.sum() == RING.sum()
    told = str(dataset.passed)
    assert "'points'" in told and "'cuboid'" in told and "'tag'" not in told


@pytest.mark.parametrize("rle", ["36", "0, 37", "0, -1, 37", "x", "36, 0"])
def test_a_mask_of_cvat_that_is_wrong_or_empty_is_named(tmp_path, rle):
    photos(tmp_path, 1)
    (tmp_path / "a").write_text(cvat(1, f'<mask label="cat" rle="{rle}" left="3" top="2" width="6" height="6"/>'))
    with pytest.raises(DataError, match=r"a mask is empty|the runs of a mask cover|cannot be read"):
        CvatDetection(tmp_path, "a", max_skipped=0)


def test_masks_of_datumaro_are_shapes(tmp_path):
    photos(tmp_path, 1)
    document = json.loads(datumaro(1))
    whole = np.zeros((24, 32), bool)
    whole[2:8, 3:9] = RING
    code = encode(whole)
    rle = {"size": [24, 32], "counts": code["counts"].decode()}
    document["items"][0]["annotations"] += [{"type": "mask", "label_id": 0, "rle": rle}, {"type": "points"}]
    (tmp_path / "a.json").write_text(json.dumps(document))
    dataset = DatumaroDetection(tmp_path, "a.json", masks=True)
    np.testing.assert_array_equal(dataset[0].instances.boxes.array[-1], [3, 2, 9, 8])
    np.testing.assert_array_equal(dataset[0].instances.masks.bitmaps()[-1], whole)
    assert "'points'" in str(dataset.passed)


@pytest.mark.parametrize(
    ("shape", "box"),
    [
        ({"name": "polygon", "all_points_x": [1, 9, 9], "all_points_y": [1, 1, 9]}, [1, 1, 9, 9]),
        ({"name": "circle", "cx": 10, "cy": 10, "r": 4}, [6, 6, 14, 14]),
        ({"name": "ellipse", "cx": 10, "cy": 10, "rx": 4, "ry": 2}, [6, 8, 14, 12]),
    ],
)
def test_shapes_of_via(tmp_path, shape, box):
    photos(tmp_path, 1)
    (tmp_path / "a.json").write_text(via(1, shape=shape))
    np.testing.assert_allclose(ViaDetection(tmp_path, "a.json")[0].instances.boxes.array, [box], atol=0.1)


def test_via_s_class_is_the_attribute_that_tells_and_several_are_refused(tmp_path):
    photos(tmp_path, 1)
    (tmp_path / "a.json").write_text(via(1, attributes={"colour": "red", "label": {"cat": True, "dog": False}}))
    assert ViaDetection(tmp_path, "a.json").class_names == ("cat",)
    (tmp_path / "a.json").write_text(via(1, attributes={"colour": "red", "size": "small"}))
    with pytest.raises(DataError, match="several attributes of regions may be the class: colour, size"):
        ViaDetection(tmp_path, "a.json")


@pytest.mark.parametrize(
    ("make", "text", "message"),
    [
        (CvatDetection, "<annotations/>", "has no <image>"),
        (CvatDetection, cvat(1).replace('"8"', '"x"'), r"a: 0.png: cannot be read"),
        (CvatDetection, cvat(2), r"1.png: the picture is missing"),
        (ViaDetection, "{}", None),
        (ViaDetection, "[1]", "its images have no `regions`"),
        (ViaDetection, via(1, shape={"name": "star"}), r"a: 0.png: a region cannot be read .*'star'"),
        (DatumaroDetection, "{}", "has no `categories.label.labels`"),
        (DatumaroDetection, datumaro(1, label=-1), "label_id is -1, which is none of the 2 labels"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, make, text, message):
    photos(tmp_path, 1)
    (tmp_path / "a").write_text(text)
    with pytest.raises(DataError, match=message):
        make(tmp_path, "a", max_skipped=0)
