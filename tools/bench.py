"""Time a workload on this machine: `python tools/bench.py [CASE ...] [--threads N] [--seconds S]`.

Prints one JSON line a case: {"case", "unit", "rate", "step_ms", "steps", "peak_rss_mb"}. `rate` is the median over the
timed steps. A training step is forward, loss, backward and the optimizer's update, in float32, as one Program. The
cases are those of ../shared/bench/peer_torch.py: same networks, shapes and mathematics. benchmarks/training_vs_torch.py
runs both in turns and gives the ratio. `--profile` shows where the time goes and keeps it in runs/bench/CASE.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if TYPE_CHECKING:
    import numpy as np

    from framework import Tensor
    from framework.nn import Layer
    from suites.engine.profiling import StepProfile
    from suites.vision.backbones import Backbone

Step = Callable[[], Any]


def training(
    make_model: Callable[[], Layer],
    shape: tuple[int, ...],
    draw_target: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Step, int]:
    """A training step with fixed random inputs of `shape` [N, ...] and targets, and N.

    For each output of the model, `draw_target` gives a target by the output's shape; the step minimises the sum of the
    means of `loss(output, target)`.
    """
    import numpy as np

    from framework import from_numpy, ops, program
    from framework.nn import init
    from framework.optim import Momentum

    rng = np.random.default_rng(0)
    with init.undrawn():
        model = make_model()
    init.initialize(model, 0)
    images = from_numpy(rng.standard_normal(shape, np.float32))
    outputs = program(lambda x: model(x), pass_names=()).program_for(images).program.results  # shapes; nothing runs
    targets = [from_numpy(draw_target(rng, y.shape)) for y in outputs]
    optimizer = Momentum(model.named_parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4, decay_vectors=True)

    @program
    def step(x: Any, ts: Any) -> Any:
        first, *more = [ops.mean(loss(y, t)) for y, t in zip(_listed(model(x)), ts, strict=True)]
        total = sum(more, start=first)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total

    return lambda: step(images, targets), shape[0]


def inference(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """The model's outputs for one batch of `shape` [N, ...], and N."""
    import numpy as np

    from framework import from_numpy, no_grad, program
    from framework.graph.passes import INFERENCE_PASSES
    from framework.nn import init

    with init.undrawn():
        model = make_model()
    init.initialize(model, 0)
    model.eval()
    images = from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))
    forward = program(lambda x: model(x), pass_names=INFERENCE_PASSES)

    def step() -> Any:
        with no_grad():
            return forward(images)

    return step, shape[0]


DETECTION_CLASSES = 90  # as torchvision's detectors for COCO, with background


def detection_arrays(count: int, side: int, objects: int = 8) -> tuple[np.ndarray, ...]:
    """Images [N, side, side, 3] in [0, 1), boxes [N, 16, 4], classes and scores [N, 16] of `objects` objects each."""
    import numpy as np

    rng = np.random.default_rng(0)
    images = rng.random((count, side, side, 3), np.float32)
    sides = rng.uniform(side / 16, side / 2, (count, objects, 2))
    corners = rng.uniform(0, side - sides)
    boxes = np.zeros((count, 16, 4), np.float32)
    boxes[:, :objects] = np.concatenate([corners, corners + sides], axis=2)
    classes = np.zeros((count, 16), np.int64)
    classes[:, :objects] = rng.integers(0, DETECTION_CLASSES, (count, objects))
    return images, boxes, classes, (boxes[..., 2] > 0).astype(np.float32)


def detector_training(
    make_model: Callable[[], Layer], count: int, side: int, masks: tuple[Any, Any] | None = None
) -> tuple[Step, int]:
    """A detector's training step on fixed random images and boxes, matching and losses included, and N.

    `masks` are the runs and offsets of the objects' shapes, for networks that learn them.
    """
    from framework import program, tensor
    from framework.nn import init
    from framework.optim import Momentum
    from suites.detection.models.base import MaskTargets, Targets
    from suites.engine.losses import Loss

    with init.undrawn():
        model: Any = make_model()
    init.initialize(model, 0)
    arrays = [tensor(x) for x in (*detection_arrays(count, side), *(masks or ()))]
    optimizer = Momentum(model.named_parameters(), lr=1e-4, momentum=0.9, weight_decay=5e-4, decay_vectors=True)

    @program
    def step(images: Any, boxes: Any, classes: Any, scores: Any, *shapes: Any) -> Any:
        targets = Targets(boxes, classes, scores, masks=MaskTargets(*shapes) if shapes else None)
        terms = model.losses(images, targets).values()
        first, *more = [term.mean if isinstance(term, Loss) else term for term in terms]
        total = sum(more, start=first)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total

    return lambda: step(*arrays), count


def retinanet_resnet50() -> Layer:
    """RetinaNet on ResNet-50 with FPN, as torchvision's `retinanet_resnet50_fpn`."""
    from suites.detection.models.retinanet import RetinaNet, RetinaNetHead
    from suites.engine.config import Factory
    from suites.vision.backbones import ResNet

    head = Factory.of(RetinaNetHead, num_classes=DETECTION_CLASSES, rounded_anchors=True)
    return RetinaNet(ResNet(50, out_strides=(8, 16, 32)), head)


MASK_REGIONS = 256  # regions of an image that the second stage is trained on


def mask_rcnn_resnet50() -> Layer:
    """Mask R-CNN on ResNet-50 with FPN, as torchvision's `maskrcnn_resnet50_fpn`."""
    from suites.detection.models.rcnn import RPN, BoxHead, MaskHead, MaskRCNN, RegionPool, RegionSampler
    from suites.engine.config import Factory
    from suites.vision.backbones import ResNet

    pool = RegionPool(aligned=False)
    head = Factory.of(BoxHead, num_classes=DETECTION_CLASSES, pool=pool, sampler=RegionSampler(MASK_REGIONS))
    masks = Factory.of(MaskHead, pool=RegionPool(14, aligned=False))
    rpn = Factory.of(RPN, rounded_anchors=True)
    return MaskRCNN(ResNet(50, out_strides=(4, 8, 16, 32)), head, rpn=rpn, mask_head=masks)


def ellipses(boxes: Any, size: int) -> Any:
    """Shapes that fill boxes [M, 4], bool [M, size, size]."""
    import numpy as np

    rows, columns = np.mgrid[:size, :size] + 0.5
    x1, y1, x2, y2 = (side[:, None, None] for side in boxes.T)
    wide, high = np.maximum(x2 - x1, 1e-6), np.maximum(y2 - y1, 1e-6)
    return ((2 * columns - x1 - x2) / wide) ** 2 + ((2 * rows - y1 - y2) / high) ** 2 <= 1


def mask_training(count: int, size: int) -> tuple[Step, int]:
    """A step of training Mask R-CNN on boxes and ellipses in them, and the images of its batch."""
    import numpy as np

    from suites.vision.structures import encode, runs_of

    boxes = detection_arrays(count, size)[1]
    runs = [runs_of(encode(shape)) for each in boxes for shape in ellipses(each, size)]
    masks = np.concatenate(runs), np.cumsum([0, *map(len, runs)])
    return detector_training(mask_rcnn_resnet50, count, size, masks)


def sharpen(model: Any, name: str) -> None:
    """Make the scores of an untrained network differ, so that it finds as many objects as it may."""
    weight = dict(model.named_parameters())[name]
    weight.set(weight * 100.0)


def mask_inference(size: int) -> tuple[Step, int]:
    """Mask R-CNN on one image, with 100 detections and their masks in the pixels of the image."""
    import numpy as np

    from framework import no_grad, ops, program, tensor
    from framework.graph.passes import INFERENCE_PASSES
    from framework.nn import init

    model: Any = mask_rcnn_resnet50()
    init.initialize(model, 0)
    sharpen(model, "head.predictor.classes.weight")
    model.eval()
    image = tensor(np.random.default_rng(0).standard_normal((1, size, size, 3)).astype(np.float32))
    sizes = tensor(np.array([[size, size]]))
    forward = program(lambda image, sizes: model.detect(image, sizes).by_name(), pass_names=INFERENCE_PASSES)

    def step() -> Any:
        with no_grad():
            found = forward(image, sizes)
            if found["counts"].item() != found["masks"].shape[1]:
                raise RuntimeError(f"mask_rcnn: {found['counts'].item()} detections; the case is about 100")
            boxes = ops.squeeze(found["boxes"], axis=0)
            return ops.paste_masks(ops.squeeze(found["masks"], axis=0), boxes, height=size, width=size)

    return step, 1


def ssd300_vgg16() -> Layer:
    """SSD300 on VGG16, as torchvision's `ssd300_vgg16`."""
    from suites.detection.models.ssd import SSD, SSDHead, SSDNeck
    from suites.engine.config import Factory
    from suites.vision.backbones import VGG

    head = Factory.of(SSDHead, num_classes=DETECTION_CLASSES)
    return SSD(VGG(out_strides=(8, 16), reduced_fc=True), head, Factory.of(SSDNeck, norm=False, l2_norm=20.0))


LENGTHS = [128, 24, 37, 52, 18, 95, 41, 30]  # the mixed batches': short sentences, one long


def sentences(batch: int, lengths: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Random token ids [T], offsets [B + 1] and classes [B] of `batch` sentences; lengths from `lengths` in turn."""
    import numpy as np

    from framework import tensor

    rng = np.random.default_rng(0)
    offsets = np.cumsum([0, *(lengths[i % len(lengths)] for i in range(batch))])
    return tensor(rng.integers(0, 30522, offsets[-1])), tensor(offsets), tensor(rng.integers(0, 2, batch))


def sentence_classifier(sizes: dict[str, int]) -> Layer:
    """BERT (base where `sizes` says nothing else) with two classes."""
    from framework.nn import init
    from suites.nlp.models.bert import Bert
    from suites.nlp.models.heads import SequenceClassifier

    model = SequenceClassifier(Bert(**sizes), num_classes=2)
    init.initialize(model, 0)
    return model


def finetuning(batch: int, lengths: list[int], **sizes: int) -> tuple[Step, int]:
    """A step of fine-tuning on sentences, with dropout and AdamW, and the number of sentences."""
    from framework import ops, program
    from framework.optim import AdamW

    ids, offsets, labels = sentences(batch, lengths)
    model = sentence_classifier(sizes)
    optimizer = AdamW(model.named_parameters(), lr=2e-5, weight_decay=0.01, decay_vectors=True)

    @program
    def step(ids: Any, offsets: Any, labels: Any) -> Any:
        loss = ops.mean(ops.cross_entropy(model(ids, offsets), labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(ids, offsets, labels), batch


def sentence_inference(batch: int, lengths: list[int], **sizes: int) -> tuple[Step, int]:
    """The logits of one batch of sentences, and their number."""
    from framework import no_grad, program
    from framework.graph.passes import INFERENCE_PASSES

    ids, offsets, _ = sentences(batch, lengths)
    model = sentence_classifier(sizes)
    model.eval()
    forward = program(lambda ids, offsets: model(ids, offsets), pass_names=INFERENCE_PASSES)

    def step() -> Any:
        with no_grad():
            return forward(ids, offsets)

    return step, batch


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def dense(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """Training on a number in [0, 1) for every number given out, by sigmoid cross entropy."""
    import numpy as np

    from framework import ops

    return training(make_model, shape, lambda rng, y: rng.random(y, np.float32), ops.sigmoid_cross_entropy)


def labelled(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """Training on a class for every position of the output [..., K], by softmax cross entropy."""
    from framework import ops

    return training(make_model, shape, lambda rng, y: rng.integers(0, y[-1], y[:-1]), ops.cross_entropy)


def yolov3(backbone: Callable[[], Backbone]) -> Layer:
    """YOLOv3 for COCO's 80 classes: three levels of 3 * (5 + 80) channels."""
    from suites.detection.models.yolov3 import YOLOv3, YOLOv3Head
    from suites.engine.config import Factory

    return YOLOv3(backbone(), head=Factory.of(YOLOv3Head, num_classes=80))


def yolov3_mobilenet() -> Layer:
    """YOLOv3 on MobileNetV1 at full width."""
    from suites.vision.backbones import MobileNetV1

    return yolov3(MobileNetV1)


def yolov3_darknet() -> Layer:
    """YOLOv3 on DarkNet-53."""
    from suites.vision.backbones import DarkNet53

    return yolov3(DarkNet53)


def resnet50() -> Layer:
    """ResNet-50 with ImageNet's 1,000 classes."""
    from suites.classification.models.classifier import ImageClassifier
    from suites.vision.backbones import ResNet

    return ImageClassifier(ResNet(50, out_strides=(32,)), num_classes=1000)


def tsn_resnet50() -> Layer:
    """TSN on ResNet-50 with Kinetics-400's classes."""
    from suites.video.models.tsn import TSN
    from suites.vision.backbones import ResNet

    return TSN(ResNet(50, out_strides=(32,)), num_classes=400)


def deeplab_mobilenet() -> Layer:
    """DeepLabV3+ on MobileNetV2 at output stride 16 with Cityscapes' 19 classes."""
    from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
    from suites.vision.backbones import MobileNetV2

    return DeepLabV3Plus(MobileNetV2(out_strides=(4, 16), output_stride=16), num_classes=19, dropout=0.0)


UNITS = {"tsn": "clips/s", "bert": "sentences/s"}  # by what a case's name begins with; images/s for the others
CASES: dict[str, Callable[[], tuple[Step, int]]] = {
    "resnet50_train_b8_224": lambda: labelled(resnet50, (8, 224, 224, 3)),
    "resnet50_infer_b1_224": lambda: inference(resnet50, (1, 224, 224, 3)),
    "yolov3_mobilenetv1_train_b8_320": lambda: dense(yolov3_mobilenet, (8, 320, 320, 3)),
    "yolov3_darknet53_train_b4_320": lambda: dense(yolov3_darknet, (4, 320, 320, 3)),
    "yolov3_darknet53_infer_b1_416": lambda: inference(yolov3_darknet, (1, 416, 416, 3)),
    "retinanet_r50_fpn_train_b2_512": lambda: detector_training(retinanet_resnet50, 2, 512),
    "mask_rcnn_r50_fpn_train_b2_512": lambda: mask_training(2, 512),
    "mask_rcnn_r50_fpn_infer_b1_800": lambda: mask_inference(800),
    "ssd300_vgg16_train_b4": lambda: detector_training(ssd300_vgg16, 4, 300),
    "deeplabv3p_mobilenetv2_train_b4_256": lambda: labelled(deeplab_mobilenet, (4, 256, 256, 3)),
    "deeplabv3p_mobilenetv2_infer_b1_512": lambda: inference(deeplab_mobilenet, (1, 512, 512, 3)),
    "tsn_resnet50_train_b2_t4_224": lambda: labelled(tsn_resnet50, (2, 4, 224, 224, 3)),
    "bert_base_finetune_b8_len128": lambda: finetuning(8, [128]),
    "bert_base_finetune_b8_mixed": lambda: finetuning(8, LENGTHS),
    "bert_mini_finetune_b32_mixed": lambda: finetuning(32, LENGTHS, hidden_size=256, layers=4, heads=4, ffn_size=1024),
    "bert_base_infer_b8_mixed": lambda: sentence_inference(8, LENGTHS),
}


def measure(case: str, seconds: float, profile: StepProfile | None = None) -> dict[str, Any]:
    """The JSON fields of one case; the first two steps are not timed, nor are those that are profiled."""
    step, items = CASES[case]()
    for _ in range(2):
        step()
    if profile is not None:
        for _ in range(profile.length):
            with profile.step():
                step()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    median = statistics.median(times)
    return {
        "case": case,
        "unit": next((unit for start, unit in UNITS.items() if case.startswith(start)), "images/s"),
        "rate": round(items / median, 3),
        "step_ms": round(median * 1e3, 2),
        "steps": len(times),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main(words: list[str] | None = None) -> int:
    """Measure the cases named on the command line and return the exit status."""
    from suites.engine.profiling import StepProfile, add_profile_option

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: all of " + ", ".join(CASES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8)
    add_profile_option(parser, "steps")
    a = parser.parse_args(words)
    unknown = [case for case in a.cases if case not in CASES]
    if unknown:
        parser.error(f"no case is called '{unknown[0]}'; there are {', '.join(CASES)}")
    from framework import set_num_threads

    set_num_threads(a.threads)
    for case in a.cases or CASES:
        profile = StepProfile(Path("runs/bench") / case) if a.profile else None
        print(json.dumps(measure(case, a.seconds, profile)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
