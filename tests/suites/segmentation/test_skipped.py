"""One damaged or missing file of many is left out when a set is opened, counted and named; more are one error."""

import json
import re

import pytest
from scipy.io import savemat

from framework.errors import DataError
from suites.engine.data.skipping import SetError
from suites.segmentation.datasets import (
    Ade20k,
    Cityscapes,
    ImageLabelPairs,
    Joined,
    LabelmeSegmentation,
    VocSegmentation,
)
from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import encode_image
from tests.suites.segmentation.test_public_sets import image, labels

COUNT = 100
PICTURE, MAP = encode_image(image()), encode_labels(labels(classes=2), [])


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


class Folders:
    """As each set: `write` makes it, `opened` reads it, `damage` spoils image `at` and returns what is named."""

    def write(self, root):
        for at in range(COUNT):
            put(root / f"images/{at:03}.png", PICTURE)
            put(root / f"labels/{at:03}.png", MAP)

    def opened(self, root, **options):
        return ImageLabelPairs(root, classes=["a", "b"], **options)

    def damage(self, root, at):
        (root / f"labels/{at:03}.png").unlink()
        return rf"images/{at:03}\.png has no label map labels/{at:03}\.png"


class List(Folders):
    def write(self, root):
        super().write(root)
        put(root / "list.txt", "".join(f"images/{at:03}.png labels/{at:03}.png\n" for at in range(COUNT)))

    def opened(self, root, **options):
        return super().opened(root, pairs="list.txt", **options)

    def damage(self, root, at):
        put(root / "list.txt", (root / "list.txt").read_text().replace(f"labels/{at:03}.png", ""))
        return rf"list\.txt:{at + 1}: expects 'image label', found 'images/{at:03}\.png'"


class Named(List):
    def damage(self, root, at):
        (root / f"labels/{at:03}.png").unlink()
        return rf"list\.txt:{at + 1}: names labels/{at:03}\.png, which is not there"


class Cities:
    def write(self, root):
        for at in range(COUNT):
            put(root / f"leftImg8bit/val/ulm/{at:03}_leftImg8bit.png", PICTURE)
            put(root / f"gtFine/val/ulm/{at:03}_gtFine_labelIds.png", MAP)

    def opened(self, root, **options):
        return Cityscapes(root, "val", **options)

    def damage(self, root, at):
        (root / f"gtFine/val/ulm/{at:03}_gtFine_labelIds.png").unlink()
        return rf"gtFine/val/ulm/{at:03}_gtFine_labelIds\.png is missing"


class Scenes:
    def write(self, root):
        for at in range(COUNT):
            put(root / f"images/validation/{at:03}.jpg", PICTURE)
            put(root / f"annotations/validation/{at:03}.png", MAP)
        put(root / "objectInfo150.txt", "".join(f"{at}\tthing{at}\n" for at in range(1, 151)))

    def opened(self, root, **options):
        return Ade20k(root, "val", **options)

    def damage(self, root, at):
        (root / f"annotations/validation/{at:03}.png").unlink()
        return rf"annotations/validation/{at:03}\.png is missing"


class Voc:
    def write(self, root):
        for at in range(COUNT):
            put(root / f"voc/JPEGImages/{at:03}.jpg", PICTURE)
            put(root / f"voc/SegmentationClass/{at:03}.png", MAP)
        names = [f"{at:03}\n" for at in range(COUNT)]
        for split, part in (("train", names[:60]), ("val", [])):
            put(root / f"voc/ImageSets/Segmentation/{split}.txt", "".join(part))
        (root / "sbd/cls").mkdir(parents=True)
        for at in range(60, COUNT):
            savemat(root / f"sbd/cls/{at:03}.mat", {"GTcls": {"Segmentation": labels()}})
        put(root / "sbd/train.txt", "".join(names[60:]))
        put(root / "sbd/val.txt", "")

    def opened(self, root, **options):
        return VocSegmentation(root / "voc", "trainaug", root / "sbd", **options)

    def damage(self, root, at):
        (root / f"voc/JPEGImages/{at:03}.jpg").unlink()
        return rf"JPEGImages/{at:03}\.jpg is missing"


class Mats(Voc):
    def damage(self, root, at):
        (root / f"sbd/cls/{at + 40:03}.mat").unlink()
        return rf"cls/{at + 40:03}\.mat is missing"


class Labelme:
    def write(self, root):
        shape = {"label": "cat", "points": [[1, 1], [9, 9]], "shape_type": "rectangle"}
        for at in range(COUNT):
            put(root / f"{at:03}.png", PICTURE)
            put(root / f"{at:03}.json", json.dumps({"imagePath": f"{at:03}.png", "shapes": [shape]}))

    def opened(self, root, **options):
        return LabelmeSegmentation(root, **options)

    def damage(self, root, at):
        put(root / f"{at:03}.json", (root / f"{at:03}.json").read_text()[:50])
        return rf"{at:03}\.json:1:\d+: the JSON is cut off or malformed"


class Points(Labelme):
    def damage(self, root, at):
        put(root / f"{at:03}.json", (root / f"{at:03}.json").read_text().replace("[9, 9]", '"there"'))
        return rf"{at:03}\.json: shape 0: has no points"


class Nameless(Labelme):
    def damage(self, root, at):
        put(root / f"{at:03}.json", (root / f"{at:03}.json").read_text().replace('"cat"', "null"))
        return rf"{at:03}\.json: shape 0 has no label"


class Missing(Labelme):
    def damage(self, root, at):
        (root / f"{at:03}.png").unlink()
        return rf"{at:03}\.json: its picture '{at:03}\.png' is not beside it"


@pytest.mark.parametrize(
    "kind",
    [Folders, List, Named, Cities, Scenes, Voc, Mats, Labelme, Points, Nameless, Missing],
    ids=lambda k: k.__name__,
)
def test_one_damaged_of_100_is_left_out_counted_and_named_and_two_are_one_error(tmp_path, caplog, kind):
    made = kind()
    made.write(tmp_path)
    reason = made.damage(tmp_path, 40)
    data = made.opened(tmp_path)
    assert len(data) == COUNT - 1 and not any("040.png" in data.name_of(at) for at in range(COUNT - 1))
    assert data[COUNT - 2].labels.shape == data[COUNT - 2].image.shape[:2]
    assert "1 of 100 " in caplog.text and "are wrong and were left out: " in caplog.text
    found = data.skipped()
    assert found.skipped == 1 and re.search(reason, found.reasons[0][1])
    assert Joined([data, data]).skipped().skipped == 2
    with pytest.raises(DataError, match=reason):
        made.opened(tmp_path, max_skipped=0)
    made.damage(tmp_path, 50)
    with pytest.raises(DataError, match=rf"{reason}.*; so are 1 others of 100 (images|lines), max_skipped"):
        made.opened(tmp_path)


def test_a_label_of_no_class_is_an_error_at_once(tmp_path):
    made = Labelme()
    made.write(tmp_path)
    with pytest.raises(SetError, match="shape 0 is labelled 'cat', which is none of the classes"):
        made.opened(tmp_path, classes=["dog"], max_skipped=1)
