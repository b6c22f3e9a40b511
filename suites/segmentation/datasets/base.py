"""What every segmentation dataset offers, and what those that read pairs of files share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.data.files import FileTable
from suites.engine.data.intake.passed import PassedOver
from suites.engine.registry import register_role
from suites.engine.reporting import Tally
from suites.segmentation.datasets.reading import Colour, LabelReader
from suites.segmentation.labels import LabelMapError, decode_labels
from suites.segmentation.sample import IGNORE, Sample
from suites.vision.drawing import class_colour
from suites.vision.pictures.damaged import find_damaged, sizes_differ
from suites.vision.pictures.glances import Glance, glances
from suites.vision.pictures.images import decode_image
from suites.vision.pictures.sizes import picture_sizes


class SegmentationDataset(ABC):
    """Images with label maps, by index; read-only, picklable, the same sample for the same index.

    Attributes:
        class_names: K names in label order.
        palette: RGB of each class in pictures.
        passed: what lies among its files and is not read; None where it has no files.
    """

    class_names: tuple[str, ...]
    palette: tuple[Colour, ...]
    passed: PassedOver | None = None
    _skipped: Tally | None = None

    @property
    def num_classes(self) -> int:
        """Number of classes K; labels are 0 to K - 1."""
        return len(self.class_names)

    @abstractmethod
    def __len__(self) -> int:
        """Number of images."""

    @abstractmethod
    def __getitem__(self, index: int) -> Sample:
        """Image `index` with its labels; a DataError names a file that cannot be used."""

    @abstractmethod
    def image(self, index: int) -> np.ndarray:
        """Image `index` alone, uint8 RGB [H, W, 3]."""

    @abstractmethod
    def name_of(self, index: int) -> str:
        """The file, or other name, of image `index` for messages."""

    def sizes(self) -> np.ndarray:
        """(H, W) of each image, int64 [S, 2]; (0, 0) of one that cannot be read."""
        return np.array([self.image(at).shape[:2] for at in range(len(self))], np.int64).reshape(-1, 2)

    def skipped(self) -> Tally:
        """Images that cannot be used and were left out when the set was opened, and why."""
        return self._skipped or Tally()


register_role("dataset", SegmentationDataset, doc="images with label maps, by index")


class PairDataset(SegmentationDataset):
    """A dataset of image files, each with a file of labels of the same size."""

    def __init__(
        self,
        images: FileTable,
        labels: FileTable,
        class_names: Sequence[str],
        reader: LabelReader,
        palette: Sequence[Colour] | None = None,
    ) -> None:
        """Args: files in the same order, K names, what reads a label file, RGB of each class.

        Raises:
            DataError: There are no files.
            AttributeValueError: The palette has another number of classes, or there are too many or too few.
        """
        if not len(images):
            raise DataError(f"{type(self).__name__}: no images are left")
        if not 2 <= len(class_names) <= IGNORE:
            raise AttributeValueError(f"classes: there are {len(class_names)}; 2 to {IGNORE} can be told apart")
        if palette is not None and len(palette) != len(class_names):
            raise AttributeValueError(
                f"palette: it has {len(palette)} colours for {len(class_names)} classes; give one a class"
            )
        self.class_names = tuple(class_names)
        self.palette = tuple(palette or (class_colour(i) for i in range(len(class_names))))
        self._images, self._labels, self._reader = images, labels, reader
        self.damaged = find_damaged(type(self).__name__, images, labels if len(labels) == len(images) else None)

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Sample:
        image = self.image(index)
        return Sample(image=image, labels=self.label_map(index, image.shape[:2]), image_id=index)

    def label_map(self, index: int, size: tuple[int, int]) -> np.ndarray:
        """Label map `index`, uint8 [H, W]; LabelMapError where it is damaged, or not of its image's size (H, W)."""
        labels, name = self._label_map(index)
        if why := sizes_differ(name, labels.shape, self.name_of(index), size):
            raise LabelMapError(f"label map {why}", "size")
        return labels

    def _label_map(self, index: int) -> tuple[np.ndarray, str]:
        """Label map `index` as its file has it, and the file's name."""
        name = self._labels.full_name(index)
        return self._reader(self._labels.read(index), name), name

    def glances(self) -> Iterator[Glance | DataError]:
        """Of each image what its file says without decoding, or why it cannot be used."""
        return glances(self._images, np.arange(len(self)))

    def sizes(self) -> np.ndarray:
        """See `SegmentationDataset`."""
        return picture_sizes(self._images)

    def numbers(self, index: int) -> np.ndarray | None:
        """int64 [256], how often each number stands in the label file; None where it holds none, but colours."""
        if index >= len(self._labels):  # of another kind, such as SBD's
            return None
        try:
            found = decode_labels(self._labels.read(index), self._labels.full_name(index))
        except DataError:
            return None
        return np.bincount(found.reshape(-1), minlength=256)

    def image(self, index: int) -> np.ndarray:
        """Image `index` alone, uint8 RGB [H, W, 3]."""
        return decode_image(self._images.read(index), self._images.full_name(index))

    def name_of(self, index: int) -> str:
        """The image file of sample `index`."""
        return self._images.full_name(index)
