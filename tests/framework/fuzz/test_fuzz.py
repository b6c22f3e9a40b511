"""Random recipes and random lifetimes, a bounded number of them; `make fuzz` goes on for as long as wanted."""

import time

import numpy as np
import pytest

from framework.graph import passes
from framework.graph.passes.report import Pass
from framework.ops import registry
from tests.framework.fuzz import lifetimes, motifs, seams
from tests.framework.fuzz.__main__ import failure_of, main
from tests.framework.fuzz.checks import CHECKS, Coverage, Traced, check_recipe
from tests.framework.fuzz.grow import Style, grow, grow_motif
from tests.framework.fuzz.plan_model import PlanError, check_plan
from tests.framework.fuzz.recipe import Leaf, Recipe, Step, plain_array
from tests.framework.fuzz.shrink import shrink

FIXED_SEEDS = range(30)
NEW_SEEDS = range(int(time.time()), int(time.time()) + 3)  # other ones each time; the test's name says which
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, on infinities


@pytest.mark.parametrize("seed", FIXED_SEEDS)
def test_a_random_recipe_gives_the_same_in_all_ways_to_run(seed):
    recipe = grow(np.random.default_rng(seed))
    check_recipe(recipe)


def test_new_random_recipes_give_the_same_in_all_ways_to_run():
    for seed in NEW_SEEDS:
        recipe = grow(np.random.default_rng(seed))
        for check in CHECKS:
            message = failure_of(recipe, check)
            assert not message, f"seed {seed}, {check}: {message}\n{recipe.code()}"


@pytest.mark.parametrize("check", [lifetimes.check_planned, lifetimes.check_run])
def test_no_two_live_blocks_of_a_plan_overlap(check):
    for seed in range(100):
        check(np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(40))
def test_a_random_step_over_states_gives_the_same_in_all_ways_to_run(seed):
    seams.check(seed)


def test_new_random_steps_give_the_same_in_all_ways_to_run():
    for seed in NEW_SEEDS:
        seams.check(seed)


@pytest.mark.parametrize("seed", range(3))
def test_random_steps_in_threads_give_the_same_too(seed):
    seams.check_threads(seed)


def test_scenarios_reach_all_statements_and_several_optimizers():
    scenarios = [seams.Scenario(seed) for seed in range(100)]
    assert {n for s in scenarios for n in s.names} == set(seams.STATEMENTS)
    assert {len(s.optimizers) for s in scenarios} == {0, 1, 2, 3}


def test_a_recipe_is_made_again_from_its_seed():
    assert grow(np.random.default_rng(7)).code() == grow(np.random.default_rng(7)).code()


def test_most_operators_are_reached():
    coverage = Coverage()
    for seed in range(150):
        coverage.note_recipe(grow(np.random.default_rng(seed)))
    assert len(coverage.operators) > 0.8 * len(registry.OPS)


@pytest.mark.parametrize(
    ("motif", "name"),
    [
        (motifs.separable, "fuse_separable"),
        (motifs.shortcut, "fuse_last_residual"),
        (motifs.looked_up, "keep_gradient_rows"),
        (motifs.branch, "own_captured_constants"),
        (motifs.repeat, "own_captured_constants"),
        (motifs.recurrence, "own_captured_constants"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_motifs_reach_the_passes_they_are_for(motif, name):
    names = passes.TRAINING_PASSES if name in passes.TRAINING_PASSES else passes.INFERENCE_PASSES
    recipes = (grow_motif(motif, np.random.default_rng(seed)) for seed in range(60))
    assert any(r.name == name and r.matched for recipe in recipes for r in Traced(recipe, names).compiled.explain())


# -- the harness itself finds what is wrong
def _chain_recipe() -> Recipe:
    """exp(relu(x * w) + c) of which tanh is another reader, with two more steps that do not matter."""
    leaves = {
        0: Leaf("input", plain_array((4, 3), "float32"), True),
        1: Leaf("state", plain_array((3,), "float32"), True),
        2: Leaf("constant", plain_array((4, 3), "float32")),
    }
    steps = (
        Step("mul", (0, 1), (3,)),
        Step("relu", (3,), (4,)),
        Step("add", (4, 2), (5,)),
        Step("exp", (5,), (6,)),
        Step("tanh", (4,), (7,)),
        Step("sum", (7,), (8,), {"axes": (0,)}),
    )
    return Recipe(leaves, steps, (6, 8), order=1)


def _replace_first(name: str, other: str) -> Pass:
    """A pass that is wrong: the first operator of a name becomes another one."""

    def rewrite(program, report):
        for op in program.block:
            if op.name == name:
                op.info = registry.OPS[other]
                report.match("wrong on purpose")
                break

    return Pass("merge_equal_operations", rewrite)


def test_a_wrong_pass_is_found_and_the_recipe_cut_down_to_what_it_takes(monkeypatch):
    monkeypatch.setitem(passes.PASSES, "merge_equal_operations", _replace_first("tanh", "sigmoid"))
    message = failure_of(_chain_recipe(), "passes_on_and_off")
    assert message.startswith("Mismatch: passes merge_equal_operations: array")
    small = shrink(_chain_recipe(), lambda r: bool(failure_of(r, "passes_on_and_off")))
    assert [step.operator for step in small.steps] == ["tanh", "sum"] and small.order == 0 and not small.updates
    assert "ops.tanh(" in small.code()


def test_a_difference_within_the_rounding_of_the_recipe_is_allowed_and_a_larger_one_is_not(monkeypatch):
    def scale_exp(by):
        def rewrite(program, report):
            for op in program.block:
                if op.name == "exp":
                    report.match("changed")
                    factor = program.add_constant(plain_like(by))
                    info = registry.OPS["mul"]
                    scaled = program.make_operation(info, [op.outputs[0], factor], ())
                    program.replace(op.outputs[0], scaled.outputs[0])
                    scaled.inputs[0] = op.outputs[0]
                    program.block.ops.insert(program.block.ops.index(op) + 1, scaled)
                    return

        return Pass("fuse_bias", rewrite)

    def plain_like(value):
        return Leaf("constant", np.array(value, np.float32)).tensor().array()

    for by, fails in ((1 + 1.2e-7, False), (1 + 1e-4, True)):
        monkeypatch.setitem(passes.PASSES, "fuse_bias", scale_exp(by))
        assert bool(failure_of(_chain_recipe(), "passes_on_and_off")) == fails


def test_a_plan_in_which_live_blocks_overlap_is_refused():
    traced = Traced(_chain_recipe(), ())
    traced.run()
    compiled = traced.compiled
    check_plan(compiled)
    plan = compiled.execution.executable.last_plan()
    arena = [i for i, row in enumerate(plan["values"]) if row[2] == "arena"]

    class Executable:
        def last_plan(self):
            rows = [(*row[:4], 0 if i in arena else row[4], row[5]) for i, row in enumerate(plan["values"])]
            return plan | {"values": rows}

    compiled.execution.executable = Executable()
    with pytest.raises(PlanError, match=r"is overwritten before|which is not declared"):
        check_plan(compiled)


def test_styles_reach_gradients_of_both_orders_optimizers_and_both_types():
    styles = [Style.draw(np.random.default_rng(seed)) for seed in range(100)]
    assert {s.order for s in styles} == {0, 1, 2} and {s.dtype for s in styles} == {"float32", "float64"}
    assert {s.optimizer for s in styles} == {"", "sgd", "momentum", "adamw"}


def test_the_command_says_what_was_covered(capsys):
    assert main(["--seed", "3", "--count", "2"]) == 0
    out = capsys.readouterr().out
    assert "seeds from 3" in out and "2 recipes" in out and "fuse_chains" in out and "0 failures" in out
