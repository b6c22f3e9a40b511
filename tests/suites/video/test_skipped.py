"""One clip of many that is not there, or as its list says, and one damaged file are left out, counted and named."""

import pytest

from framework.errors import DataError
from suites.video.datasets import ClipFeatures, FrameFolders, VideoFiles, YouTube8M
from suites.vision.pictures.images import encode_image
from tests.suites.video.helpers import video
from tests.suites.video.test_features import rows, write
from tests.suites.video.test_youtube8m import SIZES, example, record

COUNT, AT = 100, 40


def frame_folders(root):
    picture = encode_image(video("left", 1)[0])
    for at in range(COUNT):
        (root / f"{at:03}").mkdir(parents=True)
        (root / f"{at:03}/0.png").write_bytes(picture)
    (root / f"{AT:03}/1.png").write_bytes(picture)
    (root / "list.txt").write_text("".join(f"{at:03} 1 0\n" for at in range(COUNT)))
    return FrameFolders, rf"{root}/list.txt:41: 040 should have 1 frames but 2 images are there"


def video_files(root):
    root.mkdir()
    for at in set(range(COUNT)) - {AT}:
        (root / f"{at:03}.mp4").touch()
    (root / "list.txt").write_text("".join(f"{at:03}.mp4 0\n" for at in range(COUNT)))
    return VideoFiles, rf"{root}/list.txt:41: the video 040.mp4 is missing"


def clip_features(root):
    write(root / "features", {f"{at:03}": rows(2) for at in range(COUNT) if at != AT})
    (root / "list.txt").write_text("".join(f"{at:03} 0\n" for at in range(COUNT)))

    def opened(root, name, **options):
        return ClipFeatures(f"{root}/features", root, name, **options)

    return opened, rf"{root}/list.txt:41: 040 has no features in"


def records(root):
    root.mkdir()
    whole = record(example([1], 1)[0])
    for at in range(COUNT):
        (root / f"{at:03}.tfrecord").write_bytes(whole[:-9] if at == AT else whole)

    def opened(root, name, **options):
        return YouTube8M(f"{root}/*.tfrecord", SIZES, classes=4, **options)

    return opened, rf"{root}/040.tfrecord: is cut off in record 0"


@pytest.mark.parametrize("make", [frame_folders, video_files, clip_features, records])
def test_one_of_100_is_left_out_counted_and_named(tmp_path, caplog, make):
    root = tmp_path / "set"
    opened, reason = make(root)
    data = opened(str(root), "list.txt")
    assert len(data) == COUNT - 1 and not any("040" in data.name_of(at).removeprefix(str(root)) for at in range(99))
    assert f"1 of 100 {'files' if make is records else 'lines'} are wrong and were left out: {reason}" in caplog.text
    assert data.skipped().skipped == 1 and reason in data.skipped().reasons[0][1]
    with pytest.raises(DataError, match=reason):
        opened(str(root), "list.txt", max_skipped=0)


def test_a_cut_line_is_left_out_and_more_than_the_share_are_one_error(tmp_path, caplog):
    opened, _ = video_files(tmp_path / "set")
    text = (tmp_path / "set/list.txt").read_text().replace("040.mp4 0\n", "039.mp4\n")
    (tmp_path / "set/list.txt").write_text(text)
    assert len(opened(str(tmp_path / "set"), "list.txt")) == COUNT - 1
    assert "list.txt:41: expects 'path label', found '039.mp4'" in caplog.text
    (tmp_path / "set/050.mp4").unlink()
    with pytest.raises(DataError, match=r"list.txt:41: expects .*; so are 1 others of 100 lines, max_skipped allows"):
        opened(str(tmp_path / "set"), "list.txt")
