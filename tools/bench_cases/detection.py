"""Detection: YOLOv3 on random targets for every cell, the others with matching and losses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.bench_cases.common import Cases, Step, dense, inference, on_device

if TYPE_CHECKING:
    import numpy as np

    from framework.nn import Layer
    from suites.vision.backbones import Backbone


DETECTION_CLASSES = 90  # as torchvision's detectors for COCO, with background
MASK_REGIONS = 256  # regions of an image that the second stage is trained on


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
    from suites.engine.contract.losses import Loss

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

    return on_device(step, *arrays), count


def retinanet_resnet50() -> Layer:
    """RetinaNet on ResNet-50 with FPN, as torchvision's `retinanet_resnet50_fpn`."""
    from suites.detection.models.retinanet import RetinaNet, RetinaNetHead
    from suites.engine.config import Factory
    from suites.vision.backbones import ResNet

    head = Factory.of(RetinaNetHead, num_classes=DETECTION_CLASSES, rounded_anchors=True)
    return RetinaNet(ResNet(50, out_strides=(8, 16, 32)), head)


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


def blazeface_front() -> Layer:
    """MediaPipe's BlazeFace for faces near by."""
    from suites.detection.models.faces.blazeface import BlazeFace

    return BlazeFace("front")


def retinaface() -> Layer:
    """RetinaFace on a quarter of MobileNetV1, with five points."""
    from suites.engine.config.building import read_config
    from suites.engine.config.tree.shipped import find_config

    config = read_config(find_config(Path("detection/retinaface_mobilenetv1_wider")), ["model.pretrained=null"])
    model: Layer = config.build("model")
    return model


CASES: Cases = {
    "yolov3_mobilenetv1_train_b8_320": lambda: dense(yolov3_mobilenet, (8, 320, 320, 3)),
    "yolov3_darknet53_train_b4_320": lambda: dense(yolov3_darknet, (4, 320, 320, 3)),
    "yolov3_darknet53_infer_b1_416": lambda: inference(yolov3_darknet, (1, 416, 416, 3)),
    "retinanet_r50_fpn_train_b2_512": lambda: detector_training(retinanet_resnet50, 2, 512),
    "mask_rcnn_r50_fpn_train_b2_512": lambda: mask_training(2, 512),
    "mask_rcnn_r50_fpn_infer_b1_800": lambda: mask_inference(800),
    "blazeface_front_infer_b1_128": lambda: inference(blazeface_front, (1, 128, 128, 3)),
    "retinaface_infer_b1_640": lambda: inference(retinaface, (1, 640, 640, 3)),
    "ssd300_vgg16_train_b4": lambda: detector_training(ssd300_vgg16, 4, 300),
}
