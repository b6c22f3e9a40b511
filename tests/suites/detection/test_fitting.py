"""What `auto` of a detector's config becomes."""

from pathlib import Path

import numpy as np
import pytest

from framework.errors import ConfigError
from suites.engine.config.building import read_config
from suites.vision.pictures.images import write_image
from tests.suites.detection.datasets.helpers import voc_xml

CONFIG = Path("detection/finetune_faster_rcnn_mobilenetv2")


def folder(root, sides, size=(192, 256)):
    """A VOC folder with a square of each side, each in a picture of its own; ten are for training, two not."""
    for at, side in enumerate([*sides, 50, 50]):
        write_image(root / f"JPEGImages/{at}.png", np.full((*size, 3), at, np.uint8))
        (root / "Annotations").mkdir(exist_ok=True)
        (root / f"Annotations/{at}.xml").write_text(voc_xml([("cat", (0, 0, side, side), False)], size, f"{at}.png"))
    (root / "ImageSets/Main").mkdir(parents=True)
    names = [str(at) for at in range(len(sides) + 2)]
    (root / "ImageSets/Main/train.txt").write_text("\n".join(names[:-2]))
    (root / "ImageSets/Main/val.txt").write_text("\n".join(names[-2:]))
    return root


@pytest.mark.parametrize(
    "sides, sizes",
    [
        ([5] * 2 + [20] * 8, [32, 64, 128, 256]),  # 34 pixels, as sides are twice as large at 384
        ([2] * 10, [8, 16, 32, 64]),
        ([190] * 10, [64, 128, 256, 512]),
    ],
)
def test_sizes_of_anchors_follow_the_objects_as_the_network_sees_them(tmp_path, sides, sizes, caplog):
    caplog.set_level("INFO")
    config = read_config(CONFIG, [f"data.root={folder(tmp_path, sides)}"])
    assert config["model.rpn.sizes"] == sizes and config["data.num_classes"] == 1
    assert f"model.rpn.sizes: {sizes}, as 4 of 5 objects are larger" in caplog.text


def test_sizes_that_are_written_are_kept_and_other_resizing_is_refused(tmp_path):
    root = folder(tmp_path, [20] * 10)
    given = [f"data.root={root}", "model.rpn.sizes=[10,20,40,80]"]
    assert read_config(CONFIG, given)["model.rpn.sizes"] == [10, 20, 40, 80]
    with pytest.raises(ConfigError, match=r"model\.rpn\.sizes: auto: no ResizeKeepRatio among data\.eval\.transforms"):
        read_config(CONFIG, [f"data.root={root}", "data.eval.transforms=[{type: Resize, size: 384}]"])
