"""Points of labelme, CVAT and MPII: each object with its points, names and box; what is wrong is said with its file."""

import json

import numpy as np
import pytest

from framework.errors import DataError
from suites.keypoints.datasets import CvatKeypoints, LabelmeKeypoints, MpiiKeypoints
from suites.vision.pictures.images import write_image
from suites.vision.pose import MPII_PERSON


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    shade = sum(path.stem.encode()) % 256  # files of one content stay in one part
    write_image(path, np.full((64, 96, 3), shade, np.uint8))


def point(label, x, y, group=None):
    return {"label": label, "points": [[x, y]], "shape_type": "point", "group_id": group}


def labelme(root, name, shapes):
    picture(root / f"{name}.png")
    (root / f"{name}.json").write_text(json.dumps({"imagePath": f"{name}.png", "shapes": shapes}))


def test_points_of_labelme_by_their_groups(tmp_path):
    box = {"label": "mouse", "points": [[2, 3], [40, 50]], "shape_type": "rectangle", "group_id": 1}
    boxed = {"label": "mouse", "points": [[50, 10], [70, 30]], "shape_type": "rectangle", "group_id": 2}
    two = [point("nose", 5, 6, 1), point("tail", 30, 40, 1), box, point("nose", 60, 20, 2), boxed]
    labelme(tmp_path, "a", two)
    labelme(tmp_path, "b", [point("tail", 7, 8), point("nose", 9, 10)])
    labelme(tmp_path, "c", [{"label": "mouse", "points": [[2, 3], [40, 50]], "shape_type": "rectangle"}])
    found = LabelmeKeypoints(str(tmp_path), kind="mouse")
    assert found.pose.names == ("nose", "tail") and len(found) == 3 and found.class_names == ("mouse",)
    assert found[0].truth.tolist() == [[5, 6, 2], [30, 40, 2]]
    assert found[0].instances.boxes.array.tolist() == [[2, 3, 40, 50]]
    assert found[1].truth.tolist() == [[60, 20, 2], [0, 0, 0]] and found[1].image_id == 0
    assert found[2].instances.boxes.array.tolist() == [[7, 8, 9, 10]] and found[2].image_id == 1


def test_files_of_labelme_are_divided(tmp_path):
    for k in range(6):
        labelme(tmp_path, f"p{k}", [point("nose", 1, k), point("tail", 9, k + 5)])
    parts = {part: LabelmeKeypoints(str(tmp_path), part, holdout=3) for part in ("train", "val")}
    assert {name: len(part) for name, part in parts.items()} == {"train": 4, "val": 2}


AREA = {"label": "mouse", "points": [[2, 3], [40, 50]], "shape_type": "rectangle"}


@pytest.mark.parametrize(
    ("shapes", "match"),
    [
        ([point("nose", 1, 2), point("ear", 1, 2)], "a.json: 'ear' is none of the points; they are nose, tail"),
        ([point("nose", 1, 2), point("nose", 3, 2)], "a.json: 'nose' comes twice"),
        ([point("nose", 5, 2)], "there are no objects with a labelled point and a box"),
        ([point("nose", 5, 2), point("tail", 5, 9)], "there are no objects with a labelled point and a box"),
        ([point("nose", float("nan"), 2)], "a.json: 'nose' is at no place"),
        ([{"label": "nose", "points": [], "shape_type": "point"}], "the point 'nose' needs one"),
        (
            [point("nose", 1, 2), AREA, {**AREA, "label": "bowl"}],
            "a.json: an object with points has two shapes with an",
        ),
    ],
)
def test_a_wrong_point_of_labelme_is_an_error(tmp_path, shapes, match):
    labelme(tmp_path, "a", shapes)
    with pytest.raises(DataError, match=match):
        LabelmeKeypoints(str(tmp_path), points=["nose", "tail"], max_skipped=0)


CVAT = """<annotations><meta><job><labels>
<label><name>person</name><type>skeleton</type></label>
<label><name>left_hand</name><type>points</type><parent>person</parent></label>
<label><name>right_hand</name><type>points</type><parent>person</parent></label>
</labels></job></meta>
<image id="0" name="a.png" width="96" height="64"><skeleton label="person">
<points label="right_hand" outside="0" occluded="1" points="20.50,30.00"/>
<points label="left_hand" outside="0" occluded="0" points="10.00,12.00"/></skeleton>
<skeleton label="person"><points label="left_hand" outside="0" occluded="0" points="{third}"/>
<points label="right_hand" outside="1" occluded="0" points="0,0"/></skeleton></image></annotations>"""


def cvat(root, third="40,41", **changes):
    picture(root / "a.png")
    text = CVAT.format(third=third)
    for old, new in changes.items():
        text = text.replace(old, new)
    (root / "a.xml").write_text(text)
    return str(root / "a.xml"), str(root)


def test_skeletons_of_cvat(tmp_path, caplog):
    found = CvatKeypoints(*cvat(tmp_path))
    assert found.pose.names == ("left_hand", "right_hand") and found.pose.order == [1, 0] and len(found) == 1
    assert found[0].truth.tolist() == [[10, 12, 2], [20.5, 30, 1]] and found.class_names == ("person",)
    assert found[0].instances.boxes.array.tolist() == [[10, 12, 20.5, 30]]
    assert "1 of 2 objects left out, as they have no box and their labelled points span no area" in caplog.text


def test_what_is_wrong_with_a_file_of_cvat_is_said(tmp_path):
    with pytest.raises(DataError, match="points is 'here'; 'x,y' is needed"):
        CvatKeypoints(*cvat(tmp_path, third="here"), max_skipped=0)
    assert len(CvatKeypoints(*cvat(tmp_path, third="here"), max_skipped=0.5)) == 1
    with pytest.raises(DataError, match="the label 'dog' is needed that has skeletons; those that do: person"):
        CvatKeypoints(*cvat(tmp_path), label="dog")
    with pytest.raises(DataError, match="'right_hand' is none of the points"):
        CvatKeypoints(*cvat(tmp_path), points=["left_hand"], max_skipped=0)
    with pytest.raises(DataError, match="has tracks of a video; export it from CVAT as"):
        CvatKeypoints(*cvat(tmp_path, **{"<image id": '<track id="0" label="person"/><image id'}))
    with pytest.raises(DataError, match="cut off or malformed"):
        CvatKeypoints(*cvat(tmp_path, **{"</annotations>": ""}))


def mpii(root, **changes):
    picture(root / "images" / "a.png")
    row = {"image": "a.png", "center": [41.0, 31.0], "scale": 0.2, "joints_vis": [1] * 15 + [0]}
    row |= {"joints": [[11.0 + k, 21.0] for k in range(15)] + [[-1.0, -1.0]]}
    (root / "train.json").write_text(json.dumps([{**row, **changes}, row]))
    return str(root / "train.json"), str(root / "images")


def test_people_of_mpii_count_pixels_from_0(tmp_path):
    found = MpiiKeypoints(*mpii(tmp_path))
    assert len(found) == 2 and found.pose == MPII_PERSON and found[1].image_id == 0
    assert found[0].instances.boxes.array.tolist() == [[20, 10, 60, 50]]
    assert found[0].truth[0].tolist() == [10, 20, 2] and not found[0].truth[15].any()
    names = MPII_PERSON.names
    assert [names[k].replace("left", "right") for k in MPII_PERSON.order] == [n.replace("left", "right") for n in names]


@pytest.mark.parametrize("changes", [{"scale": -1.0}, {"joints": [[1, 2]]}, {"center": None}])
def test_a_wrong_person_of_mpii_is_an_error_with_its_number(tmp_path, changes):
    with pytest.raises(DataError, match=r"train\.json: person 0: "):
        MpiiKeypoints(*mpii(tmp_path, **changes), max_skipped=0)


def test_pictures_of_another_shape_than_their_annotations_say_are_named(tmp_path):
    found = CvatKeypoints(*cvat(tmp_path, **{'height="64"': 'height="96"'}))
    with pytest.raises(DataError, match=r"a.png: the image is 96x64 but its annotation says 96x96"):
        found[0]
    labelme(tmp_path / "b", "a", [point("nose", 1, 2), point("tail", 9, 8)])
    document = json.loads((tmp_path / "b" / "a.json").read_text()) | {"imageHeight": 32, "imageWidth": 48}
    (tmp_path / "b" / "a.json").write_text(json.dumps(document))
    assert LabelmeKeypoints(str(tmp_path / "b"))[0].image.shape == (32, 48, 3)  # half of the picture's size
