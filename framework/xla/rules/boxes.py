"""Boxes, matching and suppression. Greedy choices become fixed points over arrays of a fixed size."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from framework.xla.lower import Array, Call, rule
from framework.xla.rules.indexing import sorted_places

_NO_SCORE = -1e30  # of rows without a region


def _sides(b: Array) -> tuple[Array, Array, Array, Array]:
    return b[..., 0], b[..., 1], b[..., 2], b[..., 3]


def has_area(b: Array) -> Array:
    """False where a coordinate is NaN."""
    return (b[..., 2] > b[..., 0]) & (b[..., 3] > b[..., 1])


def _area(b: Array) -> Array:
    x1, y1, x2, y2 = _sides(b)
    return jnp.maximum(x2 - x1, 0) * jnp.maximum(y2 - y1, 0)


def _common(a: Array, b: Array) -> Array:
    """Areas that pairs of boxes share.  a: [..., M, 4]; b: [..., K, 4]; result: [..., M, K]."""
    ax1, ay1, ax2, ay2 = _sides(a[..., :, None, :])
    bx1, by1, bx2, by2 = _sides(b[..., None, :, :])
    width = jnp.minimum(ax2, bx2) - jnp.maximum(ax1, bx1)
    height = jnp.minimum(ay2, by2) - jnp.maximum(ay1, by1)
    return jnp.maximum(width, 0) * jnp.maximum(height, 0)


def iou_of(a: Array, b: Array) -> Array:
    """[..., M, K]; 0 where neither box has an area."""
    common = _common(a, b)
    both = _area(a)[..., :, None] + _area(b)[..., None, :] - common
    return jnp.where(both > 0, _quotient(common, jnp.where(both > 0, both, 1)), 0)


def _quotient(a: Array, b: Array) -> Array:
    """a / b, rounded once, so that an IoU of 3 / 10 reaches a threshold of 0.3.

    XLA's division of float32 on GPUs may be off by a rounding (openxla/xla#37181). Between that of float64 and its cast
    stands a rounding: LLVM makes the two a division of float32 again.
    """
    if a.dtype != jnp.float32:
        return a / b
    return lax.reduce_precision(a.astype(jnp.float64) / b.astype(jnp.float64), 8, 23).astype(a.dtype)


@rule("box_iou")
def _box_iou(call: Call, a: Array, b: Array) -> Array:
    return iou_of(a, b)


@rule("max_iou")
def _max_iou(call: Call, boxes: Array, others: Array) -> Array:
    if not others.shape[1]:
        return jnp.zeros(call.shape, boxes.dtype)
    # Areas of `boxes` count with their sign, as natively: only those of `others` are tested.
    area = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
    common = _common(boxes, others)
    iou = _quotient(common, area[..., :, None] + _area(others)[..., None, :] - common)
    usable = has_area(others)[..., None, :] & (iou > 0)
    return jnp.max(jnp.where(usable, iou, 0), -1)


def _weights(weights: tuple[float, ...], dtype: Any) -> np.ndarray:
    return np.asarray(weights, dtype)


@rule("box_encode")
def _box_encode(call: Call, boxes: Array, anchors: Array, *, weights: tuple[float, ...]) -> Array:
    w = _weights(weights, boxes.dtype)
    usable = (has_area(boxes) & has_area(anchors))[..., None]
    unit = jnp.asarray([0, 0, 1, 1], boxes.dtype)
    b, a = jnp.where(usable, boxes, unit), jnp.where(usable, anchors, unit)
    size, anchor = b[..., 2:] - b[..., :2], a[..., 2:] - a[..., :2]
    shift = ((b[..., :2] + b[..., 2:]) / 2 - (a[..., :2] + a[..., 2:]) / 2) * w[:2] / anchor
    return jnp.where(usable, jnp.concatenate([shift, jnp.log(size / anchor) * w[2:]], -1), 0)


def decode(deltas: Array, anchors: Array, weights: tuple[float, ...], max_log_scale: float) -> Array:
    """What undoes box_encode."""
    w = _weights(weights, deltas.dtype)
    size = anchors[..., 2:] - anchors[..., :2]
    centre = (anchors[..., :2] + anchors[..., 2:]) / 2 + deltas[..., :2] / w[:2] * size
    log_scale = deltas[..., 2:] / w[2:]
    half = size / 2 * jnp.exp(jnp.where(log_scale > max_log_scale, np.asarray(max_log_scale, deltas.dtype), log_scale))
    return jnp.concatenate([centre - half, centre + half], -1)


@rule("box_decode")
def _box_decode(
    call: Call, deltas: Array, anchors: Array, *, weights: tuple[float, ...], max_log_scale: float
) -> Array:
    return decode(deltas, anchors, weights, max_log_scale)


@rule("box_decode_grad")
def _box_decode_grad(
    call: Call, dy: Array, deltas: Array, anchors: Array, *, weights: tuple[float, ...], max_log_scale: float
) -> tuple[Array, Array]:
    shape = dy.shape
    spread = [jnp.broadcast_to(x, shape) for x in (deltas, anchors)]
    _, back = jax.vjp(lambda d, a: decode(d, a, weights, max_log_scale), *spread)
    ddeltas, danchors = back(dy)
    return ddeltas, danchors


def _limits(sizes: Array, dtype: Any) -> Array:
    """The largest coordinate of each column of an image's boxes, [N, 1, 4]."""
    height, width = sizes[:, 0], sizes[:, 1]
    return jnp.stack([width, height, width, height], -1)[:, None, :].astype(dtype)


@rule("clip_boxes")
def _clip_boxes(call: Call, boxes: Array, sizes: Array) -> Array:
    limit = _limits(sizes, boxes.dtype)
    return jnp.where(boxes < 0, 0, jnp.where(boxes > limit, limit, boxes))


@rule("clip_boxes_grad")
def _clip_boxes_grad(call: Call, dy: Array, boxes: Array, sizes: Array) -> Array:
    return jnp.where((boxes < 0) | (boxes > _limits(sizes, boxes.dtype)), 0, dy)


@rule("anchor_grid")
def _anchor_grid(
    call: Call, like: Array, *, cells: tuple[float, ...], stride: tuple[float, ...], offset: float
) -> Array:
    y = (np.arange(like.shape[1]) + offset) * stride[0]
    x = (np.arange(like.shape[2]) + offset) * stride[-1]
    places = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)[:, :, None, :]
    boxes = np.asarray(cells, np.float64).reshape(-1, 4) + np.concatenate([places, places], -1)
    return jnp.asarray(boxes.reshape(call.shape).astype(call.dtype))


# -- suppression
def _kept(suppressed_by: Array, usable: Array) -> Array:
    """Greedy choice: a candidate is kept unless a better one is kept that suppresses it.

    suppressed_by: [M, M], [i, j] whether candidate i goes where j is kept; candidates are in order, the best first.
    The fixed point is reached after as many rounds as the longest chain of candidates that suppress each other.
    """
    count = usable.shape[0]
    earlier = suppressed_by & (jnp.arange(count)[None, :] < jnp.arange(count)[:, None])

    def goes_on(state: Any) -> Array:
        return state[1]

    def again(state: Any) -> Any:
        kept, _ = state
        new = usable & ~jnp.any(earlier & kept[None, :], 1)
        return new, jnp.any(new != kept)

    return lax.while_loop(goes_on, again, (usable, jnp.asarray(True)))[0]


def _suppressing(boxes: Array, iou_threshold: float) -> Array:
    """[M, M]: whether two boxes overlap by more than the threshold."""
    common = _common(boxes, boxes)
    area = _area(boxes)
    return common > np.asarray(iou_threshold, boxes.dtype) * (area[:, None] + area[None, :] - common)


def _to_front(chosen: Array, count: int) -> Array:
    """The places of the first `count` that are chosen, in order; beyond them the number of places."""
    return jnp.nonzero(chosen, size=count, fill_value=chosen.shape[0])[0]


def _at(values: Array, places: Array, fill: float) -> Array:
    """values[places], `fill` where a place lies behind the end."""
    padded = jnp.concatenate([values, jnp.full((1, *values.shape[1:]), fill, values.dtype)])
    return padded[jnp.minimum(places, values.shape[0])]


def _order(scores: Array, usable: Array) -> Array:
    """Places from the best score on, those of equal scores in order, those not usable last."""
    return sorted_places(jnp.where(usable, scores, -jnp.inf), 0, True)


@rule("nms")
def _nms(
    call: Call, boxes: Array, scores: Array, *, iou_threshold: float, score_threshold: float, max_outputs: int
) -> tuple[Array, Array]:
    if not scores.shape[0]:
        return jnp.full(call.shape, -1, jnp.int64), jnp.int64(0)
    usable = scores > np.asarray(score_threshold, scores.dtype)
    order = _order(scores, usable)
    kept = _kept(_suppressing(boxes[order], iou_threshold), usable[order])
    front = _to_front(kept, max_outputs)
    return _at(order, front, -1), jnp.minimum(jnp.sum(kept), max_outputs)


def _softened(boxes: Array, scores: Array, usable: Array, gaussian: bool, threshold: Array, sigma: float) -> Array:
    """Soft suppression (Bodla et al. 2017) of candidates in order: their scores, when the best lowered the others'."""
    iou = iou_of(boxes, boxes)

    def one(_: int, state: Any) -> Any:
        scores, left = state
        best = jnp.argmax(jnp.where(left, scores, -jnp.inf))
        left = left.at[best].set(False)
        row = iou[best]
        factor = jnp.exp(-row * row / sigma) if gaussian else jnp.where(row > threshold, 1 - row, 1)
        return jnp.where(left & (row > 0), scores * factor.astype(scores.dtype), scores), left

    return lax.fori_loop(0, boxes.shape[0], one, (scores, usable))[0]


def _softened_at_once(
    boxes: Array, scores: Array, usable: Array, gaussian: bool, threshold: Array, sigma: float
) -> Array:
    """Matrix suppression (Wang et al. 2020, SOLOv2) of candidates in order."""
    count = boxes.shape[0]
    better = (jnp.arange(count)[None, :] < jnp.arange(count)[:, None]) & usable[None, :]
    iou = jnp.where(better, iou_of(boxes, boxes), 0)  # [j, i]: of candidate j with a better one, i
    most = jnp.max(iou, 1, initial=0)
    if gaussian:
        factor = jnp.exp((most[None, :] ** 2 - iou**2) / sigma)
    else:
        rest = 1 - most[None, :]
        factor = jnp.where(rest > 0, (1 - iou) / jnp.where(rest > 0, rest, 1), 1)
    return scores * jnp.min(jnp.where(better, factor, 1), 1, initial=1)


def _one_class(boxes: Array, scores: Array, limit: int, attrs: dict[str, Any]) -> tuple[Array, Array, Array]:
    """The places, scores and validity of what is left of one class, nms_top_k each; the best first where it matters."""
    top = min(attrs["nms_top_k"], scores.shape[0])
    usable = scores > np.asarray(attrs["score_threshold"], scores.dtype)
    order = _order(scores, usable)[:top]
    chosen, ranked, some = usable[order], scores[order], boxes[order]
    method, threshold = attrs["method"], np.asarray(attrs["iou_threshold"], scores.dtype)
    if method == "hard":
        return order, ranked, _kept(_suppressing(some, attrs["iou_threshold"]), chosen)
    soften = _softened if method.startswith("soft") else _softened_at_once
    lowered = soften(some, ranked, chosen, method.endswith("gaussian"), threshold, attrs["sigma"])
    return order, lowered, chosen & (lowered > np.asarray(attrs["post_threshold"], scores.dtype))


@rule("multiclass_nms")
def _multiclass_nms(call: Call, boxes: Array, scores: Array, **attrs: Any) -> tuple[Array, Array, Array]:
    images, rows, classes = scores.shape
    limit = attrs["keep_top_k"]
    if not (images and rows and classes):
        empty = jnp.zeros(call.shape, scores.dtype).at[..., 0].set(-1)
        return empty, jnp.zeros(images, jnp.int32), jnp.full((images, limit), -1, jnp.int64)
    each = boxes if boxes.ndim == 4 else jnp.broadcast_to(boxes[:, :, None, :], (images, rows, classes, 4))

    def one_image(image: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        some, its_scores = image
        places, ranked, kept = lax.map(
            lambda pair: _one_class(pair[0], pair[1], limit, attrs), (jnp.swapaxes(some, 0, 1), its_scores.T)
        )
        labels = jnp.broadcast_to(jnp.arange(classes)[:, None], places.shape).ravel()
        places, ranked, kept = places.ravel(), ranked.ravel(), kept.ravel()
        # From the best on; of equal scores the lower class, then the lower index.
        _, _, _, at = lax.sort(
            [jnp.where(kept, -ranked, jnp.inf), labels, places, jnp.arange(places.shape[0])], num_keys=3
        )
        found = jnp.sum(kept)
        at = jnp.pad(at, (0, max(limit - at.shape[0], 0)))[:limit]
        there = jnp.arange(limit) < found
        box = some[places[at], labels[at]]
        row = jnp.concatenate([labels[at][:, None].astype(box.dtype), ranked[at][:, None], box], -1)
        nothing = jnp.asarray([-1, 0, 0, 0, 0, 0], box.dtype)
        return (
            jnp.where(there[:, None], row, nothing),
            jnp.minimum(found, limit).astype(jnp.int32),
            jnp.where(there, places[at], -1),
        )

    return lax.map(one_image, (each, scores))


@rule("select_proposals")
def _select_proposals(
    call: Call,
    logits: Array,
    deltas: Array,
    anchors: Array,
    sizes: Array,
    *,
    pre_nms: int,
    post_nms: int,
    iou_threshold: float,
    min_side: float,
    weights: tuple[float, ...],
    max_log_scale: float,
) -> tuple[Array, Array, Array]:
    count = min(pre_nms, logits.shape[1])
    limits = _limits(sizes, deltas.dtype)
    least = np.asarray(min_side, deltas.dtype)

    def one_image(image: Any) -> Any:
        its_logits, its_deltas, limit = image
        order = _order(its_logits, ~jnp.isnan(its_logits))[:count]
        decoded = decode(its_deltas[order], anchors[order], weights, max_log_scale)
        regions = jnp.where(decoded < 0, 0, jnp.where(decoded > limit, limit, decoded))
        sides = regions[:, 2:] - regions[:, :2]
        usable = has_area(regions) & jnp.all(sides >= least, -1) & ~jnp.isnan(its_logits[order])
        kept = _kept(_suppressing(regions, iou_threshold), usable)
        front = _to_front(kept, post_nms)
        found = jnp.minimum(jnp.sum(kept), post_nms).astype(jnp.int32)
        return _at(regions, front, 0), _at(its_logits[order], front, _NO_SCORE), found

    if not (logits.shape[0] and count):
        scores = jnp.full(call.types[1][0], _NO_SCORE, logits.dtype)
        return jnp.zeros(call.shape, deltas.dtype), scores, jnp.zeros(logits.shape[0], jnp.int32)
    return lax.map(one_image, (logits, deltas, limits))


# -- matching
@rule("match_boxes")
def _match_boxes(
    call: Call,
    anchors: Array,
    truths: Array,
    ignored: Array | None = None,
    *,
    high: float,
    low: float,
    keep_best: bool,
    claim_best: bool,
    ignore_iou: float,
) -> Array:
    images, most_truths = truths.shape[:2]
    dtype = anchors.dtype
    each = anchors if anchors.ndim == 3 else jnp.broadcast_to(anchors, (images, *anchors.shape))
    skipped = jnp.zeros((images, most_truths), bool) if ignored is None else ignored
    if not (most_truths and each.shape[1]):
        return jnp.where(has_area(each), -1, -2)

    def one_image(image: Any) -> Array:
        its, boxes, skip = image
        sound = has_area(its)
        usable = has_area(boxes) & ~skip
        iou = jnp.where(usable[None, :] & sound[:, None], iou_of(its, boxes), 0)
        best, most = jnp.argmax(iou, 1), jnp.max(iou, 1)
        hidden = jnp.zeros(sound.shape, bool)
        if ignored is not None:  # else XLA would work all pairs out while it compiles
            regions = has_area(boxes) & skip
            common = jnp.where(regions[None, :], _common(its, boxes), 0)
            least = np.asarray(ignore_iou, dtype) * _area(its)
            hidden = jnp.any((common > 0) & (common >= least[:, None]), 1)
        match = jnp.where(most < np.asarray(low, dtype), jnp.where(hidden, -2, -1), -2)
        match = jnp.where(most > 0, match, jnp.where(hidden, -2, -1))
        match = jnp.where((most > 0) & (most >= np.asarray(high, dtype)), best, match)
        match = jnp.where(sound, match, -2)
        if keep_best:
            top = jnp.max(iou, 0)
            match = jnp.where(jnp.any((iou == top[None, :]) & (top > 0)[None, :], 1) & (most > 0), best, match)
        return _claimed(match, iou) if claim_best else match

    return lax.map(one_image, (each, truths, skipped))


def _claimed(match: Array, iou: Array) -> Array:
    """Each truth takes the best anchor that is still free: pairs from the largest IoU on.  iou: [P, M]."""

    def one(_: int, state: Any) -> Any:
        match, left = state
        by_truth = jnp.max(left, 0)
        m = jnp.argmax(by_truth)
        p = jnp.argmax(left[:, m])
        there = by_truth[m] > 0
        match = jnp.where(there, match.at[p].set(m), match)
        return match, jnp.where(there, left.at[p, :].set(0).at[:, m].set(0), left)

    return lax.fori_loop(0, iou.shape[1], one, (match, iou))[0]


@rule("sample_matches")
def _sample_matches(call: Call, match: Array, keys: Array, *, count: int, positive_share: float) -> tuple[Array, Array]:
    most = min(math.floor(count * positive_share + 1e-6), count)  # 0.29 is a little less in binary than it says
    each = match.shape[1]
    if not each:
        return jnp.zeros(call.shape, jnp.int64), jnp.full(call.shape, -2, jnp.int64)
    keys = jnp.where(jnp.isnan(keys), jnp.inf, keys)

    def one_image(image: Any) -> Any:
        its, key = image
        matched, background = its >= 0, its == -1
        # Those that take part first, by their keys; infinite keys count as keys.
        _, _, positive = lax.sort([~matched, key, jnp.arange(each)], num_keys=2, is_stable=True)
        _, _, negative = lax.sort([~background, key, jnp.arange(each)], num_keys=2, is_stable=True)
        chosen = jnp.minimum(jnp.sum(matched), most)
        rest = jnp.minimum(jnp.sum(background), count - chosen)
        i = jnp.arange(count)
        first = positive[jnp.clip(i, 0, each - 1)]
        second = negative[jnp.clip(i - chosen, 0, each - 1)]
        index = jnp.where(i < chosen, first, jnp.where(i < chosen + rest, second, 0))
        filled = i < chosen + rest
        return index, jnp.where(filled, its[index], -2)

    return lax.map(one_image, (match, keys))
