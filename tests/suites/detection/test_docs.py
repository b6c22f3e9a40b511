"""The examples of docs/howto/detection_data.md are real: types and arguments exist, the transform works."""

import re
from pathlib import Path

import numpy as np
import yaml

from suites.detection.transforms import Transform
from suites.engine.config.schema.signatures import signature_of
from suites.engine.registry import REGISTRY, load_suites
from tests.suites.detection.transforms.helpers import painted

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "howto" / "detection_data.md").read_text()
load_suites(["detection"])
COMPONENTS = REGISTRY.seen_by("detection")


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.S)


def test_every_dataset_line_names_a_type_and_arguments_it_takes():
    lines = [line for block in blocks("yaml") for line in block.splitlines()]
    assert len(lines) == 13
    for line in lines:
        spec = yaml.safe_load(line)["dataset"]
        taken = signature_of(COMPONENTS.get("dataset", spec.pop("type"))).parameters
        assert set(spec) <= set(taken)


def test_every_transform_in_the_table_is_registered():
    table = TEXT.split("## Transforms")[1].split("A transform of your own")[0]
    known = {*COMPONENTS.names("transform"), *COMPONENTS.names("batch_transform")}
    named = set(re.findall(r"`([A-Z]\w+)`", table))
    assert named <= known and len(named) >= 13


def test_the_transform_of_ones_own_does_what_its_text_says():
    (code,) = blocks("python")
    scope = {}
    exec(
        compile(code.replace('@register("transform", suite="detection")\n', ""), "detection_data.md", "exec"),
        scope,
    )
    invert = scope["Invert"](prob=1.0)
    assert isinstance(invert, Transform)
    sample = painted([(0, 0, 5, 5)])
    out = invert(sample, np.random.default_rng(0))
    assert out.image[0, 0].tolist() == [155] * 3 and out.instances is sample.instances
