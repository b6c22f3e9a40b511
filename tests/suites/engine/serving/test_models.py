"""Several models behind one address: each by its name, requests shared out between versions, one budget of memory."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError
from suites.engine.predict.inference import open_model
from suites.engine.predict.model import Memory
from suites.engine.serving.client import Client
from suites.engine.serving.errors import NotThere, RequestError
from suites.engine.serving.memory import Budget, OutOfBudget, machine_bytes, weight_files
from suites.engine.serving.models import Models, Taken
from suites.engine.serving.service import Settings
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return toy.model(tmp_path_factory.mktemp("words"))


def models(*offers, **more):
    return Models(offers, Settings(readers=0), **more)


def labels_of(found, users, name=None):
    got = []
    for user in users:
        taken = Taken()
        got.append(found.take(taken, name, user).label)
        taken.drop()
    return got


def test_each_version_gets_its_share_of_users_and_a_user_meets_the_same_one(model):
    found = models(toy.offer("words", model, model, model, shares=(0.6, 0.3, 0.1)))
    users = [f"user{i}" for i in range(4000)]
    got = labels_of(found, users)
    # Standard deviations of a share are at most 0.0078: 5 of them are 0.039.
    for label, share in (("a", 0.6), ("b", 0.3), ("c", 0.1)):
        assert abs(got.count(label) / len(users) - share) < 0.039
    assert got == labels_of(found, users, "words")
    other = models(toy.offer("another", model, model, shares=(0.6, 0.4)))
    mixed = labels_of(other, [user for user, label in zip(users, got, strict=True) if label == "b"])
    assert set(mixed) == {"a", "b"}


def test_requests_without_a_user_are_shared_out_by_chance(model):
    got = labels_of(models(toy.offer("words", model, model, shares=(0.5, 0.5))), [None] * 200)
    assert 40 < got.count("b") < 160  # of 200 fair throws outside of this less than 1 in 10^17


def test_a_request_may_name_its_model_and_its_version(model):
    found = models(toy.offer("both", model, model, shares=(0.99, 0.01)), toy.offer("one", model))
    assert found.names() == ["both", "one", "both@a", "both@b"]
    assert [found.take(Taken(), name).name for name in ("both@a", "both@b", "one", "one@1")] == [
        "both@a", "both@b", "one@1", "one@1",
    ]  # fmt: skip
    with pytest.raises(NotThere, match="there is no model 'c'; there is 'both', 'one', 'both@a', 'both@b'"):
        found.take(Taken(), "c")
    with pytest.raises(NotThere, match="both has no version 'c'; it has a, b"):
        found.take(Taken(), "both@c")
    with pytest.raises(RequestError, match="model: is missing; there is 'both', 'one'"):
        found.take(Taken(), None)


@pytest.mark.parametrize(
    ("shares", "message"),
    [((1.1, -0.1), "a share is 1.1; it is above 0"), ((1.0, 0.0), "a share is 0;"), ((0.5, 0.4), "0.5 \\+ 0.4;")],
)
def test_shares_that_do_not_go_together_are_refused(model, shares, message):
    with pytest.raises(AttributeValueError, match=message):
        toy.offer("words", model, model, shares=shares)


def test_two_models_of_one_name_are_refused(model):
    with pytest.raises(AttributeValueError, match="'words' is the name of two models"):
        models(toy.offer("words", model), toy.offer("words", model))


def test_a_model_that_does_not_fit_beside_the_others_is_refused_with_the_sums(tmp_path):
    first, second = toy.export(tmp_path / "first"), toy.export(tmp_path / "second")
    need = open_model(first).memory().weights
    assert need >= toy.TABLE.nbytes
    with pytest.raises(OutOfBudget, match=r"b@1: needs .* MB \(weights of .*\); of the .* are taken \(a@1 .* MB\)"):
        models(toy.offer("a", first), toy.offer("b", second), memory=int(1.5 * need))
    both = models(toy.offer("a", first), toy.offer("b", second), memory=machine_bytes())
    assert both.budget.held >= 2 * need


def test_a_budget_counts_what_is_taken_until_it_is_given_back():
    budget = Budget(100 << 20)
    budget.take("x", "x", Memory(60 << 20, 10 << 20))
    with pytest.raises(OutOfBudget, match=r"y: needs 31\.0 MB \(weights of 31\.0 MB, by its files\); of the 100\.0 MB"):
        budget.expect("y", 31 << 20)
    budget.give("x")
    budget.expect("y", 31 << 20)
    with pytest.raises(OutOfBudget, match=r"weights of 60\.0 MB, 0\.0 MB of arenas .*, 50\.0 MB for keys and values"):
        budget.take("z", "z", Memory(60 << 20, 0), 50 << 20)


def test_what_cannot_be_opened_ends_what_was_opened_before_it(model, tmp_path):
    with pytest.raises(CheckpointError, match="there is no such folder"):
        models(toy.offer("words", model), toy.offer("gone", tmp_path / "gone"))


def test_a_server_of_several_models_answers_each_by_name_and_tells_their_figures_apart(model, tmp_path):
    doubled = toy.model(tmp_path / "doubled", 2.0)
    with toy.running([toy.offer("words", model), toy.offer("both", model, doubled, shares=(0.5, 0.5))]) as server:

        def scores(**more):
            status, headers, data = ask(server, "/v1/scores", {"input": ["a b"], **more})
            return status, headers["Paddock-Version"], json.loads(data)

        one = scores(model="words")
        assert one[0] == 200 and one[1] == "words@1" and one[2]["model"] == "words"
        seen = {user: scores(model="both", user=user) for user in map(str, range(20))}
        assert {found[1] for found in seen.values()} == {"both@a", "both@b"}
        for user, (_, version, answer) in seen.items():
            times = {"both@a": 1, "both@b": 2}[version]
            assert answer["data"][0]["result"]["score"] == pytest.approx(times * toy.vector("a b").max(), rel=1e-6)
            assert answer["model"] == version == scores(model="both", user=user)[1]
        assert scores(model="both@b")[1] == "both@b"
        with Client(server.url, model="both@b") as client:
            np.testing.assert_allclose(client.encode(["a b"])[0], 2 * toy.vector("a b"), rtol=1e-6)
            assert client.score(["a b"])[0]["score"] == pytest.approx(2 * toy.vector("a b").max())
        status, _, answer = scores(model="other")
        assert status == 404 and "there is 'words', 'both', 'both@a', 'both@b'" in answer["error"]
        assert scores()[0] == 400

        tensor = {"name": "items", "shape": [1], "datatype": "BYTES", "data": ["a b"]}
        for path, version in (("words", "1"), ("both/versions/b", "b"), ("both/versions/a", "a")):
            status, headers, data = ask(server, f"/v2/models/{path}/infer", {"inputs": [tensor]})
            assert status == 200 and json.loads(data)["model_version"] == version
            assert headers["Paddock-Version"].endswith(f"@{version}")
        assert json.loads(ask(server, "/v2/models/both")[2])["versions"] == ["a", "b"]
        assert ask(server, "/v2/models/both/versions/b/ready")[0] == 200
        assert ask(server, "/v2/models/both/versions/c/ready")[0] == 404
        index = json.loads(ask(server, "/v2/repository/index", {})[2])
        assert [(row["name"], row["version"], row["state"]) for row in index] == [
            ("words", "1", "READY"), ("both", "a", "READY"), ("both", "b", "READY"),
        ]  # fmt: skip
        assert json.loads(ask(server, "/health")[2])["model"] == "words, both"
        figures = ask(server, "/metrics")[2].decode()
    assert 'paddock_batch_items_count{model="words",model_version="1"}' in figures
    assert 'paddock_batch_items_count{model="both",model_version="b"}' in figures
    assert 'model="both",model_version="a",route="/v1/scores",status="200"' in figures
    assert server.status == 0


def test_one_model_alone_has_figures_without_labels_of_models(model):
    with toy.running(model) as server:
        assert ask(server, "/v1/scores", {"input": "a"})[0] == 200
        figures = ask(server, "/metrics")[2].decode()
    assert "\npaddock_batch_items_count 2.0" in figures or "\npaddock_batch_items_count 1.0" in figures
    assert 'paddock_requests_total{route="/v1/scores",status="200"} 1.0' in figures


def test_the_weights_of_a_model_are_its_largest_file_for_a_run_has_several(tmp_path):
    for name, size in (("best.safetensors", 30), ("last.safetensors", 40), ("log.txt", 500)):
        (tmp_path / name).write_bytes(bytes(size))
    assert weight_files(tmp_path) == 40
    (tmp_path / "weights.safetensors.sealed").write_bytes(bytes(60))
    assert weight_files(tmp_path) == 60
    assert weight_files(tmp_path / "log.txt") == 500 and weight_files(tmp_path / "none") == 0
