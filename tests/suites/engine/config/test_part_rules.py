"""Parts of the same files are divided alike."""

import pytest

from framework.errors import ConfigError
from suites.engine.config import load_config

HOLDOUTS = {
    "nlp/gpt_tinyshakespeare": (0.1, 0.5),
    "nlp/ernie_drcd": (10, 5),
    "classification/finetune_mobilenetv2": (5, 4),
}


@pytest.mark.parametrize("name", HOLDOUTS)
def test_a_part_that_is_evaluated_is_none_that_was_trained_on(name):
    train, other = HOLDOUTS[name]
    with pytest.raises(
        ConfigError, match=f"data.eval.dataset.holdout: is {other} but data.train.dataset.holdout is {train}"
    ):
        load_config(name, [f"data.eval.dataset.holdout={other}"])
    load_config(name, [f"data.{part}.dataset.holdout={other}" for part in ("train", "eval")])
    load_config(name, [f"data.eval.dataset.holdout={other}", "data.eval.dataset.path=another"] if "nlp" in name else [])


def test_another_list_in_the_same_folder_may_be_looked_at_whole():
    divided = [
        f"data.{part}.dataset.{key}" for part in ("train", "eval") for key in ("annotations=a.txt", "holdout=10")
    ]
    divided += ["data.train.dataset.split=train", "data.eval.dataset.split=val"]
    load_config("ocr/svtr_lcnet_lines", divided)
    whole = ["data.eval.dataset.holdout=null", "data.eval.dataset.split=null"]
    with pytest.raises(ConfigError, match=r"data.eval.dataset.holdout: is None but data.train.dataset.holdout is 10"):
        load_config("ocr/svtr_lcnet_lines", [*divided, *whole])
    load_config("ocr/svtr_lcnet_lines", [*divided, *whole, "data.eval.dataset.annotations=test.txt"])
