"""What inspectors of pictures share: data sets through their transforms, and picture files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suites.engine.contract.inspection import Finding, Inspected, Inspector
from suites.vision.augmentation.pipeline import Augmented
from suites.vision.augmentation.transforms import Normalize
from suites.vision.joining import Joining
from suites.vision.pictures.images import write_image

if TYPE_CHECKING:
    from suites.engine.config import Config


def left_out_findings(dataset: Any) -> list[Finding]:
    """What a set left out when it was opened: an error for samples that training would miss, a note for the rest."""
    skipped, found = dataset.skipped(), []
    if skipped.skipped:
        places = tuple(why for _, why in skipped.reasons)
        found.append(
            Finding("error", f"{skipped.skipped} could not be used and were left out", places, advice="mend them")
        )
    for reason, count, names in getattr(dataset, "passed", None) or ():
        found.append(Finding("note", f"{count} names are not read: {reason}", tuple(names)))
    return found


class VisualInspector(Inspector):
    """Looks at data sets of pictures."""

    @abstractmethod
    def look_at(self, dataset: Any, decode: bool) -> Inspected:
        """What a set holds and what is wrong with it.

        Args:
            dataset: the samples.
            decode: every picture; else those that `dataset.glances` says nothing of.
        """

    def inspect(self, dataset: Any) -> Inspected:
        """Decodes every picture."""
        return self.look_at(dataset, decode=True)

    def glance(self, dataset: Any) -> Inspected:
        """Reads the files, and decodes only where these do not say enough."""
        found = self.look_at(dataset, decode=False)
        return replace(found, summary=[*found.summary, "pictures in files were not decoded; with --decode they are"])

    def item(self, dataset: Any, at: int) -> np.ndarray:
        """The picture, uint8 RGB [H, W, 3]; of a clip its middle frame."""
        pixels: np.ndarray = dataset[at].pixels
        return pixels if pixels.ndim == 3 else pixels[len(pixels) // 2]

    def augmented(self, config: Config, name: str, dataset: Any) -> Augmented:
        """The set through its transforms but `Normalize`, after which nothing can be seen."""
        transforms = config.build(f"data.{name}.transforms")
        return Augmented(dataset, [t for t in transforms if not isinstance(t, Normalize)])

    def parts(self, dataset: Any) -> Sequence[Any]:
        """Those of a `Joined` set."""
        return dataset.parts if isinstance(dataset, Joining) else (dataset,)

    def write_picture(self, path: Path, picture: np.ndarray) -> None:
        """Writes an uint8 RGB picture."""
        write_image(path, picture)
