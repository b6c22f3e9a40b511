"""CRAFT: its authors' network and boxes, with the published weights where they are here."""

import cv2
import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import ConfigError, NotSupportedError
from suites.engine.weights import load_pretrained, resolve
from suites.ocr.finding import Finding
from suites.ocr.linking import linked
from suites.ocr.losses import MapLoss
from suites.ocr.models.craft import Craft
from suites.ocr.models.dbnet import DBNet
from suites.ocr.settings import EvalData, TrainData
from suites.ocr.task import OcrTask
from tests.suites.ocr.test_published import drawn
from tests.suites.ocr.test_training import page_data
from tests.zoo import fetched

FILE = "craft_english/craft_mlt_25k.pth"


def craft_in_torch(torch, torchvision):
    """The authors' network (craft.py, MIT) out of torchvision's VGG-16, with their names."""
    nn, functions = torch.nn, torch.nn.functional

    def double(before, middle, after):
        layers = [
            nn.Conv2d(before, middle, 1),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            nn.Conv2d(middle, after, 3, padding=1),
        ]
        return nn.ModuleDict({"conv": nn.Sequential(*layers, nn.BatchNorm2d(after), nn.ReLU())})

    features = torchvision.models.vgg16_bn(weights=None).features
    for layer in features:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False
    net = nn.ModuleDict()
    net["basenet"] = nn.ModuleDict()
    for name, (start, end) in {"slice1": (0, 12), "slice2": (12, 19), "slice3": (19, 29), "slice4": (29, 39)}.items():
        net["basenet"][name] = nn.Sequential()
        for k in range(start, end):
            net["basenet"][name].add_module(str(k), features[k])
    holes = nn.Conv2d(512, 1024, 3, padding=6, dilation=6)
    net["basenet"]["slice5"] = nn.Sequential(nn.MaxPool2d(3, 1, 1), holes, nn.Conv2d(1024, 1024, 1))
    for k, sizes in enumerate(((1536, 512, 256), (768, 256, 128), (384, 128, 64), (192, 64, 32)), start=1):
        net[f"upconv{k}"] = double(*sizes)
    head = []
    for one, two, kernel in ((32, 32, 3), (32, 32, 3), (32, 16, 3), (16, 16, 1), (16, 2, 1)):
        head += [nn.Conv2d(one, two, kernel, padding=kernel // 2), nn.ReLU()]
    net["conv_cls"] = nn.Sequential(*head[:-1])

    def run(x):
        seen = []
        for name in ("slice1", "slice2", "slice3", "slice4"):
            x = net["basenet"][name](x)
            seen.append(x if name == "slice4" else x.relu())  # the next slice begins with a ReLU in place
        y = torch.cat([net["basenet"]["slice5"](x), seen[3]], dim=1)
        for k, shortcut in enumerate([*seen[2::-1], None], start=1):
            y = net[f"upconv{k}"]["conv"](y)
            if shortcut is not None:
                y = functions.interpolate(y, shortcut.shape[2:], mode="bilinear", align_corners=False)
                y = torch.cat([y, shortcut], dim=1)
        return net["conv_cls"](y).permute(0, 2, 3, 1)

    return net, run


@pytest.mark.peers
def test_the_maps_are_the_authors_networks(monkeypatch):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    torchvision = pytest.importorskip("torchvision", reason="the peer torchvision is not installed")
    fetched("craft_english", monkeypatch)
    model = Craft()
    report = load_pretrained(model, FILE)
    assert set(report.loaded) == set(model.state_dict()) and not report.new
    net, run = craft_in_torch(torch, torchvision)
    state = torch.load(resolve(FILE)[0], "cpu", weights_only=True)
    net.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    net.eval()
    image = drawn("two words", (96, 192), 1.2)
    red = (image / 255.0 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with no_grad(), torch.no_grad():
        ours = model.eval()(from_numpy(image[None, ..., ::-1].astype(np.float32) / 127.5 - 1)).numpy()
        theirs = run(torch.from_numpy(red.astype(np.float32)).permute(2, 0, 1)[None]).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    assert ours.shape == (1, 48, 96, 2) and theirs.max() > 0.5


def boxes_as_the_authors_find_them(text, link, high, bound, low):
    """getDetBoxes_core (craft_utils.py, MIT), on the whole map for each word."""
    inside, between = text > low, link > bound
    count, labels, stats, _ = cv2.connectedComponentsWithStats((inside | between).astype(np.uint8), connectivity=4)
    found = []
    for k in range(1, count):
        x, y, w, h, size = stats[k]
        if size < 10 or text[labels == k].max() < high:
            continue
        segment = np.zeros(text.shape, np.uint8)
        segment[labels == k] = 255
        segment[between & ~inside] = 0
        n = int(np.sqrt(size * min(w, h) / (w * h)) * 2)
        sx, ex = max(x - n, 0), min(x + w + n + 1, text.shape[1])
        sy, ey = max(y - n, 0), min(y + h + n + 1, text.shape[0])
        kernel = cv2.getStructuringElement(cv2.MORPH_RECT, (1 + n, 1 + n))
        segment[sy:ey, sx:ex] = cv2.dilate(segment[sy:ey, sx:ex], kernel)
        points = np.roll(np.array(np.where(segment != 0)), 1, axis=0).T.reshape(-1, 2)
        box = cv2.boxPoints(cv2.minAreaRect(points))
        w, h = np.linalg.norm(box[0] - box[1]), np.linalg.norm(box[1] - box[2])
        if abs(1 - max(w, h) / (min(w, h) + 1e-5)) <= 0.1:
            left, right, top, bottom = *np.sort(points[:, 0])[[0, -1]], *np.sort(points[:, 1])[[0, -1]]
            box = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
        found.append(np.roll(box, 4 - box.sum(axis=1).argmin(), axis=0))
    return np.array(found)


def maps(seed, size=(120, 200)):
    """Smooth maps of characters and links with values around the bounds."""
    noise = np.random.default_rng(seed).normal(size=(*size, 2)).astype(np.float32)
    blurred = cv2.GaussianBlur(noise, (0, 0), 4)
    return blurred / blurred.std() * 0.3 + 0.2


@pytest.mark.parametrize("seed", range(4))
def test_boxes_are_the_authors(seed):
    given = maps(seed)
    wanted = boxes_as_the_authors_find_them(given[..., 0], given[..., 1], 0.7, 0.4, 0.4)
    found = list(linked(given, 0.4, 0.7, 0.4))
    assert len(found) == len(wanted) > 5
    np.testing.assert_allclose(np.stack([quad for quad, _ in found]), wanted, atol=1e-3)
    assert all(score >= 0.7 for _, score in found)


def test_finding_takes_maps_with_links_and_those_without_text():
    how = Finding(threshold=0.4, box_threshold=0.7)
    given = maps(0)
    found = how.quads(given, (240, 400))
    assert len(found.quads) > 5 and found.quads[..., 0].max() > 200
    assert len(how.quads(np.zeros((10, 10, 2), np.float32), (20, 20)).quads) == 0


def test_it_is_evaluated_and_not_trained(tmp_path):
    data = page_data(tmp_path)
    task = OcrTask(Craft(), TrainData(dataset=data, batch_size=1), EvalData(dataset=data))
    with pytest.raises(NotSupportedError, match="Craft: is not trained here; DBNet is"):
        task.train_loader(seed=0, workers=0)
    with pytest.raises(ConfigError, match="loss: Craft has no use for it"):
        OcrTask(Craft(), loss=MapLoss())
    with pytest.raises(ConfigError, match=r"finding\.unclip: Craft has no use for it"):
        OcrTask(Craft(), finding=Finding(unclip=2.0))
    with pytest.raises(ConfigError, match=r"finding\.link: DBNet has no use for it"):
        OcrTask(DBNet(), finding=Finding(link=0.3))
    (held,) = task.eval_loader(workers=0)
    (part,) = task.parts(held)
    assert part["images"].shape[3] == 3
