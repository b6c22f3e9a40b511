"""What inspectors of pictures share: data sets through their transforms, and picture files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suites.engine.contract.inspection import Finding, Inspector
from suites.vision.images import write_image
from suites.vision.joining import Joining
from suites.vision.pipeline import Augmented
from suites.vision.transforms import Normalize

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
