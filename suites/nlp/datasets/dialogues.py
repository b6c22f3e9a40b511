"""Dialogues: conversations with answers that fit them or not, in the format of the Ubuntu and Douban corpora."""

from __future__ import annotations

from framework.errors import AttributeValueError, DataError
from suites.engine.data.skipping import MAX_SKIPPED, usable
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.nlp.datasets.base import Labelled, read_lines
from suites.nlp.datasets.rows import RowDataset

_MOST = 1000  # turns of a conversation


@register("dataset")
class Dialogues(RowDataset):
    """A conversation and an answer in each line: `label<TAB>turn<TAB>...<TAB>turn<TAB>answer`, label 1 or 0.

    So the Ubuntu corpus of Wu et al. (2017) and their Douban corpus are written, ten lines for each conversation of the
    test sets. The text is the conversation, the second text the answer; lines of one conversation are one group.

    Args:
        path: the file, also inside a zip.
        turns: the last ones of a conversation that are read.
        between: what stands between turns in the text.
        max_skipped: share of the lines that may be wrong; they are left out and logged. 0: the first one is an error.
        encoding: of the file where no byte-order mark says it; null for UTF-8.
    """

    def __init__(
        self,
        path: str,
        turns: int = 10,
        between: str = " __eot__ ",
        max_skipped: float = MAX_SKIPPED,
        encoding: str | None = None,
    ) -> None:
        if not 1 <= turns <= _MOST:
            raise AttributeValueError(f"Dialogues: turns is {turns}; it must be from 1 to {_MOST}")
        self.left_out = Tally()

        def example(row: tuple[int, str]) -> Labelled:
            label, *said = row[1].split("\t")
            if label not in ("0", "1"):
                raise DataError(f"{path}:{row[0]}: begins with '{label[:20]}'; the first column is 1 or 0")
            if len(said) < 2:
                raise DataError(f"{path}:{row[0]}: has {len(said)} texts; needed are a turn and an answer, with tabs")
            *spoken, answer = said
            kept = [turn for turn in spoken if turn.strip()]
            if not kept or not answer.strip():
                raise DataError(f"{path}:{row[0]}: its {'answer' if kept else 'conversation'} is empty")
            # The whole conversation names the group, where two have the same last turns.
            return Labelled(between.join(kept[-turns:]), answer, label, "\t".join(kept))

        lines = [
            (number, line) for number, line in read_lines(path, max_skipped, self.left_out, encoding) if line.strip()
        ]
        found = usable(f"Dialogues {path}", lines, example, max_skipped, self.left_out)
        self._hold_rows(path, ((number, made) for (number, _), made in found), "label")
