"""MMSegmentation's configs become ours: those of its releases 0 and 1, written here as its documentation shows them."""

import numpy as np
import pytest
import yaml

from framework import tensor
from framework.errors import ConfigError
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.config.openmmlab import translate

MODEL = """
norm_cfg = dict(type='SyncBN', requires_grad=True)
model = dict(type='EncoderDecoder',
    data_preprocessor=dict(type='SegDataPreProcessor', mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375],
                           bgr_to_rgb=True, pad_val=0, seg_pad_val=255),
    pretrained='open-mmlab://resnet50_v1c',
    backbone=dict(type='ResNetV1c', depth=50, num_stages=4, out_indices=(0, 1, 2, 3), dilations=(1, 1, 2, 4),
                  strides=(1, 2, 1, 1), norm_cfg=norm_cfg, norm_eval=False, style='pytorch', contract_dilation=True),
    decode_head=dict(type='DepthwiseSeparableASPPHead', in_channels=2048, in_index=3, channels=512,
        dilations=(1, 12, 24, 36), c1_in_channels=256, c1_channels=48, dropout_ratio=0.1, num_classes=19,
        norm_cfg=norm_cfg, align_corners=False, loss_decode=dict(type='CrossEntropyLoss', loss_weight=1.0)),
    auxiliary_head=dict(type='FCNHead', in_channels=1024, in_index=2, channels=256, num_convs=1, concat_input=False,
        dropout_ratio=0.1, num_classes=19, norm_cfg=norm_cfg, align_corners=False,
        loss_decode=dict(type='CrossEntropyLoss', loss_weight=0.4)),
    train_cfg=dict(), test_cfg=dict(mode='whole'))
"""
RUN = """
data_root = 'data/cityscapes/'
train_pipeline = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations'),
    dict(type='RandomResize', scale=(2048, 1024), ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type='RandomCrop', crop_size=(512, 1024), cat_max_ratio=0.75), dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'), dict(type='PackSegInputs')]
train_dataloader = dict(batch_size=2, num_workers=2, dataset=dict(type='CityscapesDataset', data_root=data_root,
    data_prefix=dict(img_path='leftImg8bit/train', seg_map_path='gtFine/train'), pipeline=train_pipeline))
val_dataloader = dict(batch_size=1, dataset=dict(type='CityscapesDataset', data_root=data_root))
optimizer = dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=0.0005)
optim_wrapper = dict(type='OptimWrapper', optimizer=optimizer, clip_grad=None)
param_scheduler = [dict(type='PolyLR', eta_min=1e-4, power=0.9, begin=0, end=40000, by_epoch=False)]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=40000, val_interval=4000)
val_cfg = dict(type='ValLoop')
"""
RELEASE_0 = """
data = dict(samples_per_gpu=4, workers_per_gpu=4, train=dict(type='CustomDataset', data_root='data/tiles',
        img_dir='pictures', ann_dir='masks', classes=('ground', 'crack'), reduce_zero_label=True, pipeline=[
            dict(type='Resize', img_scale=(512, 512), ratio_range=(0.5, 2.0)),
            dict(type='RandomCrop', crop_size=(256, 256)),
            dict(type='Normalize', mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True),
            dict(type='Pad', size=(256, 256))]),
    val=dict(type='CustomDataset', data_root='data/tiles', img_dir='pictures_val', ann_dir='masks_val'))
optimizer = dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=0.0005)
lr_config = dict(policy='poly', power=0.8, min_lr=1e-4, by_epoch=False)
runner = dict(type='IterBasedRunner', max_iters=20000)
"""
SMALL = """
model = dict(pretrained=None, backbone=dict(depth=18), decode_head=dict(channels=16, c1_channels=8),
             auxiliary_head=dict(channels=8))
"""


def written(folder, *texts):
    for i, text in enumerate(texts):
        bases = f"_base_ = 'part{i - 1}.py'\n" if i else ""
        (folder / f"part{i}.py").write_text(bases + text)
    return translate(folder / f"part{len(texts) - 1}.py")


def built(found, folder):
    (folder / "ours.yml").write_text(yaml.safe_dump(found))
    return build_task(load_config(folder / "ours.yml"))


def test_a_deeplab_is_the_same_model_data_and_length(tmp_path):
    found, notes = written(tmp_path, MODEL, RUN)
    model = found["model"]
    assert model["type"] == "DeepLabV3Plus" and model["merge_kernel"] == 3
    assert model["rates"] == [12, 24, 36] and model["aux_weight"] == 0.4
    assert model["backbone"] == {
        "type": "ResNet", "depth": 50, "freeze_at": 0, "frozen_norm": False, "variant": "c", "output_stride": 8,
        "out_strides": [4, 8],
    }  # fmt: skip
    train = found["data"]["train"]
    assert train["dataset"] == {"type": "Cityscapes", "root": "${data.root}", "split": "train"}
    assert found["data"]["root"] == "data/cityscapes" and found["data"]["num_classes"] == 19
    kinds = ["RandomScale", "RandomCrop", "RandomFlip", "ColorDistort", "Normalize"]
    assert [step["type"] for step in train["transforms"]] == kinds
    assert [step["type"] for step in found["data"]["eval"]["transforms"]] == ["Normalize"]
    assert found["schedule"]["reference_batch"] == 8 and found["runtime"] == {"steps": 40000}
    assert any("resnet50_v1c" in note for note in notes) and not any("not translated" in note for note in notes)


def test_what_is_written_builds_and_names_all_their_tensors(tmp_path):
    found, _ = written(tmp_path, MODEL, RUN, SMALL)
    task = built(found, tmp_path)
    logits = task.model.eval()(tensor(np.zeros((1, 32, 32, 3), np.float32)))
    assert list(logits.shape) == [1, 32, 32, 19]
    assert set(task.model.names_in("openmmlab").sources) == set(task.model.state_dict())


def test_a_pspnet_of_release_0_on_own_folders(tmp_path):
    head = "model = dict(decode_head=dict(_delete_=True, type='PSPHead', in_channels=2048, in_index=3, channels=16, "
    head += "pool_scales=(1, 2, 3, 6), num_classes=2), auxiliary_head=dict(num_classes=2))\n"
    found, notes = written(tmp_path, MODEL, RELEASE_0, SMALL, head)
    assert found["model"]["type"] == "PSPNet" and found["data"]["root"] == "data/tiles"
    assert found["data"]["train"]["dataset"] == {
        "type": "ImageLabelPairs", "root": "${data.root}", "images": "pictures", "labels": "masks",
        "classes": ["ground", "crack"], "reduce_zero": True,
    }  # fmt: skip
    assert found["data"]["train"]["batch_size"] == 4 and found["schedule"]["power"] == 0.8
    assert found["runtime"] == {"steps": 20000} and any("CustomDataset" in note for note in notes)
    assert built(found, tmp_path).model.num_classes == 2


def test_another_loss_and_its_weights_of_classes_are_said(tmp_path):
    text = "model = dict(decode_head=dict(loss_decode=dict(type='DiceLoss', class_weight=[1.0, 2.0])))\n"
    _, notes = written(tmp_path, MODEL, RUN, text)
    assert "model.decode_head.loss_decode.type is DiceLoss; cross entropy stands in its place" in notes
    assert "not translated: model.decode_head.loss_decode.class_weight" in notes


def test_windows_the_last_rate_and_a_folder_of_its_own_for_evaluation_are_kept(tmp_path):
    text = "model = dict(test_cfg=dict(mode='slide', crop_size=(512, 512), stride=(341, 341)))\n"
    text += "val_dataloader = dict(dataset=dict(data_root='data/others/'))\n"
    found, _ = written(tmp_path, MODEL, RUN, text)
    assert found["inference"] == {"mode": "slide", "window": 512, "stride": 341}
    assert found["schedule"]["final_share"] == 0.01
    assert found["data"]["eval"]["dataset"]["root"] == "data/others"
    assert found["data"]["train"]["dataset"]["root"] == "${data.root}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = dict(decode_head=dict(type='OCRHead'))\n", "decode_head.type is 'OCRHead'; translated are PSPHead"),
        ("model = dict(decode_head=dict(align_corners=True))\n", "align_corners is 'True'; only None or False"),
        ("model = dict(decode_head=dict(dilations=(6, 12)))\n", "the first must be 1"),
        ("model = dict(backbone=dict(dilations=(1, 2, 2, 4)))\n", "translated are strides 8, 16 and 32"),
        ("model = dict(backbone=dict(contract_dilation=False))\n", "contract_dilation is 'False'; only True"),
        ("model = dict(auxiliary_head=dict(num_convs=2))\n", "auxiliary_head.num_convs is '2'; only 1"),
        ("model = dict(backbone=dict(type='MixVisionTransformer'))\n", "translated are ResNet, ResNetV1c, ResNetV1d"),
        ("model = dict(decode_head=7)\n", "decode_head.type is 'None'"),
    ],
)
def test_what_computes_something_else_is_refused(text, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        written(tmp_path, MODEL, RUN, text)
