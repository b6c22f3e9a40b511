"""Whatever a person hands to a loaded model, it says what it finds or, in one error, what it takes: in every suite."""

from pathlib import Path

import numpy as np
import pytest

from framework.errors import DataError
from framework.nn import init
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.evaluation import predict_of
from suites.engine.predict.model import Model, in_turns
from tests.configs.drawn import draw

CONFIGS = (
    "anomaly/photos", "classification/photos", "ctr/deepfm_adult", "ctr/din_movielens", "detection/yolov3_tiny_coco",
    "generation/cyclegan_apple_orange", "generation/wgan_gp_orl", "keypoints/simple_r18_landmarks68",
    "nlp/bigru_crf_resume_ner", "nlp/bidaf_squad", "nlp/bow_chnsenticorp", "nlp/simnet_ocnli", "ocr/crnn_drawn",
    "ocr/ppocrv4", "retrieval/photos", "segmentation/unet_mobilenetv2_camvid", "video/nextvlad_gesture",
    "video/tsn_mobilenetv2_gesture",
)  # fmt: skip
IMAGE = np.random.default_rng(0).integers(0, 256, (64, 96, 3), np.uint8)
ODD = {
    "a float picture": IMAGE / 255, "grey": IMAGE[..., 0], "channels first": IMAGE.transpose(2, 0, 1),
    "a batch": IMAGE[None], "two axes of nothing": np.zeros((0, 0), np.uint8), "whole numbers": IMAGE.astype(np.int32),
    "nothing": None, "a number": 5, "not a number": float("nan"), "bytes": b"abc", "a set": {"a"}, "a type": int,
    "an empty dict": {}, "an empty list": [], "words": ["a", ["b"]], "a tuple": ("a", 1), "numbers": {"age": [1, {}]},
    "other keys": {"text": 5, "surprise": object()}, "objects": np.array([object()], object), "an object": object(),
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_an_object_is_an_item_or_one_error_says_what_is_taken(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = build_task(read_config(Path(name), draw(name)))
    init.initialize(task.model, 0)
    model = Model(task.processor(), task.eval_inputs, *in_turns(predict_of(task)))
    refused = 0
    for given in ODD.values():
        try:
            assert len(model([given])) == 1
        except DataError as error:
            assert str(error).startswith(("input 0: ", "row 0: "))
            refused += 1
    assert refused >= len(ODD) // 2
    example = task.examples(1)[0][1]
    assert len(model(iter([example, example]))) == 2
    with pytest.raises(DataError, match=r"^input 1: "):
        model([example, object()])
