"""Every photo is tested in exactly one fold and trained on in all others; fold 0 is what `holdout` keeps for val."""

import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from detection_folds import fold_overrides, lay_out

from suites.engine.data.intake.dividing import divided


def test_each_photo_is_tested_once(tmp_path):
    names = [f"p{i:02d}" for i in range(13)]
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for name in names:
            archive.writestr(f"annotations/{name}.xml", "<annotation/>")
    lay_out(tmp_path / "set.zip", tmp_path / "set", 5)
    lists = {path.stem: path.read_text().split() for path in (tmp_path / "set" / "ImageSets" / "Main").iterdir()}
    tested = [name for fold in range(5) for name in lists[f"val{fold}"]]
    assert sorted(tested) == names and lists["val0"] == divided(names, "val", 5, "test")
    for fold in range(5):
        assert sorted(lists[f"val{fold}"] + lists[f"train{fold}"]) == names


def test_a_fold_reads_its_own_lists(tmp_path):
    assert {"data.train.dataset.split=train3", "data.eval.dataset.split=val3"} <= set(fold_overrides(tmp_path, 3))
