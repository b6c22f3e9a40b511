"""A run of every model of generation: trained, resumed bit for bit, evaluated, exported, drawn with, and bad input."""

import base64
import json
import threading

import cv2
import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError, DataError, NumericsError
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.predict.inference import evaluate_export, export_run, infer_files, open_model
from suites.engine.run.checkpoint import Checkpoints
from suites.engine.serving.client import Client, ServerError
from suites.engine.serving.service import Settings
from suites.engine.serving.web.server import Place, Server
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train
from tests.suites.generation.helpers import MODELS, ONE, Stop, config, one_kind, picture, two_kinds, written

FROM_NOISE = ("DCGAN", "WGANGP", "by class", "DDPM")


def numbers(state):
    """All tensors of a checkpoint, by path."""
    found = {}
    for name, value in state.items():
        if isinstance(value, dict):
            found |= {f"{name}/{below}": t for below, t in numbers(value).items()}
        elif hasattr(value, "numpy"):
            found[name] = value.numpy()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_run_trains_resumes_bit_for_bit_and_its_export_draws_the_same(tmp_path, name):
    path = written(tmp_path, name)
    loop = train(path, ["runtime.ema={decay: 0.5}"], runs=tmp_path, name="whole")
    assert all(np.isfinite(value) for value in loop.losses.values())
    figures = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    assert figures["FID"] > 0 and "KID" in figures
    assert len(list((tmp_path / "whole" / "pictures").glob("*.jpg"))) == 2
    with pytest.raises(RuntimeError):
        train(path, ["runtime.ema={decay: 0.5}"], runs=tmp_path, name="cut", hooks=[Stop(5)])
    train(tmp_path / "cut", runs=tmp_path, resume=True)
    a, b = (numbers(Checkpoints(tmp_path / run / "weights").latest()) for run in ("whole", "cut"))
    assert a.keys() == b.keys() and any(key.startswith("average/") for key in a)
    assert [key for key in a if a[key].tobytes() != b[key].tobytes()] == []
    report = export_run(tmp_path / "whole", tmp_path / "exported")
    assert report.largest_difference < 1e-4
    again = evaluate_export(tmp_path / "whole", tmp_path / "exported")
    assert again["FID"] == pytest.approx(figures["FID"], rel=0.02)
    model = open_model(tmp_path / "exported")
    given = "0-3" if name in FROM_NOISE else next((tmp_path / "data").rglob("*.png"))
    infer_files(model, [given], tmp_path / "drawn")
    files = sorted((tmp_path / "drawn").glob("*.png"))
    assert len(files) == (4 if name in FROM_NOISE else 1)
    assert cv2.imread(str(files[0])).shape == (16, 32 if name == "StarGAN" else 16, 3)  # one of each class


def test_a_seed_draws_the_same_picture_alone_and_among_others_and_classes_have_names(tmp_path):
    train(written(tmp_path, "by class"), runs=tmp_path, name="run")
    model = open_model(tmp_path / "run")
    alone, among = model("5:red")[0].value["made"], model(["3", "5:red", "4"])[1].value["made"]
    np.testing.assert_array_equal(alone, among)
    assert not np.array_equal(alone, model("6:red")[0].value["made"])
    wish = model.processor.from_json({"seed": 5, "class": "red"})
    assert wish == (5, 1) and model.processor.from_json(4) == (4, 0)
    png = base64.b64decode(model.processor.served(model("5:red")[0].value)["png"])
    shown = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_array_equal(shown, alone)
    for wrong in ("rose", "4-2", "0-99999", "7:green"):
        with pytest.raises(DataError):
            model(wrong)
    for value in (True, "7", {"seed": 7, "klass": "red"}, {"seed": -1}, {"seed": 2**63}, {"seed": 1, "class": 3}):
        with pytest.raises(DataError):
            model.processor.from_json(value)


def test_a_server_answers_a_seed_with_the_picture_that_a_run_draws(tmp_path):
    train(written(tmp_path, "by class"), runs=tmp_path, name="run")
    model = open_model(tmp_path / "run")
    server, answers = Server(model, Settings(), Place("127.0.0.1", 0)), []

    def ask():
        try:
            with Client(server.url) as client:
                answers.extend(client.score([4, {"seed": 5, "class": "red"}]))
                with pytest.raises(ServerError, match="takes a seed"):
                    client.score(["rose"])
        finally:
            server.stop()

    asking = threading.Thread(target=ask)
    asking.start()
    assert server.run() == 0
    asking.join()
    png = np.frombuffer(base64.b64decode(answers[1]["png"]), np.uint8)
    np.testing.assert_array_equal(cv2.imdecode(png, cv2.IMREAD_COLOR)[..., ::-1], model("5:red")[0].value["made"])


def test_the_report_says_whose_features_the_figures_are_of(tmp_path):
    train(written(tmp_path, "DCGAN"), runs=tmp_path, name="run")
    said = "MobileNetV2 (random weights), stride 8 at 32 pixels"
    assert said in (tmp_path / "run" / "log.txt").read_text()
    assert said in (tmp_path / "run" / "report.md").read_text()


def test_generators_of_wgan_gp_wait_for_their_turn(tmp_path):
    train(written(tmp_path, "WGANGP"), ["runtime.steps=7"], runs=tmp_path, name="run")
    state = Checkpoints(tmp_path / "run" / "weights").latest()
    steps = {who: int(state[f"{who}_optimizer"]["steps"].numpy()) for who in ("generators", "critics")}
    assert steps == {"generators": 3, "critics": 7}  # at 0, 3 and 6


class Keep(Hook):
    def __init__(self):
        self.figures = []

    def after_evaluation(self, loop, metrics):
        self.figures.append(metrics)


def test_a_cyclegan_learns_to_come_back(tmp_path):
    keep = Keep()
    more = ["runtime.steps=60", "runtime.evaluation={every: 15, unit: steps, pictures: 0}", "schedule.base_lr=0.004"]
    train(written(tmp_path, "CycleGAN"), more, runs=tmp_path, name="run", hooks=[keep])
    assert keep.figures[-1]["cycle_error"] < 0.8 * keep.figures[0]["cycle_error"]
    assert {"FID", "change"} <= keep.figures[0].keys()


def test_a_cyclegan_that_draws_the_first_kind_is_evaluated_from_pictures_of_the_second(tmp_path):
    for kind in "ab":
        task = build_task(load_config(written(tmp_path / kind, "CycleGAN"), [f"model.draws={kind}"]))
        batches = list(task.eval_loader(workers=0))
        red = {name: np.concatenate([batch[name] for batch in batches])[..., 0].max() for name in ("images", "others")}
        assert (red["images"] > red["others"]) == (kind == "b")  # the first kind is red
        counts = np.concatenate([batch["counts"] for batch in batches]).sum(axis=0).tolist()
        assert counts == ([8, 6] if kind == "b" else [6, 8])


def test_pix2pix_comes_nearer_to_the_partners(tmp_path):
    keep = Keep()
    more = ["runtime.steps=60", "runtime.evaluation={every: 15, unit: steps, pictures: 0}", "schedule.base_lr=0.004"]
    train(written(tmp_path, "Pix2Pix"), more, runs=tmp_path, name="run", hooks=[keep])
    assert keep.figures[-1]["L1"] < 0.7 * keep.figures[0]["L1"]


def test_what_a_step_with_critics_does_not_take_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="models with critics take no accumulate"):
        train(written(tmp_path, "DCGAN"), ["runtime.accumulate=2"], runs=tmp_path, name="run")


def test_a_loss_that_is_no_number_ends_the_run_and_is_named(tmp_path):
    with pytest.raises(NumericsError, match=r"loss .*'(critic|adversarial|penalty)\w*' is (nan|inf|-inf)"):
        train(written(tmp_path, "WGANGP"), ["schedule.base_lr=1.0e+30", "runtime.steps=30"], runs=tmp_path, name="run")


def test_folders_that_cannot_be_learnt_from_are_refused(tmp_path):
    picture(tmp_path / "data" / "alone.png", 0)
    path = tmp_path / "small.yml"
    path.write_text(config(MODELS["DCGAN"][0], ONE, tmp_path / "data"))
    with pytest.raises(DataError, match=r"there is one picture, alone.png; 2 are the least"):
        train(path, runs=tmp_path, name="one")
    two_kinds(tmp_path / "two", b=0)
    path.write_text(config(MODELS["CycleGAN"][0], MODELS["CycleGAN"][1], tmp_path / "two"))
    with pytest.raises(DataError, match=r"trainB|testB"):
        train(path, runs=tmp_path, name="side")
    one_kind(tmp_path / "third")
    path.write_text(config(MODELS["CycleGAN"][0], ONE, tmp_path / "third"))
    with pytest.raises(ConfigError, match=r"PictureFolder does not fit: CycleGAN learns from pictures of two kinds"):
        train(path, runs=tmp_path, name="other")


def test_another_size_than_the_models_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"16x16 of it, but model.size is 32x32"):
        train(written(tmp_path, "DCGAN"), ["model.size=32"], runs=tmp_path, name="run")


@pytest.mark.parametrize(
    "changes",
    ["model.size=20", "model.noise=0", "model.size=[16, 12]"],
)
def test_models_that_cannot_be_are_refused(tmp_path, changes):
    with pytest.raises((ConfigError, AttributeValueError), match="DCGAN"):
        train(written(tmp_path, "DCGAN"), [changes], runs=tmp_path, name="run")
