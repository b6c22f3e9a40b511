"""Faster, Mask and Cascade R-CNN end to end at a tiny width, and torchvision's numbers with torchvision's weights."""

import numpy as np
import pytest
from safetensors.numpy import save_file

import framework
from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError, ConfigError
from framework.graph.compiled import CompiledProgram
from framework.graph.explanation import explain
from framework.graph.passes import INFERENCE_PASSES
from framework.pruning import channels_of
from framework.quantization import quantize_trained, ranges_of, simulated
from suites.detection.losses.anchored import BoxTerm
from suites.detection.models.base import Detections, MaskTargets, PostProcess, Targets
from suites.detection.models.fpn import FPN
from suites.detection.models.rcnn import (
    RPN,
    BoxHead,
    CascadeHead,
    CascadeRCNN,
    FasterRCNN,
    MaskHead,
    MaskRCNN,
    RegionPool,
    Regions,
    RegionSampler,
)
from suites.detection.models.rcnn.box_head import RegionLoss
from suites.detection.models.rcnn.proposals import ProposalLimits
from suites.detection.models.rcnn.regions import matched
from suites.engine.config import Factory
from suites.engine.pieces import whole
from suites.engine.weights import load_pretrained
from suites.engine.weights.matching import rename
from suites.vision.backbones import MobileNetV2, ResNet
from tests.suites.detection.models.helpers import (
    SIZE,
    arrays_of,
    assert_exports,
    assert_exports_to_onnx,
    assert_trains_as_a_program,
    images_of,
    mask_arrays,
    targets_of,
)

FEW = ProposalLimits(40, 24)


def tiny(kind=FasterRCNN, classes=3, threshold=0.0, mask_head=None, **head):
    small = {"width": 16, "sampler": RegionSampler(16, 0.25), "postprocess": PostProcess(threshold, 50, 0.5, 6)}
    model = kind(
        MobileNetV2(0.25, out_strides=(4, 8, 16, 32)),
        Factory.of(CascadeHead if kind is CascadeRCNN else BoxHead, **{"num_classes": classes, **small, **head}),
        Factory.of(FPN, width=8),
        Factory.of(RPN, sizes=(8, 16, 32, 64, 128), samples=32, train=FEW, predict=FEW),
        mask_head or (Factory.of(MaskHead, width=8, convs=1, pool=RegionPool(4)) if kind is MaskRCNN else None),
    )
    nn.init.initialize(model, 0)
    return model


@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN, CascadeRCNN])
def test_a_step_is_the_same_eagerly_and_as_a_program_and_learns_without_objects(kind):
    assert_trains_as_a_program(tiny(kind), classes=3)


def test_boxes_may_learn_by_their_overlap():
    assert_trains_as_a_program(tiny(loss=RegionLoss(BoxTerm("giou", weight=2.0)), agnostic=True), classes=3)


@pytest.mark.parametrize("kind", [FasterRCNN, CascadeRCNN])
def test_the_hardest_regions_alone_may_count(kind):
    assert_trains_as_a_program(tiny(kind, loss=RegionLoss(hardest=4)), classes=3)


def test_the_hardest_regions_are_those_of_the_largest_cross_entropy():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(12, 4)).astype(np.float32), rng.integers(0, 4, (2, 6))
    weight = np.ones((2, 6), np.float32)
    weight[0, 4:] = 0  # padding is never among them
    kind = np.where(labels > 0, 0, -1)
    zeros = np.zeros((2, 6, 4), np.float32)
    regions = Regions(*map(tensor, (zeros, kind, labels, zeros, weight)), count=tensor(np.float32(10)))
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    entropy = -np.log(probabilities[np.arange(12), labels.reshape(-1)]).reshape(2, 6)
    found = RegionLoss(hardest=2).mined(tensor(logits), regions)
    expected = np.zeros((2, 6), np.float32)
    for n, row in enumerate(np.where(weight > 0, entropy, -1)):
        expected[n, np.argsort(-row)[:2]] = 1
    np.testing.assert_array_equal(found.weight.numpy(), expected)
    assert float(found.count) == 4 and RegionLoss().mined(tensor(logits), regions) is regions
    loss, _ = RegionLoss(hardest=2)(tensor(logits), tensor(np.zeros((12, 1, 4), np.float32)), found, (1, 1, 1, 1), 1)
    assert float(loss) == pytest.approx((entropy * expected).sum() / 4, rel=1e-5)
    with pytest.raises(AttributeValueError, match="hardest is 0"):
        RegionLoss(hardest=0)


@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN, CascadeRCNN])
def test_an_exported_model_finds_the_same(tmp_path, kind):
    assert_exports(tiny(kind), tmp_path, sizes=((64, 96), (96, 64)))


@pytest.mark.parametrize("kind", [FasterRCNN, CascadeRCNN])
def test_boxes_are_cut_to_each_images_own_size(kind):
    sizes = np.array([[64, 96], [40, 50]])
    with no_grad():
        found = tiny(kind).eval().detect(tensor(images_of(2)), tensor(sizes))
    assert found.counts.numpy().min() > 0
    for boxes, (height, width) in zip(found.boxes.numpy(), sizes, strict=True):
        assert boxes.min() >= 0 and (boxes.max(axis=0) <= [width, height, width, height]).all()


def test_masks_are_given_for_every_detection_and_no_other_row():
    model = tiny(MaskRCNN, threshold=0.3).eval()
    with no_grad():
        found = model.detect(tensor(images_of(2)))
    assert found.masks.shape == (2, 6, 8, 8)
    assert found.masks.numpy().min() >= 0 and found.masks.numpy().max() <= 1


@pytest.mark.parametrize("together", [1, 4, 50])
def test_masks_do_not_depend_on_how_many_are_looked_at_together(together):
    masks = []
    for size in (None, together):
        head = Factory.of(MaskHead, width=8, convs=1, pool=RegionPool(4), together=size)
        model = tiny(MaskRCNN, threshold=0.3, mask_head=head).eval()
        with no_grad():
            found = model.detect(tensor(images_of(2)))
        masks.append([m[:count] for m, count in zip(found.masks.numpy(), found.counts.numpy(), strict=True)])
    assert sum(len(m) for m in masks[0]) > 1
    for one, two in zip(*masks, strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_mask_network_without_control_flow_exports_too(tmp_path):
    assert_exports(
        tiny(MaskRCNN, mask_head=Factory.of(MaskHead, width=8, convs=1, pool=RegionPool(4), together=None)), tmp_path
    )


def traced_of(function, *given, passes=()):
    with no_grad():
        return framework.program(function, pass_names=passes).program_for(*given).program


def test_channels_of_a_mask_head_can_be_cut():
    model = tiny(MaskRCNN, mask_head=Factory.of(MaskHead, width=8, convs=2, pool=RegionPool(4))).eval()
    with whole():
        program = traced_of(lambda x: model.detect(x).by_name(), tensor(images_of(1)))
    assert "mask_head.convs.0.weight" in {group.name for group in channels_of(model, [program]).groups}


def test_masks_in_8_bits_are_those_of_training():
    """Training computes on all rows, the export on those that are there."""
    model = tiny(MaskRCNN, mask_head=Factory.of(MaskHead, width=8, convs=2, pool=RegionPool(4), together=2)).eval()
    head, rng = model.mask_head, np.random.default_rng(0)
    maps = [tensor(rng.standard_normal((1, 64 // s, 96 // s, 8)).astype(np.float32)) for s in head.strides]
    for name, parameter in model.named_parameters():
        parameter.name = name
    counts = tensor(np.array([3], np.int32))
    boxes = np.array([[[0, 0, 20, 20], [5, 5, 60, 40], [10, 0, 50, 60], [0, 0, 0, 0], [1, 1, 9, 9]]], np.float32)
    scores, classes = tensor(np.ones((1, 5), np.float32)), tensor(np.array([[0, 2, 1, 0, 0]]))

    def run(*maps):
        return head.detect(list(maps), Detections(tensor(boxes), scores, classes, counts), 5).masks

    with whole():
        ranges = ranges_of(traced_of(run, *maps, passes=INFERENCE_PASSES), [[m.numpy() for m in maps]], smallest=0)
        ones = tensor(np.ones(len(ranges), np.float32))
        with no_grad():
            expected = framework.program(simulated(run, ranges, lambda: ones))(*maps).numpy()
    small = quantize_trained(traced_of(run, *maps, passes=INFERENCE_PASSES), ranges)
    assert sum("in scan" in line for line in explain(small)["quantize"].matched) == 2
    found = CompiledProgram(small).run(maps)[0].numpy()
    np.testing.assert_array_equal(found[:, :3], expected[:, :3])
    assert np.ptp(found[:, :3]) > 0 and not found[:, 4].any()


def test_masks_are_exported_to_onnx(tmp_path):
    assert_exports_to_onnx(tiny(MaskRCNN), tmp_path)


def test_a_mask_network_says_that_it_needs_masks():
    with pytest.raises(AttributeValueError, match="MaskRCNN: learns from masks, but the targets have none"):
        tiny(MaskRCNN).losses(tensor(images_of(1)), targets_of(1, 1))


def test_crowd_regions_are_neither_objects_nor_background():
    model = tiny(sampler=RegionSampler(24, 0.25))
    boxes, labels, scores = arrays_of(1, 1)
    boxes[0, 0], scores[0, 0] = (0, 0, SIZE[1], SIZE[0]), 0
    ignored = np.zeros((1, 16), bool)
    ignored[0, 0] = True
    targets = Targets(*map(tensor, (boxes, labels, scores)), ignored=tensor(ignored))
    proposals = model.rpn.propose(model.maps(tensor(images_of(1))), tensor(np.array([SIZE])))
    regions = model.head.sampler(proposals.boxes, targets)
    assert (regions.gt_index.numpy() == -2).all() and regions.weight.numpy().max() == 0
    terms = model.losses(tensor(images_of(1)), targets)
    assert float(terms["loss_cls"].mean) == float(terms["loss_box"].mean) == 0


def test_truths_are_among_the_regions_and_matched_ones_come_first():
    boxes, labels, scores = arrays_of(2, 3)
    far = tensor(np.zeros((2, 4, 4), np.float32))  # padding: no proposal at all
    regions = RegionSampler(8, 0.5)(far, Targets(*map(tensor, (boxes, labels, scores))))
    kind = regions.gt_index.numpy()
    assert (np.sort(kind[:, :3]) == [0, 1, 2]).all() and (kind[:, 3:] == -2).all()
    np.testing.assert_array_equal(regions.labels.numpy()[:, :3], np.take_along_axis(labels, kind[:, :3], 1) + 1)
    np.testing.assert_allclose(regions.boxes.numpy()[:, :3], regions.gt_boxes.numpy()[:, :3])
    assert float(regions.count) == 6 and regions.first(2).gt_index.shape == (2, 2)


def test_objects_of_a_mixture_count_by_their_weight():
    boxes, labels, scores = arrays_of(1, 2)
    scores[0, :2] = 0.25, 0.75
    kind = np.array([[0, 1, -1, -2]])
    regions = matched(
        tensor(np.zeros((1, 4, 4), np.float32)), tensor(kind), Targets(*map(tensor, (boxes, labels, scores)))
    )
    np.testing.assert_allclose(regions.weight.numpy(), [[0.25, 0.75, 1, 0]])
    np.testing.assert_allclose(regions.positive.numpy(), [[0.25, 0.75, 0, 0]])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: tiny(classes=0), "num_classes is 0"),
        (lambda: RegionSampler(0), "samples is 0"),
        (lambda: RegionSampler(8, 0.0), "positive_share 0.0"),
        (lambda: ProposalLimits(0, 5), "before_nms is 0"),
        (lambda: RPN((8, 4), (4, 8), sizes=(8, 16)), r"the maps have \[8, 4\] channels"),
        (lambda: RPN((8, 8), (4, 8)), "5 sizes .* for 2 levels"),
        (lambda: RPN((8, 8), (4, 8), sizes=(8, 16), samples=0), "samples is 0"),
        (lambda: tiny(CascadeRCNN, ious=(0.6,)), "1 ious"),
        (lambda: MaskHead((8,), (4,), 3, convs=-1), "convs -1"),
        (lambda: MaskHead((8,), (4,), 3, together=0), "together is 0; it must be 1 or more, or null for all"),
    ],
)
def test_wrong_arguments_are_refused(make, match):
    with pytest.raises((AttributeValueError, ConfigError), match=match):
        make()


def test_a_cascade_takes_a_cascade_s_head():
    with pytest.raises(AttributeValueError, match="its head is a BoxHead; it takes a CascadeHead"):
        CascadeRCNN(MobileNetV2(0.25, out_strides=(4, 8, 16, 32)), Factory.of(BoxHead, num_classes=2))


def _torchvision(torch, detection):
    """A Mask R-CNN of torchvision whose scores differ and whose boxes are moderate, and that samples everything."""
    torch.manual_seed(0)
    peer = detection.maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=4, box_score_thresh=0.0, box_detections_per_img=20,
        rpn_pre_nms_top_n_train=300, rpn_post_nms_top_n_train=200, rpn_pre_nms_top_n_test=300,
        rpn_post_nms_top_n_test=100, rpn_batch_size_per_image=20000, box_batch_size_per_image=300,
        box_positive_fraction=0.5,
    )  # fmt: skip
    with torch.no_grad():
        for name, parameter in peer.named_parameters():
            large = name.startswith("rpn")  # its weights start near 0, those of regions do not
            if "cls" in name and "weight" in name:
                parameter.mul_(20 if large else 0.5)
            elif "bbox_pred" in name:
                parameter.mul_(1 if large else 0.3)
            elif "mask_fcn_logits" in name:
                parameter.mul_(0.05)
    return peer.eval()


@pytest.mark.peers
def test_the_numbers_are_torchvisions(tmp_path):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    detection = pytest.importorskip("torchvision.models.detection", reason="the peer torchvision is not installed")
    from torchvision.models.detection.image_list import ImageList

    peer = _torchvision(torch, detection)
    torch.save(peer.state_dict(), tmp_path / "peer.pth")
    head = {"num_classes": 3, "sampler": RegionSampler(300, 0.5), "postprocess": PostProcess(0.0, 1000, 0.5, 60)}
    rpn = {"samples": 20000, "train": ProposalLimits(300, 200), "predict": ProposalLimits(300, 100)}
    model = MaskRCNN(
        ResNet(50, out_strides=(4, 8, 16, 32), freeze_at=2, frozen_norm=True),
        Factory.of(BoxHead, pool=RegionPool(aligned=False), **head),
        rpn=Factory.of(RPN, rounded_anchors=True, **rpn),
        mask_head=Factory.of(MaskHead, pool=RegionPool(14, aligned=False)),
    )
    report = load_pretrained(model, tmp_path / "peer.pth", scheme="torchvision")
    assert not report.new and all("num_batches_tracked" in name for name in report.unused)

    size = (96, 128)
    images, (boxes, labels, scores) = images_of(2, size), arrays_of(2, 3, size=size)
    sizes = [size, size]
    given = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())
    runs, offsets = mask_arrays(boxes, size)
    rows, columns = np.mgrid[: size[0], : size[1]] + 0.5

    def ellipse(x1, y1, x2, y2):
        return ((2 * columns - x1 - x2) / (x2 - x1)) ** 2 + ((2 * rows - y1 - y2) / (y2 - y1)) ** 2 <= 1

    truths = [
        {
            "boxes": torch.from_numpy(boxes[n, :3]),
            "labels": torch.from_numpy(labels[n, :3] + 1),
            "masks": torch.from_numpy(np.stack([ellipse(*box) for box in boxes[n, :3]]).astype(np.uint8)),
        }
        for n in range(2)
    ]
    with torch.no_grad():
        maps = peer.backbone(given)
        proposals, _ = peer.rpn(ImageList(given, sizes), maps)
        expected, _ = peer.roi_heads(maps, proposals, sizes)
        peer.rpn.train(), peer.roi_heads.train()
        proposals, terms = peer.rpn(ImageList(given, sizes), maps, truths)
        terms |= peer.roi_heads(maps, proposals, sizes, truths)[1]
    with no_grad():
        found = model.eval().detect(tensor(images), tensor(np.array(sizes)))
        model.train()
        targets = Targets(*map(tensor, (boxes, labels, scores)), masks=MaskTargets(tensor(runs), tensor(offsets)))
        ours = {name: float(term.mean) for name, term in model.losses(tensor(images), targets).items()}
    for n, theirs in enumerate(expected):
        x1, y1, x2, y2 = found.boxes.numpy()[n].T
        rows = np.flatnonzero((x2 - x1 >= 1e-2) & (y2 - y1 >= 1e-2))[:20]  # it leaves out boxes without area
        assert len(theirs["boxes"]) == 20 <= found.counts.numpy()[n]
        np.testing.assert_allclose(found.scores.numpy()[n, rows], theirs["scores"], atol=1e-4)
        np.testing.assert_array_equal(found.classes.numpy()[n, rows] + 1, theirs["labels"])
        np.testing.assert_allclose(found.boxes.numpy()[n, rows], theirs["boxes"], atol=1e-2)  # pixels
        np.testing.assert_allclose(found.masks.numpy()[n, rows], theirs["masks"][:, 0], atol=1e-3)
    pairs = {
        "loss_rpn_cls": "loss_objectness",
        "loss_rpn_box": "loss_rpn_box_reg",
        "loss_cls": "loss_classifier",
        "loss_box": "loss_box_reg",
    }
    for name, theirs in pairs.items():
        assert ours[name] == pytest.approx(float(terms[theirs]), rel=1e-3)
    # torchvision's targets are shares of a bin, ours are 0 or 1
    assert ours["loss_mask"] == pytest.approx(float(terms["loss_mask"]), rel=0.2)


@pytest.mark.parametrize("kind", [FasterRCNN, MaskRCNN])
def test_published_files_of_torchvision_have_older_names(tmp_path, kind):
    model = kind(
        ResNet(18, width=8, out_strides=(4, 8, 16, 32)),
        Factory.of(BoxHead, num_classes=3, width=16),
        Factory.of(FPN, width=8),
        mask_head=Factory.of(MaskHead, width=8, convs=2, pool=RegionPool(4)) if kind is MaskRCNN else None,
    )
    assert model.schemes == ("torchvision", "torchvision_old", "detectron2", "paddledetection", "openmmlab")
    arrays = rename(model, model.names_in("torchvision_old").sources)
    wanted = {"backbone.fpn.inner_blocks.0.weight", "backbone.fpn.layer_blocks.3.bias", "rpn.head.conv.weight"}
    wanted |= {"roi_heads.mask_head.mask_fcn2.bias"} if kind is MaskRCNN else set()
    assert wanted <= set(arrays)
    save_file(arrays, tmp_path / "old.safetensors")
    report = load_pretrained(model, tmp_path / "old.safetensors")
    assert len(report.loaded) == len(model.state_dict()) and not report.unused


@pytest.mark.peers
def test_torchvision_itself_reads_the_older_names_as_we_do(tmp_path):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    detection = pytest.importorskip("torchvision.models.detection", reason="the peer torchvision is not installed")
    model = MaskRCNN(ResNet(50, out_strides=(4, 8, 16, 32)), Factory.of(BoxHead, num_classes=3))
    nn.init.initialize(model, 0)
    arrays = rename(model, model.names_in("torchvision_old").sources)
    peer = detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=4)
    logits = arrays["roi_heads.mask_predictor.mask_fcn_logits.weight"]
    arrays["roi_heads.mask_predictor.mask_fcn_logits.weight"] = logits[:, :, None, None]  # a 1x1 convolution there
    missing, unexpected = peer.load_state_dict({n: torch.from_numpy(a) for n, a in arrays.items()}, strict=False)
    assert not unexpected and all("num_batches_tracked" in name for name in missing)
    torch.save(peer.state_dict(), tmp_path / "new.pth")
    other = MaskRCNN(ResNet(50, out_strides=(4, 8, 16, 32)), Factory.of(BoxHead, num_classes=3))
    load_pretrained(other, tmp_path / "new.pth", scheme="torchvision")
    ours, theirs = model.state_dict(), other.state_dict()
    assert all(np.array_equal(ours[name].numpy(), theirs[name].numpy()) for name in ours)
