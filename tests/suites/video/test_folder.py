"""ClipFolder: a folder for each class with videos or folders of frames, in parts or not; copies are in one part."""

import shutil

import pytest

from framework.errors import DataError
from suites.engine.contract.recognising import recognise as recognised
from suites.video.datasets import ClipFolder
from suites.video.datasets.folder import recognise
from tests.suites.video.helpers import WAYS, video, write_frame_folders, write_video


def test_folders_of_frames_are_divided_in_the_order_of_their_numbers(tmp_path):
    write_frame_folders(tmp_path, per_class=10)
    train, val = (ClipFolder(str(tmp_path), part) for part in ("train", "val"))
    assert train.class_names == tuple(sorted(WAYS))
    assert (train.class_counts().tolist(), val.class_counts().tolist()) == ([8] * 3, [2] * 3)
    assert val.name_of(0).endswith("down/04") and val[0].pixels.shape[-1] == 3


def test_videos_in_parts_keep_the_classes_of_training(tmp_path):
    for part, ways in {"train": WAYS, "test": WAYS[:1]}.items():
        for seed, way in enumerate(ways):
            write_video(tmp_path / part / way / "a (1), 50%.MP4", video(way, seed=seed))
    val = ClipFolder(str(tmp_path), "val")
    assert val.class_names == tuple(sorted(WAYS)) and len(val) == 1
    assert val.class_names[val.labels[0]] == WAYS[0]
    assert recognise(tmp_path).command() == f"paddock train video/clips -o data.root={tmp_path}"
    write_video(tmp_path / "test/other/a.mp4", video(WAYS[0]))
    with pytest.raises(DataError, match="the folder other is none of the classes"):
        ClipFolder(str(tmp_path), "val")


def test_copies_of_a_clip_are_in_one_part(tmp_path):
    write_frame_folders(tmp_path, per_class=10)
    for at in range(5):
        shutil.copytree(tmp_path / "left/04", tmp_path / f"left/4{at}")
    train, val = (ClipFolder(str(tmp_path), part) for part in ("train", "val"))
    names = [one.name_of(at) for one in (train, val) for at in range(len(one))]
    assert len(names) == len(set(names)) == 35
    of_val = {val.name_of(at) for at in range(len(val))}
    assert len([name for name in of_val if "/left/4" in name or name.endswith("left/04")]) in (0, 6)


def test_folders_of_frames_are_clips_first_and_photos_else(tmp_path):
    write_frame_folders(tmp_path)
    assert [each.config for each in recognised(tmp_path).found][:2] == ["video/clips", "classification/photos"]


def test_photos_are_no_clips(tmp_path):
    for way in WAYS:
        write_frame_folders(tmp_path / "x")
        (tmp_path / "y" / way).mkdir(parents=True)
        shutil.copy(tmp_path / "x" / way / "00/00.png", tmp_path / "y" / way / "1.png")
    assert recognise(tmp_path / "y") is None
    with pytest.raises(DataError, match="no clips; expected a folder for each class"):
        ClipFolder(str(tmp_path / "y"))
