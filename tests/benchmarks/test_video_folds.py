"""Every clip is tested in exactly one fold and trained on in all others; the lists are those that a config reads."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from video_folds import deal, fold_overrides, lay_out

from suites.engine.config.building import read_config
from tests.suites.video.helpers import write_frame_folders
from tests.suites.video.test_task import CONFIG


def test_each_clip_is_tested_once_and_classes_are_even():
    rows = [(f"c{i}", i % 2) for i in range(16)]
    folds = deal([("a", 0), ("b", 1)], rows, 5)
    assert folds[0] == [("a", 0), ("b", 1)]
    assert sorted(row for fold in folds[1:] for row in fold) == sorted(rows)
    assert all([label for _, label in fold].count(1) == 2 for fold in folds[1:])


def test_the_lists_of_a_fold_are_read_by_its_config(tmp_path):
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(write_frame_folders(tmp_path / "set"))))
    config = read_config(path)
    lay_out(config, tmp_path / "clips", 3, short=24)
    seen = []
    for fold in range(3):
        changed = read_config(path, fold_overrides(config, tmp_path / "clips", fold))
        train, test = (changed.build(f"data.{part}.dataset") for part in ("train", "eval"))
        names = [{data.name_of(i) for i in range(len(data))} for data in (train, test)]
        assert len(train) == 12 and len(test) == 6 and not names[0] & names[1]
        assert test.load(0).frames.shape == (5, 24, 36, 3) and train.segments.count == 3
        seen += sorted(names[1])
    assert len(seen) == len(set(seen)) == 18
