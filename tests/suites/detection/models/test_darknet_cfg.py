"""Networks of darknet cfgs: an independent reading of cfg and numbers gives the same maps; wrong cfgs are one error."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from framework import no_grad, tensor
from framework.errors import ConfigError
from suites.engine import cli
from suites.engine.config.building import build_task, read_config
from suites.engine.weights import load_pretrained
from suites.engine.weights.formats.darknet_cfg import numbers_of, read_cfg
from suites.vision.backbones.darknet_cfg import DarknetCfg, find_cfg, output_strides

LARGE = {"yolov4_coco": 257717640, "yolov3_spp_coco": 252209544}  # bytes of the published files
NET = """
[net]
channels=3
[convolutional]
batch_normalize=1
filters=8
size=3
stride=2
pad=1
activation=mish
[convolutional]
batch_normalize=1
filters=8
size=3
pad=1
groups=8
activation=leaky
[shortcut]
from=-2
activation=leaky
[route]
layers=-1
groups=2
group_id=1
[convolutional]
filters=4
size=1
activation=swish
[maxpool]
size=2
stride=2
[maxpool]
size=5
stride=1
[dropout]
probability=.15
[route]
layers=-1,-3
[convolutional]
batch_normalize=1
filters=6
size=1
activation=relu
[convolutional]
filters=7
size=1
activation=linear
[yolo]
mask=0
[route]
layers=-3
[upsample]
stride=2
[route]
layers=-1,2
[convolutional]
filters=7
size=1
pad=1
activation=linear
[yolo]
mask=1
"""


def written(folder, text=NET):
    (folder / "net.cfg").write_text(text)
    return str(folder / "net.cfg")


def plain_sections(text):
    """(kind, options) of each section behind [net], read without any code of ours."""
    found = []
    for line in text.splitlines():
        line = line.split("#")[0].replace(" ", "")
        if line.startswith("["):
            found.append((line[1:-1], {}))
        elif line:
            found[-1][1].update([line.split("=")])
    return found[1:]


def theirs(text, numbers, images):
    """What goes into each [yolo], [N, H, W, K], finest first, by PyTorch's functions on the bare numbers of a file."""
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    f, at = torch.nn.functional, 0

    def take(*shape):
        nonlocal at
        at += math.prod(shape)
        return torch.from_numpy(numbers[at - math.prod(shape) : at].reshape(shape).copy())

    acts = {
        "leaky": lambda x: f.leaky_relu(x, 0.1), "linear": lambda x: x, "mish": f.mish, "swish": f.silu,
        "relu": f.relu,
    }  # fmt: skip
    x, outs = torch.from_numpy(images).permute(0, 3, 1, 2), []
    given = []
    for kind, o in plain_sections(text):
        number = {key: int(value) for key, value in o.items() if value.lstrip("-").isdigit()}
        named = [int(each) for each in (o.get("layers") or o.get("from") or "").split(",") if each]
        others = [given[each if each >= 0 else len(given) + each] for each in named]
        if kind == "convolutional":
            k, size, groups = number["filters"], number.get("size", 1), number.get("groups", 1)
            bias, normed = take(k), number.get("batch_normalize", 0)
            scale, mean, variance = (take(k) for _ in range(3)) if normed else (None,) * 3
            weight = take(k, x.shape[1] // groups, size, size)
            y = f.conv2d(x, weight, None, number.get("stride", 1), size // 2 * number.get("pad", 0), groups=groups)
            if normed:
                y = (y - mean[:, None, None]) / (variance + 1e-5).sqrt()[:, None, None] * scale[:, None, None]
            x = acts[o["activation"]](y + bias[:, None, None])
        elif kind == "route":
            share = number.get("groups", 1)
            x = torch.cat([each.chunk(share, 1)[number.get("group_id", 0)] for each in others], 1)
        elif kind == "shortcut":
            x = acts[o["activation"]](x + others[0])
        elif kind == "upsample":
            x = f.interpolate(x, scale_factor=number["stride"])
        elif kind == "maxpool":
            total = number["size"] - 1
            sides = (total // 2, total - total // 2) * 2
            x = f.max_pool2d(f.pad(x, sides, value=-math.inf), number["size"], number.get("stride", 1))
        elif kind == "yolo":
            outs.append(x.permute(0, 2, 3, 1).numpy())
        given.append(x)
    assert at == len(numbers)
    return sorted(outs, key=lambda y: -y.shape[1])


def model_of(name, cfg, overrides=()):
    chosen = ["model.pretrained=null", f"model.backbone.cfg={cfg}", *overrides]
    return build_task(read_config(Path(f"detection/{name}"), chosen)).model


def expect_the_same(model, text, path, images):
    load_pretrained(model, path)
    with no_grad():
        ours = model.eval()(tensor(images))
    for mine, other in zip(ours, theirs(text, np.fromfile(path, "<f4")[5:], images), strict=True):
        np.testing.assert_allclose(mine.numpy(), other, rtol=0, atol=1e-4 * np.abs(other).max())


def drawn_file(path, text, spread):
    """A .weights file of random numbers: variances positive, and weights that keep the size of what passes."""
    rng, numbers, given = np.random.default_rng(0), [], [3]
    for kind, o in plain_sections(text):
        named = [int(each) for each in (o.get("layers") or "").split(",") if each]
        channels = given[-1]
        if kind == "convolutional":
            k, size = int(o["filters"]), int(o.get("size", 1))
            fan = channels // int(o.get("groups", 1)) * size * size
            numbers.append(rng.normal(0, 0.1, k))
            if o.get("batch_normalize"):
                numbers += [rng.uniform(0.5, 1.5, k), rng.normal(0, 0.1, k), rng.uniform(0.5, 1.5, k)]
            numbers.append(rng.normal(0, spread / math.sqrt(fan), k * fan))
            channels = k
        elif kind == "route":
            channels = sum(given[each + 1 if each >= 0 else len(given) + each] for each in named)
            channels //= int(o.get("groups", 1))
        given.append(channels)
    header = np.array([0, 2, 5, 0, 0], "<i4").tobytes()
    path.write_bytes(header + np.concatenate(numbers).astype("<f4").tobytes())
    return path


@pytest.mark.peers
@pytest.mark.parametrize(("name", "file"), [("coco", "yolo-fastest-1.1"), ("body", "yolo-fastest-1.1_body")])
def test_yolo_fastests_own_files_give_what_an_independent_reading_gives(name, file, shared_data):
    cfg, path = (shared_data(f"weights/yolo_fastest/{file}.{kind}") for kind in ("cfg", "weights"))
    images = np.random.default_rng(0).random((1, 320, 256, 3), np.float32)
    for ours in (f"yolo_fastest_{name}", cfg):  # the cfg that is shipped, and the whole one
        expect_the_same(model_of(f"yolo_fastest_{name}", ours), Path(cfg).read_text(), path, images)


@pytest.mark.parametrize(("name", "size"), LARGE.items())
def test_a_cfg_has_as_many_weights_as_the_published_file(name, size):
    assert 4 * numbers_of(read_cfg(find_cfg(name))) + 20 == size


@pytest.mark.peers
@pytest.mark.parametrize("name", LARGE)
def test_a_cfg_of_ours_gives_what_an_independent_reading_of_it_gives(name, tmp_path):
    text = find_cfg(name).read_text()
    path = drawn_file(tmp_path / "drawn.weights", text, 1.0)
    images = np.random.default_rng(1).random((1, 64, 96, 3), np.float32)
    expect_the_same(model_of(name, name), text, path, images)


@pytest.mark.peers
def test_every_kind_of_layer_is_computed_as_pytorch_computes_it(tmp_path):
    head = ["data.num_classes=2", "model.head.anchors=[[8,8],[16,16]]"]
    model = model_of("yolo_fastest_coco", written(tmp_path), head)
    images = np.random.default_rng(2).random((2, 24, 16, 3), np.float32)
    expect_the_same(model, NET, drawn_file(tmp_path / "net.weights", NET, 1.5), images)


def test_maps_are_what_the_heads_convolutions_see(tmp_path):
    net = DarknetCfg(written(tmp_path)).eval()
    assert (net.strides, net.channels, net.out_numbers) == ((2, 4), (14, 6), (5, 4))
    maps = net(tensor(np.zeros((1, 16, 24, 3), np.float32)))
    assert [m.shape for m in maps] == [(1, 8, 12, 14), (1, 4, 6, 6)]
    assert [len(part) for part in net.parts()] == [5, 12]
    assert all(not p.requires_grad for p in DarknetCfg(written(tmp_path), freeze_at=1).layers[0].parameters())


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("size=5\nstride=1", "size=5\nstride=1\npadding=2"), r"net\.cfg:\d+: \[maxpool\]: padding is 2; 4, which"),
        (("stride=2\npad=1", "stride=2"), r"\[convolutional\]: size is 3, padded by 0; odd sizes padded by half"),
        (("group_id=1", "group_id=2"), "group_id is 2 of 2 groups"),
        (("from=-2", "from=-9"), "from names -9, which there is not before it"),
        (("layers=-1,-3", "layers=-1,0"), r"it takes layers of strides \[2, 4\], which do not fit"),
        (("probability=.15", "probability=2"), "probability is '2'; it must be a number from 0 to below 1"),
        (("filters=7\nsize=1\nactivation", "filters=7\nsize=3\npad=1\nactivation"), "before it must come a linear"),
        (("layers=-3\n[up", "layers=-1\n[up"), r"\[route\]: it takes what a \[yolo\] predicts"),
        (("[upsample]\nstride=2", "[upsample]\nstride=3"), "stride is 3, and what it enlarges has stride 4"),
        (("layers=-1,2\n", "layers=-1,1\n[maxpool]\nsize=2\nstride=2\n"), r"\[yolo\] sections of strides \[4, 4\]"),
        (("[upsample]", "[reorg]"), r"\[reorg\]: this kind of layer is not known here"),
        (("[dropout]", "[avgpool]"), r"\[avgpool\]: this kind of layer is not computed here"),
        (("stride=2\npad", "stride=256\npad"), "its cells are 256 pixels wide; at most 128"),
        (("filters=4\nsize=1", "filters=90000\nsize=99999\npad=1"), "describes has too many bytes"),
        ((NET, "[net]\n" + "[route]\nlayers=-1\n" * 5000), "layers names -1, which there is not"),
        ((NET, "[net]\n" + "[dropout]\n" * 5000), "describes 5000 layers; at most 4096"),
        ((NET, "[net]\n[dropout]\n"), r"net\.cfg: it has \[yolo\] sections of strides \[\]"),
        ((NET, "hello"), r"net\.cfg:1: expects \[section\] or key=value, found 'hello'"),
        ((NET, "#" * (1 << 21)), "are too many for a darknet cfg"),
    ],
)
def test_a_wrong_cfg_is_one_error_with_its_place(tmp_path, change, match):
    assert change[0] in NET
    with pytest.raises(ConfigError, match=match):
        DarknetCfg(written(tmp_path, NET.replace(*change, 1)))


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_of_a_cfg_ends_in_one_error_or_a_network(tmp_path, seed):
    rng, data = np.random.default_rng(seed), bytearray(NET.encode())
    for _ in range(4):
        data[rng.integers(len(data))] = rng.integers(256)
    (tmp_path / "net.cfg").write_bytes(bytes(data))
    try:
        DarknetCfg(str(tmp_path / "net.cfg"))
    except ConfigError as error:
        assert "net.cfg" in str(error)


def test_an_unknown_cfg_has_the_nearest_of_ours_and_a_config_checks_sizes():
    with pytest.raises(ConfigError, match="'yolov4_cocoo' is no file and none of ours; did you mean 'yolov4_coco'"):
        DarknetCfg("yolov4_cocoo")
    assert output_strides("yolov4_coco") == [8, 16, 32]
    with pytest.raises(ConfigError, match="300 is no multiple of 32"):
        read_config(Path("detection/yolo_fastest_coco"), ["data.eval.transforms[resize].size=300"])


def test_yolo_fastest_finds_objects_in_20_pictures_of_coco(shared_data, capsys):
    """AP50 of COCO's 5,000 pictures is published as 24.4. Twenty pictures decide little; they show a wrong reading."""
    data = shared_data("detection/coco_val20/coco_val20.zip")
    weights = shared_data("weights/yolo_fastest/yolo-fastest-1.1.weights")
    sets = {"annotations": f"{data}/annotations.json", "images": f"{data}/images"}
    overrides = [f"model.pretrained={weights}", *(f"data.eval.dataset.{k}={v}" for k, v in sets.items())]
    words = [word for text in (*overrides, "runtime.workers=0") for word in ("-o", text)]
    assert cli.main(["eval", "detection/yolo_fastest_coco", *words]) == 0
    assert json.loads(capsys.readouterr().out)["AP50"] >= 0.2
