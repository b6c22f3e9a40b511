"""Requests are shared out between models: by name, by user, by chance."""

import json

import pytest

from framework.errors import AttributeValueError
from suites.engine.cli import serve
from suites.engine.serving.errors import NotThere
from suites.engine.serving.service import Service, Settings
from suites.engine.serving.split import Arm, Split
from suites.engine.serving.web.server import Other
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy.model(tmp_path_factory.mktemp("words"))


def named(model, name):
    return Service(model, Settings(name=name))


def test_each_model_gets_its_share_of_users_and_a_user_meets_the_same_one(model):
    split = Split("words", named(model, "words"), [Arm(named(model, "b"), 0.3), Arm(named(model, "c"), 0.1)])
    users = [f"user{i}" for i in range(4000)]
    got = [split.pick(None, user).settings.name for user in users]
    # Standard deviations of a share are at most 0.0073: 5 of them are 0.037.
    for name, share in (("words", 0.6), ("b", 0.3), ("c", 0.1)):
        assert abs(got.count(name) / len(users) - share) < 0.037
    assert got == [split.pick("words", user).settings.name for user in users]
    other = Split("another", named(model, "words"), [Arm(named(model, "b"), 0.4)])
    assert {other.pick(None, user).settings.name for user in users if got[users.index(user)] == "b"} == {"words", "b"}


def test_requests_without_a_user_are_shared_out_by_chance(model):
    split = Split("words", named(model, "words"), [Arm(named(model, "b"), 0.5)])
    got = [split.pick(None).settings.name for _ in range(200)]
    assert 40 < got.count("b") < 160  # of 200 fair throws outside of this less than 1 in 10^17


def test_a_request_may_name_its_model(model):
    split = Split("both", named(model, "a"), [Arm(named(model, "b"), 0.01)])
    assert [split.pick(name).settings.name for name in ("a", "b")] == ["a", "b"]
    assert split.names() == ["both", "b", "a"]
    with pytest.raises(NotThere, match="there is no model 'c'; there is 'both', 'b', 'a'"):
        split.pick("c")


@pytest.mark.parametrize(
    ("names", "shares", "message"),
    [
        (["b"], [1.0], "must be between 0 and 1"),
        (["b"], [0.0], "must be between 0 and 1"),
        (["b", "c"], [0.5, 0.5], "leave nothing for words"),
        (["words"], [0.5], "two models have one name"),
        (["b", "b"], [0.1, 0.1], "two models have one name"),
    ],
)
def test_shares_and_names_that_do_not_go_together_are_refused(model, names, shares, message):
    with pytest.raises(AttributeValueError, match=message):
        Split("words", named(model, "words"), [Arm(named(model, n), s) for n, s in zip(names, shares, strict=True)])


@pytest.mark.parametrize("word", ["newer", "newer=", "newer=much", "=0.1"])
def test_a_split_that_is_none_is_refused(word, tmp_path, capsys):
    (tmp_path / "m").mkdir()
    assert serve.main([str(tmp_path / "m"), "--split", word]) != 0
    assert capsys.readouterr().err


def test_a_server_of_two_models_says_who_answered_and_tells_their_figures_apart(model):
    other = Other(model, "newer", 0.5)
    with toy.running(model, Settings(name="older"), others=[other], name="words") as server:

        def who(**more):
            return json.loads(ask(server, "/v1/scores", {"input": ["a b"], **more})[2])["model"]

        got = [who(user=f"u{i}") for i in range(40)]
        assert set(got) == {"older", "newer"}
        assert got == [who(user=f"u{i}", model="words") for i in range(40)]
        assert {who(model="newer") for _ in range(8)} == {"newer"}
        assert ask(server, "/v1/scores", {"input": ["a b"], "model": "other"})[0] == 404
        tensor = {"name": "items", "shape": [1], "datatype": "BYTES", "data": ["a b"]}
        infer = {"inputs": [tensor], "parameters": {"user": "u0"}}
        assert json.loads(ask(server, "/v2/models/words/infer", infer)[2])["model_name"] == got[0]
        assert ask(server, "/v2/models/newer/ready")[0] == 200
        assert json.loads(ask(server, "/health")[2])["model"] == "words"
        figures = ask(server, "/metrics")[2].decode()
    items = {line for line in figures.splitlines() if line.startswith("paddock_batch_items_count")}
    assert {line.split(" ")[0] for line in items} == {
        'paddock_batch_items_count{model="older"}',
        'paddock_batch_items_count{model="newer"}',
    }
    assert sum(float(line.split(" ")[1]) for line in items) >= 88
    assert server.status == 0
