"""One line of many that is wrong, or names an image that is not there, is left out, counted and named."""

import pytest

from framework.errors import DataError
from suites.classification.datasets import ImageList, Joined
from suites.engine.data.skipping import SetError
from suites.vision.pictures.images import encode_image
from tests.suites.classification.test_datasets import image

COUNT = 100
DAMAGES = [
    (b"a.png", "expects 'path"),
    (b"a.png 0x", "expects 'path"),
    (b"a.png " + b"9" * 5000, "expects 'path"),
    (b"\xff\xfe.png 0", "is no UTF-8 text"),
    (b"b.png 0", "the image b.png is missing"),
]


def write(root, lines):
    (root / "a.png").write_bytes(encode_image(image(3)))
    (root / "list.txt").write_bytes(b"".join(line + b"\n" for line in lines))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize(("line", "reason"), DAMAGES)
def test_one_wrong_line_of_100_is_left_out_counted_and_named(tmp_path, caplog, line, reason, many):
    write(tmp_path, [b"a.png 0"] * 40 + [line] + [b"a.png 1"] * (COUNT - 41))
    data = ImageList(str(tmp_path), "list.txt", multi_label=many)
    assert len(data) == COUNT - 1 and data.labels.tolist() == [0] * 40 + [1] * 59 and len(data[98].labels) == 1
    assert f"1 of 100 lines are wrong and were left out: {tmp_path}/list.txt:41: {reason}" in caplog.text
    tally = Joined([data, data]).skipped()
    assert tally.skipped == 2 and f"list.txt:41: {reason}" in tally.reasons[0][1]
    with pytest.raises(DataError, match=f"list.txt:41: {reason}"):
        ImageList(str(tmp_path), "list.txt", multi_label=many, max_skipped=0)


@pytest.mark.parametrize(("line", "reason"), DAMAGES)
def test_more_than_the_share_are_one_error(tmp_path, line, reason):
    write(tmp_path, [b"a.png 0"] * (COUNT - 2) + [line] * 2)
    with pytest.raises(DataError, match=rf"list.txt:99: {reason}.*; so are 1 others of 100 lines, max_skipped allows"):
        ImageList(str(tmp_path), "list.txt")


def test_a_label_of_no_class_is_an_error_at_once(tmp_path):
    write(tmp_path, [b"a.png 0"] * (COUNT - 1) + [b"a.png 2"])
    with pytest.raises(SetError, match=r"a\.png has label 2 but there are 2 classes"):
        ImageList(str(tmp_path), "list.txt", classes=["a", "b"], max_skipped=1)
