"""framework/native/ops/softmax.cc"""

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _sigmoid_cross_entropy(logits, targets):
    """From the probabilities' logarithms, each in its exact form."""
    return targets * np.logaddexp(0, -logits) + (1 - targets) * np.logaddexp(0, logits)


def _unit(*shape, seed=1):
    return np.random.default_rng(seed).uniform(size=shape)


spec(
    "sigmoid_cross_entropy",
    reference=_sigmoid_cross_entropy,
    samples=[
        Sample([normal(3, 5), _unit(3, 5)]),
        Sample([normal(5001, scale=4.0), _unit(5001)]),
        Sample([np.array([-1000.0, -30.0, 0.0, 30.0, 1000.0]), np.array([0.0, 1.0, 0.5, 1.0, 0.0])]),
        Sample([np.zeros((0, 3)), np.zeros((0, 3))]),
    ],
    errors=[
        Bad([normal(3), normal(4)], ShapeError, r"targets has shape \[4\] but must have \[3\]"),
    ],
)


def _log_softmax(x, axis=-1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _target(labels, classes, ignore_index, label_smoothing, from_end):
    """Probabilities [..., K] whose cross-entropy is the loss, and which rows count."""
    counts = (labels != ignore_index)[..., None]
    labels = np.where(np.less(labels, 0) & from_end, labels + classes, labels)
    hard = np.arange(classes) == np.asarray(labels)[..., None]
    return ((1 - label_smoothing) * hard + label_smoothing / classes) * counts, counts


def _cross_entropy(logits, labels, ignore_index=-100, label_smoothing=0.0, from_end=False):
    target, _ = _target(labels, logits.shape[-1], ignore_index, label_smoothing, from_end)
    return -(target * _log_softmax(logits)).sum(-1)


def _cross_entropy_grad(dloss, logits, labels, ignore_index=-100, label_smoothing=0.0, from_end=False):
    target, counts = _target(labels, logits.shape[-1], ignore_index, label_smoothing, from_end)
    return dloss[..., None] * counts * (np.exp(_log_softmax(logits)) - target)


SOFTMAX_SAMPLES = [
    Sample([normal(3, 5)]),
    Sample([normal(2, 70, 3, scale=3.0)], {"axis": 1}),
    Sample([normal(7, 67)], {"axis": 0}),
    Sample([normal(2, 1100, scale=5.0)]),
    Sample([np.array([[1000.0, 0.0, -1000.0], [-5000.0, -5000.0, -5000.0]])]),
    Sample([normal(0, 3)]),
    Sample([normal(2, 3, 0)], {"axis": 1}),
]
SOFTMAX_ERRORS = [
    Bad([normal(3, 5)], AttributeValueError, r"axis is 2 but must lie in \[-2, 1\]", {"axis": 2}),
    Bad([normal()], ShapeError, "x has 0 axes"),
    Bad([integers(0, 3, 4)], DTypeError, "x is int64"),
]
LABELS = integers(0, 5, 6)
FROM_BOTH_ENDS = np.where(np.arange(6) % 2, LABELS, LABELS - 5)
SOME_IGNORED = np.where(np.arange(6) % 2, LABELS, -100)


def _label_errors(*before):
    def labels(*values):
        return np.array(values)

    two = [*before, normal(2, 3)]
    return [
        Bad([*two, labels(0, 3)], AttributeValueError, r"labels holds 3 in row 1 but logits has 3 classes"),
        Bad([*two, labels(-1, 0)], AttributeValueError, r"labels holds -1 in row 0 .* ignore_index -100"),
        Bad([*two, labels(0, 1, 2)], ShapeError, r"labels has shape \[3\] but must have \[2\]"),
        Bad([*two, normal(2)], DTypeError, "labels is float32 but must be int32 or int64"),
        Bad([*two, labels(0, 1)], AttributeValueError, "label_smoothing is 2", {"label_smoothing": 2.0}),
    ]


def _labelled_samples(*before):
    wide = normal(3, 2, 1100, scale=3.0)
    wide_labels = integers(0, 1100, 3, 2)
    # Rows enough for blocks of the widest vectors and some beside them; 32 classes fit such a block, 33 do not.
    blocks = [
        Sample(
            [
                *(normal(*b, 37) for b in before),
                normal(37, k, scale=4.0),
                np.where(np.arange(37) % 5, integers(0, k, 37), 7),
            ],
            {"ignore_index": 7, "label_smoothing": 0.1 * (k == 19)},
        )
        for k in (11, 19, 32, 33)
    ]
    return [
        *blocks,
        Sample([*(normal(*b, 6) for b in before), normal(6, 5), LABELS]),
        Sample([*(normal(*b, 6) for b in before), normal(6, 5), SOME_IGNORED], {"label_smoothing": 0.1}),
        Sample([*(normal(*b, 6) for b in before), normal(6, 5), LABELS.astype(np.int32)], {"ignore_index": 2}),
        Sample([*(normal(*b, 3, 2) for b in before), wide, wide_labels], {"label_smoothing": 0.3}),
        Sample([*(normal(*b, 6) for b in before), normal(6, 5), FROM_BOTH_ENDS], {"from_end": True}),
        Sample([*(normal(*b, 0) for b in before), normal(0, 5), LABELS[:0]]),
        Sample([*(normal(*b) for b in before), normal(5), np.array(3)]),
    ]


# The logarithm of a sum of K exponentials, each of a rounded difference of up to the logits' magnitude.
spec(
    "softmax",
    reference=lambda x, axis=-1: np.exp(_log_softmax(x, axis)),
    roundings=8,
    samples=SOFTMAX_SAMPLES,
    errors=SOFTMAX_ERRORS,
)
spec("log_softmax", reference=_log_softmax, roundings=16, samples=SOFTMAX_SAMPLES[:4], errors=SOFTMAX_ERRORS)
spec("cross_entropy", reference=_cross_entropy, roundings=16, samples=_labelled_samples(), errors=_label_errors())
spec(
    "cross_entropy_grad",
    reference=_cross_entropy_grad,
    roundings=16,
    samples=_labelled_samples(()),
    errors=[
        *_label_errors(normal(2)),
        Bad([normal(3), normal(2, 3), np.array([0, 1])], ShapeError, r"dloss has shape \[3\] but must have \[2\]"),
    ],
)
spec(
    "soft_cross_entropy",
    reference=lambda logits, targets: -(targets * _log_softmax(logits)).sum(-1),
    roundings=32,
    samples=[
        Sample([normal(6, 5), _unit(6, 5)]),
        Sample([normal(2, 3, 300, scale=3.0), _unit(2, 3, 300) / 150]),
        Sample([normal(4), np.array([0.0, 1.0, 0.0, 0.0])]),
        Sample([normal(0, 5), normal(0, 5)]),
    ],
    errors=[Bad([normal(2, 3), normal(2, 4)], ShapeError, r"targets has shape \[2, 4\] but must have \[2, 3\]")],
)
