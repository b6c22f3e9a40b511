"""Configs with torchvision's options: boxes, scores and masks of a picture are torchvision's, from its saved file."""

from dataclasses import replace

import numpy as np
import pytest

from suites import engine
from suites.engine.weights.records import get_record
from suites.engine.weights.runs import write_run

pytestmark = pytest.mark.peers

PIXELS = 0.05  # by which boxes may differ: answers give them to 0.01, and float32 sums in another order
BUILT = {
    "faster_rcnn_r50_fpn_coco": "fasterrcnn_resnet50_fpn",
    "mask_rcnn_r50_fpn_coco": "maskrcnn_resnet50_fpn",
    "keypoint_rcnn_r50_fpn_coco": "keypointrcnn_resnet50_fpn",
    "retinanet_r50_fpn_coco": "retinanet_resnet50_fpn",
    "ssd300_vgg16_coco": "ssd300_vgg16",
    "ssdlite320_mobilenetv3_coco": "ssdlite320_mobilenet_v3_large",
}


def drawn(torch, name):
    """torchvision's detector of 91 rows, whose scores differ and whose boxes are moderate."""
    from torchvision.models import detection

    torch.manual_seed(0)
    sized = {} if name.startswith("ssd") else {"min_size": 256, "max_size": 384}
    classes = 2 if name.startswith("keypoint") else 91
    peer = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=classes, **sized)
    peer.eval()
    if hasattr(peer, "rpn"):
        rpn, boxes = peer.rpn.head, peer.roi_heads.box_predictor
        spreads = ((rpn.cls_logits, 1.0), (rpn.bbox_pred, 0.2), (boxes.cls_score, 1.5), (boxes.bbox_pred, 1.0))
        for layer, spread in spreads:
            scaled(torch, peer, layer, spread)
        return peer
    if name.startswith("ssd300"):  # spread moderately, or float32 has no scores between the best and 1
        for layer in peer.head.classification_head.module_list:
            scaled(torch, peer, layer, 3.0)
        return peer
    if name.startswith("ssdlite"):
        measure_norms(torch, peer)
    with torch.no_grad():
        for key, p in peer.named_parameters():
            if ("cls" in key and "weight" in key) or ("classification_head" in key and key.endswith(".1.weight")):
                p.mul_(4)
            elif "cls_logits.bias" in key:
                p.zero_()
    return peer


def measure_norms(torch, peer):
    """Gives batch norms the means and variances of noise, without which small weights let nothing through."""
    norms = [m for m in peer.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.momentum = None
    peer.train()
    with torch.no_grad():
        peer.head(list(peer.backbone(torch.rand(8, 3, 320, 320) * 2 - 1).values()))
    peer.eval()


def scaled(torch, peer, layer, spread):
    """Makes what a layer gives for a picture spread so far around 0."""
    seen = []
    hook = layer.register_forward_hook(lambda layer, given, out: seen.append(out))
    with torch.no_grad():
        peer([torch.rand(3, 256, 384)])
        layer.weight.mul_(spread / torch.cat([x.flatten() for x in seen]).std())
        layer.bias.zero_()
    hook.remove()


@pytest.mark.parametrize("name", BUILT)
def test_a_picture_is_answered_as_torchvision_answers_it(tmp_path, name):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    pytest.importorskip("torchvision", reason="the peer torchvision is not installed")
    peer = drawn(torch, BUILT[name])
    torch.save(peer.state_dict(), tmp_path / "peer.pth")
    side = {"ssd300": (300, 300), "ssdlit": (320, 320)}.get(name[:6], (256, 384))
    overrides = [f"model.pretrained={tmp_path}/peer.pth", "min_score=0.0"]
    if not name.startswith("ssd"):
        overrides += ["data.eval.transforms[resize].short=256", "data.eval.transforms[resize].max_long=384"]
    write_run(replace(get_record(name), overrides=overrides), tmp_path / "run")
    picture = np.random.default_rng(0).integers(0, 256, (*side, 3), np.uint8)
    with torch.no_grad():
        (wanted,) = peer([torch.from_numpy(picture.transpose(2, 0, 1).copy()).float() / 255])
    found = engine.load(tmp_path / "run")([picture])[0].value
    categories = get_record(name).names_of_classes()
    shift = 0 if name.startswith("retina") else 1
    labels = [categories[label - shift] for label in wanted["labels"].tolist()]
    boxes, scores = wanted["boxes"].numpy(), wanted["scores"].numpy()
    assert len(scores) > 20
    # Of nearly equal scores the order may differ, and which one is the last: each of theirs has one of ours.
    missed, apart = 0, []
    for i, label in enumerate(labels):
        same = [
            row for row in found if row["class"] == label
            and np.abs(np.array(row["box"]) - boxes[i]).max() < PIXELS and abs(row["score"] - scores[i]) < 1e-4
        ]  # fmt: skip
        missed += not same
        if same and "keypoints" in wanted:
            ours = np.array(list(same[0]["keypoints"].values()))
            apart.append(np.abs(ours - wanted["keypoints"][i, :, :2].numpy()).max(axis=1))
        if same and "masks" in wanted:
            from pycocotools import mask

            code = same[0]["mask"]
            ours = mask.decode({"size": code["size"], "counts": code["counts"].encode()})
            theirs = wanted["masks"][i, 0].numpy() >= 0.5
            assert (ours != theirs).mean() < 0.02  # it rounds boxes to pixels before masks are pasted
    assert missed <= 0.02 * len(labels), (missed, len(labels))
    if "keypoints" in wanted:  # where two cells of a map are nearly equal either may win
        assert np.concatenate(apart).shape == (17 * (len(labels) - missed),)
        assert (np.concatenate(apart) < PIXELS).mean() > 0.98
