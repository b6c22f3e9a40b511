"""Names of torchvision and timm find our records, or the hub; an unknown one says the nearest."""

import pytest

from framework.errors import ConfigError
from suites.engine.weights.hub.libraries import of_torchvision, our_name
from suites.engine.weights.records import find_record, get_record, record_names

RECORDS = record_names()


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("torchvision:resnet18", "resnet18_imagenet"),
        ("torchvision:resnet50", "resnet50_imagenet_v2"),
        ("torchvision:resnet50.IMAGENET1K_V1", "resnet50_imagenet"),
        ("torchvision:mobilenet_v2", "mobilenetv2_imagenet_v2"),
        ("torchvision:mobilenet_v2.IMAGENET1K_V1", "mobilenetv2_imagenet_v1"),
        ("torchvision:vit_b_16", "vit_b_16_imagenet"),
        ("torchvision:maskrcnn_resnet50_fpn", "mask_rcnn_r50_fpn_coco"),
        ("torchvision:lraspp_mobilenet_v3_large", "lraspp_mobilenetv3_large_coco"),
        ("timm:resnet50.tv_in1k", "resnet50_imagenet"),
        ("timm:vit_small_patch16_224.augreg_in1k", "hf:timm/vit_small_patch16_224.augreg_in1k"),
        ("timm:resnet50.a1_in1k@main", "hf:timm/resnet50.a1_in1k@main"),
        ("torchvision:swin_t#teacher", "swin_t_imagenet#teacher"),
        ("paddle:ernie-3.0-base-zh", "ernie3_base"),
        ("paddle:ernie-gram-zh", "ernie_gram"),
        ("paddle:yolov3_r34_270e_coco", "yolov3_r34_coco_paddle"),
        (
            "paddle:mask_rcnn_r50_fpn_1x_coco#model",
            "https://paddledet.bj.bcebos.com/models/mask_rcnn_r50_fpn_1x_coco.pdparams#model",
        ),
        (
            "paddle:ResNet50_vd",
            "https://paddle-imagenet-models-name.bj.bcebos.com/dygraph/legendary_models/ResNet50_vd_pretrained.pdparams",
        ),
        (
            "paddle:unet_cityscapes_1024x512_160k",
            "https://bj.bcebos.com/paddleseg/dygraph/cityscapes/unet_cityscapes_1024x512_160k/model.pdparams",
        ),
        ("yolov3_tiny_coco", "yolov3_tiny_coco"),
        ("folder/w.pth", "folder/w.pth"),
    ],
)
def test_a_name_of_a_library_is_a_record_or_a_repository(name, record):
    assert our_name(name, RECORDS) == record


def test_every_record_of_torchvision_has_its_name():
    ours = {name for name in RECORDS if "torchvision" in get_record(name).what}
    assert set(of_torchvision(RECORDS).values()) == ours


def test_records_are_found_by_it_and_an_unknown_name_says_the_nearest():
    assert find_record("torchvision:swin_t").name == "swin_t_imagenet"
    assert find_record("torchvision:r2plus1d_18.KINETICS400_V1").name == "r2plus1d_18_kinetics"
    assert find_record("torchvision:keypointrcnn_resnet50_fpn").name == "keypoint_rcnn_r50_fpn_coco"
    assert find_record("timm:resnet10t.c3_in1k").name == "hf:timm/resnet10t.c3_in1k"
    assert find_record("paddle:ernie-1.0").name == "ernie1_base"
    assert find_record("paddle:ResNet18").archive.url.endswith("/ResNet18_pretrained.pdparams")
    with pytest.raises(ConfigError, match=r"called 'paddle:ernie-3.0-bas-zh'; did you mean 'ernie-3.0-base-zh'"):
        get_record("paddle:ernie-3.0-bas-zh")
    with pytest.raises(ConfigError, match=r"no weights called 'torchvision:resnet05'; did you mean 'resnet50'"):
        get_record("torchvision:resnet05")
