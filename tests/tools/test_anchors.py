"""tools/anchors.py prints anchors for a VOC folder or a COCO file, and says in one line what is wrong."""

import re

import pytest

from tests.suites.detection.datasets.helpers import write_coco, write_voc
from tools.anchors import main


@pytest.fixture
def voc(tmp_path):
    boxes = [(0, 0, 10, 10), (0, 0, 30, 20), (5, 5, 35, 25)]
    return write_voc(tmp_path / "voc", {"a": [("cat", box, False) for box in boxes]}, {"train": "a"})


def test_a_voc_folder(voc, capsys):
    assert main(["--voc", str(voc), "--split", "train", "-k", "2"]) == 0
    out = capsys.readouterr().out
    assert "anchors: [[10.0, 10.0], [30.0, 20.0]]" in out
    assert "3 boxes; mean best IoU 1.0000; recall at IoU 0.5 1.0000" in out


def test_sizes_are_those_after_the_resize(voc, capsys):
    main(["--voc", str(voc), "-k", "2", "--size", "120"])  # images are 60 x 40
    assert "[[20.0, 30.0], [60.0, 60.0]]" in capsys.readouterr().out


def test_a_coco_file_needs_no_images(tmp_path, capsys):
    path = write_coco(tmp_path, [{"image_id": 10, "category_id": 3, "bbox": [1, 2, 10, 20]}])
    assert main(["--coco", str(path), "-k", "1"]) == 0
    assert "anchors: [[10.0, 20.0]]" in capsys.readouterr().out


def test_what_is_wrong_is_one_line(voc, capsys):
    assert main(["--voc", str(voc), "-k", "9"]) == 2
    report, error = capsys.readouterr().err.splitlines()
    assert report.startswith("VocDetection ") and re.fullmatch(r"error: anchors: 9 anchors were asked for; .*", error)
    with pytest.raises(SystemExit):
        main([])
    assert "give one of: a config, --voc ROOT, --coco FILE" in capsys.readouterr().err
