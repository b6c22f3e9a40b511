"""Every model gives what an independent reading of its paper gives, with the same weights.

float32 against float64: a logit of size 1 is a sum of some hundred products, each rounded to 6e-8, so 1e-5 is ample.
The issue asks for 1e-4.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, ops, program
from framework.errors import AttributeValueError, ConfigError
from suites import ctr
from suites.ctr.models.base import Embedded
from suites.ctr.models.xdeepfm import CIN
from suites.ctr.schema import Fields
from tests.suites.ctr.models import reference

FIELDS = Fields(
    fields=("user", "item", "shop", "tags"), dense=3, sequences=(("liked", 1),), groups=((0,),), max_lengths=(6,)
)
TWO = replace(FIELDS, labels=("click", "buy"))
LENGTHS = [3, 0, 6, 1, 2]
MODELS = {
    "LR": (FIELDS, partial(ctr.LR), reference.lr),
    "FM": (FIELDS, partial(ctr.FM, dim=5), reference.fm),
    "FFM": (FIELDS, partial(ctr.FFM, dim=3), partial(reference.ffm, dim=3)),
    "DNN": (FIELDS, partial(ctr.DNN, dim=4, hidden=(8, 7)), reference.dnn),
    "WideDeep": (FIELDS, partial(ctr.WideDeep, dim=4, hidden=(8, 7)), reference.wide_deep),
    "DeepFM": (FIELDS, partial(ctr.DeepFM, dim=4, hidden=(8, 7)), reference.deepfm),
    "DCN": (FIELDS, partial(ctr.DCN, dim=4, cross_layers=2, hidden=(8,)), partial(reference.dcn, layers=2)),
    "DCNv2": (
        FIELDS,
        partial(ctr.DCNv2, dim=4, cross_layers=2, hidden=(8,)),
        partial(reference.dcnv2, layers=2, stacked=False, rank=None),
    ),
    "DCNv2 low": (
        FIELDS,
        partial(ctr.DCNv2, dim=4, cross_layers=2, rank=3, hidden=(8,), structure="stacked"),
        partial(reference.dcnv2, layers=2, stacked=True, rank=3),
    ),
    "XDeepFM": (FIELDS, partial(ctr.XDeepFM, dim=4, cin=(6, 5), hidden=(8,)), partial(reference.xdeepfm, maps=(6, 5))),
    "AutoInt": (
        FIELDS,
        partial(ctr.AutoInt, dim=4, layers=2, heads=2, size=3),
        partial(reference.autoint, layers=2, heads=2, size=3),
    ),
    "DIN": (FIELDS, partial(ctr.DIN, dim=4, attention=(6, 5), hidden=(8,)), partial(reference.din, target=1)),
    "DIEN": (FIELDS, partial(ctr.DIEN, dim=4, hidden=(8,)), partial(reference.dien, target=1)),
    "MMoE": (
        TWO,
        partial(ctr.MMoE, dim=4, experts=3, expert_hidden=(6, 5), tower_hidden=(4,)),
        partial(reference.mmoe, experts=3, labels=2),
    ),
    "GRU4Rec": (FIELDS, partial(ctr.GRU4Rec, dim=4), partial(reference.gru4rec, target=1)),
    "SSR": (FIELDS, partial(ctr.SSR, dim=4, hidden=5), partial(reference.ssr, target=1)),
    "ESMM": (TWO, partial(ctr.ESMM, dim=4, hidden=(6, 5)), reference.esmm),
}


def built(name):
    """The model in evaluation mode, every weight and statistic a random number, and its arrays in float64."""
    fields, make, _ = MODELS[name]
    model = make(fields).eval()
    rng = np.random.default_rng(0)
    for path, t in model.state_dict().items():
        if path != "pairs" and not path.endswith((".norm.scale", ".norm.bias")):  # fixed ones
            drawn = rng.normal(0, 0.4, t.shape).astype(np.float32)
            t.set(from_numpy(np.abs(drawn) + 0.5 if path.endswith("running_var") else drawn))
    return model, {path: t.numpy().astype(np.float64) for path, t in model.state_dict().items()}


def batch_of(model, lengths=LENGTHS, seed=1):
    rng = np.random.default_rng(seed)
    n, f, r = len(lengths), len(model.fields.fields), model.width
    e, d = rng.normal(0, 0.5, (n, f, r)).astype(np.float32), rng.normal(0, 1, (n, 3)).astype(np.float32)
    h = [rng.normal(0, 0.5, (length, r)).astype(np.float32) for length in lengths]
    return e, d, h


def embedded(e, d, values, offsets):
    return Embedded(e, d, {"liked": (values, offsets)})


def inputs_of(e, d, h):
    offsets = np.cumsum([0, *map(len, h)], dtype=np.int64)
    return [from_numpy(np.ascontiguousarray(a)) for a in (e, d, np.concatenate(h), offsets)]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_what_its_paper_says(name):
    model, weights = built(name)
    e, d, h = batch_of(model)
    with no_grad():
        found = model(embedded(*inputs_of(e, d, h))).numpy()
    expected = MODELS[name][2](weights, e.astype(np.float64), d.astype(np.float64), [a.astype(np.float64) for a in h])
    assert found.shape == (len(e), len(model.fields.labels))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


LINEAR = ["linear.dense.weight", "linear.dense.bias"]
DEEP = [f"mlp.layers.{i}.{kind}" for i in range(2) for kind in ("weight", "bias")] + ["head.weight", "head.bias"]
SHALLOW = ["mlp.layers.0.weight", "mlp.layers.0.bias", "head.weight", "head.bias"]
SAVED = {  # names in files that were written before these models had constructors of their own
    "WideDeep": LINEAR + DEEP,
    "DeepFM": LINEAR + DEEP,
    "DCN": ["w0", "b0", "w1", "b1", *SHALLOW],
    "DCNv2": [*SHALLOW, *(f"crosses.{i}.{kind}" for i in range(2) for kind in ("weight", "bias"))],
    "DCNv2 low": [
        *SHALLOW,
        *(f"down.{i}.weight" for i in range(2)),
        *(f"crosses.{i}.{kind}" for i in range(2) for kind in ("weight", "bias")),
    ],
}


@pytest.mark.parametrize("name", SAVED)
def test_weights_that_were_saved_earlier_load(name):
    model, arrays = built(name)
    _, make, _ = MODELS[name]
    other = make(FIELDS).eval()
    other.load_state_dict({path: from_numpy(arrays[path].astype(np.float32)) for path in SAVED[name]})
    x = embedded(*inputs_of(*batch_of(model)))
    np.testing.assert_array_equal(other(x).numpy(), model(x).numpy())


@pytest.mark.parametrize("name", MODELS)
def test_a_program_serves_batches_of_other_sizes_and_trains(name):
    fields, make, _ = MODELS[name]
    model = make(fields)
    nn.init.initialize(model, seed=0)

    def step(e, d, values, offsets):
        x = embedded(e, d, values, offsets)
        logits = model(x)
        loss = ops.mean(ops.softplus(logits))
        for mean, _ in model.extra_losses(x, logits).values():
            loss = loss + mean
        loss.backward()
        return logits, loss

    traced = program(step)
    for lengths in (LENGTHS, [1, 1], [6] * 7):
        inputs = inputs_of(*batch_of(model, lengths))
        inputs[0].requires_grad = inputs[2].requires_grad = True
        logits, loss = traced(*inputs)
        assert logits.shape == (len(lengths), len(fields.labels)) and np.isfinite(loss.item())
        assert np.abs(inputs[0].grad.numpy()).sum() > 0
        if model.uses_sequences:
            assert np.abs(inputs[2].grad.numpy()).sum() > 0
    assert traced.program_for(*inputs).program.shape_reads == []


def test_the_auxiliary_loss_of_dien_is_that_of_section_4_1():
    model, weights = built("DIEN")
    e, d, h = batch_of(model)
    with no_grad():
        ((mean, count),) = model.extra_losses(embedded(*inputs_of(e, d, h)), None).values()
    assert mean.item() == pytest.approx(reference.dien_auxiliary(weights, [a.astype(np.float64) for a in h]), rel=1e-5)
    assert count.item() == sum(max(length - 1, 0) for length in LENGTHS)


@pytest.mark.parametrize("kind", ["cross_entropy", "bpr", "top1_max"])
def test_the_losses_of_gru4rec_are_those_of_its_papers(kind):
    _, weights = built("GRU4Rec")
    model = ctr.GRU4Rec(FIELDS, dim=4, loss=kind).eval()
    model.load_state_dict({name: value.astype(np.float32) for name, value in weights.items()})
    e, d, h = batch_of(model)
    labels = np.array([1, 0, 1, 1, 0], np.float32)[:, None]
    with no_grad():
        ((mean, count),) = model.losses(embedded(*inputs_of(e, d, h)), from_numpy(labels)).values()
    wide = [a.astype(np.float64) for a in h]
    expected = reference.gru4rec_loss(weights, e.astype(np.float64), wide, 1, labels[:, 0], kind)
    assert mean.item() == pytest.approx(expected, rel=1e-5) and count.item() == 3


SHARES = np.array([0.5, 0.01, 0.2, 0.09, 0.2])


@pytest.mark.parametrize("kind", ["cross_entropy", "bpr", "top1_max"])
def test_losses_that_are_corrected_take_items_by_one_over_their_share(kind):
    _, weights = built("GRU4Rec")
    model = ctr.GRU4Rec(FIELDS, dim=4, loss=kind, logq=True).eval()
    model.load_state_dict({name: value.astype(np.float32) for name, value in weights.items()})
    e, d, h = batch_of(model)
    labels = np.array([1, 0, 1, 1, 0], np.float32)[:, None]
    shares = from_numpy(np.log(SHARES).astype(np.float32))
    with no_grad():
        ((mean, _),) = model.losses(embedded(*inputs_of(e, d, h)), from_numpy(labels), shares).values()
    wide = [a.astype(np.float64) for a in h]
    expected = reference.gru4rec_loss(weights, e.astype(np.float64), wide, 1, labels[:, 0], kind, SHARES)
    assert mean.item() == pytest.approx(expected, rel=1e-5)


def test_the_hinge_of_ssr_that_is_corrected_weighs_the_others_by_one_over_their_share():
    model, weights = built("SSR")
    e, d, h = batch_of(model)
    labels = np.array([1, 0, 1, 1, 0], np.float32)[:, None]
    shares = from_numpy(np.log(SHARES).astype(np.float32))
    with no_grad():
        ((mean, _),) = model.losses(embedded(*inputs_of(e, d, h)), from_numpy(labels), shares).values()
    users, items = reference.ssr_vectors(weights, e.astype(np.float64), [a.astype(np.float64) for a in h], 1)
    other = list(reversed(range(5)))
    even = np.mean([1 / SHARES[j] for j in other])
    hinges = [max(0.8 - users[i] @ items[i] + users[i] @ items[j], 0) / SHARES[j] / even for i, j in enumerate(other)]
    assert mean.item() == pytest.approx(np.mean([hinges[i] for i in np.flatnonzero(labels[:, 0])]), rel=1e-5)


def test_the_loss_of_ssr_is_its_hinge():
    model, weights = built("SSR")
    e, d, h = batch_of(model)
    labels = np.array([1, 0, 1, 1, 0], np.float32)[:, None]
    with no_grad():
        ((mean, _),) = model.losses(embedded(*inputs_of(e, d, h)), from_numpy(labels)).values()
    wide = [a.astype(np.float64) for a in h]
    expected = reference.ssr_loss(weights, e.astype(np.float64), wide, 1, labels[:, 0], 0.8)
    assert mean.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("given", [{"scale": 7.0}, {"margin": 0.5, "loss": "cross_entropy"}])
def test_a_number_of_the_other_loss_of_ssr_is_refused(given):
    with pytest.raises(AttributeValueError, match=r"(scale|margin)[\s\S]*loss"):
        ctr.SSR(FIELDS, dim=4, hidden=5, **given)


@pytest.mark.parametrize("shares", [None, np.log(SHARES)])
def test_the_softmax_of_ssr_is_over_the_cosines_with_the_batch_s_items_times_a_scale(shares):
    _, weights = built("SSR")
    model = ctr.SSR(FIELDS, dim=4, hidden=5, loss="cross_entropy", scale=7.0).eval()
    for path, t in model.state_dict().items():
        t.set(from_numpy(weights[path].astype(np.float32)))
    e, d, h = batch_of(model)
    labels = np.array([1, 0, 1, 1, 0], np.float32)[:, None]
    given = () if shares is None else (from_numpy(shares.astype(np.float32)),)
    with no_grad():
        ((mean, count),) = model.losses(embedded(*inputs_of(e, d, h)), from_numpy(labels), *given).values()
    users, items = reference.ssr_vectors(weights, e.astype(np.float64), [a.astype(np.float64) for a in h], 1)
    scores = 7.0 * users @ items.T - (0 if shares is None else np.asarray(shares))
    each = np.log(np.exp(scores).sum(1)) - np.diag(scores)
    assert mean.item() == pytest.approx(np.mean(each[labels[:, 0] == 1]), rel=1e-5) and count.item() == 3


@pytest.mark.parametrize("name", ["DIN", "DIEN", "GRU4Rec", "SSR"])
def test_a_batch_without_any_history_trains(name):
    fields, make, _ = MODELS[name]
    model = make(fields).train()
    nn.init.initialize(model, seed=0)
    logits = model(embedded(*inputs_of(*batch_of(model, [0, 0, 0]))))
    ops.sum(logits).backward()
    assert np.isfinite(logits.numpy()).all()
    assert all(np.isfinite(p.grad.numpy()).all() for p in model.parameters() if p.grad is not None)
    assert all(np.isfinite(t.numpy()).all() for t in model.state_dict().values())


def test_models_say_what_does_not_fit():
    with pytest.raises(
        ConfigError, match=r"DeepFM: the schema has 2 labels; this model predicts one\. Take MMoE or ESMM"
    ):
        ctr.DeepFM(TWO)
    with pytest.raises(ConfigError, match="ESMM: the schema has 1 labels; it takes two"):
        ctr.ESMM(FIELDS)
    with pytest.raises(ConfigError, match="DIN: the schema has no sequence with the vocabulary of a sparse feature"):
        ctr.DIN(Fields(fields=("a",)))
    with pytest.raises(AttributeValueError, match="FM: a row has -3 numbers; dim must be 1 or more"):
        ctr.FM(FIELDS, dim=-4)
    with pytest.raises(
        AttributeValueError, match=r"CIN: layers are \[5, 4\]; with split_half all but the last must be even"
    ):
        CIN(4, [5, 4])
