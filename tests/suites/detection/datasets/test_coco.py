"""CocoDetection maps categories to labels and back, keeps crowds, and names what is wrong in a file."""

import numpy as np
import pytest

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets import CocoDetection, read_coco_ground_truth
from tests.suites.detection.datasets.helpers import write_coco, zip_folder

DOG = {"image_id": 11, "category_id": 7, "bbox": [1, 2, 10, 20], "area": 150}
CAT = {"image_id": 10, "category_id": 3, "bbox": [5, 5, 30, 10], "area": 90, "iscrowd": 1}


def opened(path, **options):
    return CocoDetection(path, path.parent / "images", **options)


def test_categories_become_labels_and_ids_are_kept(tmp_path):
    data = opened(write_coco(tmp_path, [DOG, CAT]))
    assert data.class_names == ("cat", "dog")
    assert data[1].instances.classes.tolist() == [1] and data[1].instances.boxes.array.tolist() == [[1, 2, 11, 22]]
    assert data[0].instances.crowd.tolist() == [True] and data[0].image_id == 10
    truth = data.ground_truth()
    assert truth.category_ids.tolist() == [3, 7]
    assert truth.classes.tolist() == [0, 1] and truth.areas.tolist() == [90, 150]


def test_a_subset_of_classes_in_any_order(tmp_path):
    path = write_coco(tmp_path, [DOG, CAT])
    assert opened(path, classes=["dog", "cat"])[1].instances.classes.tolist() == [0]
    only = opened(path, classes=["dog"], unknown_class="skip", skip_empty=True)
    assert (len(only), only.counts["unknown_class"], only.counts["empty_images"]) == (1, 1, 1)
    with pytest.raises(DataError, match=r"class 'cat' is not among the 1 classes given"):
        opened(path, classes=["dog"])
    with pytest.raises(DataError, match="has no category 'dgo'; did you mean 'dog'"):
        opened(path, classes=["dgo"])


def test_labels_may_be_the_category_ids_themselves(tmp_path):
    """As torchvision's weights count: ids without a category are classes of no objects."""
    path = write_coco(tmp_path, [DOG, CAT])
    data = opened(path, first_id=1)
    assert data.class_names == ("category 1", "category 2", "cat", "category 4", "category 5", "category 6", "dog")
    assert data[1].instances.classes.tolist() == [6] and data.ground_truth().category_ids.tolist() == [*range(1, 8)]
    assert opened(path, first_id=0)[1].instances.classes.tolist() == [7]
    with pytest.raises(DataError, match="category 3 is below first_id, 4"):
        opened(path, first_id=4)
    with pytest.raises(AttributeValueError, match="classes and first_id both say which labels there are"):
        opened(path, first_id=1, classes=["dog"])


def test_a_zip_holds_both_annotations_and_images(tmp_path):
    path = write_coco(tmp_path / "set", [DOG, CAT])
    archive = zip_folder(path.parent, tmp_path / "s.zip")
    zipped, folder = CocoDetection(archive / "annotations.json", archive / "images"), opened(path)
    np.testing.assert_array_equal(zipped[1].image, folder[1].image)
    np.testing.assert_array_equal(zipped.ground_truth().boxes, folder.ground_truth().boxes)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_a_file_cut_off_is_named_with_line_and_column(tmp_path, share):
    path = write_coco(tmp_path, [DOG, CAT])
    text = path.read_text()
    path.write_text(text[: int(len(text) * share)])
    with pytest.raises(DataError, match=r"annotations.json:\d+:\d+: the JSON is cut off or malformed"):
        opened(path)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({**DOG, "image_id": 99}, "annotation 0 is of image 99, which is not among the images"),
        ({**DOG, "category_id": 4}, r"annotation 0 has category_id 4, which is not among the categories \[3, 7\]"),
        ({**DOG, "bbox": [1, 2, 3]}, r"annotation 0: bbox is \[1, 2, 3\]; it must be \[x, y, width, height\]"),
        ({"image_id": 10, "category_id": 3}, "annotation 0 has no 'bbox'"),
    ],
)
def test_a_wrong_annotation_is_named(tmp_path, annotation, message):
    with pytest.raises(DataError, match=message):
        opened(write_coco(tmp_path, [annotation]))


def test_what_is_no_coco_file_is_named(tmp_path):
    path = write_coco(tmp_path, [DOG])
    path.write_text("[]")
    with pytest.raises(DataError, match="holds a list; COCO needs images, annotations and categories"):
        opened(path)
    path.write_text("7")
    with pytest.raises(DataError, match="holds a int; COCO needs"):
        opened(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DataError, match="its lists or objects lie too deep in each other"):
        opened(path)
    path.write_text("{}")
    with pytest.raises(DataError, match="no 'images' in it; COCO needs images, annotations and categories"):
        opened(path)
    path.write_bytes(b"\xff\xd8\xff\xe0" * 9)
    with pytest.raises(DataError, match="is no UTF-8 text"):
        opened(path)
    with pytest.raises(DataError, match=r"annotations.jsn: no such file"):
        opened(path.with_suffix(".jsn"))


def test_images_twice_missing_or_none_at_all(tmp_path):
    path = write_coco(tmp_path, [DOG, CAT])
    (tmp_path / "images" / "1.png").unlink()
    with pytest.raises(DataError, match=r"images/1\.png: the picture is missing"):
        opened(path)
    data = opened(path, bad_images="skip")
    assert (len(data), data.counts["bad_images"]) == (1, 1)
    with pytest.raises(DataError, match="no images left"):
        opened(write_coco(tmp_path, [], images=0))


def test_two_images_of_one_id_are_an_error(tmp_path):
    path = write_coco(tmp_path, [CAT])
    path.write_text(path.read_text().replace('"id": 11', '"id": 10'))
    with pytest.raises(DataError, match="two images have the id 10"):
        opened(path)


def test_the_ground_truth_of_a_file_needs_no_images(tmp_path):
    path = write_coco(tmp_path, [DOG, CAT])
    np.testing.assert_array_equal(read_coco_ground_truth(path).boxes, opened(path).ground_truth().boxes)


def test_the_real_sets_have_their_published_counts(shared_data):
    val20 = shared_data("detection/coco_val20/coco_val20.zip")
    data = CocoDetection(val20 / "annotations.json", val20 / "images")
    assert (len(data), data.num_classes, len(data.ground_truth().boxes)) == (20, 80, 294)
    assert data[0].image.shape[2] == 3
    nuclei = shared_data("detection/nuclei/nuclei.zip")
    cells = CocoDetection(nuclei / "instances_val.json", nuclei / "images")
    assert (len(cells), len(cells.ground_truth().boxes)) == (105, 3174)
    assert cells[5].image.shape[2] == 3


def test_a_polygon_inside_another_of_its_object_is_told_as_it_is_filled(tmp_path, caplog):
    outer, hole = [1, 1, 11, 1, 11, 9, 1, 9], [4, 3, 8, 3, 8, 6, 4, 6]
    beside = [12, 1, 15, 1, 15, 4]
    for parts, is_told in (([outer, hole], True), ([hole, outer], True), ([outer, beside], False), ([outer], False)):
        caplog.clear()
        path = write_coco(tmp_path / f"{parts}"[:20], [DOG | {"segmentation": parts}, CAT | {"segmentation": [outer]}])
        data = opened(path, masks=True)
        assert ("of 1 objects one polygon lies inside another" in caplog.text) is is_told
        assert data[1].instances.masks.areas()[0] >= 80  # as pycocotools, the union
