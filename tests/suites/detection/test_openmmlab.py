"""MMDetection's configs become ours: those of its releases 2 and 3, written here as its documentation shows them."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import ConfigError
from suites.engine.cli import main
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.config.openmmlab import read_mm, translate

MODEL = """
model = dict(
    type='MaskRCNN',
    data_preprocessor=dict(type='DetDataPreprocessor', mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375],
                           bgr_to_rgb=True, pad_mask=True, pad_size_divisor=32),
    backbone=dict(type='ResNet', depth=50, num_stages=4, out_indices=(0, 1, 2, 3), frozen_stages=1,
                  norm_cfg=dict(type='BN', requires_grad=True), norm_eval=True, style='pytorch',
                  init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet50')),
    neck=dict(type='FPN', in_channels=[256, 512, 1024, 2048], out_channels=256, num_outs=5),
    rpn_head=dict(type='RPNHead', in_channels=256, feat_channels=256,
                  anchor_generator=dict(type='AnchorGenerator', scales=[8], ratios=[0.5, 1.0, 2.0],
                                        strides=[4, 8, 16, 32, 64])),
    roi_head=dict(type='StandardRoIHead',
        bbox_roi_extractor=dict(type='SingleRoIExtractor', out_channels=256, featmap_strides=[4, 8, 16, 32],
                                roi_layer=dict(type='RoIAlign', output_size=7, sampling_ratio=0)),
        bbox_head=dict(type='Shared2FCBBoxHead', in_channels=256, fc_out_channels=1024, roi_feat_size=7,
                       num_classes=80, reg_class_agnostic=False,
                       bbox_coder=dict(type='DeltaXYWHBBoxCoder', target_means=[0., 0., 0., 0.],
                                       target_stds=[0.1, 0.1, 0.2, 0.2])),
        mask_roi_extractor=dict(type='SingleRoIExtractor', out_channels=256),
        mask_head=dict(type='FCNMaskHead', num_convs=4, in_channels=256, conv_out_channels=256, num_classes=80)),
    train_cfg=dict(
        rpn=dict(assigner=dict(type='MaxIoUAssigner', pos_iou_thr=0.7, neg_iou_thr=0.3, min_pos_iou=0.3),
                 sampler=dict(type='RandomSampler', num=256, pos_fraction=0.5), allowed_border=-1),
        rpn_proposal=dict(nms_pre=2000, max_per_img=1000, nms=dict(type='nms', iou_threshold=0.7)),
        rcnn=dict(assigner=dict(pos_iou_thr=0.5), sampler=dict(num=512, pos_fraction=0.25), mask_size=28)),
    test_cfg=dict(rpn=dict(nms_pre=1000, max_per_img=1000, nms=dict(type='nms', iou_threshold=0.7)),
                  rcnn=dict(score_thr=0.05, nms=dict(type='nms', iou_threshold=0.5), max_per_img=100)))
"""
DATA = """
data_root = 'data/coco/'
train_pipeline = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
                  dict(type='Resize', scale=(1333, 800), keep_ratio=True), dict(type='RandomFlip', prob=0.5),
                  dict(type='MagicColours', strength=2 ** 3), dict(type='PackDetInputs')]
train_dataloader = dict(batch_size=2, num_workers=2, dataset=dict(type='CocoDataset', data_root=data_root,
    ann_file='annotations/instances_train2017.json', data_prefix=dict(img='train2017/'), pipeline=train_pipeline))
val_dataloader = dict(batch_size=1, dataset=dict(type='CocoDataset', data_root=data_root,
    ann_file='annotations/instances_val2017.json', data_prefix=dict(img='val2017/')))
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.02, momentum=0.9, weight_decay=1e-4))
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=12, val_interval=1)
param_scheduler = [dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
                   dict(type='MultiStepLR', begin=0, end=12, by_epoch=True, milestones=[8, 11], gamma=0.1)]
auto_scale_lr = dict(enable=False, base_batch_size=16)
"""


@pytest.fixture
def mm(tmp_path):
    (tmp_path / "_base_").mkdir()
    (tmp_path / "_base_" / "model.py").write_text(MODEL)
    (tmp_path / "_base_" / "data.py").write_text(DATA)
    leaf = tmp_path / "leaf.py"
    leaf.write_text("_base_ = ['_base_/model.py', '_base_/data.py']\n")
    return leaf


def test_a_mask_rcnn_is_the_same_model_data_and_length(mm, tmp_path):
    mm.write_text(mm.read_text() + "model = dict(roi_head=dict(bbox_head=dict(num_classes=3)))\nmy_idea = dict(a=1)\n")
    found, notes = translate(mm)
    model = found["model"]
    assert model["type"] == "MaskRCNN" and found["data"]["num_classes"] == 3
    assert model["backbone"] == {
        "type": "ResNet", "depth": 50, "out_strides": [4, 8, 16, 32], "freeze_at": 2, "frozen_norm": True,
        "variant": "b", "pretrained": "resnet50_imagenet",
    }  # fmt: skip
    assert model["rpn"]["sizes"] == [32, 64, 128, 256, 512] and model["rpn"]["train"]["before_nms"] == 2000
    assert model["head"]["code"] == [10, 10, 5, 5] and model["head"]["postprocess"]["score_threshold"] == 0.05
    train = found["data"]["train"]
    assert train["dataset"]["annotations"] == "data/coco/annotations/instances_train2017.json"
    assert train["dataset"]["images"] == "data/coco/train2017" and train["batch_size"] == 2
    assert [step["type"] for step in train["transforms"]] == ["ResizeKeepRatio", "RandomFlip", "Normalize"]
    assert train["transforms"][-1]["mean"] == pytest.approx([0.485, 0.456, 0.406], abs=1e-6)
    assert found["schedule"]["milestones"] == [0.6667, 0.9167] and found["schedule"]["warmup_steps"] == 500
    assert notes == ["train_pipeline: the step MagicColours is not translated", "not translated: my_idea"]


def test_what_is_written_is_a_config_that_builds_and_detects(mm, tmp_path, capsys):
    small = "model = dict(backbone=dict(init_cfg=dict(_delete_=True)), neck=dict(out_channels=16), roi_head=dict("
    small += "bbox_head=dict(num_classes=3, fc_out_channels=8), mask_head=dict(conv_out_channels=8, num_convs=1)))\n"
    mm.write_text(mm.read_text() + small)
    assert main(["config", "from-mm", str(mm), "--output", str(tmp_path / "ours.yml")]) == 0
    assert "MagicColours is not translated" in capsys.readouterr().out
    task = build_task(load_config(tmp_path / "ours.yml"))
    found = task.model.eval().detect(tensor(np.zeros((1, 64, 64, 3), np.float32)))
    assert found.boxes.shape[0] == 1
    assert main(["config", "from-mm", str(mm), "--output", str(tmp_path / "ours.yml")]) == 2
    assert "is there already" in capsys.readouterr().err


def test_other_losses_are_said(mm):
    text = "model = dict(roi_head=dict(bbox_head=dict(loss_bbox=dict(type='GIoULoss', loss_weight=10.0))))\n"
    mm.write_text(mm.read_text() + text)
    _, notes = translate(mm)
    assert "model.roi_head.bbox_head.loss_bbox.type is GIoULoss; smooth L1 stands in its place" in notes
    assert "not translated: model.roi_head.bbox_head.loss_bbox.loss_weight" in notes


RETINA = """
model = dict(type='RetinaNet',
    backbone=dict(type='ResNeXt', depth=101, groups=32, base_width=4, num_stages=4, out_indices=(0, 1, 2, 3),
                  frozen_stages=1, norm_cfg=dict(type='BN', requires_grad=True), style='pytorch',
                  init_cfg=dict(type='Pretrained', checkpoint='open-mmlab://resnext101_32x4d')),
    neck=dict(type='FPN', in_channels=[256, 512, 1024, 2048], out_channels=256, start_level=1,
              add_extra_convs='on_input', num_outs=5),
    bbox_head=dict(type='RetinaHead', num_classes=20, in_channels=256, stacked_convs=4, feat_channels=256,
        anchor_generator=dict(type='AnchorGenerator', octave_base_scale=4, scales_per_octave=3,
                              ratios=[0.5, 1.0, 2.0], strides=[8, 16, 32, 64, 128])),
    test_cfg=dict(nms_pre=1000, min_bbox_size=0, score_thr=0.05, nms=dict(type='soft_nms', iou_threshold=0.5),
                  max_per_img=100))
img_norm_cfg = dict(mean=[103.53, 116.28, 123.675], std=[1.0, 1.0, 1.0], to_rgb=False)
data = dict(samples_per_gpu=4, workers_per_gpu=2, train=dict(type='RepeatDataset', times=3, dataset=dict(
    type='CocoDataset', ann_file='data/v/train.json', img_prefix='data/v/images/', pipeline=[
        dict(type='Resize', img_scale=(1000, 600), keep_ratio=True), dict(type='RandomFlip', flip_ratio=0.5),
        dict(type='Normalize', **img_norm_cfg), dict(type='Pad', size_divisor=32)])),
    val=dict(type='CocoDataset', ann_file='data/v/val.json', img_prefix='data/v/images/'))
optimizer = dict(type='SGD', lr=0.01 / 8 * 4, momentum=0.9, weight_decay=0.0001)
optimizer_config = dict(grad_clip=dict(max_norm=35, norm_type=2))
lr_config = dict(policy='step', warmup='linear', warmup_iters=500, warmup_ratio=0.001, step=[8, 11])
runner = dict(type='EpochBasedRunner', max_epochs=12)
"""


def test_a_config_of_release_2_says_what_is_otherwise(tmp_path):
    (tmp_path / "retina.py").write_text(RETINA)
    found, notes = translate(tmp_path / "retina.py")
    assert found["model"]["backbone"] == {
        "type": "ResNeXt", "depth": 101, "out_strides": [8, 16, 32], "freeze_at": 2, "frozen_norm": True,
        "groups": 32, "group_width": 4,
    }  # fmt: skip
    assert found["model"]["neck"] == {"type": "FPN", "width": 256, "extra": "conv_c5", "levels": 5}
    assert found["schedule"]["base_lr"] == 0.005 and found["runtime"] == {"epochs": 12, "clip_norm": 35}
    steps = found["data"]["train"]["transforms"]
    assert steps[2]["bgr"] is True and steps[2]["mean"] == pytest.approx(
        [123.675 / 255, 116.28 / 255, 103.53 / 255], abs=1e-6
    )
    assert [each for each in notes if "soft_nms" in each] and [each for each in notes if "resnext101_32x4d" in each]
    assert any("RepeatDataset; the data set inside is taken alone" in each for each in notes)
    build_task(load_config(_written(found, tmp_path)))


def _written(found, folder):
    import yaml

    path = folder / "ours.yml"
    path.write_text(yaml.safe_dump(found))
    return path


YOLO = """
model = dict(type='YOLOV3', backbone=dict(type='Darknet', depth=53, out_indices=(3, 4, 5)),
    neck=dict(type='YOLOV3Neck', num_scales=3, in_channels=[1024, 512, 256], out_channels=[512, 256, 128]),
    bbox_head=dict(type='YOLOV3Head', num_classes=80, in_channels=[512, 256, 128], out_channels=[1024, 512, 256],
        anchor_generator=dict(type='YOLOAnchorGenerator', base_sizes=[[(116, 90), (156, 198), (373, 326)],
            [(30, 61), (62, 45), (59, 119)], [(10, 13), (16, 30), (33, 23)]], strides=[32, 16, 8]),
        featmap_strides=[32, 16, 8]),
    test_cfg=dict(nms_pre=1000, score_thr=0.05, conf_thr=0.005, nms=dict(type='nms', iou_threshold=0.45),
                  max_per_img=100))
"""


def test_anchors_of_yolov3_go_from_small_to_large(tmp_path):
    (tmp_path / "yolo.py").write_text(YOLO)
    found, _ = translate(tmp_path / "yolo.py")
    anchors = found["model"]["head"]["anchors"]
    assert anchors[0] == [10, 13] and anchors[-1] == [373, 326] and len(anchors) == 9
    build_task(load_config(_written(found, tmp_path)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\n", r"leaf\.py:1: `import os` is no plain value. Nothing of the file is run"),
        ("a = __import__('os').system('touch ran')\n", r":1: .*is no plain value"),
        ("a = open('x').read()\n", "is no plain value"),
        ("a = [x for x in range(9)]\n", "is no plain value"),
        ("a = 9 ** 9 ** 9\n", "is no plain value"),
        ("a = 'x' * 10 ** 9\n", "is no plain value"),
        ("a = b\n", "the name 'b' was not assigned before"),
        ("a = (\n", r"leaf\.py:1: is no config in Python"),
        ("a = {[1]: 2}\n", r"leaf\.py:1: is no plain value"),
        ("a = (-1) ** 0.5\n", "is no plain value"),
        ("a = [1, 1]\n" + "a = [a, a, a, a]\n" * 20, "has more than 200000 values"),
        ("a = dict(x=1)\n" + "a = dict(x=a, y=a, z=a)\n" * 20, "has more than 200000 values"),
        ("a = [[1, 2, 3]] * 100000\n", "has more than 200000 values"),
        ("a = 1\n" * 300_000, "a config has 1048576 at most"),
        ("model = dict(type='RetinaNet', bbox_head=dict(type='RetinaHead', num_classes=2), neck=dict(type='FPN'), "
         "backbone=dict(type='ResNet', out_indices=(9,)))\n", "holds something of another form than RetinaNet"),
        ("model = dict(type='YOLOV3', backbone=dict(type='Darknet', depth=53), bbox_head=dict(num_classes=2, "
         "anchor_generator=dict(type='YOLOAnchorGenerator', base_sizes=7)))\n", "holds something of another form"),
        ("a = " + "[" * 5000 + "]" * 5000 + "\n", "is no config in Python|is nested too deep"),
        ("_base_ = 'gone.py'\n", r"gone\.py: there is no such file, a base of .*leaf\.py"),
        ("_base_ = 'leaf.py'\n", "names itself among its bases"),
        ("model = dict(type='FasterRCN')\n", "did you mean 'FasterRCNN'"),
        ("model = dict(type='DETR')\n", r"model.type is 'DETR'; translated are CascadeRCNN, EncoderDecoder"),
        ("model = 3\n", "model.type is 'None'"),
        ("model = dict(type='RetinaNet', neck=dict(type='PAFPN'))\n", "bbox_head.type is 'None'; only 'RetinaHead'"),
    ],
)  # fmt: skip
def test_what_is_no_plain_config_is_refused_with_its_line_and_nothing_runs(tmp_path, text, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leaf.py").write_text(text)
    with pytest.raises(ConfigError, match=said):
        translate(tmp_path / "leaf.py")
    assert not (tmp_path / "ran").exists()


def test_values_of_bases_can_be_asked_for_and_replaced(tmp_path):
    (tmp_path / "base.py").write_text("a = dict(x=dict(y=1, z=2), w=[1, 2])\nb = a['w'][1] * 3\n")
    (tmp_path / "leaf.py").write_text(
        "'''words'''\n_base_ = ['./base.py']\na = dict(x=dict(_delete_=True, q=_base_.a.x.y), w={{_base_.b}})\n"
        "c = -_base_.b\n"
    )
    assert read_mm(tmp_path / "leaf.py") == {"a": {"x": {"q": 1}, "w": 6}, "b": 6, "c": -6}


def test_nothing_of_a_foreign_config_becomes_a_line_of_ours(tmp_path):
    """A text with ends of lines would write keys of its own, such as modules to import."""
    evil = "x\\nimports: [os]\\n"
    text = RETINA.replace("open-mmlab://resnext101_32x4d", evil) + f"extra = {{'{evil}': 1}}\n"
    (tmp_path / "evil.py").write_text(text.replace("extra = ", "extra = dict(a=1)\nmodel_more = "))
    assert main(["config", "from-mm", str(tmp_path / "evil.py"), "--output", str(tmp_path / "ours.yml")]) == 0
    found = load_config(tmp_path / "ours.yml", check=False).as_dict()
    assert "imports" not in found and found["model"]["type"] == "RetinaNet"
