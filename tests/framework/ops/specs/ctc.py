"""framework/native/ops/ctc.cc"""

import itertools

import numpy as np

from framework.errors import AttributeValueError, ShapeError
from tests.framework.ops.harness import Bad, Sample, normal, spec


def _read(path, blank):
    return tuple(k for k, _ in itertools.groupby(path) if k != blank)


def _log_probabilities(logits):
    shifted = logits - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def _each(logits, offsets, labels, label_offsets, blank):
    """Of each sequence its rows, their log probabilities, and (path, score) of all paths that read as its labels."""
    spans = zip(itertools.pairwise(offsets), itertools.pairwise(label_offsets), strict=True)
    for (begin, end), (first, last) in spans:
        rows, wanted = slice(begin, end), tuple(labels[first:last].tolist())
        scores = _log_probabilities(logits[rows])
        paths = itertools.product(range(logits.shape[1]), repeat=end - begin)
        read = [p for p in paths if _read(p, blank) == wanted]
        yield rows, scores, [(p, sum(scores[t, k] for t, k in enumerate(p))) for p in read]


def _ctc_loss(logits, offsets, labels, label_offsets, blank=0, zero_infinity=False):
    """By all paths."""
    found = []
    for _, _, paths in _each(logits, offsets, labels, label_offsets, blank):
        found.append(-np.logaddexp.reduce([score for _, score in paths]) if paths else (0 if zero_infinity else np.inf))
    return np.array(found, np.float64).reshape(-1)


def _ctc_loss_grad(dloss, logits, offsets, labels, label_offsets, blank=0, zero_infinity=False):
    """Softmax minus how often each class stands in a path, weighted by the path's probability."""
    grad = np.zeros_like(logits)
    for b, (rows, scores, paths) in enumerate(_each(logits, offsets, labels, label_offsets, blank)):
        if not paths:
            grad[rows] = 0 if zero_infinity else np.nan
            continue
        grad[rows] = np.exp(scores)
        weights = np.array([score for _, score in paths])
        for (path, _), weight in zip(paths, np.exp(weights - np.logaddexp.reduce(weights)), strict=True):
            for t, k in enumerate(path):
                grad[rows.start + t, k] -= weight
        grad[rows] *= dloss[b]
    return grad


def _given(lengths, labels, classes, scale=1.0):
    offsets, ends = np.cumsum([0, *lengths]), np.cumsum([0, *map(len, labels)])
    flat = np.array([k for each in labels for k in each], np.int64)
    return [normal(sum(lengths), classes, scale=scale), offsets, flat, ends]


def _sample(lengths, labels, classes, scale=1.0, dloss=False, **attrs):
    weights = [normal(len(lengths), seed=8)] if dloss else []
    return Sample([*weights, *_given(lengths, labels, classes, scale)], attrs)


CASES = [
    (((3, 5, 1), ((1,), (2, 2), ()), 3), {}),
    (((0, 4), ((), (1, 2, 1)), 4), {}),
    (((4, 3), ((0, 1), (1,)), 3), {"blank": 2}),
    (((6,), ((1, 1, 2),), 3), {}),
    (((5,), ((2, 1),), 3, 3.0), {}),
    (((), (), 4), {}),
]
NEVER = (((2, 3, 0), ((1, 1), (1,), (2,)), 3), {"zero_infinity": True})
INFINITE = (((2, 3), ((1, 1), (1,)), 3), {})


def _errors(before):
    logits, offsets, labels, ends = _given((3, 2), ((1,), (2,)), 3)
    first = list(before)
    return [
        Bad([*first, normal(5), offsets, labels, ends], ShapeError, "logits has 1 axes"),
        Bad([*first, logits, offsets, labels, np.array([0, 2])], ShapeError, r"label_offsets has shape \[2\]"),
        Bad([*first, logits, np.array([0, 3, 6]), labels, ends], AttributeValueError, "offsets ends at 6"),
        Bad([*first, logits, offsets, labels, np.array([0, 1, 3])], AttributeValueError, "label_offsets ends at 3"),
        Bad(
            [*first, logits, offsets, np.array([1, 3]), ends], AttributeValueError,
            r"labels\[1\] is 3 but the row of logits has 3; it must lie in \[0, 2\]",
        ),
        Bad([*first, logits, offsets, labels, ends], AttributeValueError, "blank is 3 but logits", {"blank": 3}),
    ]  # fmt: skip


# A step adds the logarithm of a sum of three exponentials to scores of the largest one's size: some six roundings a
# row, and a score is the difference of a logit and the logarithm of its row's sum.
spec(
    "ctc_loss",
    reference=_ctc_loss,
    roundings=64,
    unit=lambda logits, *_, **__: 1 + float(np.abs(logits).sum()),
    samples=[*[_sample(*case, **attrs) for case, attrs in CASES], _sample(*NEVER[0], **NEVER[1])],
    errors=_errors([]),
)
# Probabilities are exponentials of differences of such scores, and their error is that of the scores.
spec(
    "ctc_loss_grad",
    reference=_ctc_loss_grad,
    roundings=256,
    unit=lambda dloss, *_, **__: 1 + float(np.abs(dloss).max(initial=0.0)),  # softmax less what is likely cancels to 0
    gradient=False,
    samples=[
        *[_sample(*case, dloss=True, **attrs) for case, attrs in CASES],
        _sample(*NEVER[0], dloss=True, **NEVER[1]),
    ],
    errors=_errors([normal(2)]),
)
