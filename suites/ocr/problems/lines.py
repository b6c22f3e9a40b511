"""Reading lines: a recogniser, CTC, and how many lines are read right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from framework.data import DataLoader
from framework.errors import DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.ocr.alphabet import Alphabet
from suites.ocr.datasets.lines import LineList
from suites.ocr.metrics import ReadLines
from suites.ocr.models.attention import AttentionReader, told
from suites.ocr.models.base import TextRecogniser
from suites.ocr.ordering import LikeLengths
from suites.ocr.pixels import LineFrame, line_width
from suites.ocr.problems.base import How, Problem, expect, expect_reading, language_of, read_columns
from suites.ocr.processor import LineProcessor
from suites.ocr.sample import LineSample
from suites.ocr.settings import EvalData, TrainData
from suites.vision.alike import AlikeBatches, parts
from suites.vision.augmentation.pipeline import Augmented


class LineProblem(Problem):
    """Of a `TextRecogniser`.

    Args:
        model: the network.
        how: how lines are shown.
    """

    eval_inputs: ClassVar[tuple[str, ...]] = ("lines",)
    main_metric: ClassVar[str] = "accuracy"

    def __init__(self, model: TextRecogniser, how: How) -> None:
        how.expect_unset(type(model).__name__, "finding", "loss")
        expect_reading(how, type(model).__name__, "line_width", "line_margin", "beam")
        self._model, self._how = model, how
        self._language = language_of(model, how)
        more = ("before", "wanted") if isinstance(model, AttentionReader) else ()
        self.train_inputs = ("lines", "columns", "labels", "label_offsets", *more)

    def train_loader(self, data: TrainData, dataset: Any, *, seed: int, workers: int) -> DataLoader:
        """Shuffled lines with their texts."""
        expect(dataset, LineList, type(self._model).__name__)
        order: dict[str, Any] = {"shuffle": True, "drop_last": len(dataset) >= data.batch_size}
        if data.pool:
            lengths = np.array([len(text) for text in dataset.texts()])
            order = {"batch_sampler": LikeLengths(lengths, data.batch_size, data.pool, seed)}
        return DataLoader(
            Augmented(dataset, data.transforms),
            data.batch_size,
            seed=seed,
            workers=workers,
            collate=self._collate,
            **order,
        )

    def eval_loader(self, data: EvalData, dataset: Any, *, workers: int) -> DataLoader:
        """The lines in order, in batches of one width; see `parts`."""
        expect(dataset, LineList, type(self._model).__name__)
        make = AlikeBatches(partial(self._collate, alone=True), partial(_own_width, frame=self._frame))
        return DataLoader(dataset, data.batch_size, workers=workers, collate=make)

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """The lines of each width, as they are read when the network predicts."""
        return parts(batch)

    @property
    def _frame(self) -> LineFrame:
        model, reading = self._model, self._how.reading
        return LineFrame(model.height, reading.line_width, model.widest, reading.line_margin)

    @property
    def _collate(self) -> Any:
        model = self._model
        return partial(
            collate_lines,
            alphabet=model.alphabet,
            frame=self._frame,
            step=model.step,
            lost=model.lost,
            longest=model.longest if isinstance(model, AttentionReader) else 1,
        )

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The network's own."""
        return self._model.losses(inputs)

    def predictions(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`characters` int64 [N, T], the most probable class of each column, and `scores` [N, T]."""
        return read_columns(self._model, inputs["lines"], self._language is not None)

    def metric(self) -> Metric:
        """Of reading."""
        return ReadLines(self._model.alphabet, self._language)

    def processor(self) -> LineProcessor:
        """Lines to texts."""
        return LineProcessor(self._model.alphabet, self._frame, self._language)

    def check(self, dataset: Any, what: str) -> list[str]:
        """Lines on characters that the alphabet lacks, and on texts that cannot be learnt whole."""
        expect(dataset, LineList, type(self._model).__name__)
        counts: dict[str, int] = {}
        lines, said = 0, self._too_long(dataset, what)
        for text in dataset.texts():
            unknown = self._model.alphabet.unknown(text)
            lines += bool(unknown)
            for character in unknown:
                counts[character] = counts.get(character, 0) + 1
        if not counts:
            return said
        if not any(len(self._model.alphabet.encode(text)) for text in dataset.texts()):
            raise DataError(
                f"{what}: no character of its {len(dataset)} lines is in the alphabet ({len(self._model.alphabet)} "
                "characters); name another in model.alphabet"
            )
        often = sorted(counts, key=lambda c: (-counts[c], c))[:_SHOWN]
        named = ", ".join(f"{c!r} in {counts[c]}" for c in often) + (" ..." if len(counts) > _SHOWN else "")
        return [
            *said,
            f"{what}: {lines} of {len(dataset)} lines have characters that the alphabet lacks, which are left out of "
            f"what is learnt and are read wrong: {named}",
        ]

    def _too_long(self, dataset: LineList, what: str) -> list[str]:
        """Lines on texts that have no room in their pictures, or are longer than the network writes."""
        model, narrow, cut = self._model, [], []
        written = model.longest - 1 if isinstance(model, AttentionReader) else None  # the end is the last
        for index, text in enumerate(dataset.texts()):
            labels = model.alphabet.encode(text)
            if written is not None and len(labels) > written:
                cut.append(f"{dataset.name_of(index)} has {len(text)} characters")
            room = (columns_needed(labels) + model.lost) * model.step
            width = self._width_for(dataset, index, room)
            if width is not None:
                narrow.append(f"{dataset.name_of(index)} has {len(text)} characters in {width} columns of pixels")
        said = []
        if narrow:
            said.append(
                f"{what}: {len(narrow)} of {len(dataset)} lines have more text than their pictures have room for, and "
                f"are not learnt: {_first(narrow)}"
            )
        if cut:
            said.append(
                f"{what}: {len(cut)} of {len(dataset)} lines are longer than the {written} characters that "
                f"model.longest lets {type(model).__name__} write, which learns only those: {_first(cut)}"
            )
        return said

    def _width_for(self, dataset: LineList, index: int, room: int) -> int | None:
        """The width of a line that is shown with less than `room` pixels, else None."""
        model, least = self._model, self._how.reading.line_width
        if room <= min(_STRETCHED * least, model.widest):  # nearly all; no picture has to be looked at
            return None
        try:
            width = line_width(dataset.image(index), model.height)
        except DataError:  # told when it is its turn
            return None
        return width if room > min(_STRETCHED * max(least, width), model.widest) else None


def _own_width(sample: LineSample, *, frame: LineFrame) -> int:
    return frame.own_width(sample.image)


def _first(lines: Sequence[str]) -> str:
    return "; ".join(lines[:_NAMED]) + (" ..." if len(lines) > _NAMED else "")


_SHOWN = 12  # characters in a message
_NAMED = 3  # lines in a message
_STRETCHED = 16  # times its own width that a line is shown with at most for the sake of its text


def columns_needed(labels: np.ndarray) -> int:
    """Columns that CTC needs at least for these classes: one each, and a blank between equal neighbours."""
    return len(labels) + int((labels[1:] == labels[:-1]).sum())


def collate_lines(
    samples: Sequence[LineSample],
    *,
    alphabet: Alphabet,
    frame: LineFrame,
    step: int,
    lost: int,
    longest: int = 1,
    alone: bool = False,
) -> Batch:
    """Lines as a batch that is as wide as the widest, and wide enough for the longest text.

    A text that needs many times the width of its own picture is not learnt: it cannot stand in there, and the batch
    would be as wide as it asks.

    Args:
        samples: N lines.
        alphabet: of the recogniser.
        frame: how it is shown lines; a text that takes more than its most columns is not learnt.
        step: pixels of one of its columns.
        lost: columns that it loses at the ends.
        longest: characters that an attention decoder writes at most.
        alone: lines are shown as they are to predict, whatever their texts ask: N of one `own_width`.

    Returns:
        `lines` float32 [N, height, W, 3]; `columns` int64 [N + 1], offsets of the columns of each line; `labels`
        int64 [L] and `label_offsets` int64 [N + 1]; `before` and `wanted`, see `told`; `texts`,
        and `numbers` of the lines in their set.
    """
    labels = [alphabet.encode(sample.text) for sample in samples]
    images = [sample.image for sample in samples]
    if alone:
        width = max(map(frame.own_width, images))
    else:
        width = max(
            min((columns_needed(each) + lost) * step, _STRETCHED * max(frame.least, line_width(image, frame.height)))
            for each, image in zip(labels, images, strict=True)
        )
    lines = frame.batch(images, width)
    before, wanted = told(labels, longest)
    return {
        "lines": lines,
        "columns": np.arange(len(samples) + 1, dtype=np.int64) * (lines.shape[2] // step - lost),
        "labels": np.concatenate([*labels, np.zeros(0, np.int64)]),
        "label_offsets": np.cumsum([0, *map(len, labels)]).astype(np.int64),
        "before": before,
        "wanted": wanted,
        "texts": [sample.text for sample in samples],
        "numbers": [sample.number for sample in samples],
    }
