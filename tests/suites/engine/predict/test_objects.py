"""A second model looks at what a detector finds: each object once, in its picture's order; misfits are told."""

import numpy as np
import pytest

from framework.errors import ConfigError
from suites.engine.contract.batch import POSITIONS, in_place
from suites.engine.contract.processor import Processor
from suites.engine.predict.inference import Model, infer_files
from suites.engine.predict.objects import Finder, on_objects, open_finder
from suites.vision.alike import alike


class Plain(Processor):
    """Items are rows of numbers, kept in files."""

    endings = (".txt",)

    def metadata(self):
        return {"class_names": ["even", "odd"]}

    @classmethod
    def from_metadata(cls, metadata):
        return cls()

    def read(self, path):
        return np.array([float(word) for word in path.read_text().split()])

    def prepare(self, items):
        return {"x": np.stack([np.resize(item, 4) for item in items])}

    def draw(self, item, result):
        return str(result)


class Detector(Plain):
    """Finds every number above 0, the largest first."""

    def prepare(self, items):
        return {"x": np.stack(items)}

    def results(self, outputs, batch):
        return [sorted(row[row > 0].tolist(), reverse=True) for row in outputs["x"]]

    def summary(self, result):
        return [{"box": [0, 0, n, n], "class": ("even", "odd")[int(n) % 2]} for n in result]


class Doubler(Plain):
    """Says twice the number."""

    def results(self, outputs, batch):
        return [float(row[0]) for row in outputs["y"]]

    def objects_in(self, item, rows):
        return [np.array([row["box"][2]]) for row in rows]

    def draw_objects(self, item, rows, results):
        return f"{len(rows)} objects: {results}"


class ByParity(Doubler):
    """Even and odd numbers share no batch."""

    def batches(self, items):
        for group in alike(int(item[0]) % 2 for item in items):
            yield {**self.prepare([items[k] for k in group]), POSITIONS: group}

    def joined(self, found):
        return in_place((self.results(outputs, batch), batch) for outputs, batch in found)


def model(processor, predict):
    return Model(processor, ("x",), predict, lambda: predict)


DETECTOR = model(Detector(), lambda arrays: {"x": arrays["x"]})
SEEN = []


def doubled(arrays):
    SEEN.append(len(arrays["x"]))
    return {"y": 2 * arrays["x"]}


@pytest.mark.parametrize(("second", "at_once"), [(Doubler(), [16, 16, 8]), (ByParity(), [8, 8, 8, 8, 4, 4])])
def test_each_object_of_each_item_is_looked_at(second, at_once, tmp_path):
    many = " ".join(str(n) for n in range(1, 41))
    for name, text in (("a", "3 0 2"), ("b", "0 0"), ("c", many)):
        (tmp_path / f"{name}.txt").write_text(text)
    SEEN.clear()
    report = infer_files(on_objects(model(second, doubled), Finder(DETECTOR)), [str(tmp_path)], tmp_path / "out")
    assert report.lines[:2] == ["2 objects: [6.0, 4.0]", "0 objects: []"]
    assert report.lines[2] == f"40 objects: {[2.0 * n for n in range(40, 0, -1)]}"
    assert SEEN[-len(at_once) :] == at_once and sum(SEEN) == 2 + 1 + 40
    written = (tmp_path / "out" / "predictions.json").read_text()
    assert '"found": 6.0' in written and '"class": "odd"' in written


def test_one_class_may_be_asked_for():
    whole = on_objects(model(Doubler(), doubled), Finder(DETECTOR, "odd"))
    (said,) = whole.processor.joined(
        [(doubled({"x": batch["x"]}), batch) for batch in whole.processor.batches([np.array([5.0, 4.0, 1.0])])]
    )
    assert [row["found"] for row in whole.processor.summary(said)] == [10.0, 2.0]
    with pytest.raises(ConfigError, match="finds no 'od'; did you mean 'odd'"):
        Finder(DETECTOR, "od")


def test_what_does_not_fit_is_told():
    with pytest.raises(ConfigError, match="Detector looks at whole inputs"):
        on_objects(DETECTOR, Finder(DETECTOR))
    with pytest.raises(ConfigError, match="--boxes: takes a detector"):
        Finder(model(Doubler(), doubled)).rows(np.array([1.0]))
    with pytest.raises(ConfigError, match="--of: names a class"):
        open_finder(None, "odd")
    assert open_finder(None) is None
