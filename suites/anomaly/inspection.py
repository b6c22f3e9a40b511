"""What is wrong with a set of good pictures and defects, for `paddock data check`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import cv2
import numpy as np

from framework.errors import DataError
from suites.anomaly.datasets.base import GOOD, AnomalyDataset
from suites.anomaly.sample import Inspectable
from suites.engine.contract.inspection import Finding, Inspected, copies_within
from suites.engine.registry import register
from suites.vision.drawing import stroke
from suites.vision.inspection import VisualInspector, left_out_findings

_LOUD = (255, 0, 0)


@register("inspector", "anomaly")
class AnomalyInspector(VisualInspector):
    """Reads every picture and every mask: copies, masks that mark nothing, pictures of several sizes."""

    def look_at(self, dataset: AnomalyDataset, decode: bool) -> Inspected:
        """What `dataset` holds, and what is wrong with it; every picture is decoded."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        digests, sizes = [], Counter[tuple[int, int]]()
        broken: list[tuple[int, str]] = []
        unmarked: list[int] = []
        for at in range(len(dataset)):
            try:
                sample = dataset[at]
            except (DataError, OSError) as error:
                broken.append((at, str(error)))
                digests.append("")
                continue
            digests.append(hashlib.sha256(f"{sample.image.shape}".encode() + sample.image.tobytes()).hexdigest())
            sizes[sample.original] += 1
            if dataset.masks and sample.label and not sample.mask.any():
                unmarked.append(at)
        findings = [*left_out_findings(dataset), *_faults(broken, unmarked, names), *_sizes(sizes)]
        kinds = dict(sorted(Counter(dataset.kinds).items(), key=lambda each: (each[0] != GOOD, each[0])))
        if GOOD not in kinds:
            findings.append(Finding("note", "there is no good picture, so false alarms cannot be counted"))
        width = max(map(len, kinds))
        lines = [f"{len(dataset)} pictures", *(f"  {name:<{width}} {count:>7}" for name, count in kinds.items())]
        if len(kinds) > 1 or GOOD not in kinds:
            lines.append("masks say where defects are" if dataset.masks else "nothing says where defects are")
        return Inspected(lines, findings + copies_within(names, digests, dataset.kinds), digests, names)

    def picture(self, sample: Inspectable, class_names: Sequence[str]) -> np.ndarray:
        """The picture with a line around its defects."""
        canvas = np.ascontiguousarray(sample.image)
        outlines, _ = cv2.findContours((sample.mask == 1).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(canvas, outlines, -1, _LOUD, stroke(canvas)[1])
        return canvas


def _faults(broken: Sequence[tuple[int, str]], unmarked: Sequence[int], names: Sequence[str]) -> list[Finding]:
    found = []
    if broken:
        places, samples = tuple(text for _, text in broken), tuple(at for at, _ in broken)
        text = f"{len(broken)} pictures or their masks cannot be read"
        found.append(Finding("error", text, places, samples, "mend them or take them out"))
    if unmarked:
        text = f"{len(unmarked)} masks of defects mark nothing"
        advice = "figures of pixels would be wrong; correct them, or move the pictures to the good ones"
        found.append(Finding("error", text, tuple(names[at] for at in unmarked), tuple(unmarked), advice))
    return found


def _sizes(sizes: Counter[tuple[int, int]]) -> list[Finding]:
    if len(sizes) < 2:
        return []
    places = tuple(f"{width}x{height}: {count}" for (height, width), count in sizes.most_common())
    return [
        Finding(
            "warning",
            f"the pictures are of {len(sizes)} sizes",
            places,
            advice="what they show has to be at the same scale; a larger view of a good thing looks like a defect",
        )
    ]
