"""MovieLens-100K as click-through: a rating of 4 or more is a click, what a user liked before is the behaviour.

The data set is Harper and Konstan's (2015), https://grouplens.org/datasets/movielens/100k/. Its terms forbid passing it
on, so it is read from a folder, or from the package or wheel `recbole`, which carries it.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from framework.errors import DataError
from suites.ctr.datasets.base import ClickDataset, Rows
from suites.ctr.encoding import RawRows
from suites.ctr.schema import Schema
from suites.engine.registry import register

_INSIDE = "recbole/dataset_example/ml-100k"
_CLICK = 4.0  # rating from which on a film was liked


@register("dataset")
class MovieLens100K(ClickDataset):
    """100,000 ratings in order of time, joined with users and films.

    Columns: `user_id`, `age`, `gender`, `occupation`, `zip_code`, `item_id`, `release_year`, `genres` (with "|"),
    `first_genre`, `rating`, `timestamp`, and of what the user did strictly before: `liked` and `liked_genre` (films rated 4 and more
    and the first genre of each), `disliked` (the others), all with "|"; `user_mean` and `user_count`, mean and number
    of the user's ratings so far, and `item_mean` and `item_count`, those of the film.

    Args:
        schema: which columns are features.
        root: folder of `ml-100k.inter`, `.user` and `.item`; or the wheel of `recbole`; null for the installed package.
        rows: which rows are taken, such as `TimeSpan`; null for all.
        history: films of `liked` and of `disliked` at most, the latest.
    """

    def __init__(self, schema: Schema, root: str | None = None, rows: Rows | None = None, history: int = 50) -> None:
        columns = _columns(root, history)
        name = f"MovieLens-100K {root or 'of recbole'}"
        self._hold(schema, RawRows(name, columns, lambda row: f"{name}, rating {row} by time"), rows, 0.0)


@lru_cache(maxsize=1)  # the parts of a run are rows of the same columns
def _columns(root: str | None, history: int) -> dict[str, list[str]]:
    files = {ending: _read(root, f"ml-100k.{ending}") for ending in ("inter", "user", "item")}
    return _joined(files, history)


def _read(root: str | None, name: str) -> dict[str, list[str]]:
    """The columns of one of its files; the header says `user_id:token`."""
    text = _content(root, name).decode("latin-1")
    header, *rows = [line.split("\t") for line in text.splitlines() if line]
    names = [column.partition(":")[0] for column in header]
    if any(len(row) != len(names) for row in rows):
        raise DataError(f"{name}: a row has another number of columns than the header; fetch the data set again")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _content(root: str | None, name: str) -> bytes:
    if root is None:
        found = importlib.util.find_spec("recbole")
        if found is None or not found.submodule_search_locations:
            raise DataError(
                "MovieLens100K: the package recbole, which carries the data set, is not installed; give root, a folder "
                "with ml-100k.inter, .user and .item, or the wheel (pip download --no-deps recbole==1.2.1)"
            )
        path = Path(found.submodule_search_locations[0]).parent / _INSIDE
    else:
        path = Path(root)
    try:
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                return wheel.read(f"{_INSIDE}/{name}")
        return (path / name).read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"MovieLens100K: {path}/{name} cannot be read ({error})") from None


def _joined(files: Mapping[str, Mapping[str, list[str]]], history: int) -> dict[str, list[str]]:
    inter, users, items = files["inter"], files["user"], files["item"]
    order = np.argsort(np.array(inter["timestamp"], np.float64), kind="stable")
    found = {name: [values[i] for i in order] for name, values in inter.items()}
    for key, table in (("user_id", users), ("item_id", items)):
        place = {each: i for i, each in enumerate(table[key])}
        for name, values in table.items():
            if name != key:
                found[name] = [values[place[each]] for each in found[key]]
    found["timestamp"] = [str(int(float(time))) for time in found["timestamp"]]
    found["genres"] = [text.replace(" ", "|") for text in found.pop("class")]
    found["first_genre"] = [text.partition("|")[0] for text in found["genres"]]
    return found | _past(found, history)


def _past(found: Mapping[str, list[str]], history: int) -> dict[str, list[str]]:
    """What was known of user and film strictly before each rating: ratings of the same second are not."""
    films: dict[tuple[str, bool], list[tuple[str, str]]] = {}  # of a user, liked or not: (film, its first genre)
    sums: dict[str, tuple[float, int]] = {}  # of a user or film: sum and number of ratings
    names = ("liked", "liked_genre", "disliked", "user_mean", "user_count", "item_mean", "item_count")
    out: dict[str, list[str]] = {name: [] for name in names}
    waiting: list[int] = []
    for row, time in enumerate(found["timestamp"]):
        if waiting and found["timestamp"][waiting[0]] != time:
            _remember(found, waiting, films, sums)
            waiting = []
        waiting.append(row)
        user = found["user_id"][row]
        liked = films.get((user, True), [])[-history:]
        out["liked"].append("|".join(film for film, _ in liked))
        out["liked_genre"].append("|".join(genre for _, genre in liked))
        out["disliked"].append("|".join(film for film, _ in films.get((user, False), [])[-history:]))
        for who, key in (("user", f"user {user}"), ("item", f"item {found['item_id'][row]}")):
            total, count = sums.get(key, (0.0, 0))
            out[f"{who}_mean"].append(repr(total / count) if count else "")
            out[f"{who}_count"].append(str(count))
    return out


def _remember(
    found: Mapping[str, list[str]],
    rows: list[int],
    films: dict[tuple[str, bool], list[tuple[str, str]]],
    sums: dict[str, tuple[float, int]],
) -> None:
    for row in rows:
        user, item, rating = found["user_id"][row], found["item_id"][row], float(found["rating"][row])
        films.setdefault((user, rating >= _CLICK), []).append((item, found["first_genre"][row]))
        for key in (f"user {user}", f"item {item}"):
            total, count = sums.get(key, (0.0, 0))
            sums[key] = total + rating, count + 1
