"""VocDetection reads folders and zips alike, counts what it repairs, and names the file of what it cannot."""

import logging
import pickle

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets import VocDetection
from suites.vision.pictures.images import write_image
from tests.suites.detection.datasets.helpers import image, voc_xml, write_voc, zip_folder

CAT, DOG = ("cat", (1, 2, 21, 30), False), ("dog", (10, 5, 50, 35), True)


@pytest.fixture
def root(tmp_path):
    return write_voc(tmp_path / "voc", {"a": [CAT, DOG], "b": [DOG], "c": []}, {"train": "ab", "val": "c"})


def test_a_sample_has_pixels_boxes_labels_and_flags(root):
    data = VocDetection(root, "train")
    assert (len(data), data.class_names, data.num_classes) == (2, ("cat", "dog"), 2)
    sample = data[0]
    np.testing.assert_array_equal(sample.image, image(0))
    assert sample.instances.boxes.array.dtype == np.float32 and sample.instances.classes.dtype == np.int64
    assert sample.instances.boxes.array.tolist() == [[1, 2, 21, 30], [10, 5, 50, 35]]
    assert sample.instances.classes.tolist() == [0, 1]
    assert sample.instances.difficult.tolist() == [False, True]
    assert sample.instances.scores.tolist() == [1, 1]
    assert (sample.image_id, sample.original_size) == (0, (40, 60))
    assert data.name_of(1).endswith("JPEGImages/b.png")


def test_a_zip_and_a_folder_inside_a_zip_give_the_same_as_the_folder(root, tmp_path):
    direct = zip_folder(root, tmp_path / "direct.zip")
    nested = zip_folder(root.parent, tmp_path / "nested.zip")
    for place in (direct, nested / "voc"):
        data = VocDetection(place, "train")
        np.testing.assert_array_equal(data[1].image, VocDetection(root, "train")[1].image)
        assert data[0].instances.boxes.array.tolist() == [[1, 2, 21, 30], [10, 5, 50, 35]]


def test_a_copy_sent_to_a_worker_gives_the_same_samples_and_holds_no_object_an_image(root, tmp_path):
    data = VocDetection(zip_folder(root, tmp_path / "v.zip"), "train")
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copy[1].image, data[1].image)
    many = write_voc(tmp_path / "many", {f"{i:03}": [CAT] for i in range(60)})
    few = len(pickle.dumps(VocDetection(many, "val", holdout=30)))
    # Per image: name, id, size, offsets; per box: 4 + 1 + 1 numbers of 8 bytes and flags: below 250 bytes.
    assert len(pickle.dumps(VocDetection(many))) < few + 60 * 250


def test_all_splits_have_the_same_classes_even_if_one_lacks_some(root):
    assert VocDetection(root, "val").class_names == ("cat", "dog")


def test_a_class_file_fixes_the_order(root):
    (root / "classes.txt").write_text("dog\ncat\n")
    assert VocDetection(root, "train")[0].instances.classes.tolist() == [1, 0]


def test_without_lists_every_nth_can_be_held_out(tmp_path):
    root = write_voc(tmp_path / "v", {name: [CAT] for name in "abcdefg"})
    val, train = (VocDetection(root, split, holdout=3) for split in ("val", "train"))
    assert [val.name_of(i)[-5] for i in range(len(val))] == ["c", "f"]
    assert len(train) == 5
    with pytest.raises(AttributeValueError, match="holdout is 3 and split 'test'"):
        VocDetection(root, "test", holdout=3)


def test_difficult_boxes_can_be_left_out_of_samples_but_stay_in_the_ground_truth(root):
    data = VocDetection(root, "train", keep_difficult=False)
    assert data[0].instances.classes.tolist() == [0]
    truth = data.ground_truth()
    assert truth.difficult.tolist() == [False, True, True]
    assert truth.offsets.tolist() == [0, 2, 3]


def test_original_voc_counts_pixels_from_one(root):
    assert VocDetection(root, "train", one_based=True)[0].instances.boxes.array[0].tolist() == [0, 1, 21, 30]
    assert VocDetection(root, "train")[0].instances.boxes.array[0].tolist() == [1, 2, 21, 30]


@pytest.mark.parametrize(
    ("database", "first"), [("The VOC2007 Database", 0), ("The VOC2012 Database", 0), ("Unknown", 1)]
)
def test_original_annotations_are_known_by_their_database(root, database, first):
    for path in (root / "Annotations").glob("*.xml"):
        text = path.read_text()
        at = text.index(">") + 1
        path.write_text(f"{text[:at]}<source><database>{database}</database></source>{text[at:]}")
    box = VocDetection(root, "train")[0].instances.boxes.array[0].tolist()
    assert box == [first, first + 1, 21, 30]
    assert VocDetection(root, "train", one_based=False)[0].instances.boxes.array[0].tolist() == [1, 2, 21, 30]


def test_boxes_outside_are_cut_and_boxes_without_area_dropped_and_both_counted(tmp_path, caplog):
    boxes = [(-9, -9, 10, 10), (50, 30, 99, 99), (70, 5, 90, 9), (5, 5, 5, 20), (20, 20, 10, 30), (0.2, 0.2, 60.4, 9)]
    root = write_voc(tmp_path / "v", {"a": [("cat", box, False) for box in boxes]})
    with caplog.at_level(logging.INFO):
        data = VocDetection(root)
    expected = np.array([[0, 0, 10, 10], [50, 30, 60, 40], [0.2, 0.2, 60, 9]], np.float32)
    np.testing.assert_array_equal(data[0].instances.boxes.array, expected)
    assert (data.counts["clipped"], data.counts["dropped"]) == (2, 3)  # 0.4 pixels outside is rounding
    assert "1 images, 3 boxes (cat 3); 2 boxes cut at the image border, 3 boxes without area dropped" in caplog.text


def test_an_unknown_class_is_an_error_with_the_nearest_name_or_is_counted(root):
    with pytest.raises(DataError, match=r"a\.xml: class 'dog' is not among the 2 classes \(cat, dogs\); did you mean"):
        VocDetection(root, "train", classes=["cat", "dogs"])
    data = VocDetection(root, "train", classes=["cat"], unknown_class="skip")
    assert data.counts["unknown_class"] == 2
    assert [len(data[i].instances.boxes.array) for i in range(2)] == [1, 0]


def test_an_annotation_cut_in_half_is_named_with_its_line(root):
    path = root / "Annotations" / "a.xml"
    path.write_text(path.read_text()[:200])
    with pytest.raises(DataError, match=r"a\.xml:\d+: the XML is cut off or malformed .*200 bytes"):
        VocDetection(root, "train")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<xmin>1</xmin>", "<xmin>one</xmin>", r"a\.xml: <xmin> is 'one', a number is needed"),
        ("<xmin>1</xmin>", "<xmin>nan</xmin>", r"a\.xml: <xmin> is 'nan', a number is needed"),
        ("bndbox>", "bbox>", r"a\.xml: an object has no <bndbox>"),
        ("</bndbox>", "</bndbox><bndbox></bndbox>", r"a\.xml: an object has 2 <bndbox>; make an object of each"),
    ],
)
def test_a_box_that_is_none_is_named(root, old, new, message):
    path = root / "Annotations" / "a.xml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(DataError, match=message):
        VocDetection(root, "train")


def test_missing_lists_names_folders_and_images_are_named(root, tmp_path):
    with pytest.raises(DataError, match=r"no ImageSets/Main/tset.txt; lists there: train, val"):
        VocDetection(root, "tset")
    with pytest.raises(DataError, match=r"nowhere: no such folder or .zip file"):
        VocDetection(tmp_path / "nowhere")
    (root / "JPEGImages" / "b.png").unlink()
    with pytest.raises(DataError, match=r"JPEGImages/b\.jpg: the picture is missing; put it there, or set bad_images"):
        VocDetection(root, "train")
    (root / "ImageSets" / "Main" / "train.txt").write_text("a\nzz\n")
    with pytest.raises(DataError, match=r"Main/train\.txt: zz has no annotation \(expected Annotations/zz\.xml\)"):
        VocDetection(root, "train")


def test_an_empty_list_is_an_error(root):
    (root / "ImageSets" / "Main" / "val.txt").write_text("\n")
    with pytest.raises(DataError, match="no images left; the list of images is empty"):
        VocDetection(root, "val")
    with pytest.raises(DataError, match="no images left; 1 images without boxes skipped"):
        write_list = root / "ImageSets" / "Main" / "val.txt"
        write_list.write_text("c\n")
        VocDetection(root, "val", skip_empty=True)


def test_bad_images_can_be_left_out_with_a_count(root):
    broken = root / "JPEGImages" / "a.png"
    broken.write_bytes(broken.read_bytes()[:500])
    with pytest.raises(DataError, match=r"a\.png: cut off after 500 bytes"):
        VocDetection(root)[0]
    (root / "JPEGImages" / "c.png").unlink()
    data = VocDetection(root, bad_images="skip")
    assert (len(data), data.counts["bad_images"]) == (1, 2)
    assert data.name_of(0).endswith("b.png") and len(data[0].instances.boxes.array) == 1
    truth = data.ground_truth()
    assert truth.image_ids.tolist() == [data[0].image_id] and len(truth.boxes) == 1


def test_an_image_of_another_size_than_its_annotation_says_is_an_error(root):
    write_image(root / "JPEGImages" / "a.png", image(size=(60, 40)))
    with pytest.raises(DataError, match=r"the image is 40x60 but its annotation says 60x40 \(width x height\)"):
        VocDetection(root, "train")[0]


def test_a_size_that_the_annotation_does_not_tell_is_read_from_the_image(root):
    (root / "Annotations" / "a.xml").write_text(voc_xml([CAT], size=(0, 0)))
    (root / "Annotations" / "b.xml").write_text("<annotation></annotation>")
    truth = VocDetection(root, "train").ground_truth()
    assert truth.sizes.tolist() == [[40, 60], [40, 60]]


def test_a_damaged_zip_is_named(root, tmp_path):
    archive = zip_folder(root, tmp_path / "v.zip")
    data = VocDetection(archive, "train")
    content = bytearray(archive.read_bytes())
    at = content.index(b"IDAT") + 20
    content[at] ^= 0xFF
    archive.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"v.zip/JPEGImages/a.png: damaged inside the zip"):
        data[0]
    archive.write_bytes(bytes(content[: len(content) // 2]))
    with pytest.raises(DataError, match=r"v.zip: not a readable zip"):
        VocDetection(archive, "train")


def test_bccd_has_the_published_counts(shared_data):
    root = shared_data("detection/bccd/bccd.zip")
    sets = {split: VocDetection(root, split) for split in ("train", "val", "test")}
    assert {split: len(data) for split, data in sets.items()} == {"train": 205, "val": 87, "test": 72}
    counts = sum(np.bincount(data.ground_truth().classes, minlength=3) for data in sets.values())
    dropped = sum(data.counts["dropped"] for data in sets.values())
    assert sets["train"].class_names == ("Platelets", "RBC", "WBC")
    assert counts.sum() + dropped == 361 + 4155 + 372
    assert counts[0] == 361 and counts[2] == 372
    assert sets["val"][0].image.shape == (480, 640, 3)


def test_raccoon_splits_in_name_order(shared_data):
    root = shared_data("detection/raccoon/raccoon.zip")
    train, val = (VocDetection(root, split, holdout=5) for split in ("train", "val"))
    assert (len(train), len(val)) == (160, 40)
    assert len(train.ground_truth().boxes) + len(val.ground_truth().boxes) == 217
    assert val[3].image.dtype == np.uint8


@pytest.mark.parametrize("encoding", ["klingon", "utf-16"])
def test_an_xml_of_another_encoding_than_it_says_is_named(root, encoding):
    path = root / "Annotations" / "a.xml"
    path.write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>'.encode() + path.read_bytes())
    with pytest.raises(DataError, match=r"a\.xml.*the XML (cannot be read|is cut off or malformed)"):
        VocDetection(root, "train")


def test_boxes_of_all_names_may_be_one_class(root):
    data = VocDetection(root, "train", one_class="animal")
    assert data.class_names == ("animal",) and data[0].instances.classes.tolist() == [0, 0]
    with pytest.raises(AttributeValueError, match="all boxes are of one_class 'animal'; leave out classes"):
        VocDetection(root, "train", one_class="animal", classes=["cat"])
