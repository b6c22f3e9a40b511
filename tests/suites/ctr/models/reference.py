"""The models read from their papers once more, in NumPy and float64, one row at a time where that is plainer.

`w` are a model's weights by path; `e` [N, F, R] are the rows of the fields, `d` [N, D] dense features, `h` the rows of
a history by row of the batch, a list of [t, C].
"""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0)


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def mlp(w, name, x, act=relu):
    place = 0
    while f"{name}.layers.{place}.weight" in w:
        x = act(linear(w, f"{name}.layers.{place}", x), f"{name}.activations.{place}", w)
        place += 1
    return x


def plain(x, name, w):
    return relu(x)


def dice(x, name, w):
    """In evaluation mode, with the running statistics."""
    p = sigmoid((x - w[f"{name}.norm.running_mean"]) / np.sqrt(w[f"{name}.norm.running_var"] + 1e-9))
    return p * x + (1 - p) * w[f"{name}.alpha"] * x


def logistic(w, e, d):
    """w0 + sum of the fields' weights + dense weights times values."""
    return e[:, :, 0].sum(1, keepdims=True) + linear(w, "linear.dense", d)


def fm_pairs(v):
    """Every pair of fields, written out."""
    n, f, _ = v.shape
    return np.array([[sum(v[r, i] @ v[r, j] for i in range(f) for j in range(i + 1, f))] for r in range(n)])


def beside(v, d):
    return np.concatenate([v.reshape(len(v), -1), d], axis=1)


def lr(w, e, d, h):
    return logistic(w, e, d)


def fm(w, e, d, h):
    return logistic(w, e, d) + fm_pairs(e[:, :, 1:])


def ffm(w, e, d, h, dim):
    n, f, _ = e.shape
    v = e[:, :, 1:].reshape(n, f, f, dim)
    pairs = [[sum(v[r, i, j] @ v[r, j, i] for i in range(f) for j in range(i + 1, f))] for r in range(n)]
    return logistic(w, e, d) + np.array(pairs)


def dnn(w, e, d, h):
    return linear(w, "head", mlp(w, "mlp", beside(e, d), plain))


def wide_deep(w, e, d, h):
    return logistic(w, e, d) + linear(w, "head", mlp(w, "mlp", beside(e[:, :, 1:], d), plain))


def deepfm(w, e, d, h):
    return wide_deep(w, e, d, h) + fm_pairs(e[:, :, 1:])


def dcn(w, e, d, h, layers):
    x0 = x = beside(e, d)
    for k in range(layers):
        x = np.array([a * (b @ w[f"w{k}"][0]) + w[f"b{k}"] + b for a, b in zip(x0, x, strict=True)])
    return linear(w, "head", np.concatenate([x, mlp(w, "mlp", x0, plain)], axis=1))


def dcnv2(w, e, d, h, layers, stacked, rank):
    x0 = x = beside(e, d)
    for k in range(layers):
        inner = x @ w[f"down.{k}.weight"].T if rank else x
        x = x0 * linear(w, f"crosses.{k}", inner) + x
    if stacked:
        return linear(w, "head", mlp(w, "mlp", x, plain))
    return linear(w, "head", np.concatenate([x, mlp(w, "mlp", x0, plain)], axis=1))


def xdeepfm(w, e, d, h, maps):
    v = e[:, :, 1:]
    f, now, pooled = v.shape[1], v, []
    for k, count in enumerate(maps):
        weight = w[f"cin.weights.{k}.weight"].reshape(count, now.shape[1], f)
        new = np.einsum("hij,nik,njk->nhk", weight, now, v)
        last = k == len(maps) - 1
        now, kept = (new, new) if last else (new[:, : count // 2], new[:, count // 2 :])
        pooled.append(kept.sum(2))
    deep = mlp(w, "mlp", beside(v, d), plain)
    return logistic(w, e, d) + linear(w, "head", np.concatenate([*pooled, deep], axis=1))


def autoint(w, e, d, h, layers, heads, size):
    x = np.concatenate([e, d[:, :, None] * w["dense_vectors"]], axis=1)
    for k in range(layers):
        q, key, v, res = (x @ w[f"layers.{k}.{name}.weight"].T for name in ("query", "key", "value", "residual"))
        found = []
        for head in range(heads):
            cut = slice(head * size, (head + 1) * size)
            scores = np.exp(q[..., cut] @ key[..., cut].transpose(0, 2, 1))
            found.append(scores / scores.sum(2, keepdims=True) @ v[..., cut])
        x = relu(np.concatenate(found, axis=2) + res)
    return linear(w, "head", x.reshape(len(x), -1))


def din(w, e, d, h, target):
    pooled = np.zeros((len(e), e.shape[2]))
    for r, history in enumerate(h):
        for a in history:
            t = e[r, target]
            inner = mlp(w, "units.0.mlp", np.concatenate([a, t, a - t, a * t]), dice)
            pooled[r] += linear(w, "units.0.head", inner)[0] * a
    return linear(w, "head", mlp(w, "mlp", np.concatenate([beside(e, d), pooled], axis=1), plain))


def gru(w, name, history):
    """The equations of Cho et al. (2014) with the reset gate behind the product, gates in the core's order r, z, n."""
    hidden = w[f"{name}.weight_h"].shape[-1]
    state, states = np.zeros(hidden), []
    wx, bx = w[f"{name}.weight_x"], w[f"{name}.bias"]
    wh, bh = w[f"{name}.weight_h"].reshape(3 * hidden, hidden), w[f"{name}.bias_h"].reshape(-1)
    for x in history:
        gx, gh = wx @ x + bx, wh @ state + bh
        r, z = sigmoid(gx[:hidden] + gh[:hidden]), sigmoid(gx[hidden : 2 * hidden] + gh[hidden : 2 * hidden])
        n = np.tanh(gx[2 * hidden :] + r * gh[2 * hidden :])
        state = (1 - z) * n + z * state
        states.append(state)
    return np.array(states).reshape(-1, hidden)


def augru(w, name, inputs, weights):
    hidden = w[f"{name}.weight_h"].shape[1]
    state = np.zeros(hidden)
    for x, a in zip(inputs, weights, strict=True):
        gx, gh = w[f"{name}.weight_x"] @ x + w[f"{name}.bias"], w[f"{name}.weight_h"] @ state
        u = a * sigmoid(gx[:hidden] + gh[:hidden])
        r = sigmoid(gx[hidden : 2 * hidden] + gh[hidden : 2 * hidden])
        state = (1 - u) * state + u * np.tanh(gx[2 * hidden :] + r * gh[2 * hidden :])
    return state


def dien(w, e, d, h, target):
    evolved = []
    for r, history in enumerate(h):
        states = gru(w, "extractors.0.layers.0", history)
        scores = states @ (w["attentions.0.weight"] @ e[r, target])
        weights = np.exp(scores - scores.max()) if len(scores) else scores
        evolved.append(augru(w, "evolutions.0", states, weights / weights.sum() if len(weights) else weights))
    return linear(w, "head", mlp(w, "mlp", np.concatenate([beside(e, d), np.array(evolved)], axis=1), plain))


def dien_auxiliary(w, h):
    values = np.concatenate(h)
    others = iter(values[::-1])
    total, count = 0.0, 0
    for history in h:
        states = gru(w, "extractors.0.layers.0", history)
        for t in range(len(history)):
            other = next(others)
            if t + 1 < len(history):
                total -= np.log(sigmoid(states[t] @ history[t + 1])) + np.log(1 - sigmoid(states[t] @ other))
                count += 1
    return total / count


def mmoe(w, e, d, h, experts, labels):
    x = beside(e, d)
    found = np.stack([mlp(w, f"experts.{k}", x, plain) for k in range(experts)], axis=1)
    logits = []
    for task in range(labels):
        gate = np.exp(x @ w[f"gates.{task}.weight"].T)
        mixed = (found * (gate / gate.sum(1, keepdims=True))[:, :, None]).sum(1)
        logits.append(linear(w, f"heads.{task}", mlp(w, f"towers.{task}", mixed, plain)))
    return np.concatenate(logits, axis=1)


def esmm(w, e, d, h):
    x = beside(e, d)
    click, conversion = (sigmoid(linear(w, f"heads.{k}", mlp(w, f"networks.{k}", x, plain))) for k in range(2))
    both = click * conversion
    return np.concatenate([np.log(click / (1 - click)), np.log(both / (1 - both))], axis=1)


def gru4rec_users(w, h):
    """The last state of the session, and a 1 for the item's own number."""
    states = [gru(w, "gru.layers.0", history[:, 1:])[-1] if len(history) else None for history in h]
    hidden = w["gru.layers.0.weight_h"].shape[-1]
    return np.array([np.append(np.zeros(hidden) if s is None else s, 1.0) for s in states])


def gru4rec_items(e, target):
    return np.concatenate([e[:, target, 1:], e[:, target, :1]], axis=1)


def gru4rec(w, e, d, h, target):
    return (gru4rec_users(w, h) * gru4rec_items(e, target)).sum(1, keepdims=True)


def gru4rec_loss(w, e, h, target, labels, kind, shares=None):
    """Each row's own item against the items of all rows, by loops; mean over the rows that were clicked.

    shares: p of each row's item, by which s(x, y) becomes s(x, y) - ln p(y) (Yi et al. 2019, equation 3).
    """
    scores = gru4rec_users(w, h) @ gru4rec_items(e, target).T
    if shares is not None:
        return _corrected_loss(scores, labels, kind, shares)
    each = []
    for i in np.flatnonzero(labels):
        others = [j for j in range(len(e)) if j != i]
        own, rest = scores[i, i], scores[i, others]
        if kind == "cross_entropy":
            each.append(-np.log(np.exp(own) / np.exp(scores[i]).sum()))
        elif kind == "bpr":
            each.append(np.mean([-np.log(sigmoid(own - s)) for s in rest]))
        else:
            share = np.exp(rest) / np.exp(rest).sum()
            each.append(sum(p * (sigmoid(s - own) + sigmoid(s**2)) for p, s in zip(share, rest, strict=True)))
    return np.mean(each)


def _corrected_loss(scores, labels, kind, shares):
    each = []
    for i in np.flatnonzero(labels):
        others = [j for j in range(len(scores)) if j != i]
        own, rest = scores[i, i], scores[i, others]
        if kind == "cross_entropy":
            corrected = [scores[i, j] - np.log(shares[j]) for j in range(len(scores))]
            each.append(-np.log(np.exp(corrected[i]) / sum(np.exp(corrected))))
        elif kind == "bpr":
            weights = [1 / shares[j] for j in others]
            each.append(np.average([-np.log(sigmoid(own - s)) for s in rest], weights=weights))
        else:
            weights = [np.exp(scores[i, j]) / shares[j] for j in others]
            each.append(np.average([sigmoid(s - own) + sigmoid(s**2) for s in rest], weights=weights))
    return np.mean(each)


def ssr_vectors(w, e, h, target):
    hidden = w["gru.layers.0.weight_h"].shape[-1]
    pooled = [gru(w, "gru.layers.0", x).max(0) if len(x) else np.zeros(hidden) for x in h]
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731
    return unit(linear(w, "user", np.array(pooled))), unit(linear(w, "own", e[:, target]))


def ssr(w, e, d, h, target):
    users, items = ssr_vectors(w, e, h, target)
    return (users * items).sum(1, keepdims=True)


def ssr_loss(w, e, h, target, labels, margin):
    users, items = ssr_vectors(w, e, h, target)
    hinge = [max(0.0, margin - users[i] @ items[i] + users[i] @ items[-1 - i]) for i in np.flatnonzero(labels)]
    return np.mean(hinge)
