"""benchmarks/gpu.py runs its cases small, on XLA's CPU, with nothing that a bare GPU machine lacks."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax", reason="the extra [xla] is not installed")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import gpu  # noqa: E402

from suites.vision.structures import encode, runs_of  # noqa: E402
from tools.bench_cases.detection import detection_arrays, ellipses  # noqa: E402


def test_a_case_is_measured_without_what_a_bare_machine_lacks(tmp_path):
    for name in ("pycocotools", "tensorboardX", "rich", "matplotlib", "tokenizers"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is not here')")
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "benchmarks/gpu.py",
            "--side",
            "paddock",
            "resnet50_b128_224",
            "--small",
            "--device",
            "xla-cpu",
            "--seconds",
            "0.1",
        ],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert '"case": "resnet50_b128_224", "unit": "images/s", "rate": ' in done.stdout
    assert '"first_step_s": ' in done.stdout


def test_the_objects_of_mask_rcnn_are_the_runs_of_their_masks():
    runs, offsets = gpu.shapes(gpu.Case("images/s", 2, 40))
    masks = [mask for boxes in detection_arrays(2, 40)[1] for mask in ellipses(boxes, 40)]
    for i, mask in enumerate(masks):
        np.testing.assert_array_equal(runs[offsets[i] : offsets[i + 1]], runs_of(encode(mask)))
    assert len(offsets) == len(masks) + 1 and runs.dtype == np.int32


def test_the_times_of_a_v100_are_told_where_they_are_known():
    assert gpu.told({"case": "bert_base_b32_len128", "rates": {"paddock": [1290.0]}}).startswith(
        "bert_base_b32_len128: 10.0 times a V100 of 2019"
    )
    assert "no figure of a V100" in gpu.told({"case": "resnet50_b128_224", "rates": {"paddock": [1.0]}})


def test_each_case_has_a_small_one_of_its_kind():
    for name, case in gpu.CASES.items():
        small = gpu.case_of(name, True)
        assert small.unit == case.unit and small.batch == 2 and bool(small.size) == bool(case.size)
        assert gpu.case_of(name, False) is case
