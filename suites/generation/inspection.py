"""What is wrong with a set of pictures to learn to draw, for `paddock data check`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from framework.errors import DataError
from suites.engine.contract.inspection import Finding, Inspected, copies_within
from suites.engine.registry import register
from suites.generation.datasets.base import PictureSet, TwoKinds
from suites.generation.sample import Picture
from suites.vision.inspection import VisualInspector, left_out_findings

_FEW = 100  # pictures, below which a network learns them by heart


@register("inspector", "generation")
class GenerationInspector(VisualInspector):
    """Reads every picture: those that cannot be read, copies, pairs that do not fit, small sets."""

    def look_at(self, dataset: PictureSet, decode: bool) -> Inspected:
        """What `dataset` holds, and what is wrong with it; every picture is decoded."""
        names, digests, sizes, labels = [], [], Counter[tuple[int, int]](), Counter[int]()
        broken: list[tuple[int, str]] = []
        for at in range(len(dataset)):
            names.append(dataset.name_of(at))
            try:
                sample = dataset[at]
            except (DataError, OSError) as error:
                broken.append((at, str(error)))
                digests.append("")
                continue
            other = b"" if sample.other is None or isinstance(dataset, TwoKinds) else sample.other.tobytes()
            content = f"{sample.image.shape}".encode() + sample.image.tobytes() + other
            digests.append(hashlib.sha256(content).hexdigest() if sample.counts[0] else "")
            sizes[sample.image.shape[:2]] += 1
            labels[sample.label] += 1
        findings = left_out_findings(dataset)
        if broken:
            places, samples = tuple(text for _, text in broken), tuple(at for at, _ in broken)
            text = f"{len(broken)} pictures cannot be used"
            findings.append(Finding("error", text, places, samples, "mend them or take them out"))
        if len(dataset) < _FEW:
            text = f"there are {len(dataset)} pictures; so few are learnt by heart"
            findings.append(Finding("warning", text, advice="bring hundreds, or mirror and cut them"))
        lines = [f"{len(dataset)} pictures of {len(sizes)} sizes"]
        if isinstance(dataset, TwoKinds):
            lines = [f"{len(dataset.a)} pictures of the first kind, {len(dataset.b)} of the second"]
        if dataset.num_classes > 1:
            lines += [f"  {name} {labels[at]:>7}" for at, name in enumerate(dataset.class_names)]
        findings += copies_within(names, digests)
        return Inspected(lines, findings, [""] * len(names) if dataset.is_compared_whole else digests, names)

    def picture(self, sample: Picture, class_names: Sequence[str]) -> np.ndarray:
        """The picture, and beside it the other one where they are of one height."""
        if sample.other is None or sample.other.shape[0] != sample.image.shape[0]:
            return np.ascontiguousarray(sample.image)
        return np.concatenate([sample.image, sample.other], axis=1)
