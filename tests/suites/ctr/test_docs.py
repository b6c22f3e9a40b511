"""The examples of docs/howto/ctr.md are real: its code runs, its types, arguments and configs exist."""

import json
import re
from pathlib import Path

import numpy as np
import yaml

from suites.ctr.schema import schema_of
from suites.engine.config.schema.signatures import signature_of
from suites.engine.registry import REGISTRY, load_suites
from tests.suites.ctr.helpers import columns, write_csv

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "howto" / "ctr.md").read_text()


def types_of(section):
    rows = re.findall(r"^\| (`[A-Z].*?) \|", TEXT.split(f"## {section}")[1].split("\n## ")[0], re.M)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def known(role):
    load_suites(["ctr"])
    return set(REGISTRY.seen_by("ctr").names(role))


def test_every_type_is_in_its_table():
    assert types_of("The schema") == known("feature")
    assert types_of("Data") == known("dataset")
    assert types_of("Models") == known("ctr_model")


def test_the_blocks_of_yaml_are_a_schema_and_settings():
    schema, table, hogwild, publish = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S))
    assert set(schema_of(schema).features) >= {"user_x_item", "clicked_before"}
    from suites.ctr.serving import PublishSettings
    from suites.ctr.tables import TableSettings
    from suites.ctr.train.hogwild import HogwildSettings

    assert set(table["table"]) <= set(signature_of(TableSettings).parameters)
    assert PublishSettings(**publish["publish"]).every == 5
    assert HogwildSettings(**hogwild["hogwild"]).ahead == 8


def test_the_python_of_the_tutorial_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = columns(200)
    log = {"job": found["user"], "age": [str(20 + i % 40) for i in range(200)], "y": found["click"]}
    write_csv(tmp_path / "log.csv", log)
    (tmp_path / "schema.yml").write_text(
        "features: {job: {type: Sparse}, age: {type: Dense, transform: standard}}\nlabels: {'y': {}}\n"
    )
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    code = block.replace("batch_size=512", "batch_size=32").replace("engine.load(", "answer = engine.load(")
    names = {}
    exec(compile(code, "docs/howto/ctr.md", "exec"), names)
    assert 0 < names["answer"]["y"] < 1


def test_every_config_stands_among_the_results_or_is_named():
    shipped = {path.stem for path in (ROOT / "configs" / "ctr").glob("*.yml")}
    assert not {name for name in shipped if name not in TEXT}


def test_the_request_for_items_is_one_that_a_server_takes():
    from suites import ctr, engine
    from suites.engine.neighbours.items import ItemIndex

    (asked,) = re.findall(r"v1/scores -d '(\{\"input\": \[\{\"liked.*?\})'", TEXT)
    (row,) = json.loads(asked)["input"]
    features = {"item": {"type": "Sparse"}, "liked": {"type": "Sequence", "vocabulary": "item"}}
    model = schema_of({"features": features, "labels": {"click": {}}})
    processor = ctr.RetrievalTask(model=engine.Factory.of(ctr.GRU4Rec), schema=model).processor_class(
        model, ["50", "172"]
    )
    query = processor.from_json(row)
    assert dict(query) == {"liked": ["50", "181"]} and (query.wish.k, query.wish.exclude_seen) == (5, True)
    keys = re.findall(r"^\| `(\w+)` \|", TEXT.split("| key of `find` |")[1].split("\n\n")[0], re.M)
    assert set(keys) == {"k", "exclude", "exclude_seen", "allow"}
    (answer,) = map(json.loads, re.findall(r"```json\n(.*?)```", TEXT, re.S))
    index = ItemIndex(["172", "174"], [[7.31], [6.88]])
    (found,) = processor._items(index, np.ones((1, 1), np.float32), [query])
    assert [each["item"] for each in found["items"]] == [each["item"] for each in answer["items"]]
