"""One damaged annotation or picture of many is left out, counted and named; more are one error."""

import json
import logging
import pickle
import re

import pytest

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets import (
    CocoDetection,
    Joined,
    LabelmeDetection,
    VocDetection,
    WiderFace,
    YoloDetection,
)
from suites.vision.pictures.images import encode_image
from tests.suites.detection.datasets.helpers import image, voc_xml

COUNT, SIDE, AT = 200, 16, 50  # images, pixels, the first that is damaged
PICTURE = encode_image(image(0, (SIDE, SIDE)))
BOX = (2, 3, 10, 12)


def stem(at):
    return f"{at:03}"


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


class Voc:
    """As each format: `write` makes a set, `opened` reads it, others damage image `at` and return what is named."""

    def write(self, root):
        for at in range(COUNT):
            put(root / f"JPEGImages/{stem(at)}.png", PICTURE)
            put(root / f"Annotations/{stem(at)}.xml", voc_xml([("cat", BOX, False)], (SIDE, SIDE)))
        put(root / "ImageSets/Main/train.txt", "".join(f"{stem(at)}\n" for at in range(COUNT)))

    def opened(self, root, **options):
        return VocDetection(root, "train", **options)

    def xml(self, root, at):
        return root / f"Annotations/{stem(at)}.xml"

    def cut(self, root, at):
        path = self.xml(root, at)
        path.write_bytes(path.read_bytes()[:150])
        return rf"{stem(at)}\.xml:2: the XML is cut off or malformed"

    def no_box(self, root, at):
        path = self.xml(root, at)
        path.write_text(path.read_text().replace("bndbox>", "bbox>"))
        return rf"{stem(at)}\.xml: an object has no <bndbox>"

    def number(self, root, at):
        replace(self.xml(root, at), "<ymax>12<", "<ymax>a dozen<")
        return rf"{stem(at)}\.xml: <ymax> is 'a dozen', a number is needed"

    def size(self, root, at):
        replace(self.xml(root, at), f"<width>{SIDE}<", "<width>inf<")
        return rf"{stem(at)}\.xml: <width> is 'inf', a number is needed"

    def huge(self, root, at):
        replace(self.xml(root, at), f"<width>{SIDE}<", "<width>1e12<")
        return rf"{stem(at)}\.png: its annotation says 1000000000000x16"

    def nameless(self, root, at):
        replace(self.xml(root, at), "<name>cat</name>", "")
        return rf"{stem(at)}\.xml: an object has no class"

    def gone(self, root, at):
        self.xml(root, at).unlink()
        return rf"Main/train\.txt: {stem(at)} has no annotation"

    def missing(self, root, at):
        (root / f"JPEGImages/{stem(at)}.png").unlink()
        return rf"JPEGImages/{stem(at)}\.jpg: the picture is missing"

    def picture(self, root, at):
        path = self.xml(root, at)
        path.write_text(path.read_text().replace(f">{SIDE}<", ">0<"))  # so that the picture is asked for its size
        put(root / f"JPEGImages/{stem(at)}.png", PICTURE[:100])
        return rf"{stem(at)}\.png: cut off after 100 bytes"


class Yolo:
    def write(self, root):
        for at in range(COUNT):
            put(root / f"images/train/{stem(at)}.png", PICTURE)
            put(root / f"labels/train/{stem(at)}.txt", "0 0.5 0.5 0.5 0.5\n")
        put(root / "data.yaml", "names: [cat]\n")

    def opened(self, root, **options):
        return YoloDetection(root, "train", **options)

    def words(self, root, at):
        put(root / f"labels/train/{stem(at)}.txt", "0 0.5 0.5 0.5 0.5\n0 0.5 half 0.5 0.5\n")
        return rf"{stem(at)}\.txt:2: .* are not all numbers"

    def numbers(self, root, at):
        put(root / f"labels/train/{stem(at)}.txt", "0 0.5 0.5 0.5 0.5\n0 0.5 0.5\n")
        return rf"{stem(at)}\.txt:2: 2 numbers behind the class"

    def pixels(self, root, at):
        put(root / f"labels/train/{stem(at)}.txt", "0 0.5 0.5 0.5 0.5\n0 8 8 4 4\n")
        return rf"{stem(at)}\.txt:2: numbers from 4 to 8; places are shares"

    def picture(self, root, at):
        put(root / f"images/train/{stem(at)}.png", b"no picture")
        return rf"{stem(at)}\.png: damaged, or not an image"


class Labelme:
    def write(self, root):
        shape = {"label": "cat", "points": [BOX[:2], BOX[2:]], "shape_type": "rectangle"}
        for at in range(COUNT):
            put(root / f"{stem(at)}.png", PICTURE)
            put(root / f"{stem(at)}.json", json.dumps({"imagePath": f"{stem(at)}.png", "shapes": [shape]}))

    def opened(self, root, **options):
        return LabelmeDetection(root, **options)

    def cut(self, root, at):
        path = root / f"{stem(at)}.json"
        path.write_bytes(path.read_bytes()[:60])
        return rf"{stem(at)}\.json:\d+:\d+: the JSON is cut off or malformed"

    def digits(self, root, at):
        replace(root / f"{stem(at)}.json", "[10, 12]", f"[{'9' * 5000}, 12]")
        return rf"{stem(at)}\.json: is no JSON that can be read"

    def far(self, root, at):
        replace(root / f"{stem(at)}.json", "[10, 12]", f"[{'9' * 500}, 12]")
        return rf"{stem(at)}\.json: shape 0: has no points"

    def points(self, root, at):
        replace(root / f"{stem(at)}.json", "[10, 12]", '"there"')
        return rf"{stem(at)}\.json: shape 0: has no points"

    def strange(self, root, at):
        put(root / f"{stem(at)}.json", json.dumps({"imagePath": f"{stem(at)}.png", "shapes": ["cat"]}))
        return rf"{stem(at)}\.json: shape 0 is no object"

    def nameless(self, root, at):
        replace(root / f"{stem(at)}.json", '"cat"', "null")
        return rf"{stem(at)}\.json: an object has no class"

    def missing(self, root, at):
        (root / f"{stem(at)}.png").unlink()
        return rf"{stem(at)}\.png: the picture is missing"

    def picture(self, root, at):
        put(root / f"{stem(at)}.png", PICTURE[:100])
        return rf"{stem(at)}\.png: cut off after 100 bytes"


class Wider:
    LIST = "wider_face_split/wider_face_train_bbx_gt.txt"

    def write(self, root):
        for at in range(COUNT):
            put(root / f"WIDER_train/images/0--Parade/{stem(at)}.png", PICTURE)
        rows = "".join(f"0--Parade/{stem(at)}.png\n1\n2 3 8 9 0 0 0 0 0 0\n" for at in range(COUNT))
        put(root / self.LIST, rows)

    def opened(self, root, **options):
        return WiderFace(root, "train", **options)

    def _change(self, root, at, line, text):
        lines = (root / self.LIST).read_text().splitlines()
        lines[3 * at + line] = text
        (root / self.LIST).write_text("".join(f"{each}\n" for each in lines))

    def face(self, root, at):
        self._change(root, at, 2, "2 3 eight 9")
        return rf"bbx_gt\.txt:{3 * at + 3}: '2 3 eight 9' stands where 4 numbers"

    def count(self, root, at):
        self._change(root, at, 1, "3")
        return rf"bbx_gt\.txt:{3 * at + 4}: '0--Parade/{stem(at + 1)}\.png' stands where 4 numbers"

    def fewer(self, root, at):
        self._change(root, at, 1, "0")
        return rf"bbx_gt\.txt:{3 * at + 3}: a line beyond the 0 faces of 0--Parade/{stem(at)}\.png"

    def no_count(self, root, at):
        self._change(root, at, 1, "one")
        return rf"bbx_gt\.txt:{3 * at + 2}: 'one' stands where 1 numbers"

    def missing(self, root, at):
        (root / f"WIDER_train/images/0--Parade/{stem(at)}.png").unlink()
        return rf"0--Parade/{stem(at)}\.png: the picture is missing"

    def picture(self, root, at):
        put(root / f"WIDER_train/images/0--Parade/{stem(at)}.png", b"no picture")
        return rf"{stem(at)}\.png: damaged, or not an image"


class Landmarks(Wider):
    LIST = "label.txt"
    FACE = "2 3 8 9" + " 4 5 0" * 5 + " 0.5"

    def write(self, root):
        super().write(root)
        put(root / self.LIST, "".join(f"# 0--Parade/{stem(at)}.png\n{self.FACE}\n{self.FACE}\n" for at in range(COUNT)))

    def opened(self, root, **options):
        return WiderFace(root, "train", landmarks=root / self.LIST, **options)

    def face(self, root, at):
        self._change(root, at, 2, "2 3 8 9")
        return rf"label\.txt:{3 * at + 3}: '2 3 8 9' stands where 19 numbers"

    count = fewer = no_count = None  # it has none


class Coco:
    def write(self, root):
        for at in range(COUNT):
            put(root / f"images/{stem(at)}.png", PICTURE)
        box = [BOX[0], BOX[1], BOX[2] - BOX[0], BOX[3] - BOX[1]]
        ids = range(10, 10 + COUNT)
        document = {
            "images": [{"id": i, "file_name": f"{stem(i - 10)}.png", "height": SIDE, "width": SIDE} for i in ids],
            "categories": [{"id": 3, "name": "cat"}],
            # Annotations stand in another order than their images.
            "annotations": [{"id": i, "image_id": i, "category_id": 3, "bbox": box} for i in reversed(ids)],
        }
        put(root / "annotations.json", json.dumps(document))

    def opened(self, root, **options):
        return CocoDetection(root / "annotations.json", root / "images", **options)

    def _change(self, root, kind, at, value):
        path = root / "annotations.json"
        document = json.loads(path.read_text())
        row = at if kind == "images" else COUNT - 1 - at
        if isinstance(value, dict):
            document[kind][row] |= value
        else:
            document[kind][row] = value
        put(path, json.dumps(document))

    def bbox(self, root, at):
        self._change(root, "annotations", at, {"bbox": [1, 2, "three", 4]})
        return rf"annotations\.json: annotation {at + 10}: bbox is .*; it must be \[x, y, width, height\]"

    def text(self, root, at):
        self._change(root, "annotations", at, {"bbox": "1234"})
        return rf"annotation {at + 10}: bbox is '1234'; it must be"

    def endless(self, root, at):
        self._change(root, "annotations", at, {"bbox": [1, 2, float("inf"), 4]})
        return rf"annotation {at + 10}: bbox is .*; it must be of finite numbers"

    def area(self, root, at):
        self._change(root, "annotations", at, {"area": "large"})
        return rf"annotation {at + 10}: area is 'large'; it must be a number"

    def category(self, root, at):
        self._change(root, "annotations", at, {"category_id": [3]})
        return rf"annotation {at + 10} has category_id \[3\], which is not among the categories"

    def size(self, root, at):
        self._change(root, "images", at, {"height": "high"})
        return rf"image {at + 10} is 16 x 'high' \(width x height\); whole numbers are needed"

    def number(self, root, at):
        self._change(root, "images", at, {"id": "ten"})
        return r"the id of an image is 'ten'; it must be a whole number"

    def entry(self, root, at):
        self._change(root, "images", at, 7)
        return r"an image is 7, no object"

    def missing(self, root, at):
        (root / f"images/{stem(at)}.png").unlink()
        return rf"images/{stem(at)}\.png: the picture is missing"

    def picture(self, root, at):
        self._change(root, "images", at, {"height": None})
        put(root / f"images/{stem(at)}.png", PICTURE[:100])
        return rf"{stem(at)}\.png: cut off after 100 bytes"


FORMATS = (Voc, Yolo, Labelme, Wider, Landmarks, Coco)
OWN = {"write", "opened", "xml"}  # the methods that damage nothing
DAMAGES = [
    (kind, name)
    for kind in FORMATS
    for name in dir(kind)
    if not name.startswith("_") and name.islower() and name not in OWN and getattr(kind, name)
]


def written(root, kind):
    made = kind()
    made.write(root)
    return made


every_damage = pytest.mark.parametrize(("kind", "name"), DAMAGES, ids=lambda value: getattr(value, "__name__", value))
every_format = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)


def strays(kind, name):
    """Further images that seem damaged: one that only an annotation names, as that of the image lost its number."""
    return int(kind is Coco and name in ("number", "entry"))


@every_damage
def test_one_damaged_of_200_is_left_out_counted_and_named(tmp_path, caplog, kind, name):
    made = written(tmp_path, kind)
    reason = getattr(made, name)(tmp_path, AT)
    with caplog.at_level(logging.INFO):
        data = made.opened(tmp_path)
    count, each = 1 + strays(kind, name), 2 if kind is Landmarks else 1
    assert (len(data), data.counts["unusable"]) == (COUNT - 1, count)
    assert not any(f"{stem(AT)}.png" in data.name_of(at) for at in range(len(data)))
    assert len(data.ground_truth().boxes) == each * (COUNT - 1) and len(data[AT].instances) == each
    if kind is Landmarks:
        assert data[AT].instances.keypoints.shape == (2, 5, 3)
    (warning,) = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert f"{count} of {COUNT + count - 1} images are wrong and were left out: " in warning
    assert re.search(reason, warning)
    assert f"{count} unusable images left out" in data.report()
    tally = pickle.loads(pickle.dumps(data)).skipped()
    assert tally.skipped == count and re.search(reason, tally.reasons[0][1])


@every_damage
def test_more_than_the_share_are_one_error_that_names_the_first(tmp_path, kind, name):
    made = written(tmp_path, kind)
    reason, *_ = [getattr(made, name)(tmp_path, at) for at in (AT, AT + 20, AT + 40)]
    others = 2 + 3 * strays(kind, name)
    total = COUNT + 3 * strays(kind, name)
    bound = f"; so are {others} others of {total} images, max_skipped allows 0.01 of them$"
    with pytest.raises(DataError, match=f"{reason}.*{bound}"):
        made.opened(tmp_path)
    assert len(made.opened(tmp_path, max_skipped=0.03)) == COUNT - 3


@every_damage
def test_with_a_share_of_0_the_first_is_an_error_at_once(tmp_path, kind, name):
    made = written(tmp_path, kind)
    reason, _ = (getattr(made, name)(tmp_path, at) for at in (AT, AT + 20))
    with pytest.raises(DataError, match=reason) as found:
        made.opened(tmp_path, max_skipped=0)
    assert "others of" not in str(found.value)


@every_format
def test_pictures_in_any_number_are_left_out_only_if_asked(tmp_path, caplog, kind):
    made = written(tmp_path, kind)
    for at in range(0, COUNT, 2):
        made.picture(tmp_path, at)
    with pytest.raises(DataError, match=r"; so are 99 others of 200 images, max_skipped allows 0\.01 of them"):
        made.opened(tmp_path)
    data = made.opened(tmp_path, bad_images="skip", max_skipped=0)
    assert (len(data), data.counts["bad_images"], data.counts["unusable"]) == (COUNT // 2, COUNT // 2, 0)
    assert "100 of 200 images are wrong and were left out: " in caplog.text and "000.png" in caplog.text


@every_format
def test_bad_images_says_nothing_about_annotations(tmp_path, kind):
    made = written(tmp_path, kind)
    name = {Voc: "number", Yolo: "words", Labelme: "points", Coco: "bbox"}.get(kind, "face")
    reason = getattr(made, name)(tmp_path, AT)
    made.picture(tmp_path, AT + 1)
    with pytest.raises(DataError, match=reason):
        made.opened(tmp_path, bad_images="skip", max_skipped=0)
    data = made.opened(tmp_path, bad_images="skip")
    assert (len(data), data.counts["bad_images"], data.counts["unusable"]) == (COUNT - 2, 1, 1)


@pytest.mark.parametrize("kind", [Voc, Yolo, Labelme, Coco], ids=lambda kind: kind.__name__)
def test_an_unknown_class_is_an_error_at_once_whatever_the_share(tmp_path, kind):
    made = written(tmp_path, kind)
    if kind is Yolo:
        put(tmp_path / f"labels/train/{stem(AT)}.txt", "1 0.5 0.5 0.5 0.5\n")
    elif kind is Coco:
        path = tmp_path / "annotations.json"
        replace(path, '"categories": [', '"categories": [{"id": 4, "name": "dog"}, ')
        replace(path, '"category_id": 3', '"category_id": 4')
    else:
        path = tmp_path / f"Annotations/{stem(AT)}.xml" if kind is Voc else tmp_path / f"{stem(AT)}.json"
        replace(path, "cat", "dog")
    with pytest.raises(DataError, match=r"class ('dog' is not among|1 is none of) the 1 classes"):
        made.opened(tmp_path, classes=["cat"], max_skipped=1)


def test_another_splits_damage_neither_ends_this_one_nor_changes_its_classes(tmp_path):
    made = written(tmp_path, Voc)
    put(tmp_path / "ImageSets/Main/val.txt", "000\n")
    put(tmp_path / "ImageSets/Main/train.txt", "001\n002\n")
    made.cut(tmp_path, 0)
    assert VocDetection(tmp_path, "train", max_skipped=0).class_names == ("cat",)
    with pytest.raises(DataError, match=r"000\.xml:2: the XML is cut off"):
        VocDetection(tmp_path, "val")


def test_annotations_of_one_absent_image_count_as_one(tmp_path, caplog):
    made = written(tmp_path, Coco)
    path = tmp_path / "annotations.json"
    document = json.loads(path.read_text())
    document["annotations"] += [
        {"id": i, "image_id": 9, "category_id": 3, "bbox": [1, 1, 5, 5]} for i in range(500, 600)
    ]
    put(path, json.dumps(document))
    data = made.opened(tmp_path)
    assert (len(data), data.counts["unusable"]) == (COUNT, 1)
    assert "1 of 201 images are wrong and were left out: " in caplog.text
    assert "annotation 500 is of image 9, which is not among the images" in caplog.text


def test_joined_sets_tell_what_their_parts_left_out(tmp_path):
    parts = []
    for name, damage in (("a", "cut"), ("b", "missing")):
        made = written(tmp_path / name, Voc)
        getattr(made, damage)(tmp_path / name, AT)
        parts.append(made.opened(tmp_path / name))
    assert Joined(parts).skipped().skipped == 2


@pytest.mark.parametrize("share", [-1, 2])
@every_format
def test_what_is_no_share_is_refused(tmp_path, kind, share):
    with pytest.raises(AttributeValueError, match=rf"max_skipped is {share}; it is a share, 0 to 1"):
        written(tmp_path, kind).opened(tmp_path, max_skipped=share)
