"""framework/native/ops/crf.cc"""

import itertools

import numpy as np

from framework.errors import AttributeValueError, DTypeError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _score(path, emissions, transitions, start, stop):
    steps = sum(transitions[a, b] for a, b in itertools.pairwise(path))
    return start[path[0]] + stop[path[-1]] + steps + sum(row[k] for row, k in zip(emissions, path, strict=True))


def _paths(emissions, transitions, start, stop):
    """All paths of one sequence and their scores."""
    paths = list(itertools.product(range(emissions.shape[1]), repeat=len(emissions)))
    return paths, np.array([_score(p, emissions, transitions, start, stop) for p in paths])


def _sequences(offsets):
    return [(b, slice(*ends)) for b, ends in enumerate(itertools.pairwise(offsets)) if ends[0] < ends[1]]


def _crf_loss(emissions, transitions, start, stop, tags, offsets):
    """By all paths."""
    loss, chain = np.zeros(len(offsets) - 1), (transitions, start, stop)
    for b, rows in _sequences(offsets):
        scores = _paths(emissions[rows], *chain)[1]
        largest = scores.max()
        loss[b] = largest + np.log(np.exp(scores - largest).sum()) - _score(tags[rows], emissions[rows], *chain)
    return loss


def _crf_loss_grad(dloss, emissions, transitions, start, stop, tags, offsets):
    """How often each tag and pair stands in a path, weighted by the path's probability, minus the given path's."""
    grads = [np.zeros_like(x) for x in (emissions, transitions, start, stop)]
    for b, rows in _sequences(offsets):
        paths, scores = _paths(emissions[rows], transitions, start, stop)
        p = np.exp(scores - scores.max())
        weighted = [*zip(paths, p / p.sum() * dloss[b], strict=True), (tags[rows], -dloss[b])]
        for path, weight in weighted:
            for t, k in enumerate(path):
                grads[0][rows.start + t, k] += weight
            for a, c in itertools.pairwise(path):
                grads[1][a, c] += weight
            grads[2][path[0]] += weight
            grads[3][path[-1]] += weight
    return tuple(grads)


def _crf_decode(emissions, transitions, start, stop, offsets):
    tags, best = np.zeros(len(emissions), np.int64), np.zeros(len(offsets) - 1)
    for b, rows in _sequences(offsets):
        paths, scores = _paths(emissions[rows], transitions, start, stop)
        tags[rows], best[b] = paths[int(scores.argmax())], scores.max()
    return tags, best


def _chain(lengths, tags, scale=1.0):
    rows = sum(lengths)
    offsets = np.cumsum([0, *lengths])
    scores = [
        normal(rows, tags, scale=scale),
        normal(tags, tags, seed=1, scale=scale),
        normal(tags, seed=2),
        normal(tags, seed=3),
    ]
    return scores, integers(0, tags, rows), offsets


def _loss_sample(*args, dloss=False):
    scores, tags, offsets = _chain(*args)
    return Sample([*([normal(len(offsets) - 1, seed=8)] if dloss else []), *scores, tags, offsets])


def _decode_sample(*args):
    scores, _, offsets = _chain(*args)
    return Sample([*scores, offsets])


CASES = [((3, 0, 5, 1), 3), ((4, 2), 5), ((1, 1, 2), 18), ((6,), 3, 30.0), ((2,) * 20, 4), ((3, 2), 1), ((), 4)]


def _errors(before, with_tags):
    scores, tags, offsets = _chain((2, 2), 3)
    first, last = list(before), [tags] if with_tags else []
    wide = [scores[0], normal(3, 4), *scores[2:]]
    errors = [
        Bad([*first, *wide, *last, offsets], ShapeError, r"transitions has shape \[3, 4\] but must have \[3, 3\]"),
        Bad([*first, normal(4), *scores[1:], *last, offsets], ShapeError, "emissions has 1 axes"),
        Bad(
            [*first, *scores, *last, np.array([0, 2, 5])], AttributeValueError, "offsets ends at 5 but there are 4 rows"
        ),
        Bad([*first, *scores[:3], np.arange(3), *last, offsets], DTypeError, "stop is int64"),
    ]
    if with_tags:
        errors.append(
            Bad([*first, *scores, np.array([0, 1, 3, 0]), offsets], AttributeValueError,
                r"tags\[2\] is 3 but the row of emissions has 3; it must lie in \[0, 2\]")
        )  # fmt: skip
    return errors


# A step adds the logarithm of a sum of K exponentials to scores of the largest one's size: some four roundings a row.
spec(
    "crf_loss",
    reference=_crf_loss,
    roundings=64,
    unit=lambda emissions, *_, **__: float(np.abs(emissions).sum()),  # the score of the tags is taken from that of all
    samples=[_loss_sample(*case) for case in CASES],
    errors=_errors([], True),
)
# Probabilities are exponentials of differences of such scores, and their error is that of the scores.
spec(
    "crf_loss_grad",
    reference=_crf_loss_grad,
    roundings=256,
    gradient=False,
    samples=[_loss_sample(*case, dloss=True) for case in CASES],
    errors=_errors([normal(2)], True),
)
FORBIDDEN = _decode_sample((5, 3), 3)
FORBIDDEN.inputs[1][0, 1] = FORBIDDEN.inputs[1][2, 2] = -np.inf
TIES = Sample([np.zeros((4, 3)), np.zeros((3, 3)), np.zeros(3), np.zeros(3), np.array([0, 4])])
spec(
    "crf_decode",
    reference=_crf_decode,
    roundings=32,
    gradient=False,
    samples=[*[_decode_sample(*case) for case in CASES], FORBIDDEN, TIES],
    errors=_errors([], False),
)
