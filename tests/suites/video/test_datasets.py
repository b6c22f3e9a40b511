"""Video datasets give the chosen frames from folders, zips and video files, and name what is cut, missing or wrong."""

import numpy as np
import pytest

from framework.data import DataLoader, FaultPolicy
from framework.errors import DataError
from suites.video.datasets import FrameFolders, VideoFiles
from suites.video.sampling import Segments
from suites.vision.augmentation.pipeline import Augmented
from suites.vision.pictures.images import write_image
from tests.suites.video.helpers import WAYS, video, write_frame_folders, write_video_files, zip_folder


@pytest.fixture
def frames(tmp_path):
    return write_frame_folders(tmp_path / "frames")


@pytest.fixture
def files(tmp_path):
    return write_video_files(tmp_path / "files")


@pytest.mark.parametrize("zipped", [False, True])
def test_folders_of_frames(frames, tmp_path, zipped):
    root = zip_folder(frames, tmp_path / "frames.zip") if zipped else frames
    data = FrameFolders(str(root), "val.txt", "classes.txt", Segments(4))
    assert data.class_names == WAYS and data.labels.tolist() == [0, 0, 1, 1, 2, 2]
    sample = data.load(3)
    np.testing.assert_array_equal(sample.frames, video("right", seed=15)[[1, 3, 5, 7]])
    assert sample.labels.tolist() == [1] and sample.name == f"{root}/right/05"
    drawn = {data.load(3, np.random.default_rng(seed)).frames.tobytes() for seed in range(8)}
    assert len(drawn) > 1


@pytest.mark.parametrize("zipped", [False, True])
def test_video_files(files, tmp_path, zipped):
    root = zip_folder(files, tmp_path / "files.zip") if zipped else files
    data = VideoFiles(str(root), "all.txt", segments=Segments(4), cache_mb=1)
    assert data.labels.tolist() == [0, 1, 2] and data.class_names == ("0", "1", "2")
    for _ in range(2):  # the second time from the cache
        sample = data.load(2)
        assert sample.frames.shape == (4, 32, 48, 3)
        # Compression loses the noise, of mean 4, and little else.
        assert np.abs(sample.frames.astype(int) - video("down")[[1, 3, 5, 7]]).mean() < 8


def test_a_missing_frame_names_the_folder(frames):
    (frames / "left" / "02" / "03.png").unlink()
    with pytest.raises(DataError, match=r"val.txt:1: left/02 should have 8 frames but 7 images are there"):
        FrameFolders(str(frames), "val.txt")


def test_a_damaged_frame_and_one_of_another_size_are_named(frames):
    data = FrameFolders(str(frames), "val.txt", segments=Segments(8))
    write_image(frames / "left" / "02" / "03.png", np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(DataError, match=r"left/02: its frames differ in size: \(8, 8\), \(32, 48\)"):
        data.load(0)
    (frames / "left" / "02" / "03.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DataError, match=r"left/02/03.png: cut off"):
        data.load(0)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_cut_video_is_one_clear_error(files, share):
    path = files / "left.mp4"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    data = VideoFiles(str(files), "all.txt", segments=Segments(8))
    with pytest.raises(DataError, match=r"left.mp4: cut off after \d+ of \d+ bytes; copy it again") as caught:
        data.load(0)
    assert data.damaged == {0: str(caught.value)}, "it is known since the set was opened"


def test_a_wrong_list_names_file_and_line(frames, files):
    (frames / "val.txt").write_text("left/02 8\n")
    with pytest.raises(DataError, match=r"val.txt:1: expects 'path frames label', found 'left/02 8'"):
        FrameFolders(str(frames), "val.txt")
    (files / "all.txt").write_text("left.mp4 0\nup.mp4 1\n")
    with pytest.raises(DataError, match=r"all.txt:2: the video up.mp4 is missing"):
        VideoFiles(str(files), "all.txt")


def test_the_real_sets_are_read(shared_data):
    gestures = FrameFolders(str(shared_data("video/gesture_body/gesture_body.zip")), "val.txt", "classes.txt")
    assert (len(gestures), gestures.num_classes) == (132, 13)
    assert gestures.load(100).frames.shape == (3, 120, 160, 3)
    fights = VideoFiles(str(shared_data("video/fight/fight.zip")), "val.txt", "classes.txt", Segments(8))
    assert (len(fights), fights.class_names) == (60, ("noFight", "fight"))
    frames = fights.load(59).frames
    assert frames.shape[0] == 8 and min(frames.shape[1:3]) == 224


def test_workers_skip_and_count_a_broken_video(files):
    """Each worker has its own cache and decoder; the sample that cannot be read is named, the others are the same."""
    path = files / "right.mp4"
    path.write_bytes(path.read_bytes()[:-50])
    data = VideoFiles(str(files), "all.txt", segments=Segments(4), cache_mb=1)
    faults = FaultPolicy(skipped=0.5, instead="nothing")
    with DataLoader(Augmented(data, []), workers=1, collate=list, faults=faults) as loader:
        for _ in range(2):
            found = [sample for batch in loader for sample in batch]
            assert [sample.labels.tolist() for sample in found] == [[0], [2]]
            np.testing.assert_array_equal(found[1].frames, data.load(2).frames)
            assert loader.skipped.indices == [1] and "right.mp4: cut off" in loader.skipped.report()
            loader.skipped.forget()
