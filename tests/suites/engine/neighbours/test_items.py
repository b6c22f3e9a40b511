"""The items of a catalogue: the best of them, exactly or by a graph, with wishes; kept and read without harm."""

import json
import sys

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError, DataError
from suites.engine.neighbours.items import ItemIndex
from suites.engine.neighbours.wishes import Wish

RNG = np.random.default_rng(0)
NAMES = [f"i{i}" for i in range(3000)]
VECTORS = RNG.normal(size=(3000, 16)).astype(np.float32)
USERS = RNG.normal(size=(50, 16)).astype(np.float32)


def ranked(user, but=(), only=None):
    """Names in the order of a plain loop over all scores."""
    scores = {name: float(v @ user) for name, v in zip(NAMES, VECTORS, strict=True)}
    kept = [n for n in (NAMES if only is None else only) if n in scores and n not in but]
    return sorted(kept, key=lambda name: -scores[name])


@pytest.fixture(scope="module")
def graph():
    pytest.importorskip("faiss", reason="the extra retrieval is not installed")
    return ItemIndex.build(NAMES, VECTORS, USERS, small=100)


def test_a_small_catalogue_is_searched_exactly():
    index = ItemIndex.build(NAMES, VECTORS)
    assert not index.has_graph and index.recall == 1.0
    for user, found in zip(USERS, index.find(USERS, [Wish(7)] * 50), strict=True):
        assert [name for name, _ in found] == ranked(user)[:7]
        assert found[0][1] == pytest.approx(float(VECTORS[NAMES.index(found[0][0])] @ user), rel=1e-5)
    assert (index.searched, index.exactly) == (50, 50)


def test_the_graph_finds_as_much_of_the_exact_answer_as_it_says(graph):
    hits = 0
    for user, found in zip(USERS, graph.find(USERS, [Wish(20)] * 50), strict=True):
        hits += len({name for name, _ in found} & set(ranked(user)[:20]))
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert hits / 1000 == pytest.approx(graph.recall) and graph.recall > 0.95


@pytest.mark.parametrize("way", ["exact", "graph"])
def test_each_user_of_a_batch_gets_what_it_wishes(way, request):
    index = ItemIndex(NAMES, VECTORS) if way == "exact" else request.getfixturevalue("graph")
    best = [ranked(user) for user in USERS[:6]]
    wishes = [
        Wish(5),
        Wish(5, exclude=frozenset([best[1][0], best[1][2], "never heard of"])),
        Wish(5, exclude_seen=True),
        Wish(5),
        Wish(4, allow=("i7", "i3", "i9", "nothing"), exclude=frozenset(["i3"])),
        Wish(3, allow=()),
    ]
    seen = [[], [], best[2][:2], best[3][:2], [], []]
    found = [[name for name, _ in own] for own in index.find(USERS[:6], wishes, seen)]
    assert found[0] == best[0][:5]
    assert found[1] == [n for n in best[1] if n not in wishes[1].exclude][:5]
    assert found[2] == best[2][2:7]
    assert found[3] == best[3][:5]
    assert found[4] == ranked(USERS[4], but=["i3"], only=["i7", "i3", "i9"])
    assert found[5] == []
    assert index.unknown(wishes[4]) == ["nothing"]


def test_a_wish_that_leaves_few_items_gets_all_of_them(graph):
    but = frozenset(NAMES[:2996])
    for index in (graph, ItemIndex(NAMES, VECTORS)):
        (found,) = index.find(USERS[:1], [Wish(10, exclude=but)])
        assert [name for name, _ in found] == ranked(USERS[0], but=but)


def test_what_was_saved_answers_alike(graph, tmp_path):
    for number, index in enumerate((graph, ItemIndex(NAMES, VECTORS))):
        index.save(tmp_path / str(number))
        again = ItemIndex.open(tmp_path / str(number))
        assert again.has_graph == index.has_graph and again.recall == index.recall
        assert again.find(USERS, [Wish(5)] * 50) == index.find(USERS, [Wish(5)] * 50)
    facts = json.loads((tmp_path / "0" / "items.json").read_text())
    assert facts["search"] == "graph" and facts["recall@20"] == graph.recall


@pytest.mark.parametrize("name", ["vectors.safetensors", "graph.faiss", "items.json"])
@pytest.mark.parametrize("harm", ["cut", "changed", "missing"])
def test_damaged_files_are_refused_before_they_are_looked_into(graph, tmp_path, name, harm):
    folder = tmp_path / "items"
    graph.save(folder)
    whole = (folder / name).read_bytes()
    if harm == "missing":
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(whole[:-9] if harm == "cut" else b"\0" + whole[1:])
    with pytest.raises(CheckpointError, match=r"the items cannot be read .*; write them again|there is no index"):
        ItemIndex.open(folder)


def test_names_that_do_not_fit_the_vectors_are_refused(graph, tmp_path):
    graph.save(tmp_path / "items")
    facts = json.loads((tmp_path / "items" / "items.json").read_text())
    (tmp_path / "items" / "items.json").write_text(json.dumps(facts | {"names": NAMES[:9]}))
    with pytest.raises(CheckpointError, match="9 names for 3000 vectors"):
        ItemIndex.open(tmp_path / "items")
    with pytest.raises(AttributeValueError, match="two items have one name"):
        ItemIndex(["a", "a"], VECTORS[:2])


def test_without_faiss_a_graph_is_told_and_all_items_are_scored(graph, tmp_path, monkeypatch, caplog):
    graph.save(tmp_path / "items")
    monkeypatch.setitem(sys.modules, "faiss", None)
    index = ItemIndex.open(tmp_path / "items")
    assert "a graph needs the package faiss" in caplog.text and "all 3000 items are scored" in caplog.text
    assert [name for name, _ in index.find(USERS[:1], [Wish(5)])[0]] == ranked(USERS[0])[:5]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3, "find: is an object with k, exclude, exclude_seen, allow; got int"),
        ({"n": 3}, "find: there is no 'n'; there are k, exclude, exclude_seen, allow"),
        ({"k": 0}, "find.k: is 0; it is a whole number from 1 to 1000"),
        ({"k": True}, "find.k: is True; it is a whole number"),
        ({"k": 1001}, "find.k: is 1001; it is a whole number from 1 to 1000"),
        ({"allow": "i3"}, "find.allow: is a list of items; got str"),
        ({"exclude": [1.5]}, "find.exclude: an item is 1.5; items are texts, or whole numbers"),
        ({"exclude_seen": 1}, "find.exclude_seen: is 1; it is true or false"),
    ],
)
def test_a_wish_that_is_none_says_why(value, message):
    with pytest.raises(DataError) as error:
        Wish.from_json(value)
    assert message in str(error.value)


def test_a_folder_without_an_index_is_told(tmp_path):
    with pytest.raises(CheckpointError, match="nowhere: there is no index"):
        ItemIndex.open(tmp_path / "nowhere")
