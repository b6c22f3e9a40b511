"""Reading: the answer to a question as a span of its passage (Rajpurkar et al. 2016; the decoding of BERT's run_squad).

A passage that is too long is read in windows that overlap; each token counts in the window where it has most context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from framework.errors import AttributeValueError, DataError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.registry import register
from suites.engine.reporting import Marked, Tally
from suites.nlp.datasets import Question, SquadJson, TextDataset
from suites.nlp.filling import COUNTED
from suites.nlp.losses import SpanCrossEntropy
from suites.nlp.metrics.reading import Found, Language, ReadingScores, null_odds
from suites.nlp.problems.base import Problem
from suites.nlp.sequences import Encoded, Sequencer
from suites.nlp.tokenizers import Tokens

_AROUND = 200  # characters of the passage that are shown before and after what is marked


class Answer(NamedTuple):
    """A possible answer: the sum of its two scores, and its place in the passage."""

    score: float
    start: int
    end: int


@dataclass(frozen=True)
class Decoding:
    """How answers are found.

    Args:
        n_best: how many answers of a question are kept.
        max_answer: tokens of an answer at most.
        null_threshold: where questions may have no answer: none is given if its score, the sum of both at [CLS], is
            higher than the best answer's by more than this. Evaluation tells the best one (`best_f1_thresh`).
    """

    n_best: int = 20
    max_answer: int = 30
    null_threshold: float = 0.0

    def __post_init__(self) -> None:
        if self.n_best < 1 or self.max_answer < 1:
            raise AttributeValueError(
                f"Reading: n_best is {self.n_best} and max_answer {self.max_answer}; both must be 1 or more"
            )


@register("problem")
class Reading(Problem):
    """The answer to a question, a span of the passage.

    Args:
        unanswerable: questions may have no answer in the passage (SQuAD 2.0): [CLS] stands for none.
        language: how answers are compared: "english" as SQuAD does, "chinese" as CMRC 2018 and DRCD do.
        doc_stride: tokens from the start of a window to that of the next.
        max_question: tokens of a question; what is beyond is cut off.
        decoding: how answers are found.
        loss: what is minimised.
    """

    example_type: ClassVar[type] = Question
    token_keys: ClassVar[tuple[str, ...]] = ("ids", "segment_ids", "spans", "widest")
    fillers: ClassVar[Mapping[str, float] | None] = {"ids": 0, "segment_ids": 0, "targets": 0}
    token_outputs: ClassVar[tuple[str, ...]] = ("starts", "ends")
    main_metric = "f1"
    spells: ClassVar[bool] = True

    def __init__(
        self,
        language: Language = "english",
        doc_stride: int = 128,
        max_question: int = 64,
        decoding: Decoding | None = None,
        loss: SpanCrossEntropy | None = None,
        unanswerable: bool = False,
    ) -> None:
        if doc_stride < 1 or max_question < 1:
            raise AttributeValueError(
                f"Reading: doc_stride is {doc_stride} and max_question {max_question}; both must be 1 or more"
            )
        self._language: Language = language
        self._stride = doc_stride
        self._max_question = max_question
        self._decoding = decoding or Decoding()
        self._loss = loss or SpanCrossEntropy()
        self._unanswerable = unanswerable

    def classes(self, dataset: TextDataset[Question]) -> list[str]:
        """None: the two outputs are places."""
        return []

    def encode(
        self,
        examples: Sequence[Question],
        sequencer: Sequencer,
        classes: Sequence[str],
        name_of: Callable[[int], str],
        *,
        truth: bool = True,
    ) -> Encoded:
        """Windows of `[CLS] question [SEP] passage [SEP]`; see the class for what each array is."""
        self._expect_spans(sequencer)
        questions = sequencer.tokens(example.question for example in examples)
        passages = sequencer.tokens(example.passage for example in examples)
        samples, names = [], []
        for i, (question, passage) in enumerate(zip(questions, passages, strict=True)):
            answer = self._truth(examples[i], passage, name_of(i)) if truth else None
            for window in self._windows(sequencer, question, passage, answer):
                samples.append({**window, "example": np.int64(i)})
                names.append(name_of(i))
        return Encoded(samples, self.token_keys, names.__getitem__)

    def losses(self, outputs: tuple[Tensor, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Cross entropy of the first and the last token."""
        return self._loss(*outputs, inputs["offsets"], inputs["targets"], counted=inputs.get(COUNTED))

    def predictions(self, outputs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """`starts` and `ends` [T], scores of being the answer's first and last token."""
        return {"starts": outputs[0], "ends": outputs[1]}

    def metric(self, dataset: TextDataset[Question], classes: Sequence[str]) -> Metric:
        """Exact match and F1, and those of questions with and without answers."""
        passages = [example.passage for example in dataset.examples]

        def gather(outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Found]:
            found = []
            for i, answers, null in self._answers(outputs, batch):
                score, start, end = answers[0] if answers else Answer(-np.inf, 0, 0)
                found.append(Found(i, score, passages[i][start:end], null))
            return found

        threshold = self._decoding.null_threshold if self._unanswerable else None
        return ReadingScores([example.answers for example in dataset.examples], self._language, gather, threshold)

    def parse(self, line: str) -> Question:
        """A question and its passage with a tab between them."""
        parts = line.split("\t")
        if len(parts) != 2:
            raise DataError(f"'{line[:40]}': expects a question and its passage with a tab between them")
        return Question("", parts[0], parts[1])

    def from_json(self, value: Any) -> Question:
        """An object with "question" and "passage"."""
        if not isinstance(value, dict) or not all(isinstance(value.get(k), str) for k in ("question", "passage")):
            raise DataError(f"takes an object with texts 'question' and 'passage', got {value!r:.40}")
        return Question("", value["question"], value["passage"])

    def sample(self) -> Any:
        """A question with its passage."""
        return {"question": "a", "passage": "b"}

    def parse_file(self, path: Path) -> list[tuple[str, Callable[[], Any]]]:
        """The questions of a SQuAD file, or the lines of any other."""
        if path.suffix.lower() != ".json":
            return super().parse_file(path)
        dataset = SquadJson(str(path), missing="skip")
        return [(dataset.name_of(i), partial(dataset.__getitem__, i)) for i in range(len(dataset))]

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Question], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The best answer of each question, and the n best with probabilities among them.

        Where questions may have no answer, "" stands for none, and `null_odds` is by how much its score is above the
        best answer's.
        """
        answers: list[list[Answer]] = [[] for _ in examples]
        nulls = np.full(len(examples), np.inf)
        for example, found, null in self._answers(outputs, batch):
            answers[example] += found
            nulls[example] = min(nulls[example], null)
        each = zip(examples, answers, nulls.tolist(), strict=True)
        return [self._chosen(example.passage, found, null) for example, found, null in each]

    def show_mistake(self, example: Question, detail: str) -> Marked:
        """The question, and the part of the passage with what was answered, wrong, and what is right."""
        right = [
            (start, start + len(answer), "right") for start, answer in zip(example.starts, example.answers, strict=True)
        ]
        at = example.passage.find(detail) if detail else -1
        spans = right[:1] + ([(at, at + len(detail), "wrong")] if at >= 0 else [])
        return [(f"{example.question}\n\n", ""), *_marked(example.passage, sorted(spans))]

    def count(self, tally: Tally, examples: Sequence[Question]) -> None:
        """Questions with and without answers."""
        answered = sum(bool(example.answers) for example in examples)
        counts = {"with an answer": answered, "without": len(examples) - answered}
        tally.add("questions", counts, len(examples), whole=True)

    def describe(self, example: Question, result: dict[str, Any]) -> str:
        """The question and its answer."""
        answer = result["answer"] or ("(no answer)" if self._unanswerable else "")
        return f"{example.question} -> {answer}"

    def _chosen(self, passage: str, answers: list[Answer], null: float) -> dict[str, Any]:
        best: dict[str, Answer] = {}
        for answer in sorted(answers, reverse=True):
            best.setdefault(passage[answer.start : answer.end], answer)
        if self._unanswerable:
            best[""] = Answer(null, -1, -1)
        kept = sorted(best.items(), key=lambda item: -item[1].score)[: self._decoding.n_best]
        if not kept:
            return {"answer": "", "n_best": []}
        shares = np.exp(np.array([answer.score for _, answer in kept]) - kept[0][1].score)
        shares /= shares.sum()
        rows = [
            {"text": text, "start": answer.start, "probability": round(float(share), 5)}
            for (text, answer), share in zip(kept, shares, strict=True)
        ]
        if not self._unanswerable:
            return {"answer": kept[0][0], "n_best": rows}
        first = max(((a.score, text) for text, a in best.items() if text), default=(-np.inf, ""))
        odds = null_odds(Found(0, *first, null))
        chosen = "" if odds > self._decoding.null_threshold else first[1]
        return {"answer": chosen, "null_odds": round(odds, 5) if np.isfinite(odds) else None, "n_best": rows}

    def _answers(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> Iterator[tuple[int, list[Answer], float]]:
        """(number of the question, its best answers there, best first, the score of none) of each window."""
        for row, example in enumerate(np.asarray(batch["example"]).tolist()):
            own = slice(int(batch["offsets"][row]), int(batch["offsets"][row + 1]))
            arrays = (outputs["starts"][own], outputs["ends"][own], batch["spans"][own], batch["widest"][own])
            null = float(outputs["starts"][own.start] + outputs["ends"][own.start])
            yield example, best_answers(*arrays, self._decoding), null

    def _windows(
        self, sequencer: Sequencer, question: Tokens, passage: Tokens, answer: tuple[int, int] | None
    ) -> Iterator[dict[str, Any]]:
        """The arrays of each window; `answer` is the first and the last token of the answer in the passage."""
        asked = question.ids[: min(self._max_question, sequencer.room(pair=True) // 2)]
        room = sequencer.room(pair=True) - len(asked)
        parts = _parts(len(passage.ids), room, min(self._stride, room))
        for (first, last), widest in zip(parts, _widest(parts, len(passage.ids)), strict=True):
            sequence = sequencer.join(asked, passage.ids[first:last])
            begin, count = sequence.second, last - first
            spans = np.full((len(sequence.ids), 2), -1, np.int64)
            spans[begin : begin + count] = passage.spans[first:last]
            most = np.zeros(len(sequence.ids), bool)
            most[begin : begin + count] = widest
            window = {"ids": sequence.ids, "segment_ids": sequence.segment_ids, "spans": spans, "widest": most}
            texts = [(sequence.first, question.spelled(0, len(asked))), (begin, passage.spelled(first, last))]
            window |= sequencer.spelled(sequence.ids, texts)
            if answer is not None:
                inside = first <= answer[0] and answer[1] < last
                places = (np.array(answer) - first + begin) if inside else np.zeros(2)
                window["targets"] = places.astype(np.int64)
            yield window

    def _truth(self, example: Question, passage: Tokens, where: str) -> tuple[int, int]:
        """First and last token of the first answer; (-1, -1), which no window holds, for none."""
        if example.impossible and self._unanswerable:
            return -1, -1
        if not example.answers:
            hint = "; it is impossible to answer: set problem.unanswerable" if example.impossible else ""
            raise DataError(f"{where}: has no answer to learn from{hint}")
        start, end = example.starts[0], example.starts[0] + len(example.answers[0])
        covering = np.flatnonzero((passage.spans[:, 0] < end) & (passage.spans[:, 1] > start))
        if not len(covering):
            raise DataError(f"{where}: no token covers the answer '{example.answers[0][:40]}', such as one of spaces")
        return int(covering[0]), int(covering[-1])

    def _expect_spans(self, sequencer: Sequencer) -> None:
        if not sequencer.keeps_places:
            raise DataError(
                "Reading: data.transforms moves characters, but answers are places in the passage; take it out"
            )
        if sequencer.tokenizer.opening is None or sequencer.tokenizer.closing is None:
            raise DataError(
                "Reading: needs a tokenizer with [CLS] and [SEP], whose place stands for 'not in this window'"
            )


def _marked(passage: str, spans: Sequence[tuple[int, int, str]]) -> Iterator[tuple[str, str]]:
    """The passage around some spans, which are marked; where they overlap the first one is."""
    place = max(0, spans[0][0] - _AROUND) if spans else 0
    if place:
        yield "... ", ""
    for start, end, mark in spans:
        if start >= place:
            yield passage[place:start], ""
            yield passage[start:end], mark
            place = end
    yield passage[place : place + _AROUND], ""
    if place + _AROUND < len(passage):
        yield " ...", ""


def best_answers(
    starts: np.ndarray, ends: np.ndarray, spans: np.ndarray, widest: np.ndarray, decoding: Decoding
) -> list[Answer]:
    """The best answers in a window, best first.

    starts, ends: [t], scores; spans: int64 [t, 2], places in the passage, -1 outside of it; widest: bool [t], whether
    this window gives the token most context.
    """
    allowed_starts, allowed_ends = np.flatnonzero(widest), np.flatnonzero(spans[:, 0] >= 0)
    first = allowed_starts[np.argsort(-starts[allowed_starts], kind="stable")[: decoding.n_best]]
    last = allowed_ends[np.argsort(-ends[allowed_ends], kind="stable")[: decoding.n_best]]
    a, b = np.meshgrid(first, last, indexing="ij")
    fits = (a <= b) & (b - a < decoding.max_answer)
    a, b = a[fits], b[fits]
    scores = starts[a] + ends[b]
    order = np.argsort(-scores, kind="stable")[: decoding.n_best]
    return [Answer(float(scores[i]), int(spans[a[i], 0]), int(spans[b[i], 1])) for i in order]


def _parts(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """First token and one after the last of each window."""
    parts = [(0, min(room, length))]
    while parts[-1][1] < length:
        first = parts[-1][0] + stride
        parts.append((first, min(first + room, length)))
    return parts


def _widest(parts: Sequence[tuple[int, int]], length: int) -> list[np.ndarray]:
    """Of each window, for its tokens: whether it is the one where the token has most context on its poorer side."""
    most, best = np.full(length, -np.inf), np.zeros(length, np.int64)
    for i, (first, last) in enumerate(parts):
        places = np.arange(last - first)
        context = np.minimum(places, places[::-1]) + 0.01 * (last - first)
        more = context > most[first:last]
        most[first:last][more], best[first:last][more] = context[more], i
    return [best[first:last] == i for i, (first, last) in enumerate(parts)]
