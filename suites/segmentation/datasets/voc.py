"""VocSegmentation: Pascal VOC 2012's label maps, with the annotations of SBD where wanted.

VOC: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html, section 4.2. SBD: Hariharan et al. 2011,
Semantic Contours from Inverse Detectors.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import numpy as np

from framework.errors import DataError
from suites.engine.data.files import Source
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.datasets.reading import Ids
from suites.segmentation.labels import check_labels
from suites.segmentation.sample import IGNORE
from suites.vision.files import read_lines

CLASSES = (
    "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable",
    "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor",
)  # fmt: skip
_MOST_MAT = 1 << 20  # bytes; they are compressed


@register("dataset", needs={"sbd": ("split", "trainaug")})
class VocSegmentation(PairDataset):
    """21 classes with the background; the borders between objects (255) are void.

    Args:
        root: The folder `VOC2012` that holds `JPEGImages` and `SegmentationClass`, or a zip of it.
        split: "train" (1,464 images), "val" (1,449), "trainval", or "trainaug": train and what SBD adds to it, 10,582
            images, none of them in val.
        sbd: For "trainaug": the folder of SBD with `cls/*.mat`, `train.txt` and `val.txt`, or a zip of it. None takes
            the folder `SegmentationClassAug` of the root, where its label maps were converted to PNG.
        max_skipped: Share of the images of which a file may be missing; they are left out and logged. 0: the first one
            is an error.

    Raises:
        DataError: Names the file that is missing or damaged.
    """

    def __init__(
        self,
        root: str | Path,
        split: Literal["train", "val", "trainval", "trainaug"] = "train",
        sbd: str | Path | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        extra = [] if split != "trainaug" or sbd is None else _sbd_stems(sbd, set(_listed(source, "val")))
        own = _listed(source, "train" if split == "trainaug" else split)
        labels = "SegmentationClass"
        if split == "trainaug" and sbd is None:
            labels = "SegmentationClassAug"
            own = [name.removesuffix(".png") for name in source.names(labels) if name.endswith(".png")]
            if not own:
                raise DataError(f"{source.root}: no label maps in {labels}; set sbd to the folder of SBD")
            held = set(_listed(source, "val"))
            own = [stem for stem in own if stem not in held]
        added = [stem for stem in extra if stem not in set(own)]
        extra_source = None if sbd is None else open_source(sbd)

        def check(row: tuple[str, bool]) -> None:
            stem, ours = row
            _require(source, f"JPEGImages/{stem}.jpg")
            if ours:
                _require(source, f"{labels}/{stem}.png")
            elif extra_source is not None:
                _require(extra_source, f"cls/{stem}.mat")

        self._skipped = Tally()
        rows = [(stem, True) for stem in own] + [(stem, False) for stem in added]
        found = usable(f"VocSegmentation {root} {split}", rows, check, max_skipped, self._skipped, "images")
        own = [stem for (stem, ours), _ in found if ours]
        added = [stem for (stem, ours), _ in found if not ours]
        self._own = len(own)
        self._mats = None if extra_source is None else extra_source.table([f"cls/{stem}.mat" for stem in added])
        super().__init__(
            source.table([f"JPEGImages/{stem}.jpg" for stem in (*own, *added)]),
            source.table([f"{labels}/{stem}.png" for stem in own]),
            CLASSES,
            Ids(len(CLASSES)),
            [_colour(label) for label in range(len(CLASSES))],
        )

    def _label_map(self, index: int) -> tuple[np.ndarray, str]:
        if index < self._own or self._mats is None:
            return super()._label_map(index)
        at = index - self._own
        labels = _read_mat(self._mats.read(at), name := self._mats.full_name(at))
        check_labels(labels, self.num_classes, IGNORE, name)
        return labels, name


def _listed(source: Source, split: str) -> list[str]:
    return read_lines(source, f"ImageSets/Segmentation/{split}.txt")


def _sbd_stems(sbd: str | Path, held: set[str]) -> list[str]:
    """What SBD annotates, without VOC's val."""
    source = open_source(sbd)
    return [stem for name in ("train.txt", "val.txt") for stem in read_lines(source, name) if stem not in held]


def _require(source: Source, name: str) -> None:
    if not source.exists(name):
        raise DataError(f"{source.root}: {name} is missing; unpack it again")


def _read_mat(data: bytes, name: str) -> np.ndarray:
    """The classes of a MATLAB file of SBD: GTcls.Segmentation, uint8 [H, W]."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    if len(data) > _MOST_MAT:
        raise DataError(f"{name}: has {len(data)} bytes; SBD's files have a few thousand")
    try:
        labels = loadmat(io.BytesIO(data), variable_names=["GTcls"])["GTcls"]["Segmentation"][0, 0]
    except (MatReadError, KeyError, ValueError, IndexError, TypeError, OSError, NotImplementedError) as error:
        raise DataError(f"{name}: is no file of SBD's classes ({type(error).__name__}: {error})") from None
    if labels.ndim != 2 or labels.dtype != np.uint8:
        raise DataError(f"{name}: GTcls.Segmentation is {labels.dtype} {list(labels.shape)}, not uint8 [H, W]")
    return np.ascontiguousarray(labels)


def _colour(label: int) -> tuple[int, int, int]:
    """VOC's colour of a class: the bits of its number, three at a time, are the highest bits of red, green, blue."""
    colour = [0, 0, 0]
    for place in range(8):
        for channel in range(3):
            colour[channel] |= (label >> (3 * place + channel) & 1) << (7 - place)
    return colour[0], colour[1], colour[2]
