"""What every data set of anomalies offers, and those of picture files with mask files."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from framework.errors import DataError
from suites.anomaly.sample import Inspectable
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import stem
from suites.engine.data.intake.passed import PassedOver
from suites.engine.data.skipping import SetError
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.vision.pictures.damaged import find_damaged, sizes_differ
from suites.vision.pictures.glances import Glance, glances
from suites.vision.pictures.images import decode_image
from suites.vision.pictures.sizes import picture_sizes

_log = logging.getLogger(__name__)
_NAMED = 5  # in a message
_ENDS = ("_mask", "")  # behind the name of a picture, of its mask
_LOSSY = (b"\xff\xd8", b"RIFF")  # beginnings of JPEG and WebP files
_LEVELS = 16  # of brightness, up to which a mask's are kinds of defects
GOOD = "good"
FINE = (GOOD, "normal", "ok")  # names of folders, however they are written, that are no kind of defect


class AnomalyDataset(ABC):
    """Pictures that are good or have a defect, by index; read-only, picklable, the same sample for the same index.

    Attributes:
        class_names: "good" and "defect".
        kinds: of each picture "good", or what its defect is called.
        masks: whether every defect's place is known.
        passed: what lies among its files and is not read; None where it has no files.
    """

    class_names: tuple[str, ...] = (GOOD, "defect")
    kinds: tuple[str, ...]
    masks: bool
    passed: PassedOver | None = None
    _skipped: Tally | None = None

    @property
    def num_classes(self) -> int:
        """2."""
        return len(self.class_names)

    @property
    def labels(self) -> np.ndarray:
        """int64 [S]: 1 of a picture with a defect."""
        return np.array([kind != GOOD for kind in self.kinds], np.int64)

    def __len__(self) -> int:
        return len(self.kinds)

    @abstractmethod
    def __getitem__(self, index: int) -> Inspectable:
        """Picture `index` with its mask; a DataError names a file that cannot be used."""

    @abstractmethod
    def image(self, index: int) -> np.ndarray:
        """Picture `index` alone, uint8 RGB [H, W, 3]."""

    @abstractmethod
    def name_of(self, index: int) -> str:
        """The file, or other name, of picture `index` for messages."""

    def skipped(self) -> Tally:
        """Pictures that cannot be used and were left out when the set was opened, and why."""
        return self._skipped or Tally()


register_role("dataset", AnomalyDataset, doc="good pictures, and for evaluation pictures with defects, by index")


@dataclass(frozen=True)
class Row:
    """A picture of a set.

    Attributes:
        picture: its file.
        kind: "good", or what its defect is called.
        mask: the file that says where; None for a good picture, and where nobody says.
    """

    picture: str
    kind: str = GOOD
    mask: str | None = None


class AnomalyFiles(AnomalyDataset):
    """Picture files, those of defects with or without mask files.

    Args:
        what: words for messages.
        source: where the files lie.
        rows: the pictures, in order.
    """

    def __init__(self, what: str, source: Source, rows: Sequence[Row]) -> None:
        if not rows:
            raise SetError(f"{what}: there are no pictures")
        self.kinds = tuple(row.kind for row in rows)
        bad = [row for row in rows if row.kind != GOOD]
        self.masks = bool(bad) and all(row.mask is not None for row in bad)
        self._files = source.table([row.picture for row in rows])
        masked = [row.mask for row in rows if row.mask is not None]
        self._masks = source.table(masked)
        places = iter(range(len(masked)))
        self._mask_of = np.array([next(places) if row.mask is not None else -1 for row in rows], np.int64)
        self.passed = source.passed
        kinds = ", ".join(f"{kind} {count}" for kind, count in Counter(self.kinds).items())
        _log.info("%s: %d pictures (%s)%s", what, len(rows), kinds, ", with masks" if self.masks else "")
        self.passed.say(what)
        self.damaged = find_damaged(what, self._files, self._masks, self._mask_of)

    def __getitem__(self, index: int) -> Inspectable:
        image, name = self.image(index), self.name_of(index)
        height, width = image.shape[:2]
        mask = np.zeros((height, width), np.uint8)
        if self._mask_of[index] >= 0:
            mask = self._mask(int(self._mask_of[index]), (height, width), name)
        label = int(self.kinds[index] != GOOD)
        return Inspectable(image=image, mask=mask, label=label, number=index, name=name, original=(height, width))

    def _mask(self, at: int, size: tuple[int, int], picture: str) -> np.ndarray:
        """uint8 [H, W], 1 where the mask marks a defect; DataError for another size."""
        name, data = self._masks.full_name(at), self._masks.read(at)
        bright = decode_image(data, name).max(axis=2)
        if why := sizes_differ(name, bright.shape, picture, size):
            raise DataError(f"mask {why}")
        return marked(bright, lossy=data.startswith(_LOSSY))

    def image(self, index: int) -> np.ndarray:
        """Picture `index` alone, uint8 RGB [H, W, 3]."""
        return decode_image(self._files.read(index), self.name_of(index))

    def name_of(self, index: int) -> str:
        """The picture's file."""
        return self._files.full_name(index)

    def names(self) -> list[str]:
        """The pictures' files."""
        return self._files.full_names()

    def sizes(self) -> np.ndarray:
        """(H, W) of each picture, int64 [S, 2]; (0, 0) of one that cannot be read."""
        return picture_sizes(self._files)

    def glances(self) -> Iterator[Glance | DataError]:
        """What their files say."""
        return glances(self._files, np.arange(len(self)))


def marked(bright: np.ndarray, *, lossy: bool) -> np.ndarray:
    """uint8 [H, W], 1 where a mask marks a defect, of its brightness uint8 [H, W].

    A mask of few levels has a number or a colour for each kind of defect: all but black counts. One of many, or of a
    file that loses a little of each pixel, has blurred borders: what is brighter than half of its brightest counts.
    """
    levels = np.count_nonzero(np.bincount(bright.ravel(), minlength=256))
    least = bright.max() / 2 if lossy or levels > _LEVELS else 0
    return (bright > least).astype(np.uint8)


def matched(what: str, pictures: Sequence[str], masks: Sequence[str], folders: tuple[str, str]) -> list[str]:
    """The mask of each picture: that of its path or else of its name, with or without `_mask` behind.

    Args:
        what: words for messages.
        pictures, masks: their paths below `folders`.
        folders: of the pictures and of the masks, which the paths returned begin with.

    Raises SetError where a picture has no mask, or a mask no picture: names that differ make every figure wrong.
    """
    times = Counter(stem(mask.rpartition("/")[2]) for mask in masks)
    known = {key: mask for mask in masks if times[key := stem(mask.rpartition("/")[2])] == 1}
    known |= {stem(mask): mask for mask in masks}
    keys = [(stem(picture), stem(picture.rpartition("/")[2])) for picture in pictures]
    found = [next((known[key + end] for key in pair for end in _ENDS if key + end in known), None) for pair in keys]
    lonely = [f"{folders[0]}/{picture}" for picture, mask in zip(pictures, found, strict=True) if mask is None]
    spare = sorted(f"{folders[1]}/{mask}" for mask in set(masks) - {mask for mask in found if mask is not None})
    for names, noun, other in ((lonely, "pictures of defects", "mask"), (spare, "masks", "picture")):
        if names:
            shown = ", ".join(names[:_NAMED]) + (" ..." if len(names) > _NAMED else "")
            raise SetError(f"{what}: {len(names)} {noun} have no {other} of their name: {shown}")
    owners: dict[str | None, str] = {}
    for picture, mask in zip(pictures, found, strict=True):
        if (first := owners.setdefault(mask, picture)) != picture:
            raise SetError(f"{what}: {folders[1]}/{mask} is the mask of {first} and of {picture}; give each its own")
    return [f"{folders[1]}/{mask}" for mask in found if mask is not None]
