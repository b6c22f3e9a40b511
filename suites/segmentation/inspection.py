"""What is wrong with a segmentation data set: label maps that are none, numbers that are no class, classes too rare.

Letters: K classes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np

from framework.atomic import atomic_file, write_text
from framework.errors import DataError
from suites.engine.contract.inspection import Finding, Inspected, copies_within
from suites.engine.registry import register
from suites.segmentation.datasets import SegmentationDataset
from suites.segmentation.datasets.base import PairDataset
from suites.segmentation.labels import LabelMapError, encode_labels
from suites.segmentation.sample import IGNORE, Sample
from suites.segmentation.visualize import draw_labels
from suites.vision.drawing import class_colour
from suites.vision.inspection import VisualInspector, left_out_findings
from suites.vision.pictures.glances import Glance
from suites.vision.pictures.images import encode_image

_RARE = 3  # images with a class below which its figures are chance
_VOID = 0.5  # share of an image that is void from which on it is named

_FAULTS = {
    "size": ("label maps are not of their image's size", "write them again at the size of the image"),
    "classes": ("label maps hold what is no class", "correct `classes`, or name such numbers in ignore_labels"),
    "colours": ("label maps are pictures in colours", "set `kind: colours` and the palette, or convert them to ids"),
    "damaged": ("label maps are damaged or no PNG", "copy or write them again"),
    "image": ("pictures cannot be read", "mend or remove them, with their label maps"),
}


@dataclass
class _Seen:
    """What was gathered over a set.

    Attributes:
        pixels: int64 [256] of each label.
        images: int64 [256], with each label.
        sizes: (H, W) of each image that can be used.
        void: share of each image; `names` and `at` say which it is.
        faults: by kind, (index, message).
    """

    pixels: np.ndarray = field(default_factory=lambda: np.zeros(256, np.int64))
    images: np.ndarray = field(default_factory=lambda: np.zeros(256, np.int64))
    sizes: list[tuple[int, int]] = field(default_factory=list)
    void: list[tuple[int, float]] = field(default_factory=list)
    faults: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, at: int, labels: np.ndarray) -> None:
        """Takes in a label map."""
        counts = np.bincount(labels.reshape(-1), minlength=256)
        self.pixels += counts
        self.images += counts > 0
        self.sizes.append((labels.shape[0], labels.shape[1]))
        self.void.append((at, float(counts[IGNORE]) / max(labels.size, 1)))


@register("inspector", "segmentation")
class SegmentationInspector(VisualInspector):
    """Looks at every image, and decodes its label map."""

    formats: ClassVar[tuple[str, ...]] = ("pairs",)

    def look_at(self, dataset: SegmentationDataset, decode: bool) -> Inspected:
        """What `dataset` holds, and what is wrong with it."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        seen, digests = _Seen(), []
        labels = []
        files = repeat(None, len(dataset)) if decode or not isinstance(dataset, PairDataset) else dataset.glances()
        for at, file in enumerate(files):
            try:
                digest, label_map = _content(dataset, at, file)
            except (DataError, OSError) as error:
                fault = error.fault if isinstance(error, LabelMapError) else "image"
                seen.faults.setdefault(fault, []).append((at, str(error)))
                digests.append("")
                labels.append(b"")
                continue
            digests.append(digest)
            labels.append(hashlib.sha256(label_map.tobytes()).digest())
            seen.add(at, label_map)
        findings = [
            *left_out_findings(dataset),
            *_faults(seen),
            *_numbering(seen, dataset),
            *_classes(seen, dataset),
            *_void(seen, names),
        ]
        return Inspected(_summary(seen, dataset), findings + copies_within(names, digests, labels), digests, names)

    def picture(self, sample: Sample, class_names: Sequence[str]) -> np.ndarray:
        """The image beside itself under its classes; void is left as it is there."""
        palette = [class_colour(i) for i in range(len(class_names))]
        under = draw_labels(sample.image, sample.labels, class_names, palette)
        factor = under.shape[0] // sample.image.shape[0]
        return np.concatenate([sample.image.repeat(factor, 0).repeat(factor, 1), under], axis=1)

    def write(self, dataset: SegmentationDataset, indices: Sequence[int], folder: Path, part: str, kind: str) -> Path:
        """`<folder>/<part>/{images,labels}` and `<folder>/classes.txt`, for `ImageLabelPairs`; returns `folder`."""
        taken: set[str] = set()
        for at in indices:
            sample = dataset[at]
            stem = PurePosixPath(dataset.name_of(at)).stem
            stem = stem if stem not in taken else f"{stem}_{at}"
            taken.add(stem)
            for path, data in (
                (folder / part / "images" / f"{stem}.png", encode_image(sample.image)),
                (folder / part / "labels" / f"{stem}.png", encode_labels(sample.labels, dataset.palette)),
            ):
                with atomic_file(path) as file:
                    file.write_bytes(data)
        write_text(folder / "classes.txt", "\n".join(dataset.class_names) + "\n")
        return folder


def _content(dataset: SegmentationDataset, at: int, file: Glance | DataError | None) -> tuple[str, np.ndarray]:
    """The digest of an image, by its file if that was looked at, and its label map, which is decoded in any case."""
    if isinstance(file, DataError):
        raise file
    if file is not None and isinstance(dataset, PairDataset):
        return file.digest, dataset.label_map(at, file.size)
    sample = dataset[at]
    return hashlib.sha256(sample.image.tobytes()).hexdigest(), sample.labels


def _summary(seen: _Seen, dataset: SegmentationDataset) -> list[str]:
    labelled = int(seen.pixels[: dataset.num_classes].sum())
    lines = [f"{len(dataset)} images, {len(seen.sizes)} of them with a label map that can be used"]
    if seen.sizes:
        heights, widths = np.array(seen.sizes).T
        lines.append(f"images: {widths.min()} to {widths.max()} wide, {heights.min()} to {heights.max()} high")
        lines.append(f"void (255): {seen.pixels[IGNORE] / max(seen.pixels.sum(), 1):.1%} of the pixels")
    width = max(len(name) for name in dataset.class_names)
    lines.append(f"  {'class':<{width}} {'pixels':>8} {'images':>7}")
    for label, name in enumerate(dataset.class_names):
        share = seen.pixels[label] / max(labelled, 1)
        lines.append(f"  {name:<{width}} {share:>8.2%} {seen.images[label]:>7}")
    return lines


def _faults(seen: _Seen) -> list[Finding]:
    found = []
    for fault, cases in sorted(seen.faults.items()):
        text, advice = _FAULTS[fault]
        places, samples = tuple(message for _, message in cases), tuple(at for at, _ in cases)
        found.append(Finding("error", f"{len(cases)} {text}", places, samples, advice))
    return found


def _numbering(seen: _Seen, dataset: SegmentationDataset) -> list[Finding]:
    """Where the numbers in the files look as if they began at 1, or were grey levels of a mask."""
    if not seen.faults.get("classes") or not isinstance(dataset, PairDataset):
        return []
    found = (dataset.numbers(at) for at in range(len(dataset)))
    there = np.flatnonzero(sum(numbers for numbers in found if numbers is not None))
    if not len(there):
        return []
    text = f"the numbers in the label files are {', '.join(map(str, there[:20]))}"
    if len(there) == 2 and there[0] == 0 and dataset.num_classes == 2:
        return [Finding("note", text, advice="these are binary masks: set `kind: binary`")]
    if dataset.num_classes in there and there[there != IGNORE].max(initial=0) == dataset.num_classes:
        return [Finding("note", text, advice="if 0 is void and classes begin at 1, set `reduce_zero: true`")]
    return [Finding("note", text)]


def _classes(seen: _Seen, dataset: SegmentationDataset) -> list[Finding]:
    found = []
    absent = [name for label, name in enumerate(dataset.class_names) if not seen.pixels[label]]
    rare = [
        f"{name}: {seen.images[label]}"
        for label, name in enumerate(dataset.class_names)
        if 0 < seen.images[label] < _RARE
    ]
    if absent:
        text = f"{len(absent)} of {dataset.num_classes} classes have no pixel: {', '.join(absent[:10])}"
        found.append(Finding("warning", text, advice="they cannot be learnt or measured here; correct `classes`"))
    if rare:
        found.append(Finding("warning", f"{len(rare)} classes are in fewer than {_RARE} images", tuple(rare)))
    return found


def _void(seen: _Seen, names: Sequence[str]) -> list[Finding]:
    found = []
    empty = [at for at, share in seen.void if share == 1]
    much = [(at, share) for at, share in seen.void if _VOID < share < 1]
    if empty:
        places = tuple(names[at] for at in empty)
        advice = "nothing is learnt from them; is 255, or one of ignore_labels, meant as a class?"
        found.append(Finding("warning", f"{len(empty)} images are void all over", places, tuple(empty), advice))
    if much:
        places = tuple(f"{names[at]} ({share:.0%})" for at, share in much)
        text = f"{len(much)} images are void by more than half"
        found.append(Finding("note", text, places, tuple(at for at, _ in much)))
    return found
