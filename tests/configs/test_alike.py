"""In every config that is shipped nothing depends on what stands beside an item, or on when a task is built."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from framework.data.recipe import BatchJob
from framework.io import load_tensors
from framework.nn import init
from framework.random import own_stream
from suites.engine.config.building import build_task, read_config
from suites.engine.config.tree.shipped import shipped_configs
from suites.engine.contract.batch import POSITIONS
from suites.engine.contract.capabilities import FollowsOutputs
from suites.engine.predict.evaluation import evaluate, losses_of, predict_of
from suites.engine.predict.items import batches_of, predict_items
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train
from tests.configs.drawn import draw
from tests.configs.test_every_config import UNTRAINED

PICTURES = ("anomaly/", "classification/", "detection/", "keypoints/", "ocr/", "retrieval/", "segmentation/")
# Of other suites, what is small.
SMALL = ("ctr/", "nlp/bidaf", "nlp/bigru", "nlp/bilm", "nlp/bilstm", "nlp/bow", "nlp/cnn", "nlp/dam_trecqa", "nlp/elmo",
         "nlp/gpt_tinyshakespeare", "nlp/mmdnn", "nlp/nnlm", "nlp/rnn", "nlp/simnet",
         "video/attention_cluster_gesture", "video/attention_lstm_gesture", "video/nextvlad_gesture",
         "video/tsn_mobilenetv2_gesture")  # fmt: skip
NEAR = 1e-5  # products of other numbers of rows round otherwise
# Of networks of their size there are small ones, whose processors are the same.
LARGE = re.compile(
    "r50|r101|resnet50|resnet101|resnet152|resnext|darknet53|xception|vgg|hrnet_w|cascade|yolov[34]_(r|spp|coco)"
)


def strangers(items):
    """Items unlike each other: pictures of other sizes in place of pictures."""
    if not isinstance(items[0], np.ndarray) or items[0].ndim != 3 or items[0].shape[2] != 3:
        return items
    rng = np.random.default_rng(0)
    sizes = ((64, 96), (40, 120), (150, 60), (64, 300), (40, 120))
    return [rng.integers(0, 256, (*size, 3), np.uint8) for size in sizes]


def row(batch, names, place):
    return [np.asarray(batch[name])[place] for name in names]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if LARGE.search(name) else ())
        for name in shipped_configs()
        if name.startswith(PICTURES)
    ],
)
def test_a_picture_is_shown_to_a_network_as_if_it_were_alone(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    processor = task.processor()
    items = strangers([item for _, item in task.examples(2)])
    if isinstance(processor, FollowsOutputs):  # one after the other
        return
    seen = {}
    for batch in batches_of(processor, items):
        seen |= {
            item: row(batch, task.eval_inputs, k) for k, item in enumerate(batch.get(POSITIONS, range(len(items))))
        }
    assert sorted(seen) == list(range(len(items)))
    for number, item in enumerate(items):
        (batch,) = batches_of(processor, [item])
        for found, alone in zip(seen[number], row(batch, task.eval_inputs, 0), strict=True):
            np.testing.assert_array_equal(found, alone)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(SMALL) else pytest.mark.slow)
        for name in shipped_configs()
        if not name.startswith((*PICTURES, "generation/"))  # those draw by a seed that each item has
    ],
)
def test_what_is_said_of_an_item_does_not_depend_on_those_beside_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    init.initialize(task.model, 0)
    processor, predict = task.processor(), predict_of(task)
    items = [item for _, item in task.examples(4)]
    together = predict_items(processor, task.eval_inputs, predict, items)
    for item, expected in zip(items, together, strict=True):
        (alone,) = predict_items(processor, task.eval_inputs, predict, [item])
        assert processor.summary(alone) == approximately(processor.summary(expected))


def built(name, drawn):
    """What a task is made of, and its first batch."""
    task = build_task(read_config(Path(name), drawn))
    with task.train_loader(seed=0, workers=0) as loader:
        return json.dumps(task.processor().metadata(), default=str), next(iter(loader))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(SMALL) else pytest.mark.slow)
        for name in shipped_configs()
        if name not in UNTRAINED
    ],
)
def test_a_task_is_the_same_each_time_it_is_built(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = draw(name)
    (one, first), (two, second) = built(name, drawn), built(name, drawn)
    assert one == two and list(first) == list(second)
    for key, value in first.items():
        np.testing.assert_equal(value, second[key])


RESUMED = ("detection/yolov3_tiny_coco", "nlp/bow_chnsenticorp", "ocr/crnn_drawn")
WRITES = ("nlp/duconv", "nlp/gpt", "nlp/lstm", "nlp/rnn", "nlp/transformer")  # minutes, and each text has its own steps
EVALUATED = (
    *(name for name in SMALL if not name.startswith(WRITES)),
    *(
        "anomaly/photos",
        "classification/photos",
        "detection/faster_rcnn_mobilenetv2_bccd",
        "detection/yolov3_tiny_coco",
    ),
    *("generation/wgan_gp_orl", "keypoints/simple_r18_landmarks68", "ocr/crnn_drawn", "retrieval/photos"),
    "segmentation/unet_mobilenetv2_camvid",
)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(EVALUATED) else pytest.mark.slow)
        for name in shipped_configs()
        if name not in UNTRAINED and not name.startswith(WRITES)
    ],
)
def test_figures_do_not_depend_on_the_size_of_batches(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn, found = draw(name), []
    for size in (1, 3):
        task = build_task(read_config(Path(name), [*drawn, f"data.eval.batch_size={size}"]))
        init.initialize(task.model, 0)
        with task.eval_loader(workers=0) as loader:
            found.append(evaluate(task, predict_of(task), loader))
    assert found[0] == pytest.approx(found[1], rel=1e-4, abs=1e-6, nan_ok=True)


@pytest.mark.parametrize("name", ["nlp/ernie_pretrain", "generation/ddpm_orl", "ocr/crnn_drawn"])
def test_an_evaluation_says_the_same_each_time(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    init.initialize(task.model, 0)
    with task.eval_loader(workers=0) as loader:
        first, second = (evaluate(task, predict_of(task), loader) for _ in range(2))
    assert first == second


# Their losses compare the items of a batch with each other, draw for each item of a batch, or have a teacher.
OF_A_BATCH = re.compile("nlp/minilm_vectors|ctr/gru4rec|ctr/ssr|rcnn|generation/|distil|anomaly/")
OVERLAP = "Dice"  # of all pixels of a batch together, by its definition


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name.startswith(EVALUATED) and not LARGE.search(name) else pytest.mark.slow)
        for name in shipped_configs()
        if name not in UNTRAINED and not OF_A_BATCH.search(name)
    ],
)
def test_a_loss_is_a_mean_over_what_it_weighs_whoever_shares_its_batch(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    init.initialize(task.model, 0)
    task.begin(None, lambda line: None, 0)
    losses = losses_of(task, eager=True)
    with task.train_loader(seed=0, workers=0) as loader:
        make, last = loader._recipe.make, len(loader.dataset) - 1

    def of(*numbers):
        with own_stream():
            return losses(make(BatchJob(0, 0, 0, np.array(numbers))).batch)

    one, other, both, turned, twice = of(0), of(last), of(0, last), of(last, 0), of(0, last, 0, last)
    for term, (mean, weight) in both.items():
        near = {"rel": 2e-4, "abs": 1e-6}
        assert weight == pytest.approx(one[term][1] + other[term][1], **near)
        if OVERLAP not in term:
            total = one[term][0] * one[term][1] + other[term][0] * other[term][1]
            assert mean * weight == pytest.approx(total, **near)
        assert turned[term] == pytest.approx((mean, weight), **near)
        assert twice[term] == pytest.approx((mean, 2 * weight), **near)


class Cut(Hook):
    """Ends the run as Ctrl-C does."""

    def after_step(self, loop):
        loop.interrupted = loop.step == 2


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in RESUMED else pytest.mark.slow)
        for name in shipped_configs()
        if name not in UNTRAINED and "distil" not in name
    ],
)
def test_a_run_that_was_cut_ends_as_one_that_was_not(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PADDOCK_DATA", raising=False)
    own = "runtime.steps=5", "runtime.evaluation={$replace: {every: 3, unit: steps, pictures: 1}}"
    how = [*(each for each in draw(name) if not each.startswith(("runtime.steps", "runtime.evaluation"))), *own]
    train(Path(name), how, name="whole")
    train(Path(name), how, name="cut", hooks=[Cut()])
    train(Path("runs/cut"), resume=True)
    whole, cut = (load_tensors(Path("runs") / run / "weights" / "last.safetensors") for run in ("whole", "cut"))
    assert set(whole) == set(cut)
    for key in whole:
        np.testing.assert_array_equal(whole[key].numpy(), cut[key].numpy())
    whole, cut = (json.loads(Path(f"runs/{run}/metrics.json").read_text()) for run in ("whole", "cut"))
    assert whole == cut


def approximately(said):
    """Numbers within roundings, all else equal."""
    if isinstance(said, dict):
        return {name: approximately(value) for name, value in said.items()}
    if isinstance(said, (list, tuple)):
        return type(said)(approximately(value) for value in said)
    return pytest.approx(said, rel=NEAR, abs=NEAR) if isinstance(said, float) else said


def trained(name, drawn, often):
    """The weights after four updates, with an evaluation behind each or without any."""
    evaluation = f"{{$replace: {{every: {often}, unit: steps, pictures: 0, loss: true}}}}"
    train(
        Path(name), [*drawn, "runtime.steps=4", f"runtime.evaluation={evaluation}"], runs=Path("runs"), name=f"{often}"
    )
    return load_tensors(Path("runs") / f"{often}" / "weights/last.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        "classification/photos",
        "ctr/deepfm_adult",
        "detection/faster_rcnn_mobilenetv2_bccd",  # its loss draws regions
        "generation/ddpm_orl",  # noise
        "nlp/nnlm_multi30k",  # words
        "ocr/crnn_drawn",
    ],
)
def test_an_evaluation_in_between_changes_no_weight(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = [each for each in draw(name) if not each.startswith("runtime.evaluation")]
    without, with_it = trained(name, drawn, 0), trained(name, drawn, 1)
    assert list(without) == list(with_it)
    for key, value in without.items():
        np.testing.assert_array_equal(value.numpy(), with_it[key].numpy())
