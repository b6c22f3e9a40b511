"""Pictures of single lines with a list of what they say."""

from __future__ import annotations

from framework.errors import DataError
from suites.engine.data.intake.dividing import Part
from suites.engine.data.skipping import MAX_SKIPPED
from suites.engine.data.sources import open_source
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.ocr.datasets.base import TextDataset
from suites.ocr.sample import LineSample
from suites.ocr.texts import as_said
from suites.vision.files import held_out, listed_file, read_list


@register("dataset", needs={"split": "holdout"})
class LineList(TextDataset):
    """Lines listed in a file, as PaddleOCR has them: a picture's path, a tab, and the text to the end of the line.

    Args:
        root: folder or zip of the pictures.
        annotations: the list, relative to the root.
        max_skipped: share of the lines that may have no text or name a picture that is not there; they are left out and
            logged. 0: the first one is an error.
        holdout: every how manyth picture is for "val"; null for all.
        split: "train" or "val", with `holdout`.
    """

    def __init__(
        self,
        root: str,
        annotations: str,
        max_skipped: float = MAX_SKIPPED,
        holdout: int | None = None,
        split: Part | None = None,
    ) -> None:
        source, skipped = open_source(root), Tally()

        def read(line: str) -> tuple[str, str]:
            path, tab, text = line.partition("\t")
            if not tab or not text.strip():
                raise DataError(f"{path[:60]!r} has no text; a line is a path, a tab and the text")
            return listed_file(source, path), as_said(text)

        rows = read_list(source, annotations, read, max_skipped, skipped)
        if holdout is not None:
            kept = set(held_out(source, [name for name, _ in rows], split, holdout, "LineList"))
            rows = [row for row in rows if row[0] in kept]
        self._texts = [text for _, text in rows]
        super().__init__(f"LineList {root} {annotations}", source, [name for name, _ in rows], skipped)

    def __getitem__(self, index: int) -> LineSample:
        """Line `index`."""
        return LineSample(image=self.image(index), text=self._texts[index], number=index)

    def texts_of(self, index: int) -> list[str]:
        """The one text of picture `index`."""
        return [self._texts[index]]

    def texts(self) -> list[str]:
        """What the lines say."""
        return list(self._texts)
