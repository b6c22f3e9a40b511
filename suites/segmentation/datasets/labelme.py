"""LabelmeSegmentation: pictures with one JSON file each, whose shapes are drawn in their order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import MAX_SKIPPED, SetError, usable
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.segmentation.datasets.base import SegmentationDataset
from suites.segmentation.datasets.reading import Colour
from suites.segmentation.sample import IGNORE, Sample
from suites.vision.drawing import class_colour
from suites.vision.files import listed_classes
from suites.vision.geometry import Stretch
from suites.vision.labelme import Documents, label_of, part_of, picture_of, stated_size
from suites.vision.pictures.images import decode_image
from suites.vision.pictures.sizes import picture_sizes
from suites.vision.pictures.stated import Fitter, Size
from suites.vision.structures import Masks, Patch

BACKGROUND, VOID = "_background_", "__ignore__"


@register("dataset", needs={"split": "holdout"})
class LabelmeSegmentation(SegmentationDataset):
    """Polygons, rectangles, circles and masks as label maps; later shapes lie over earlier ones. Lines are left out.

    A shape labelled `__ignore__` is void. What no shape covers is class 0, `_background_`, or
    void as `background` says.

    Args:
        root: The folder of the JSON files, a `.zip` of it (read in place), or a folder inside a zip.
        split: "train" or "val" with `holdout`; None for all.
        classes: Names of the classes, the background not among them. None: the lines of classes.txt, labels.txt or
            label_list.txt in the root, else all labels found, sorted.
        holdout: Every `holdout`-th file in name order is "val", the rest "train".
        background: What a pixel under no shape is: "class", number 0, or "void", neither learnt nor counted.
        palette: RGB (0 to 255) of each class in pictures, the background first; None chooses.
        max_skipped: Share of the images that may be unusable: JSON that is cut off, a shape without points, a missing
            picture. They are left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file: no JSON at all, an unknown label, more unusable images than `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        *,
        classes: Sequence[str] | None = None,
        holdout: int | None = None,
        background: Literal["class", "void"] = "class",
        palette: Sequence[Colour] | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        source = open_source(root)
        documents = Documents(source)
        names = list(classes) if classes is not None else listed_classes(source) or documents.labels()
        own = [name for name in names if name not in (BACKGROUND, VOID)]
        self.class_names = (BACKGROUND, *own) if background == "class" else tuple(own)
        if not 2 <= len(self.class_names) <= IGNORE:
            raise DataError(f"{source.root}: it has {len(self.class_names)} classes; 2 to {IGNORE} can be told apart")
        if palette is not None and len(palette) != len(self.class_names):
            raise AttributeValueError(f"palette: it has {len(palette)} colours for {len(self.class_names)} classes")
        self.palette = tuple(palette or (class_colour(i) for i in range(len(self.class_names))))
        self._fill = 0 if background == "class" else IGNORE
        numbers = {name: label for label, name in enumerate(self.class_names)} | {VOID: IGNORE}
        files = documents.names if holdout is None else documents.held_out(split, holdout, "LabelmeSegmentation")

        def read(name: str) -> tuple[str, Size, list[tuple[int, np.ndarray | Patch]]]:
            document = documents[name]
            image = picture_of(source, name, document)
            if image is None:
                raise DataError(f"{source.root}/{name}: its picture '{document.get('imagePath', '')}' is not beside it")
            return image, stated_size(document), _shapes(document["shapes"], numbers, f"{source.root}/{name}")

        what = f"LabelmeSegmentation {root}" + (f" {split}" if split else "")
        self._skipped = Tally()
        found = [made for _, made in usable(what, files, read, max_skipped, self._skipped, "images")]
        self._images = source.table([image for image, _, _ in found])
        self._fitter = Fitter()
        self._stated = [size for _, size, _ in found]
        self._shapes = [shapes for _, _, shapes in found]
        self.passed = source.passed
        self.passed.say(what)

    def __len__(self) -> int:
        return len(self._shapes)

    def __getitem__(self, index: int) -> Sample:
        image = self.image(index)
        labels = np.full(image.shape[:2], self._fill, np.uint8)
        shapes, size = self._shapes[index], (image.shape[0], image.shape[1])
        scale = self._fitter.scale(self._stated[index], size, self.name_of(index))
        for label, part in shapes:
            labels[_bitmap(part, scale, self._stated[index], size)] = label
        return Sample(image=image, labels=labels, image_id=index)

    def sizes(self) -> np.ndarray:
        """See `SegmentationDataset`."""
        return picture_sizes(self._images)

    def image(self, index: int) -> np.ndarray:
        """Image `index` alone, uint8 RGB [H, W, 3]."""
        return decode_image(self._images.read(index), self._images.full_name(index))

    def name_of(self, index: int) -> str:
        """The picture of sample `index`."""
        return self._images.full_name(index)


def _bitmap(part: np.ndarray | Patch, scale: float, stated: Size, size: Size) -> np.ndarray:
    """bool [H, W] of a shape in a picture of `size`, whose annotation states another `scale` times smaller."""
    if not isinstance(part, Patch):
        return Masks(((part * scale,),), size).bitmaps()[0]
    if scale == 1:
        return part.whole(size)
    return Stretch(stated, size).labels(part.whole(stated).astype(np.uint8), 0).astype(bool)


def _shapes(
    shapes: Sequence[dict[str, Any]], numbers: dict[str, int], where: str
) -> list[tuple[int, np.ndarray | Patch]]:
    """Class, and outline or bitmap, of each shape with an area."""
    found = []
    for at, shape in enumerate(shapes):
        name, part = label_of(shape), part_of(shape, f"{where}: shape {at}")
        if part is None:
            continue
        if not name:
            raise DataError(f"{where}: shape {at} has no label")
        if name not in numbers:
            raise SetError(
                f"{where}: shape {at} is labelled {name!r}, which is none of the classes; add it to `classes`"
            )
        found.append((numbers[name], part))
    return found
