"""Files with several pages: each page is read, and never one in place of all without a word."""

import random

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.classification.processor import ClassificationProcessor
from suites.vision.pictures.images import count_pages, decode_image, read_image
from suites.vision.pictures.tiff import pages
from tests.suites.vision.pictures.tiffs import strips

SHADES = (10, 100, 200)


@pytest.fixture
def scan(tmp_path):
    """Three pages, each a shade and a size of its own."""
    path = tmp_path / "scan.tif"
    cv2.imwritemulti(str(path), [np.full((8 + k, 12, 3), shade, np.uint8) for k, shade in enumerate(SHADES)])
    return path


def test_each_page_is_read_by_its_number(scan):
    assert count_pages(scan) == 3
    for k, shade in enumerate(SHADES):
        image = read_image(scan, k)
        assert image.shape == (8 + k, 12, 3) and (image == shade).all()
    with pytest.raises(DataError, match=r"scan.tif: has 3 pages, and none of number 4"):
        read_image(scan, 3)


def test_one_of_several_pages_is_not_taken_for_all(scan):
    with pytest.raises(DataError, match=r"image scan: has 3 pages; split it into a file a page"):
        decode_image(scan.read_bytes(), "scan")


def test_a_command_looks_at_each_page(scan):
    cv2.imwrite(str(scan.with_name("single.tiff")), np.zeros((4, 4, 3), np.uint8))
    (scan.parent / "torn.tif").write_bytes(b"II*\0")
    processor = ClassificationProcessor([], ["a"])
    found = dict(processor.inputs(str(scan.parent)))
    assert [name.rpartition("/")[2] for name in found] == [
        "scan_page1.tif", "scan_page2.tif", "scan_page3.tif", "single.tiff", "torn.tif",
    ]  # fmt: skip
    assert [int(read()[0, 0, 0]) for read in list(found.values())[:4]] == [*SHADES, 0]
    with pytest.raises(DataError, match=r"torn\.tif"):
        found[str(scan.parent / "torn.tif")]()


def chain(*kinds, old=False):
    """Directories one behind the other, each with the kind of its subfile."""
    tag, data = (255 if old else 254), bytearray(b"II*\0" + (8).to_bytes(4, "little"))
    for k, kind in enumerate(kinds):
        following = len(data) + 18 if k + 1 < len(kinds) else 0
        data += (1).to_bytes(2, "little") + tag.to_bytes(2, "little") + (4 - old).to_bytes(2, "little")
        data += (1).to_bytes(4, "little") + kind.to_bytes(4, "little") + following.to_bytes(4, "little")
    return bytes(data)


def test_smaller_copies_and_masks_of_a_page_are_no_pages():
    assert pages(chain(0, 1, 1)) == [8]  # a photograph with its pyramid
    assert pages(chain(2, 4, 2)) == [8, 44]  # pages of a document, one with a mask
    assert pages(chain(1, 2)) == [8, 26]  # the first is what readers read
    assert pages(chain(1, 2, 3, old=True)) == [8, 44]


def test_directories_that_go_round_or_end_early_end_the_list():
    whole = chain(0, 0, 0)
    ring = whole[:-4] + (8).to_bytes(4, "little")
    assert pages(ring) == pages(whole) == [8, 26, 44]
    assert pages(whole[:30]) == [8] and pages(whole[:6]) == [] and pages(b"MM\0*" + b"\xff" * 20) == []


@pytest.mark.parametrize(("directories", "entries"), [(5000, 0), (80, 4000)], ids=["many", "long"])
def test_directories_cost_a_bounded_number_of_steps(directories, entries, tmp_path):
    size = 2 + 12 * entries + 4
    data = bytearray(b"II*\0" + (8).to_bytes(4, "little") + bytes(size * (directories + 1)))
    for at in range(8, 8 + size * directories, size):
        data[at : at + 2] = entries.to_bytes(2, "little")
        data[at + size - 4 : at + size] = (at + size).to_bytes(4, "little")
    (tmp_path / "many.tif").write_bytes(data)
    with pytest.raises(DataError, match=r"image .*many\.tif: has more than \d+ pages; split it into smaller files"):
        count_pages(tmp_path / "many.tif")


def test_damaged_files_give_pages_or_an_error_and_never_another_exception(scan):
    rng, data = random.Random(0), scan.read_bytes()
    for _ in range(200):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(4, len(damaged))] = rng.randrange(256)
        count = len(pages(bytes(damaged)))
        for page in (None, *range(min(count, 3))):
            try:
                assert decode_image(bytes(damaged), "damaged", page).dtype == np.uint8
            except DataError:
                continue


def test_the_file_that_a_test_writes_has_one_page():
    assert len(pages(strips(np.zeros((3, 5, 3), np.uint8)))) == 1
