"""MMAction2's configs become ours: those of its release 1, written here as its documentation shows them."""

import numpy as np
import pytest
import yaml

from framework import tensor
from framework.errors import ConfigError
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.config.openmmlab import translate

MODEL = """
model = dict(type='Recognizer2D',
    backbone=dict(type='ResNet', pretrained='torchvision://resnet50', depth=50, norm_eval=False),
    cls_head=dict(type='TSNHead', num_classes=400, in_channels=2048, spatial_type='avg',
                  consensus=dict(type='AvgConsensus', dim=1), dropout_ratio=0.4, init_std=0.01, average_clips='prob'),
    data_preprocessor=dict(type='ActionDataPreprocessor', mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375],
                           format_shape='NCHW'),
    train_cfg=None, test_cfg=None)
"""
RUN = """
data_root = 'data/kinetics400/videos_train'
train_pipeline = [dict(type='DecordInit'), dict(type='SampleFrames', clip_len=1, frame_interval=1, num_clips=3),
    dict(type='DecordDecode'), dict(type='Resize', scale=(-1, 256)),
    dict(type='MultiScaleCrop', input_size=224, scales=(1, 0.875, 0.75, 0.66), random_crop=False, max_wh_scale_gap=1),
    dict(type='Resize', scale=(224, 224), keep_ratio=False), dict(type='Flip', flip_ratio=0.5),
    dict(type='FormatShape', input_format='NCHW'), dict(type='PackActionInputs')]
val_pipeline = [dict(type='DecordInit'), dict(type='SampleFrames', clip_len=1, frame_interval=1, num_clips=3,
    test_mode=True), dict(type='DecordDecode'), dict(type='Resize', scale=(-1, 256)),
    dict(type='CenterCrop', crop_size=224), dict(type='FormatShape', input_format='NCHW'),
    dict(type='PackActionInputs')]
train_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type='VideoDataset',
    ann_file='data/kinetics400/train_list.txt', data_prefix=dict(video=data_root), pipeline=train_pipeline))
val_dataloader = dict(batch_size=32, dataset=dict(type='VideoDataset', ann_file=data_root + '/val_list.txt',
    data_prefix=dict(video=data_root), pipeline=val_pipeline, test_mode=True))
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=0.0001),
                     clip_grad=dict(max_norm=40, norm_type=2))
param_scheduler = [dict(type='MultiStepLR', begin=0, end=100, by_epoch=True, milestones=[40, 80], gamma=0.1)]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=100, val_interval=1)
auto_scale_lr = dict(enable=False, base_batch_size=256)
"""
SHIFTED = "model = dict(backbone=dict(type='ResNetTSM', num_segments=8, shift_div=8, pretrained=None), "
SHIFTED += "cls_head=dict(type='TSMHead', num_segments=8, is_shift=True, num_classes=5))\n"


def written(folder, *texts):
    for i, text in enumerate(texts):
        bases = f"_base_ = 'part{i - 1}.py'\n" if i else ""
        (folder / f"part{i}.py").write_text(bases + text)
    return translate(folder / f"part{len(texts) - 1}.py")


def test_a_tsn_is_the_same_model_data_and_length(tmp_path):
    found, notes = written(tmp_path, MODEL, RUN)
    assert found["model"] == {
        "type": "TSN", "num_classes": "${data.num_classes}", "dropout": 0.4, "fc_std": 0.01,
        "backbone": {
            "type": "ResNet", "depth": 50, "freeze_at": 0, "frozen_norm": False, "variant": "b",
            "pretrained": "resnet50_imagenet", "out_strides": [32],
        },
    }  # fmt: skip
    train, held = found["data"]["train"], found["data"]["eval"]
    assert found["data"]["root"] == "data/kinetics400/videos_train" and found["data"]["num_classes"] == 400
    assert train["dataset"]["segments"] == {"count": 3, "length": 1} and train["batch_size"] == 32
    kinds = ["ResizeShort", "MultiScaleCrop", "RandomFlip", "Normalize"]
    assert [step["type"] for step in train["transforms"]] == kinds
    assert [step["type"] for step in held["transforms"]] == ["ResizeShort", "CenterCrop", "Normalize"]
    assert "bgr" not in train["transforms"][-1]  # its decoders give red first
    assert (train["dataset"]["annotations"], held["dataset"]["annotations"]) == ("train_list.txt", "val_list.txt")
    assert [note for note in notes if "copy data/kinetics400/train_list.txt into" in note] == notes
    assert found["schedule"]["milestones"] == [0.4, 0.8] and found["runtime"] == {"epochs": 100, "clip_norm": 40}


def test_videos_of_evaluation_in_a_folder_of_their_own_are_read_there(tmp_path):
    text = "val_dataloader = dict(dataset=dict(ann_file='data/kinetics400/videos_val/list.txt', "
    text += "data_prefix=dict(video='data/kinetics400/videos_val')))\n"
    text += "model = dict(cls_head=dict(loss_cls=dict(type='BCELossWithLogits')))\n"
    found, notes = written(tmp_path, MODEL, RUN, text)
    held = found["data"]["eval"]["dataset"]
    assert (held["root"], held["annotations"]) == ("data/kinetics400/videos_val", "list.txt")
    assert found["data"]["train"]["dataset"]["root"] == "${data.root}"
    assert "model.cls_head.loss_cls.type is BCELossWithLogits; cross entropy stands in its place" in notes


def test_a_tsm_builds_and_names_all_their_tensors(tmp_path):
    found, _ = written(tmp_path, MODEL, RUN, SHIFTED, "model = dict(backbone=dict(depth=18))\n")
    assert found["model"]["type"] == "TSM" and found["model"]["share"] == 8
    (tmp_path / "ours.yml").write_text(yaml.safe_dump(found))
    model = build_task(load_config(tmp_path / "ours.yml")).model.eval()
    assert list(model(tensor(np.zeros((1, 8, 32, 32, 3), np.float32))).shape) == [1, 5]
    assert set(model.names_in("openmmlab").sources) == set(model.state_dict())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = dict(cls_head=dict(type='TSMHead'))\n", "TSMHead on ResNet; translated are TSNHead on ResNet"),
        ("model = dict(cls_head=dict(consensus=dict(type='RelationModule')))\n", "consensus.type is 'RelationModule'"),
        ("model = dict(cls_head=dict(spatial_type='max'))\n", "spatial_type is 'max'; only None or 'avg'"),
        ("train_dataloader = dict(dataset=dict(type='RawframeDataset'))\n", "only 'VideoDataset' is translated"),
        ("model = dict(backbone=7)\n", "TSNHead on None"),
    ],
)
def test_what_computes_something_else_is_refused(text, said, tmp_path):
    with pytest.raises(ConfigError, match=said):
        written(tmp_path, MODEL, RUN, text)
