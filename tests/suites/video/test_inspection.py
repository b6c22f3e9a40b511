"""`paddock data check` finds clips that cannot be read, are short, have holes or stand in two sets."""

import shutil

import numpy as np
import pytest

from suites.engine.cli.data import main
from suites.engine.contract.inspection import shared_samples
from suites.video.datasets import ClipFeatures, FrameFolders, VideoFiles
from suites.video.features import FeatureWriter
from suites.video.inspection import VideoInspector
from suites.video.sampling import Segments
from tests.suites.video.helpers import WAYS, grey, video, write_frame_folders, write_video, write_video_files


def listed(root, name, lines):
    (root / name).write_text("".join(f"{line}\n" for line in lines))
    return name


@pytest.fixture
def files(tmp_path):
    return write_video_files(tmp_path / "files")


def texts(inspected, level=None):
    return [finding.text for finding in inspected.findings if level in (None, finding.level)]


def test_what_a_set_holds(files):
    found = VideoInspector().inspect(VideoFiles(str(files), "all.txt", list(WAYS), Segments(4)))
    assert found.summary[:3] == ["3 clips", "frames: 8 to 8, median 8", "pixels: 48 to 48 wide, 32 to 32 high"]
    assert [line.split() for line in found.summary[3:]] == [[way, "1"] for way in WAYS]
    assert texts(found) == ["3 classes have fewer than 10 clips"]


def test_unreadable_short_and_absent(files):
    (files / "left.mp4").write_bytes((files / "left.mp4").read_bytes()[:500])
    write_video(files / "short.mp4", grey([10, 60, 110]))
    listed(files, "all.txt", ["left.mp4 0", "right.mp4 1", "short.mp4 1"])
    found = VideoInspector().inspect(VideoFiles(str(files), "all.txt", [*WAYS], Segments(5)))
    (broken,) = (finding for finding in found.findings if finding.level == "error")
    assert (
        broken.text == "1 clips cannot be read" and broken.samples == (0,) and "left.mp4: cut off" in broken.places[0]
    )
    (short,) = (finding for finding in found.findings if "fewer than the 5 frames" in finding.text)
    assert short.samples == (2,) and short.places[0].endswith("short.mp4: 3 frames")
    assert "1 of 3 classes have no clips: down" in texts(found)


def test_copies_are_found_under_other_names_in_other_containers_and_between_sets(files):
    shutil.copy(files / "left.mp4", files / "again.mp4")
    listed(files, "train.txt", ["left.mp4 0", "again.mp4 0", "down.mp4 2"])
    listed(files, "val.txt", ["again.mp4 0", "right.mp4 1"])
    sets = {
        name: VideoInspector().inspect(VideoFiles(str(files), f"{name}.txt", [*WAYS], segments))
        for name, segments in (("train", Segments(3)), ("val", Segments(8)))
    }
    assert "1 samples are copies of others" in texts(sets["train"], "warning")
    (shared,) = shared_samples({name: {name: one} for name, one in sets.items()})
    assert shared.level == "error" and "1 samples of val are copies of samples of train" in shared.text
    assert "left.mp4 = " in shared.places[0] and shared.places[0].endswith("again.mp4")


def test_a_video_encoded_anew_is_no_copy(files):
    """What the documentation says of copies: the same frames, not the same scene."""
    write_video(files / "again.mp4", video("left"), codec="mpeg4")
    listed(files, "all.txt", ["left.mp4 0", "again.mp4 0"])
    found = VideoInspector().inspect(VideoFiles(str(files), "all.txt", [*WAYS]))
    assert not any("copies" in text for text in texts(found))


def test_holes_in_a_folder_of_frames(tmp_path):
    root = write_frame_folders(tmp_path / "set")
    (root / "left" / "02" / "03.png").unlink()
    listed(root, "all.txt", ["left/02 7 0", "right/00 8 1"])
    found = VideoInspector().inspect(FrameFolders(str(root), "all.txt", [*WAYS]))
    (holes,) = (finding for finding in found.findings if "holes" in finding.text)
    assert holes.samples == (0,) and holes.places[0].endswith("left/02: 1 missing")


def test_sequences_of_features(tmp_path):
    with FeatureWriter(tmp_path / "feats", {"rgb": 4}, {}) as writer:
        for name, value in (("a", 1), ("b", 1), ("c", 2)):
            writer.add(name, {"rgb": np.full((5, 4), value, np.float32)})
    listed(tmp_path, "all.txt", ["a 0", "b 0", "c 1"])
    found = VideoInspector().inspect(ClipFeatures(str(tmp_path / "feats"), str(tmp_path), "all.txt"))
    assert found.summary[:2] == ["3 clips", "frames: 5 to 5, median 5"]
    assert "1 samples are copies of others" in texts(found)


def test_the_command_names_copies_between_sets_and_draws_strips(tmp_path, files, capsys):
    listed(files, "train.txt", ["left.mp4 0", "right.mp4 1"])
    listed(files, "val.txt", ["left.mp4 0", "down.mp4 2"])
    config = tmp_path / "c.yml"
    dataset = f"{{type: VideoFiles, root: {files}, annotations: NAME.txt, classes: [a, b, c]}}"
    data = f"{{dataset: {dataset}, transforms: [], batch_size: 1}}"
    parts = [f"  {part}: {data.replace('NAME', name)}" for part, name in (("train", "train"), ("eval", "val"))]
    model = "model: {type: TSN, num_classes: 3, backbone: {type: ResNet, depth: 18}}"
    rest = "optimizer: {type: Momentum}\nschedule: {type: Cosine, base_lr: 0.1}\nruntime: {steps: 1}"
    config.write_text("\n".join(["suite: video", model, "data:", "  num_classes: 3", *parts, rest]))
    assert main(["check", str(config), "--pictures", str(tmp_path / "found")]) == 1
    said = capsys.readouterr().out
    assert "between sets:" in said and "1 samples of eval are copies of samples of train" in said
    assert "1 kinds of errors" in said
    assert main(["draw", str(config), "--output", str(tmp_path / "drawn")]) == 0
    assert len(list((tmp_path / "drawn").glob("*.jpg"))) == 2
