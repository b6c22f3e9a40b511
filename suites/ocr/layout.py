"""Which texts of a page make a line, and which lines a paragraph, in the order in which people read them.

Letters: M texts; quadrilaterals are float32 [M, 4, 2], corners from the upper left on as the writing stands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_GAP = 0.9  # of the height: lines of a paragraph are no further from each other
_BESIDE = 1.2  # of the height: texts of a line are no further from each other
_LIKE = 1.7  # heights of a paragraph's lines differ by no more than this factor
_SHARED = 0.5  # of the narrower line lies above or below the other
_LEVEL = 0.5  # of the lower text shares its height with the text beside it
_TURN = np.deg2rad(12)


def paragraphs(quads: np.ndarray) -> list[list[list[int]]]:
    """The numbers of texts [M, 4, 2]: those of a line in a list, the lines of a paragraph in a list.

    A column is read to its end before the next one, and what stands across columns before those below it. A page that
    lies on its side or upside down is read as its writing stands; so are columns of writing from above to below.
    """
    if not len(quads):
        return []
    upright = stood_up(quads)
    across = _quarters(upright) % 2 == 1  # to most of the page's writing
    blocks: list[list[list[int]]] = []
    for part in (np.flatnonzero(~across), np.flatnonzero(across)):
        if len(part):
            blocks += [[part[row].tolist() for row in block] for block in _blocks(stood_up(upright[part]))]
    boxes = _measured(upright)[0]
    order = _cut(
        list(range(len(blocks))), np.stack([_around(boxes[[k for row in block for k in row]]) for block in blocks])
    )
    return [blocks[at] for at in order]


def stood_up(quads: np.ndarray) -> np.ndarray:
    """The page of texts [M, 4, 2] turned by quarters, so that the most of its writing runs from left to right."""
    x, y = quads[..., 0], quads[..., 1]
    return np.stack([(x, y), (y, -x), (-x, -y), (-y, x)][page_quarter(quads)], axis=-1)


def page_quarter(quads: np.ndarray) -> int:
    """How the most of a page's writing [M, 4, 2] runs: 0 to the right, 1 down, 2 to the left, 3 up."""
    lengths = np.hypot(*(quads[:, 1] - quads[:, 0]).T)
    return int(np.bincount(_quarters(quads), np.maximum(lengths, 1e-3), 4).argmax())


def _quarters(quads: np.ndarray) -> np.ndarray:
    """How each writing [M, 4, 2] runs, int [M], as `page_quarter` says it."""
    return np.round(_measured(quads)[2] / (np.pi / 2)).astype(int) % 4


def _blocks(quads: np.ndarray) -> list[list[list[int]]]:
    """The paragraphs of writing that runs along lines, in no order."""
    boxes, heights, angles = _measured(quads)
    lines = _joined(_near(boxes, heights, angles, 0, _BESIDE, _LEVEL))
    rows = [sorted(line, key=lambda k: boxes[k, 0]) for line in lines]
    spans = np.stack([_around(boxes[row]) for row in rows])
    tall = np.array([heights[row].mean() for row in rows])
    turned = np.array([angles[row[0]] for row in rows])
    groups = _joined(_near(spans, tall, turned, 1, _GAP, _SHARED))
    return [[rows[k] for k in sorted(group, key=lambda k: spans[k, 1])] for group in groups]


def _measured(quads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes [M, 4] around quadrilaterals, their heights and the angles of their writing, [M] each."""
    boxes = np.concatenate([quads.min(axis=1), quads.max(axis=1)], axis=1)
    heights = np.hypot(*(quads[:, 3] - quads[:, 0]).T)
    along = quads[:, 1] - quads[:, 0]
    return boxes, np.maximum(heights, 1.0), np.arctan2(along[:, 1], along[:, 0])


def _around(boxes: np.ndarray) -> np.ndarray:
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])


def _overlap(boxes: np.ndarray, axis: int) -> np.ndarray:
    """How much each two boxes [M, 4] share along an axis, as a share of the smaller, [M, M]."""
    first, last = boxes[:, axis], boxes[:, axis + 2]
    shared = np.minimum(last[:, None], last) - np.maximum(first[:, None], first)
    sizes = last - first
    return np.maximum(shared, 0) / np.maximum(np.minimum(sizes[:, None], sizes), 1.0)


def _near(
    boxes: np.ndarray, heights: np.ndarray, angles: np.ndarray, axis: int, most: float, share: float
) -> np.ndarray:
    """bool [M, M]: writing alike, next to each other along an axis, that shares enough of the other axis."""
    lower = np.minimum(heights[:, None], heights)
    alike = np.maximum(heights[:, None], heights) <= _LIKE * lower
    alike &= np.abs(np.angle(np.exp(2j * (angles[:, None] - angles)))) <= 2 * _TURN  # upside down is taken as level
    first, last = boxes[:, axis], boxes[:, axis + 2]
    gap = np.maximum(first[:, None], first) - np.minimum(last[:, None], last)
    return np.asarray(alike & (gap <= most * lower) & (_overlap(boxes, 1 - axis) >= share))


def _joined(near: np.ndarray) -> list[list[int]]:
    """The numbers of `near` [M, M] in groups that its pairs link, in order."""
    from scipy.sparse.csgraph import connected_components  # 140 MB: servers spare it

    count, labels = connected_components(near, directed=False)
    return [np.flatnonzero(labels == k).tolist() for k in range(count)]


def _cut(numbers: Sequence[int], boxes: np.ndarray) -> list[int]:
    """Numbers of boxes in reading order: columns side by side one by one, else what is above all others first."""
    left = list(numbers)
    found: list[int] = []
    while len(left) > 1:
        columns = _parted(left, boxes, 0)
        if len(columns) > 1:
            return found + [k for column in columns for k in _cut(column, boxes)]
        rows = _parted(left, boxes, 1)
        if len(rows) == 1:
            return found + sorted(left, key=lambda k: (boxes[k, 1], boxes[k, 0]))
        found += _cut(rows[0], boxes)
        left = [k for row in rows[1:] for k in row]
    return found + left


def _parted(numbers: Sequence[int], boxes: np.ndarray, axis: int) -> list[list[int]]:
    """Numbers in groups between which no box lies along an axis, in order."""
    order = sorted(numbers, key=lambda k: boxes[k, axis])
    parts, end = [[order[0]]], boxes[order[0], axis + 2]
    for k in order[1:]:
        if boxes[k, axis] >= end:
            parts.append([k])
        else:
            parts[-1].append(k)
        end = max(end, boxes[k, axis + 2])
    return parts
