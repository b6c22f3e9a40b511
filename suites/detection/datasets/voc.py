"""VocDetection: a folder or zip in Pascal VOC's layout, one XML file an image.

Format: http://host.robots.ox.ac.uk/pascal/VOC/voc2012/htmldoc/devkit_doc.html, section 4.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from framework.errors import AttributeValueError, DataError
from suites.detection.datasets.annotations import RawAnnotations
from suites.detection.datasets.base import FileDataset
from suites.detection.datasets.intake import Intake, OnProblem, missing_picture
from suites.detection.datasets.layout import ClassTable
from suites.detection.sample import Sample
from suites.engine.data.files import Source
from suites.engine.data.intake.naming import Finder, Stems, as_written, ending, in_order, stem
from suites.engine.data.intake.texts import xml_in
from suites.engine.data.intake.written import number_in
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.vision.files import flag, held_out, is_image, listed_classes, pictures_below, read_lines
from suites.vision.pictures.images import IMAGE_SUFFIXES


@register("dataset")
class VocDetection(FileDataset):
    """Images and boxes from `Annotations/*.xml`, `JPEGImages/` and `ImageSets/Main/<split>.txt`.

    Args:
        root: The folder that holds these, a `.zip` of it (read in place), or a folder inside a zip.
            `annotations/` and `images/` are taken too; else the XML files lie beside the pictures, also in folders.
        split: Name of a list in `ImageSets/Main`; None takes every annotation. With `holdout`, "train"
            or "val".
        classes: Class names in label order. None: the lines of classes.txt, labels.txt or label_list.txt in
            the root, else all names found in any annotation, sorted, so that all splits agree.
        holdout: For data without lists: every `holdout`-th annotation in name order is "val", the rest
            "train".
        unknown_class: What a box of a class outside `classes` is: an "error", or left out and counted
            ("skip").
        one_class: What boxes of all names are together, such as "face"; None keeps their names apart.
        keep_difficult: Whether boxes marked difficult are samples' boxes; they stay in the ground truth,
            which VOC mAP ignores.
        one_based: Whether pixels count from 1 and x2, y2 are inclusive, as in the original Pascal VOC; most
            other tools that write this format count from 0. None: those do whose annotation says that its
            database is "The VOC<year> Database", as the original ones do.
        bad_images: "error", or "skip" to decode all images at the start and leave out, with a count, those
            that are missing, damaged, or not of the size their annotation says.
        skip_empty: Leaves out images without boxes.
        max_skipped: Share of the images that may be unusable: an annotation that is missing or damaged, no
            picture. They are left out and logged. 0: the first one is an error.

    Raises:
        DataError: Names the file, and the line where there is one: no list, an unknown class, no images at all, more
            unusable images than `max_skipped`.
    """

    def __init__(
        self,
        root: str | Path,
        split: str | None = None,
        *,
        classes: Sequence[str] | None = None,
        holdout: int | None = None,
        unknown_class: OnProblem = "error",
        one_class: str | None = None,
        keep_difficult: bool = True,
        one_based: bool | None = None,
        bad_images: OnProblem = "error",
        skip_empty: bool = False,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        what = f"VocDetection {root}" + (f" {split}" if split else "")
        source = open_source(root)
        layout = _Layout(source)
        stems = layout.stems(split, holdout)
        if one_class is not None and classes is not None:
            raise AttributeValueError(f"VocDetection: all boxes are of one_class {one_class!r}; leave out classes")
        one = None if one_class is None else [one_class]
        names = one or (list(classes) if classes is not None else layout.class_names())
        intake = Intake(what, bad_images, max_skipped)
        reader = _Reader(intake.raw, source, names, unknown_class, one_based, one_class)
        for name in stems:
            with intake.image():
                xml_name = layout.annotation_of(name)
                root_element = parse_xml(source, xml_name)
                image = layout.image_of(name, root_element.findtext("filename") or "")
                if image is None:
                    raise missing_picture(f"{source.root}/{layout.images}/{name}.jpg")
                reader.add(image, xml_name, root_element)
        self._keep_difficult = keep_difficult
        self.unannotated, self.passed = layout.unannotated(intake.raw.files), source.passed
        super().__init__(
            intake,
            source.table(intake.raw.files),
            names,
            unknown_boxes=reader.classes.unknown,
            skip_empty=skip_empty,
        )

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return sample if self._keep_difficult else sample.pick(~sample.instances.difficult)


def class_names_of(root: str | Path) -> list[str]:
    """Names of the classes of all annotations below a root."""
    return _Layout(open_source(root)).class_names()


def parse_xml(source: Source, name: str) -> ET.Element:
    """Root element of an XML file; a DataError names file and line where it is cut off or malformed."""
    return xml_in(source.read(name, "text_bytes"), f"{source.root}/{name}")


_ANNOTATIONS, _IMAGES = ("Annotations", "annotations"), ("JPEGImages", "images")


def _first(source: Source, folders: Sequence[str]) -> str | None:
    return next((folder for folder in folders if source.below(folder)), None)


class _Layout:
    """Where things lie under a VOC root."""

    def __init__(self, source: Source) -> None:
        self._source = source
        beside = not _first(source, _ANNOTATIONS) and any(ending(name) == ".xml" for name in source.below())
        self.annotations = "" if beside else source.first_folder(_ANNOTATIONS, "annotation folder")
        alone = beside and not _first(source, _IMAGES)  # pictures and XML together, as labelImg and Roboflow write
        self.images = "" if alone else source.first_folder(_IMAGES, "image folder")
        self._image_files = pictures_below(source, self.images)
        self._pictures, self._by_stem = Finder(self._image_files), Stems(self._image_files, preferred=IMAGE_SUFFIXES)
        together = IMAGE_SUFFIXES if self.images == self.annotations else ()
        found = source.files(self.annotations, (".xml",), (*together, ".txt"))
        self._stems = [stem(name) for name in found]
        self._files = Stems(found)
        self._list = ""

    def annotation_of(self, name: str) -> str:
        """The annotation of a name of the split; DataError if there is none."""
        file = self._files.find(name)
        if file is None:
            expected = f"{self.annotations}/{name}.xml"
            raise DataError(f"{self._source.root}/{self._list}: {name} has no annotation (expected {expected})")
        return f"{self.annotations}/{file}".lstrip("/")

    def stems(self, split: str | None, holdout: int | None) -> list[str]:
        """Names of the split, in the list's order."""
        if holdout is not None:
            pictures = [self.image_of(name, "") or name for name in self._stems]
            return held_out(self._source, self._stems, split, holdout, "VocDetection", pictures)
        if split is None:
            return self._stems
        lists = [stem(name) for name in self._source.names("ImageSets/Main") if ending(name) == ".txt"]
        if split not in lists:
            raise DataError(
                f"{self._source.root}: no ImageSets/Main/{split}.txt; lists there: "
                f"{', '.join(lists) or 'none'}. Without lists, use holdout: 5 with split train or val"
            )
        self._list = f"ImageSets/Main/{split}.txt"
        return [self._listed(line) for line in read_lines(self._source, self._list)]

    def _listed(self, line: str) -> str:
        """The name in a line of a list, which may hold spaces; lists of one class have 1, -1 or 0 behind it."""
        name, _, mark = line.rpartition(" ")
        whole = as_written(stem(line) if is_image(line) else line)
        marked = mark in ("1", "-1", "0") and self._files.find(whole) is None
        return name.strip() if marked else whole

    def class_names(self) -> list[str]:
        """Names from the first class file in the root, else all names in any annotation that can be read, sorted."""
        listed = listed_classes(self._source)
        if listed is not None:
            return listed
        found: set[str] = set()
        for name in self._stems:
            with suppress(DataError):  # told by the split that holds the annotation
                objects = parse_xml(self._source, self.annotation_of(name)).iter("object")
                found.update((o.findtext("name") or "").strip() for o in objects)
        return sorted(found - {""})

    def unannotated(self, used: Collection[str]) -> tuple[str, ...]:
        """Pictures beside which no annotation lies, of all splits; `used` were found by the name in an XML."""
        alone = (name for name in self._image_files if self._files.find(stem(name)) is None)
        return tuple(in_order({f"{self.images}/{name}".lstrip("/") for name in alone} - set(used)))

    def image_of(self, name: str, filename: str) -> str | None:
        """The image of an annotation: same name with an image suffix, else the file the XML names."""
        said = as_written(filename)
        beside = f"{name.rpartition('/')[0]}/{said.rpartition('/')[2]}".lstrip("/")
        named = next(filter(None, map(self._pictures.find, (beside, said))), None)
        same = named if named is not None and stem(named) == name else self._by_stem.find(name)
        file = same or named
        return None if file is None else f"{self.images}/{file}".lstrip("/")


class _Reader:
    """Turns annotation elements into rows of `RawAnnotations`."""

    def __init__(
        self,
        raw: RawAnnotations,
        source: Source,
        names: Sequence[str],
        on_unknown: OnProblem,
        one_based: bool | None,
        one_class: str | None,
    ) -> None:
        self.raw = raw
        self._one_class = one_class
        self.classes = ClassTable(names, on_unknown == "skip")
        self._source = source
        self._one_based = one_based

    def add(self, image: str, xml_name: str, root: ET.Element) -> None:
        size = root.find("size")
        height, width = (0, 0) if size is None else (self._int(size, k, xml_name) for k in ("height", "width"))
        at = self.raw.add_image(image, (height, width), xml_name)
        original = re.match(r"The VOC\d{4} Database", (root.findtext("source/database") or "").strip())
        one_based = original is not None if self._one_based is None else self._one_based
        for element in root.iter("object"):
            name = self._one_class or (element.findtext("name") or "").strip()
            label = self.classes.label(name, f"{self._source.root}/{xml_name}")
            if label is not None:
                difficult = flag(element.findtext("difficult") or "0", f"{self._source.root}/{xml_name}: <difficult>")
                self.raw.add_box(at, self._box(element, xml_name, float(one_based)), label, difficult=difficult)

    def _box(self, element: ET.Element, xml_name: str, first: float) -> tuple[float, float, float, float]:
        boxes = element.findall("bndbox")
        if len(boxes) != 1:
            held = f"{len(boxes)} <bndbox>; make an object of each" if boxes else "no <bndbox>"
            raise DataError(f"{self._source.root}/{xml_name}: an object has {held}")
        (box,) = boxes
        x1, y1, x2, y2 = (self._float(box, key, xml_name) for key in ("xmin", "ymin", "xmax", "ymax"))
        return x1 - first, y1 - first, x2, y2

    def _float(self, parent: ET.Element, key: str, xml_name: str) -> float:
        text = parent.findtext(key)
        try:
            value = number_in(text or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise DataError(f"{self._source.root}/{xml_name}: <{key}> is {text!r}, a number is needed")
        return value

    def _int(self, parent: ET.Element, key: str, xml_name: str) -> int:
        return round(self._float(parent, key, xml_name))
