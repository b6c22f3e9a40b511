"""Ade20k: scenes of the MIT benchmark with 150 classes (Zhou et al. 2017, http://sceneparsing.csail.mit.edu)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.datasets.reading import Ids
from suites.vision.files import read_lines

_CLASSES, _NAMES = 150, "objectInfo150.txt"


@register("dataset")
class Ade20k(PairDataset):
    """`images/<part>/*.jpg` and `annotations/<part>/*.png`; the number 0 is void, classes are 1 to 150 in the files.

    Args:
        root: The folder `ADEChallengeData2016`, or a zip of it.
        split: "train" (the folder training, 20,210 images) or "val" (validation, 2,000).
        max_skipped: Share of the images that may be without a label map; they are left out and logged. 0: the first one
            is an error.

    Raises:
        DataError: Names the folder or the first file that is missing.
    """

    def __init__(self, root: str | Path, split: Literal["train", "val"], max_skipped: float = MAX_SKIPPED) -> None:
        source = open_source(root)
        part = {"train": "training", "val": "validation"}[split]
        stems = [name.removesuffix(".jpg") for name in source.names(f"images/{part}") if name.endswith(".jpg")]
        if not stems:
            raise DataError(f"{source.root}: no images/{part}/*.jpg; root is the folder ADEChallengeData2016")
        known = set(source.names(f"annotations/{part}"))

        def check(stem: str) -> None:
            if f"{stem}.png" not in known:
                raise DataError(f"{source.root}: annotations/{part}/{stem}.png is missing")

        self._skipped = Tally()
        found = usable(f"Ade20k {root} {split}", stems, check, max_skipped, self._skipped, "images")
        stems = [stem for stem, _ in found]
        super().__init__(
            source.table([f"images/{part}/{stem}.jpg" for stem in stems]),
            source.table([f"annotations/{part}/{stem}.png" for stem in stems]),
            _class_names(source),
            Ids(_CLASSES, reduce_zero=True),
        )


def _class_names(source: Source) -> list[str]:
    """The first word of each row of the table in the root, whose last column has the names."""
    rows = [line.split("\t") for line in read_lines(source, _NAMES)]
    names = [row[-1].split(",")[0].strip() for row in rows if row[0].strip().isdigit()]
    if len(names) != _CLASSES:
        raise DataError(f"{source.root}/{_NAMES}: names {len(names)} classes; there are {_CLASSES}")
    return names
