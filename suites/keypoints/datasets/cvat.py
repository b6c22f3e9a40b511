"""CvatKeypoints: skeletons of an XML file as CVAT exports it, "CVAT for images 1.1" (docs.cvat.ai)."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

from framework.errors import DataError
from suites.engine.data.intake.texts import xml_in
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.data.sources import open_source, read_file
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.keypoints.datasets.base import Labelled, PoseDataset, around, pose_of_names
from suites.vision.files import listed_file
from suites.vision.pictures.stated import Size, stated_size


@register("dataset")
class CvatKeypoints(PoseDataset):
    """The skeletons of one label, each with its points; `outside` points are unlabelled, `occluded` ones are hidden.

    The box is that around the labelled points. Pictures are annotated: videos (`track`) are exported as pictures first.

    Args:
        annotations: the XML file, which may lie in a zip.
        images: folder of the pictures, or a folder inside a zip.
        label: whose skeletons; null for the only one.
        points: the points in order; null for those that the file names, in its order.
        point_pairs: pairs of names of points that change places in a mirror, where the names do not say it.
        max_skipped: share of the skeletons that may be malformed; they are left out and logged.

    Raises:
        DataError: names the file, and what is wrong with it.
    """

    def __init__(
        self,
        annotations: str,
        images: str,
        *,
        label: str | None = None,
        points: Sequence[str] | None = None,
        point_pairs: Sequence[tuple[str, str]] | None = None,
        max_skipped: float = MAX_SKIPPED,
    ) -> None:
        root = xml_in(read_file(Path(annotations)), annotations)
        source, skipped = open_source(images), Tally()
        kind = _label(root, label, annotations)
        pose = pose_of_names(points or _names(root, kind), point_pairs, annotations)
        what = f"CvatKeypoints {annotations}"

        sizes: dict[str, Size] = {}

        def read(row: tuple[int, ET.Element, ET.Element]) -> Labelled:
            number, image, skeleton = row
            name = image.get("name") or ""
            where = f"{annotations}: a skeleton of {name or 'a picture without a name'}"
            file = listed_file(source, name)
            sizes[file] = stated_size(image.get("height"), image.get("width"))
            return around(file, number, pose, _placed(skeleton, where), where)

        made = usable(what, list(_skeletons(root, kind)), read, max_skipped, skipped, "skeletons")
        super().__init__(what, source, [each for _, each in made], skipped, pose, kind, sizes=sizes)


def _label(root: ET.Element, wanted: str | None, where: str) -> str:
    if next(root.iter("track"), None) is not None:
        raise DataError(f"{where}: has tracks of a video; export it from CVAT as 'CVAT for images 1.1'")
    found = sorted({each.get("label") or "" for each in root.iter("skeleton")})
    named = [name for name in found if wanted in (None, name)]
    if len(named) != 1:
        meant = "one label" if wanted is None else f"the label {wanted!r}"
        raise DataError(f"{where}: {meant} is needed that has skeletons; those that do: {', '.join(found) or 'none'}")
    return named[0]


def _names(root: ET.Element, kind: str) -> list[str]:
    """Points of a label: as its description lists them, else as they come."""
    described = [
        (each.findtext("name") or "").strip()
        for each in root.iter("label")
        if (each.findtext("parent") or "").strip() == kind
    ]
    come = [point.get("label") or "" for _, _, skeleton in _skeletons(root, kind) for point in skeleton.iter("points")]
    return described or list(dict.fromkeys(come))


def _skeletons(root: ET.Element, kind: str) -> Iterator[tuple[int, ET.Element, ET.Element]]:
    """(number, element of its picture, skeleton)."""
    for number, image in enumerate(root.iter("image")):
        for skeleton in image.iter("skeleton"):
            if skeleton.get("label") == kind:
                yield number, image, skeleton


def _placed(skeleton: ET.Element, where: str) -> list[tuple[str, float, float, int]]:
    """(name, x, y, visible) of its points."""
    found = []
    for point in skeleton.iter("points"):
        try:
            x, y = (float(word) for word in (point.get("points") or "").split(","))
        except ValueError:
            raise DataError(f"{where}: points is {point.get('points')!r}; 'x,y' is needed") from None
        seen = 0 if point.get("outside") == "1" else 1 if point.get("occluded") == "1" else 2
        found.append((point.get("label") or "", x, y, seen))
    return found
