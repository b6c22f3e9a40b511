"""What `paddock data schema` takes columns for, and what it says of odd ones."""

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from framework.errors import ConfigError, DataError
from suites.ctr.datasets import ClickLog
from suites.ctr.datasets.encoding import finite_number
from suites.ctr.inspection.guess import guess_schema
from suites.ctr.schema import schema_of
from suites.engine.cli import main
from suites.engine.config.building import build_task, read_config
from suites.engine.data.intake.written import Written


def guess(tmp_path, columns, delimiter=","):
    rows = len(next(iter(columns.values())))
    draw = random.Random(0)
    columns = {**columns, "click": [str(draw.randrange(2)) for _ in range(rows)]}
    lines = [delimiter.join(columns), *(delimiter.join(row) for row in zip(*columns.values(), strict=True))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    text = guess_schema(tmp_path / "log.csv")
    return yaml.safe_load(text), text


def drawn(function, rows=300):
    draw = random.Random(1)
    return [function(draw) for _ in range(rows)]


PRICES = drawn(lambda draw: f"{draw.random() * 50:.3f}")


@pytest.mark.parametrize("missing", ["#N/A", "n/a", "<NA>", "NULL", "NA", "-", "inf", "unknown", "oops"])
def test_a_column_that_is_nearly_all_numbers_is_numbers_and_its_odd_cells_are_counted(tmp_path, missing):
    found, text = guess(tmp_path, {"price": [missing, missing, *PRICES[2:]]})
    assert found["features"]["price"]["type"] == "Dense" and missing in map(str, found["format"]["missing"])
    if missing in ("NA", "-", "inf", "unknown", "oops"):
        assert "2 cells of price are no numbers and are taken for missing" in text


def test_namibia_is_a_country_where_no_column_of_numbers_has_it(tmp_path):
    found, _ = guess(tmp_path, {"country": drawn(lambda draw: draw.choice(["NA", "DE", "FR"])), "price": PRICES})
    assert "missing" not in found["format"] and found["features"]["country"] == {"type": "Sparse"}


def day(draw):
    return draw.randrange(1, 28)


@pytest.mark.parametrize(
    ("make", "form", "why"),
    [
        (lambda draw: f"{draw.randrange(99)},{draw.randrange(10, 99)}", {"decimal": ","}, "decimal commas, such as"),
        (
            lambda draw: f"{draw.randrange(1, 9)}.{draw.randrange(100, 999)},50",
            {"decimal": ",", "thousands": "."},
            "decimal commas, '.' between thousands",
        ),
        (lambda draw: f"{draw.choice(['1,234,567', '5'])}.{draw.randrange(9)}", {"thousands": ","}, "',' between"),
        (lambda draw: f"{draw.randrange(1, 9)} {draw.randrange(100, 999)}", {"thousands": " "}, "' ' between"),
        (lambda draw: f"{draw.random() * 99:.2f}%", {"percent": True}, "percent signs"),
        (lambda draw: f"${draw.randrange(99)}.50", {"currency": "$"}, "the currency $"),
        (lambda draw: f"{draw.randrange(99)},5 EUR", {"decimal": ",", "currency": "EUR"}, "the currency EUR"),
        (lambda draw: f"2024-05-{day(draw)} 12:00:00", {"date": "YMD"}, "dates, YMD, such as"),
        (lambda draw: f"{day(draw)}/5/2024", {"date": "DMY"}, "dates, DMY"),
        (lambda draw: f"5/{day(draw)}/2024", {"date": "MDY"}, "dates, MDY"),
        (lambda draw: f"{draw.randrange(1, 9)}.5.2024", {"date": "DMY"}, "dates, DMY"),
    ],
)
def test_numbers_and_dates_as_people_write_them_are_read_by_a_form_that_is_said(tmp_path, make, form, why):
    texts = drawn(make)
    found, text = guess(tmp_path, {"value": texts, "user": drawn(lambda draw: f"u{draw.randrange(9)}")}, ";")
    assert found["format"]["written"] == {"value": form} and why in text
    rows = ClickLog(schema_of(found), str(tmp_path / "log.csv"), [], max_skipped=0.0)
    wanted = [finite_number(each, Written(**form)) for each in texts]
    assert rows.clicks.dense[:, 0].tolist() == np.float32(wanted).tolist()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda draw: f"1,{draw.randrange(100, 999)}", "may be 1.*; say which with --decimal . or --decimal ,"),
        (lambda draw: f"{draw.randrange(1, 9)}/{draw.randrange(1, 9)}/2024", "say which with --dates DMY or --dates"),
        (lambda draw: draw.choice(["1,5", "1,234,567", "2,5"]), "written in several forms, such as"),
        (lambda draw: draw.choice(["$5", "€5"]), "amounts in .* and .*; write them in one currency"),
        (lambda draw: draw.choice(["13/1/2024", "1/13/2024"]), "written in several forms"),
    ],
)
def test_what_may_mean_two_things_is_left_out_with_what_settles_it(tmp_path, make, why):
    found, text = guess(tmp_path, {"value": drawn(make), "user": drawn(lambda draw: f"u{draw.randrange(9)}")}, ";")
    assert "value" not in found["features"] and re.search(f"# left out: value: .*{why}", text)


def test_a_user_settles_what_may_mean_two_things(tmp_path, capsys):
    columns = {"price": drawn(lambda draw: f"1,{draw.randrange(100, 999)}"), "day": drawn(lambda _: "3/4/2024")}
    columns["day"][0] = "4/3/2024"
    guess(tmp_path, columns, ";")
    for decimal, dates, forms in (
        (",", "DMY", {"price": {"decimal": ","}, "day": {"date": "DMY"}}),
        (".", "MDY", {"price": {"thousands": ","}, "day": {"date": "MDY"}}),
    ):
        words = ["data", "schema", str(tmp_path / "log.csv"), "--decimal", decimal, "--dates", dates]
        assert main(words) == 0
        assert yaml.safe_load(capsys.readouterr().out)["format"]["written"] == forms


def test_dots_are_doubted_where_another_column_has_decimal_commas(tmp_path):
    columns = {
        "a": drawn(lambda draw: f"{draw.randrange(99)},5"),
        "b": drawn(lambda draw: f"{draw.randrange(1, 9)}.500"),
    }
    found, text = guess(tmp_path, columns, ";")
    assert "b" not in found["features"] and "may be" in text and "as 'a' has decimal commas" in text
    columns["b"][0] = "0.25"
    found, _ = guess(tmp_path, columns, ";")
    assert found["features"]["b"]["type"] == "Dense" and list(found["format"]["written"]) == ["a"]


def test_dates_give_hours_and_weekdays_and_no_days_where_they_are_the_time_of_the_rows(tmp_path):
    dates = drawn(lambda draw: f"{day(draw)}.5.2024 {draw.randrange(24)}:30")
    columns = {"timestamp": dates, "signup": dates, "place": drawn(lambda draw: draw.choice("abc"))}
    found, _ = guess(tmp_path, columns)  # times of day between spaces do not make it a slot log
    assert found["time"] == "timestamp" and "timestamp" not in found["features"]
    for name in ("timestamp", "signup"):
        assert found["features"][f"{name}_hour"] == {"type": "Sparse", "column": name, "bucket": "hour"}
    assert found["features"]["signup"]["type"] == "Dense" and schema_of(found).time == "timestamp"


def test_the_day_of_a_month_is_no_time_of_a_row(tmp_path):
    days = [str(1 + at // 4 % 31) for at in range(len(PRICES))]
    assert "time" not in guess(tmp_path, {"day": list(reversed(days)), "price": PRICES})[0]
    grown = guess(tmp_path, {"day": sorted(days, key=int), "price": PRICES})[0]  # a log of some days, one after another
    assert grown["time"] == "day" and "day" not in grown["features"]


def test_odd_cells_among_written_numbers_are_missing_and_counted(tmp_path):
    prices = drawn(lambda draw: f"{draw.randrange(99)},5")
    found, text = guess(tmp_path, {"price": ["free", "-", *prices[2:]]}, ";")
    assert "2 cells of price are no numbers and are taken for missing" in text
    assert set(found["format"]["missing"]) == {"-", "free"} and found["features"]["price"]["type"] == "Dense"


def test_a_log_of_nothing_but_numbers_gets_a_feature_that_models_look_up(tmp_path):
    found, _ = guess(tmp_path, {"price": PRICES})
    assert found["features"]["price in buckets"] == {"type": "Sparse", "column": "price", "bucket": "log_square"}
    dense = {"features": {"price": {"type": "Dense"}}, "labels": {"click": {}}}
    with pytest.raises(ConfigError, match="no feature is Sparse, MultiValued or Crossed"):
        build_task(read_config(Path("ctr/deepfm_csv"), [f"data.schema={json.dumps(dense)}"]))


def test_codes_are_no_amounts(tmp_path):
    codes = random.Random(2).sample(range(4000, 320_000), 60)
    found, text = guess(
        tmp_path,
        {
            "resource": drawn(lambda draw: str(draw.choice(codes))),
            "device_type": drawn(lambda draw: str(draw.randrange(40))),
            "long": drawn(lambda draw: str(10**18 + draw.randrange(50))),
            "age": drawn(lambda draw: str(draw.randrange(18, 90))),
            "amount": drawn(lambda draw: str(draw.randrange(200, 90_000))),
        },
    )
    kinds = {name: feature["type"] for name, feature in found["features"].items()}
    assert kinds == {"resource": "Sparse", "device_type": "Sparse", "long": "Sparse", "age": "Dense", "amount": "Dense"}
    assert "few of those between and each often: codes" in text and "more digits than a number keeps" in text


def test_excel_s_and_pandas_oddities_are_read(tmp_path):
    rows = [f'{i};"a;{i % 3}";{i / 7:.2f};{i % 2}' for i in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["sep=;", ";name;price;click", *rows]))
    found = yaml.safe_load(guess_schema(tmp_path / "log.csv"))
    assert found["format"]["delimiter"] == ";" and found["features"]["name"] == {"type": "Sparse"}


def test_a_name_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("a,a,click\n" + "1.5,2,0\n2.5,3,1\n" * 20)
    with pytest.raises(DataError, match="2 columns are called 'a'; rename all but one"):
        guess_schema(tmp_path / "log.csv")


def test_an_encoding_that_is_asked_for_is_an_option_of_the_command_that_is_named(tmp_path):
    rows = [f"{i % 2},北京市海淀区{i},{i}" for i in range(90)]
    (tmp_path / "log.csv").write_bytes("\n".join(["点击,城市,价格", *rows]).encode("gb18030"))
    with pytest.raises(DataError, match="set --encoding of `paddock data schema` to gb18030"):
        guess_schema(tmp_path / "log.csv")
    assert "城市" in guess_schema(tmp_path / "log.csv", encoding="gb18030")
