"""What `paddock data schema` takes columns for, and what it says of odd ones."""

import random

import pytest
import yaml

from framework.errors import DataError
from suites.ctr.guess import guess_schema


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


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda draw: f"{draw.randrange(99)},{draw.randrange(10, 99)}", "decimal commas, such as"),
        (lambda draw: f"{draw.randrange(1, 9)}.{draw.randrange(100, 999)},50", "decimal commas"),
        (lambda draw: f"{draw.randrange(99)}%", "percent signs"),
        (lambda draw: f"${draw.randrange(99)}.50", "currency signs"),
        (lambda draw: f"2024-05-{draw.randrange(10, 28)} 12:00:00", "dates, such as"),
        (lambda draw: f"{draw.randrange(1, 28)}/5/2024", "dates, such as"),
    ],
)
def test_numbers_and_dates_as_people_write_them_are_left_out_with_what_to_do(tmp_path, make, what):
    found, text = guess(tmp_path, {"value": drawn(make), "user": drawn(lambda draw: f"u{draw.randrange(9)}")}, ";")
    assert "value" not in found["features"] and "# left out: value: " in text and what in text


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
