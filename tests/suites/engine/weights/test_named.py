"""Published weights by name, from the command line and from Python: `paddock infer NAME`, `engine.load(NAME)`."""

import hashlib
import http.server
import json
import multiprocessing
import shutil
import threading
import zipfile
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from framework.errors import AttributeValueError, CheckpointError, ConfigError
from framework.io import save_tensors
from framework.nn import init
from suites import engine
from suites.classification import ImageClassifier, MobileNetV3
from suites.engine.cli import main
from suites.engine.config import load_config
from suites.engine.config.building import build_task, read_config
from suites.engine.weights import load_pretrained
from suites.engine.weights.pretrained import schemes_of
from suites.engine.weights.records import find_record, get_record, read_record, record_names, zoo_folder
from suites.engine.weights.runs import named_run
from tests.zoo import fetched

CONFIG = """
extends: classification/resnet50_imagenet
model:
  pretrained: mine
  backbone: {$replace: {type: MobileNetV3, size: small, out_strides: [32], scale: 0.35}}
  num_classes: 3
data: {num_classes: 3}
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A record of a small classifier in the working folder, served from a file beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    model = ImageClassifier(MobileNetV3("small", out_strides=[32], scale=0.35), num_classes=3)
    save_tensors(tmp_path / "w.safetensors", model.state_dict())
    (tmp_path / "mine_config.yml").write_text(CONFIG)
    (tmp_path / "names.txt").write_text("cat\ndog\nowl\n")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in ("w.safetensors", "names.txt"):
            archive.write(tmp_path / name, name)
    packed = (tmp_path / "all.zip").read_bytes()

    def file(name):
        data = (tmp_path / name).read_bytes()
        return {"name": name, "inside": name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}

    record = {
        "what": "a test", "model": "MobileNetV3", "scheme": "paddock", "licence": "MIT", "class_names": "names.txt",
        "archive": {
            "url": (tmp_path / "all.zip").as_uri(), "sha256": hashlib.sha256(packed).hexdigest(), "bytes": len(packed),
        },
        "files": [file("w.safetensors"), file("names.txt")],
        "config": str(tmp_path / "mine_config.yml"),
    }  # fmt: skip
    cv2.imwrite(str(tmp_path / "photo.png"), np.zeros((300, 260, 3), np.uint8))
    for module in ("record", "shelf"):
        folder = f"suites.engine.weights.records.{module}.records_folder"
        monkeypatch.setattr(folder, lambda: tmp_path / "records")
    (tmp_path / "records" / "classes").mkdir(parents=True)
    (tmp_path / "records" / "mine.yml").write_text(yaml.safe_dump(record))
    return tmp_path


def test_infer_fetches_a_named_model_only_when_told_and_answers_with_its_classes(mine, capsys):
    assert main(["infer", "mine", "photo.png", "--output", "out"]) == 2
    assert "fetch it with `paddock zoo fetch mine`" in capsys.readouterr().err and not (mine / "zoo").exists()
    assert main(["infer", "mine", "photo.png", "--output", "out", "--fetch"]) == 0
    ((found, *_),) = json.loads((mine / "out" / "predictions.json").read_text()).values()
    assert found["class"] in ("cat", "dog", "owl")
    (run,) = (mine / "zoo" / "mine").glob("run_*")
    before = (run / "weights" / "best.safetensors").stat().st_mtime_ns
    assert main(["infer", "mine", "photo.png", "--output", "again"]) == 0
    assert (run / "weights" / "best.safetensors").stat().st_mtime_ns == before, "it is made once"


@pytest.mark.parametrize(
    "command",
    [
        "infer mine photo.png --output out",
        "infer mine photo.png --boxes mine --output out",
        "zoo run mine --output out",
        "export mine --output out",
        "index build mine photo.png --output out",
        "eval mine_config.yml",
        "slim quantize mine",
        "slim sensitivity mine",
        "slim prune mine --multiple 8",
        "slim compare a=mine",
    ],
)
def test_every_command_that_names_weights_takes_the_advice_to_add_fetch(mine, capsys, command):
    assert main(command.split()) != 0
    assert "fetch it with `paddock zoo fetch mine`, or add --fetch" in capsys.readouterr().err
    main([*command.split(), "--fetch"])
    said = capsys.readouterr().err
    assert "fetching" in said and "--fetch" not in said and (mine / "zoo" / "mine" / "names.txt").is_file()
    assert main(["zoo", "remove", "mine"]) == 0
    assert main(command.split()) != 0, "the yes is to one command"


def test_a_run_that_another_version_made_is_made_anew(mine, monkeypatch):
    assert main(["zoo", "fetch", "mine"]) == 0
    old = named_run("mine")
    (old / "weights" / "best.safetensors").write_bytes(b"of other tensors")
    monkeypatch.setattr("suites.engine.weights.runs.package_version", lambda name: f"{name} 99")
    assert len(engine.load("mine")("photo.png")) == 1 and named_run("mine") != old and not old.exists()


def test_python_opens_the_same_name(mine):
    assert main(["zoo", "fetch", "mine"]) == 0
    (found,) = engine.load("mine")("photo.png")
    assert {each["class"] for each in found.to_json()} <= {"cat", "dog", "owl"}


def test_two_processes_make_one_run(mine):
    assert main(["zoo", "fetch", "mine"]) == 0
    both = [multiprocessing.get_context("spawn").Process(target=named_run, args=("mine",)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, 0]
    assert engine.load("mine")("photo.png")


def test_a_run_that_was_left_half_made_is_made_again(mine):
    assert main(["zoo", "fetch", "mine"]) == 0
    run = named_run("mine")
    (run / "weights" / "best.safetensors").unlink()
    assert named_run("mine") == run and (run / "weights" / "best.safetensors").is_file()


def test_a_name_that_is_nowhere_has_its_nearest():
    with pytest.raises(CheckpointError, match="no published weights have that name; did you mean 'resnet50_imagenet'"):
        engine.load("resnet50_imagenett")


def test_a_record_without_a_whole_model_says_where_its_name_goes(monkeypatch, tmp_path):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path))
    with pytest.raises(ConfigError, match="no config of ours has the whole model; name it in `pretrained` of yours"):
        named_run("faster_rcnn_r50_fpn_coco_detectron2")


def test_the_zoo_lies_in_the_users_cache_unless_the_project_has_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PADDOCK_ZOO", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert zoo_folder() == Path("/somewhere/cache/paddock/zoo")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert zoo_folder() == Path.home() / ".cache" / "paddock" / "zoo"
    (tmp_path / "cache" / "zoo").mkdir(parents=True)
    assert zoo_folder() == Path("cache/zoo")
    monkeypatch.setenv("PADDOCK_ZOO", "mine")
    assert zoo_folder() == Path("mine")


@pytest.mark.parametrize("name", [n for n in record_names() if get_record(n).class_names in ("imagenet", "coco")])
def test_a_record_has_as_many_names_as_its_config_has_classes(name):
    record = get_record(name)
    classes = 80 if record.config is None else load_config(record.config, check=False)["data.num_classes"]
    assert len(record.names_of_classes()) == classes


# Configs of the models that records without one are for.
MODELS = {
    "faster_rcnn_r50_fpn_coco_detectron2": "detection/faster_rcnn_r50_fpn_coco",
    "mask_rcnn_r50_fpn_coco_detectron2": "detection/mask_rcnn_r50_fpn_coco",
    "yolov3_darknet53_coco_paddle": "detection/yolov3_darknet53_coco",
    "yolov3_r34_coco_paddle": "detection/yolov3_r34_coco",
    "yolov3_r50vd_dcn_coco_paddle": "detection/yolov3_r50vd_dcn_coco",
}
OF_TEXT = {name for name in record_names() if name.startswith(("minilm", "ernie"))}  # configs want the vocabulary
OF_BACKBONES = {name for name in record_names() if name.startswith("dinov2")}  # no config of ours has them


@pytest.mark.parametrize("name", sorted({*record_names()} - OF_TEXT - OF_BACKBONES))
def test_the_model_that_a_record_is_for_knows_its_names(name):
    record = get_record(name)
    with init.undrawn():
        model = build_task(read_config(Path(MODELS.get(name) or record.config), record.overrides)).model
    parts = [model, *(part for path, part in model.named_layers() if path and "." not in path)]
    assert any(record.scheme in schemes_of(part) for part in parts)


def test_a_list_of_classes_that_is_none_is_refused(tmp_path):
    good = (Path(__file__).parents[4] / "zoo" / "resnet50_imagenet.yml").read_text()
    (tmp_path / "r.yml").write_text(good.replace("class_names: imagenet", "class_names: ../../secret"))
    with pytest.raises(ConfigError, match=r"class_names is '\.\./\.\./secret'; it may be one of coco"):
        read_record(tmp_path / "r.yml")


def test_torchvisions_own_mobilenetv2_calls_photographs_as_people_do(monkeypatch, tmp_path, shared_data):
    name = fetched("mobilenetv2_imagenet_v1", monkeypatch)
    with zipfile.ZipFile(shared_data("detection/coco_val20/coco_val20.zip")) as archive:
        for number in ("000000559707", "000000334371", "000000181542"):
            (tmp_path / f"{number}.jpg").write_bytes(archive.read(f"images/{number}.jpg"))
    found = engine.load(name)(sorted(str(p) for p in tmp_path.glob("*.jpg")))
    assert [each.to_json()[0]["class"] for each in found] == ["moped", "streetcar", "broccoli"]


def test_an_address_is_a_name_whose_file_is_pinned_at_its_first_download(mine, monkeypatch):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(http.server.SimpleHTTPRequestHandler, directory=str(mine))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/w.safetensors"
        model = ImageClassifier(MobileNetV3("small", out_strides=[32], scale=0.35), num_classes=3)
        with pytest.raises(CheckpointError, match="fetch it with `paddock zoo fetch http://127"):
            load_pretrained(model, address)
        assert main(["zoo", "fetch", address]) == 0
        assert "new" not in str(load_pretrained(model, address))
        digest = hashlib.sha256((mine / "w.safetensors").read_bytes()).hexdigest()
        assert json.loads((mine / "zoo.lock").read_text())["sha256"] == {address: digest}
        shutil.rmtree(mine / "zoo")
        (mine / "w.safetensors").write_bytes(b"another")
        assert main(["zoo", "fetch", address]) == 2, "another file does not pass under that address"
        with pytest.raises(ConfigError, match="an address of weights ends in a file's name"):
            find_record(f"{address}#md5=1")
        with pytest.raises(AttributeValueError, match="it takes 6 to 64 hexadecimal digits"):
            find_record(f"{address}#sha256=xyz")
    finally:
        server.shutdown()
        server.server_close()
