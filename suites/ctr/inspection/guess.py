"""A first declaration of a log, guessed from a sample of its rows, with the reasons as comments.

What is guessed is for a person to look at: a column of few whole numbers may be a category or an amount.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, count, islice, pairwise
from pathlib import Path

import yaml

from framework.data.logs.inflate import compression
from framework.errors import DataError
from suites.ctr.datasets.contents import head
from suites.ctr.datasets.encoding import finite_number, whole_number
from suites.ctr.datasets.parquet import columns_of, first_rows
from suites.ctr.inspection.guess_slots import guess_slots, is_slot_log
from suites.ctr.schema import Format
from suites.engine.data.intake.forms import MOST_ODD, NEARLY, Settled, Told, told
from suites.engine.data.intake.naming import shown
from suites.engine.data.intake.tables import Dialect, delimiter_of, refuse_comments, repeated, rows_in
from suites.engine.data.intake.texts import decoded, encoding_of, lines_of
from suites.engine.data.intake.written import DateOrder, Decimal, Written, moment_of
from suites.engine.data.skipping import OtherKindError
from suites.engine.registry import register

_LIST_MARKS = "|;, \x02^"  # between the values of a multi-valued feature
# What tools write where a value is not known. The first ones are never values; the others may be, such as Namibia's
# code or a minus, and count only where a column of numbers has them.
_MISSING = {
    "?", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "\\N", "#NULL!", "#DIV/0!", "#VALUE!",
}  # fmt: skip
_PERHAPS = {"NA", "na", "-", "--", ".", "inf", "-inf", "Inf", "Infinity", "none", "missing", "unknown"}
_LABELS = (
    "label",
    "click",
    "clicked",
    "is_click",
    "target",
    "y",
    "income",
    "converted",
    "conversion",
    "is_buy",
    "rating",
)
_GROUPS = ("user_id", "userid", "uid", "user", "device_id", "session_id")
_TIMES = ("timestamp", "time", "ts", "datetime", "event_time", "unix_time", "date", "day")
_WEIGHTS = ("weight", "sample_weight")
_POSITIVE = re.compile(r"^(1|1\.0|yes|y|true|t|click|clicked|positive|pos|>.*)\.?$", re.IGNORECASE)
_DAYS = 31  # of a month
_FEW = 24  # different whole numbers up to which a column is taken for a category
_EXACT = 2**53  # above which float64 cannot tell whole numbers apart
_GROUPS_OF_THREE = re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})?|\d+)", re.ASCII)  # digits, perhaps with a dot in them
_CODE_NAMES = ("id", "_no", "code", "zip", "key", "type", "sku", "nr", "number")
_SHOWN = 4  # columns that are named in an error
_KEY_SHARE = 0.95  # share of different values from which a column is taken for a key of the row
_TOLD = 1 << 10  # bytes of a file that tell whether it is UTF-16
_OPTION = "--encoding of `paddock data schema`"
_PARTS, _PART_BYTES = 32, 1 << 18  # of a file that is larger than all parts together


@dataclass(frozen=True)
class Guess:
    """What a column is taken for: plain data of its declaration, and why."""

    role: str  # feature, label, group, time, weight or left out
    declared: Mapping[str, object]
    why: str
    form: Written | None = None  # how its numbers or dates are written, if they are wanted
    more: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # features that it gives besides


@dataclass(frozen=True)
class _Column:
    """What is known of a column before it is taken for something."""

    name: str
    cells: Sequence[str]
    told: Told | None
    odd: Sequence[str]  # texts that are taken for missing values


@register("declaration", "click_log")
def guess_schema(
    path: Path,
    rows: int = 10_000,
    encoding: str | None = None,
    decimal: Decimal | None = None,
    dates: DateOrder | None = None,
) -> str:
    """The YAML text of a schema for a delimited file, a slot log or a Parquet file, from rows that are spread over it.

    Args:
        path: of the file.
        rows: that are looked at.
        encoding: of its text where no byte-order mark says it; None for UTF-8.
        decimal: "." or ",", where numbers may mean two things; None to leave such columns out.
        dates: the order of day, month and year in dates, likewise.

    Raises:
        DataError: it cannot be read, is no such text, has fewer than two rows, or no column could be a label.
    """
    settled = Settled(decimal, dates)
    if path.suffix.lower() == ".parquet":
        return _guess_parquet(path, rows, settled)
    lines = sample_lines(path, encoding)
    if is_slot_log(lines):
        return guess_slots(path, lines[:rows])
    form = replace(_format(path, lines), encoding=encoding)
    spaced = any(f'{form.delimiter} "' in line for line in lines)  # quotes behind spaces count where these are stripped
    dialect = Dialect(form.delimiter, strip=spaced)
    refuse_comments(lines, dialect, str(path))
    cells = [row.cells for row in rows_in(lines, dialect)]
    names = list(form.columns or [cell.strip() for cell in cells[0]])
    if twice := [name for name in repeated(names) if name]:
        raise DataError(f"{path}: {names.count(twice[0])} columns are called '{twice[0]}'; rename all but one")
    found = [row for row in cells[1 if form.header else 0 :] if len(row) == len(names)]
    if len(found) < 2:
        raise OtherKindError(f"{path}: has {len(found)} rows; some dozen are needed to guess what its columns are")
    bad = len(cells) - (1 if form.header else 0) - len(found)
    found = found[:: max(1, len(found) // rows)]
    named = cells[0] if form.header else []
    form = replace(form, strip=spaced or any(cell != cell.strip(" ") for row in (named, *found) for cell in row))
    columns = {name: [row[i].strip(" ") for row in found] for i, name in enumerate(names)}
    return _text(path, form, columns, settled, bad)


def _guess_parquet(path: Path, rows: int, settled: Settled) -> str:
    """As `guess_schema`, from a file's first rows."""
    names, lists = columns_of(path)
    found = first_rows(path, rows, names)
    if len(found) < 2:
        raise OtherKindError(f"{path}: has {len(found)} rows; some dozen are needed to guess what its columns are")
    columns: dict[str, list[str]] = {}
    for name in names:
        cells = [row[name] for row in found]
        columns[name] = [cell if isinstance(cell, str) else "\x1f".join(cell) for cell in cells]
    return _text(path, Format(kind="parquet"), columns, settled, lists=lists)


def sample_lines(path: Path, encoding: str | None = None) -> list[str]:
    """Lines of a file: all of a small one; of a large one the first, and those of parts spread over it.

    Of a compressed one, or one that is not in UTF-8, which can only be read from its beginning, the first.
    """
    told = encoding_of(head(path, _TOLD)[:_TOLD], encoding, str(path), _OPTION)
    if compression(path) is not None or told.name != "utf-8":
        packed = head(path, _PARTS * _PART_BYTES)
        whole = len(packed) < _PARTS * _PART_BYTES
        end = len(packed) if whole else packed.rindex("\n".encode(told.name.removesuffix("-sig")))
        texts = lines_of(decoded(packed[:end], str(path), encoding, _OPTION))
        return _filled(path, texts)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            starts = [0] if size <= _PARTS * _PART_BYTES else [size * i // _PARTS for i in range(_PARTS)]
            length = size if len(starts) == 1 else _PART_BYTES
            found: list[bytes] = []
            for start in starts:
                file.seek(start)
                part = file.read(length).split(b"\n")
                found += part[1 if start else 0 : None if start + length >= size else -1]  # lines that are whole
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    return _filled(path, lines_of(decoded(b"\n".join(found), str(path), encoding, _OPTION)))


def _filled(path: Path, lines: Sequence[str]) -> list[str]:
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise DataError(f"{path}: the file is empty")
    return filled


def _format(path: Path, lines: Sequence[str]) -> Format:
    """Delimiter and header."""
    lines = lines[:200]
    delimiter = delimiter_of(lines, default="")
    if not delimiter:
        raise OtherKindError(
            f"{path}: no delimiter cuts its lines into columns (tried tab, comma, semicolon, | and \\x01), and a click "
            "log has a label and features; write the schema by hand"
        )
    cells = [[cell.strip() for cell in row.cells] for row in rows_in(lines, Dialect(delimiter, strip=True))]
    header = _is_header(cells[0], cells[1:])
    columns = None if header else tuple(f"c{i}" for i in range(len(cells[0])))
    return Format(delimiter=delimiter, header=header, columns=columns)


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first line names columns: texts, none a number, that the columns do not hold themselves.

    The first one may be empty, as pandas names the numbers of rows.
    """
    ends = max((at for at, cell in enumerate(first) if cell), default=0)  # behind it delimiters that end each line
    hollow = not any(row[ends + 1 :] and any(row[ends + 1 :]) for row in rest)
    if any(finite_number(cell) is not None for cell in first) or not all(first[1 : ends + 1]):
        return False
    if ends + 1 < len(first) and not hollow:
        return False
    known = [{row[i] for row in rest if i < len(row)} for i in range(len(first))]
    return not any(cell and cell in values for cell, values in zip(first, known, strict=True))


def _label_of(path: Path, columns: Mapping[str, Sequence[str]], missing: Sequence[str]) -> str:
    two = [name for name, cells in columns.items() if len(set(cells) - {"", *missing}) == 2]
    named = [name for name in columns if name.lower() in _LABELS]
    for name in named:
        if name in two or name.lower() == "rating":
            return name
    zero_one = [
        name for name in two if {finite_number(cell) for cell in set(columns[name]) - {"", *missing}} == {0.0, 1.0}
    ]
    ends = [name for name in (next(iter(columns)), list(columns)[-1]) if name in two]
    found = [name for name in ends if name in zero_one] or ends or zero_one or two
    if not found:
        raise OtherKindError(f"{path}: no column has two values, so none can be a click; write the schema by hand")
    return found[0]


def _guess(column: _Column, missing: Container[str], label: str) -> Guess:
    name, cells, lower = column.name, column.cells, column.name.lower()
    known = [cell for cell in cells if cell and cell not in missing]
    different = Counter(known)
    form = column.told.form if column.told else None
    if (not name or lower.startswith("unnamed:")) and len(different) == len(cells):
        return Guess("left out", {}, "numbers of rows without a name, as pandas writes them")
    if name == label:
        return _guess_label(name, different, form)
    if column.told and column.told.ambiguous:
        return Guess("left out", {}, column.told.ambiguous)
    if form is not None and form.date:
        return _guess_date(column, known, form)
    if lower in _WEIGHTS and all((finite_number(cell, form) or -1) >= 0 for cell in different):
        return Guess("weight", {}, "its name", form)
    if lower in _TIMES and (moments := _whole(known, form)) and not _is_day_of_a_month(moments):
        return Guess("time", {}, "its name, and whole numbers", form)
    if len(different) < 2:
        return Guess("left out", {}, f"it holds {len(different)} different values")
    numbers = [number for cell in known if (number := finite_number(cell, form)) is not None]
    numeric = len(numbers) == len(known)
    if not numeric and (mark := _list_mark(known)):
        return Guess("feature", {"type": "MultiValued", "separator": mark}, f"lists with {mark!r} between the values")
    share = len(different) / len(known)
    whole = numeric and all(number.is_integer() for number in numbers)
    is_id = lower.endswith(_CODE_NAMES) or lower.startswith("id")
    if share > _KEY_SHARE and len(known) > 50 and (is_id or not numeric):
        return Guess("left out", {}, f"{share:.0%} of its values differ, as those of a key of the row do")
    if not numeric or is_id:
        kind = "words" if not numeric else "numbers, but the name says that they are ids"
        return Guess("feature", {"type": "Sparse"}, f"{kind}, {len(different)} different in {len(known)}")
    if whole and len(different) <= _FEW:
        return Guess("feature", {"type": "Sparse"}, f"only {len(different)} different whole numbers")
    if whole and (why := _as_codes([int(number) for number in numbers], len(different))):
        return Guess("feature", {"type": "Sparse"}, why)
    found = _guess_number(numbers, len(different))
    return found if column.told is None else replace(found, why=f"{found.why}; {column.told.why}", form=form)


def _whole(cells: Sequence[str], form: Written | None) -> list[int]:
    """The cells as whole numbers, in order; none where one of them is no whole number."""
    numbers = [number for cell in cells if (number := whole_number(cell, form)) is not None]
    return numbers if len(numbers) == len(cells) else []


def _is_day_of_a_month(numbers: Sequence[int]) -> bool:
    """Whether numbers of a file's rows, in order, are 1 to 31 and begin again: no time of a row, which only grows."""
    return all(1 <= number <= _DAYS for number in numbers) and any(a > b for a, b in pairwise(numbers))


def _guess_date(column: _Column, known: Sequence[str], form: Written) -> Guess:
    """What a model can use of dates: the day of the week, the hour where it varies, and the days since 1970.

    What is named as the time of the rows gives no days: later rows have days that training has not seen.
    """
    assert column.told is not None
    moments = [moment for text in known if form.date and (moment := moment_of(text, form.date))]
    parts = {part for part in ("hour", "weekday") if len({getattr(moment, part) for moment in moments}) > 1}
    more = {
        f"{column.name}_{part}": {"type": "Sparse", "column": column.name, "bucket": part} for part in sorted(parts)
    }
    if column.name.lower() in _TIMES:
        return Guess("time", {}, f"its name; {column.told.why}", form, more)
    if len({moment.days for moment in moments}) < 2:
        return Guess("left out", {}, "it holds one date")
    declared = {"type": "Dense", "transform": "standard"}
    return Guess("feature", declared, f"the days since 1970; {column.told.why}", form, more)


def _as_codes(numbers: Sequence[int], different: int) -> str | None:
    """Why whole numbers are codes rather than amounts; None where they may be amounts."""
    low, high = min(numbers), max(numbers)
    if high > _EXACT:
        return f"whole numbers up to {high}, more digits than a number keeps, as ids have"
    lone = different > len(numbers) / 3  # amounts seldom come back
    if low < 100 or lone or different > 0.1 * (high - low):
        return None
    return f"{different} different whole numbers from {low} to {high}, few of those between and each often: codes"


def _odd_cells(cells: Sequence[str], missing: Container[str]) -> list[str]:
    """The few texts in a column that is one of numbers but for them; empty for other columns."""
    known = [cell for cell in cells if cell and cell not in missing]
    odd = Counter(cell for cell in known if finite_number(cell) is None)
    nearly = odd and sum(odd.values()) <= (1 - NEARLY) * len(known) and len(odd) <= MOST_ODD
    likely = odd and odd.keys() <= _PERHAPS and len(known) > sum(odd.values())
    return list(odd) if nearly or likely else []


def _guess_number(numbers: Sequence[float], different: int) -> Guess:
    ordered = sorted(abs(number) for number in numbers)
    typical, top = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    if top > 20 * max(typical, 1.0):
        why = f"{different} different numbers with a long tail: half are up to {typical:g}, 1% above {top:g}"
        return Guess("feature", {"type": "Dense", "transform": "log"}, why)
    return Guess("feature", {"type": "Dense", "transform": "standard"}, f"{different} different numbers")


def _list_mark(known: Sequence[str]) -> str | None:
    """The character between values, where many cells are lists that share values."""
    for mark in _LIST_MARKS:
        lists = [cell.split(mark) for cell in known]
        if sum(len(parts) > 1 for parts in lists) < 0.2 * len(lists) or len({len(parts) for parts in lists}) < 2:
            continue
        values = Counter(part for parts in lists for part in parts)
        if len(values) < 0.5 * len(set(known)):
            return mark
    return None


def _guess_label(name: str, different: Counter[str], form: Written | None) -> Guess:
    counts = ", ".join(f"{text} {count}" for text, count in different.most_common(4))
    if {finite_number(text) for text in different} == {0.0, 1.0}:
        return Guess("label", {}, f"the values {counts}")
    if len(different) > 2:
        return Guess("label", {"at_least": 4}, f"a rating; 4 and more counts as a click. The values: {counts}", form)
    positive = [text for text in different if _POSITIVE.match(text)] or [different.most_common()[-1][0]]
    return Guess("label", {"positive": positive[:1]}, f"the values {counts}; look which of them is the positive one")


def _columns(columns: Mapping[str, Sequence[str]], missing: Container[str], settled: Settled) -> list[_Column]:
    """What the numbers and dates of all columns are like; decided together, as a file is written by one tool."""
    found = [_column(name, cells, missing, settled) for name, cells in columns.items()]
    comma = next((column for column in found if _is_comma(column.told)), None)
    if comma is None or settled.decimal is not None:
        return found
    return [_doubted(column, comma.name, missing) for column in found]


def _column(name: str, cells: Sequence[str], missing: Container[str], settled: Settled) -> _Column:
    known = Counter(cell for cell in cells if cell and cell not in missing)
    likely = {cell: times for cell, times in known.items() if cell not in _PERHAPS}
    form = told(likely, settled)
    if form is None or form.form is None:
        return _Column(name, cells, form, _odd_cells(cells, missing))
    return _Column(name, cells, form, [*form.odd, *(known.keys() & _PERHAPS)])


def _is_comma(form: Told | None) -> bool:
    return form is not None and form.form is not None and form.form.decimal == ","


def _doubted(column: _Column, comma: str, missing: Container[str]) -> _Column:
    """A column of plain numbers whose dots stand before three digits each, in a file with decimal commas."""
    known = {cell for cell in column.cells if cell and cell not in missing}
    if column.told or not any("." in cell for cell in known) or not all(map(_GROUPS_OF_THREE.fullmatch, known)):
        return column
    example = next(cell for cell in known if "." in cell)
    whole = example.replace(".", "")
    why = f"numbers such as {example} may be {whole}, as '{comma}' has decimal commas; say which with --decimal . or "
    return replace(column, told=Told(None, ambiguous=f"{why}--decimal ,"))


def _text(
    path: Path,
    form: Format,
    columns: Mapping[str, Sequence[str]],
    settled: Settled,
    bad: int = 0,
    lists: Container[str] = (),
) -> str:
    missing = sorted({cell for column in columns.values() for cell in set(column)} & _MISSING)
    known = _columns({name: cells for name, cells in columns.items() if name not in lists}, missing, settled)
    missing = sorted({*missing, *(cell for column in known for cell in column.odd)})
    label = _label_of(path, columns, missing)
    guesses = {column.name: _guess(column, missing, label) for column in known}
    guesses |= {name: Guess("feature", {"type": "MultiValued"}, "lists") for name in columns if name in lists}
    open_to_settle = any(column.told and column.told.ambiguous for column in known)
    if not open_to_settle and not any(guess.role == "feature" or guess.more for guess in guesses.values()):
        reasons = "; ".join(islice(_left_out(guesses), _SHOWN)) or "there is no other"
        raise OtherKindError(f"{path}: no column beside the label '{shown(label)}' can be a feature ({reasons})")
    rows = len(next(iter(columns.values())))
    lines = [
        f"# Guessed by `paddock data schema` from {rows} rows of {path.name}. Look at each line, then train with",
        "# `paddock train ctr/deepfm_csv -o data.root=FILE -o data.schema=THIS`.",
        *(_odd_line(column) for column in known if column.odd),
        *([f"# {bad} rows had another number of columns and were not looked at."] if bad else []),
        *_format_lines(form, missing, guesses),
        *_feature_lines(guesses),
        *_role_lines(guesses),
        *(f"# left out: {line}" for line in _left_out(guesses)),
    ]
    return "\n".join(lines) + "\n"


def _left_out(guesses: Mapping[str, Guess]) -> Iterator[str]:
    for name, guess in guesses.items():
        if guess.role == "left out":
            yield f"{shown(name)}: {shown(guess.why)}"


def _odd_line(column: _Column) -> str:
    times = sum(column.cells.count(cell) for cell in column.odd)
    what = "dates" if column.told and column.told.form and column.told.form.date else "numbers"
    return f"# {times} cells of {_yaml(column.name)} are no {what} and are taken for missing: {_yaml(list(column.odd))}"


def _format_lines(form: Format, missing: Sequence[str], guesses: Mapping[str, Guess]) -> Iterator[str]:
    yield "format:"
    if form.kind == "parquet":
        yield "  kind: parquet"
    else:
        yield f"  delimiter: {_yaml(form.delimiter)}"
        yield f"  header: {_yaml(form.header)}"
    if form.encoding:
        yield f"  encoding: {_yaml(form.encoding)}"
    if form.columns:
        yield f"  columns: {_yaml(list(form.columns))}  # there are no names in the file; put better ones here"
    if missing:
        yield f"  missing: {_yaml(list(missing))}  # texts that were found where a value is not known"
    if form.strip:
        yield "  strip: true  # there are spaces around values"
    written = {name: guess.form for name, guess in guesses.items() if guess.form is not None}
    if written:
        yield "  written:  # numbers and dates that are not plain"
        for name, each in written.items():
            default = asdict(Written())
            yield f"    {_yaml(name)}: {_yaml({k: v for k, v in asdict(each).items() if v != default[k]})}"


def _feature_lines(guesses: Mapping[str, Guess]) -> Iterator[str]:
    for role, title in (("feature", "features:"), ("label", "labels:")):
        if role == "label":
            yield from _lone_numbers(guesses)
        yield title
        for name, guess in guesses.items():
            if guess.role == role:
                yield f"  {_yaml(name)}: {_yaml(dict(guess.declared))}  # {shown(guess.why)}"
            for other, declared in guess.more.items() if role == "feature" else ():
                free = next(each for each in chain([other], (f"{other}_{k}" for k in count(2))) if each not in guesses)
                yield f"  {_yaml(free)}: {_yaml(dict(declared))}  # of the dates in {shown(name)}"


def _lone_numbers(guesses: Mapping[str, Guess]) -> Iterator[str]:
    """A sparse feature for a log of nothing but numbers, as models look at least one value up."""
    features = {name: guess for name, guess in guesses.items() if guess.role == "feature"}
    if not features or any(g.declared["type"] != "Dense" or g.more for g in features.values()):
        return
    name = next((name for name, guess in features.items() if guess.form is None or not guess.form.date), None)
    if name is not None:
        declared = {"type": "Sparse", "column": name, "bucket": "log_square"}
        yield f"  {_yaml(f'{name} in buckets')}: {_yaml(declared)}  # all are numbers, and models look one value up"


def _role_lines(guesses: Mapping[str, Guess]) -> Iterator[str]:
    for role, names in (("group", _GROUPS), ("time", ()), ("weight", ())):
        found = next((n for n, g in guesses.items() if g.role == role or n.lower() in names), None)
        if found is not None:
            why = guesses[found].why if role != "group" else "its name; rows are ranked within it for GAUC"
            yield f"{role}: {_yaml(found)}  # {shown(why)}"


def _yaml(value: object) -> str:
    """A value on one line."""
    style = '"' if "\n" in repr(value).replace("\\n", "\n") else None  # other styles spread it over lines
    return (
        yaml.safe_dump(
            value, default_flow_style=True, default_style=style, allow_unicode=True, width=10**9, sort_keys=False
        )
        .removesuffix("\n...\n")
        .strip()
    )
