"""Names that nobody knows are answered with those that are like them."""

import pytest

from suites.engine.names import did_you_mean

KNOWN = ("yolov3_coco", "resnet50_imagenet", "fcn_resnet50_coco", "resnet101_imagenet_v2", "base_lr")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("yolov3_cocoo", "; did you mean 'yolov3_coco'?"),
        ("YOLO", "; did you mean 'yolov3_coco'?"),
        ("resnet", "; did you mean 'resnet50_imagenet' or 'resnet101_imagenet_v2' or 'fcn_resnet50_coco'?"),
        ("lr", ""),
        ("bert", ""),
    ],
)
def test_the_nearest_names_are_said_or_those_with_that_part(name, said):
    assert did_you_mean(name, iter(KNOWN)) == said
