"""explain(): what passes matched, what nearly fitted and why not; and the order that passes declare."""

import re
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import AttributeValueError
from framework.graph import passes
from framework.graph.reports import Explanation, PassReport

X = np.ones((4, 3), np.float32)


def state(array) -> framework.Tensor:
    t = framework.tensor(np.asarray(array, np.float32))
    t.persistable = True
    return t


W, BIAS = state(np.eye(3)), state(np.zeros(3))


def missed(function, pass_name: str, *args, pass_names=passes.TRAINING_PASSES) -> str:
    (line,) = framework.program(function, pass_names=pass_names).explain(*args)[pass_name].missed
    return line


def test_a_match_is_listed_with_the_users_line():
    report = framework.program(lambda x: ops.relu(ops.matmul(x, W))).explain(X)["fuse_activation"]
    assert not report.missed and len(report.matched) == 1
    assert re.search(r"relu\(%\d+\) fused into matmul %\d+ \(test_explain.py:\d+\)", report.matched[0])


def test_a_near_miss_names_the_other_reader():
    def f(x):
        y = ops.matmul(x, W)
        return ops.relu(y) + y

    expected = (
        r"matmul %\d+ -> relu %\d+ \(test_explain.py:\d+\) not fused: %\d+ is also read by add %\d+ \(test_explain"
    )
    assert re.match(expected, missed(f, "fuse_activation", X))


def test_a_near_miss_names_a_result_and_a_states_new_value():
    def result(x):
        y = ops.matmul(x, W)
        return ops.relu(y), y

    square = state(np.zeros((4, 3)))

    def update(x):
        y = ops.matmul(x, W)
        square.set(y)
        return ops.relu(y)

    assert missed(result, "fuse_activation", X).endswith("is a result of the program")
    assert missed(update, "fuse_activation", X).endswith("is the new value of a state")


def test_a_near_miss_names_the_condition_of_its_pass():
    twice = lambda x: ops.relu(ops.matmul(x, W, None, activation="relu6"))  # noqa: E731
    assert missed(twice, "fuse_activation", X).endswith("it already ends in relu6")
    biased = lambda x: ops.matmul(x, W, BIAS) + BIAS  # noqa: E731
    assert missed(biased, "fuse_bias", X, pass_names=["fuse_bias"]).endswith("it has a bias already")
    doubled = lambda x: ops.matmul(x, W) + x  # noqa: E731
    assert missed(doubled, "fuse_bias", X, pass_names=["fuse_bias"]).endswith("is no parameter of shape [3]")


def test_the_text_groups_by_pass_and_says_what_it_leaves_out():
    joined = Explanation([PassReport("a", ["x"] * 3), PassReport("b", [], ["y"]), PassReport("a", ["z"])])
    assert (
        joined.text(shown=2)
        == "a: 4 matched, 0 nearly\n  + x\n  + x\n  + ... and 2 more\nb: 0 matched, 1 nearly\n  - y"
    )
    assert len(joined["a"].matched) == 4 and not joined["c"].matched
    assert str(Explanation([])) == "no pass ran"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["fuse_activation", "fuse_bias"], "'fuse_bias' must run before 'fuse_activation'; swap them"),
        (["fold_batch_norm"], "'fold_batch_norm' needs 'freeze_states' before it"),
        (["drop_dead_code", "fold_constants"], "'fold_constants' must run before 'drop_dead_code'"),
    ],
)
def test_an_order_that_breaks_a_declaration_is_refused(names, message):
    with pytest.raises(AttributeValueError, match=message):
        framework.program(lambda x: x + 1.0, pass_names=names)(X)


def test_the_default_lists_keep_to_the_declarations_which_name_passes_only():
    for names in (passes.TRAINING_PASSES, passes.INFERENCE_PASSES):
        framework.program(lambda x: x + 1.0, pass_names=names).explain(X)
    for p in passes.PASSES.values():
        assert {*p.requires, *p.after, *p.before} <= set(passes.PASSES), p.name


def test_the_example_of_the_documentation_prints_what_it_shows(capsys):
    page = (Path(__file__).resolve().parents[3] / "docs/explanation/programs.md").read_text()
    source, shown = re.findall(r"```(?:python)?\n(.*?)```", page, re.DOTALL)[:2]
    exec(compile(source, "network.py", "exec"), {})
    assert shown.strip() in capsys.readouterr().out
