"""Cityscapes: street scenes with 19 classes (Cordts et al. 2016, arXiv:1604.01685).

Ids, names and colours: https://github.com/mcordts/cityscapesScripts, cityscapesscripts/helpers/labels.py.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.datasets.reading import Colour, Ids

# The id in *_labelIds.png, name and colour of each class that is evaluated, in the order of its train id.
CLASSES: tuple[tuple[int, str, Colour], ...] = (
    (7, "road", (128, 64, 128)),
    (8, "sidewalk", (244, 35, 232)),
    (11, "building", (70, 70, 70)),
    (12, "wall", (102, 102, 156)),
    (13, "fence", (190, 153, 153)),
    (17, "pole", (153, 153, 153)),
    (19, "traffic light", (250, 170, 30)),
    (20, "traffic sign", (220, 220, 0)),
    (21, "vegetation", (107, 142, 35)),
    (22, "terrain", (152, 251, 152)),
    (23, "sky", (70, 130, 180)),
    (24, "person", (220, 20, 60)),
    (25, "rider", (255, 0, 0)),
    (26, "car", (0, 0, 142)),
    (27, "truck", (0, 0, 70)),
    (28, "bus", (0, 60, 100)),
    (31, "train", (0, 80, 100)),
    (32, "motorcycle", (0, 0, 230)),
    (33, "bicycle", (119, 11, 32)),
)
_IMAGE_END, _LABEL_END = "_leftImg8bit.png", "_gtFine_labelIds.png"


@register("dataset")
class Cityscapes(PairDataset):
    """Fine annotations: `leftImg8bit/<split>/<city>/*_leftImg8bit.png` and `gtFine/.../*_gtFine_labelIds.png`.

    Ids that are not evaluated are ignored.

    Args:
        root: The folder that holds `leftImg8bit` and `gtFine`, or a zip of it.
        split: "train" (2,975 images) or "val" (500).
        max_skipped: Share of the images that may be without a label map; they are left out and logged. 0: the first one
            is an error.

    Raises:
        DataError: Names the folder or the first file that is missing.
    """

    def __init__(self, root: str | Path, split: Literal["train", "val"], max_skipped: float = MAX_SKIPPED) -> None:
        source = open_source(root)
        self._skipped = Tally()
        images = _images(source, split)
        what = f"Cityscapes {root} {split}"
        pairs = usable(what, images, partial(_label_of, source, split), max_skipped, self._skipped, "images")
        super().__init__(
            source.table([image for image, _ in pairs]),
            source.table([label for _, label in pairs]),
            [name for _, name, _ in CLASSES],
            Ids(len(CLASSES), ids={number: label for label, (number, _, _) in enumerate(CLASSES)}),
            [colour for _, _, colour in CLASSES],
        )


def _images(source: Source, split: str) -> list[str]:
    folder = f"leftImg8bit/{split}"
    names = [f"{folder}/{city}/{name}" for city in source.folders(folder) for name in source.names(f"{folder}/{city}")]
    found = [name for name in names if name.endswith(_IMAGE_END)]
    if not found:
        raise DataError(f"{source.root}: no leftImg8bit/{split}/<city>/*{_IMAGE_END}; root is the folder above it")
    return found


def _label_of(source: Source, split: str, image: str) -> str:
    city, name = image.split("/")[-2:]
    label = f"gtFine/{split}/{city}/{name.removesuffix(_IMAGE_END)}{_LABEL_END}"
    if not source.exists(label):
        raise DataError(f"{source.root}: {label} is missing; unpack gtFine_trainvaltest")
    return label
