"""Relations that any model that writes must keep, whatever its weights are: what is the same by meaning is the same."""

from dataclasses import replace

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.nn import init
from suites.engine.config import load_config
from suites.engine.config.building import build_task
from suites.engine.predict.evaluation import evaluate, losses_of, predict_of
from suites.engine.predict.items import predict_items
from suites.nlp.writing import Prompt, Search, Writer, steps

from .test_writing import PROSE, SORT

RNN = "{$replace: {type: AttentionRnn, source_words: 16, target_words: 16, width: 12, hidden: 12}}"
LSTM = "{$replace: {type: RecurrentLanguageModel, vocab_size: 16, width: 12, hidden: 12, max_length: 32}}"
KINDS = {
    "transformer": (SORT, []),
    "copying": (SORT, ["model.copying=true"]),
    "relative": (SORT, ["model.relative=4", "model.norm_first=false"]),
    "attention": (SORT, [f"model={RNN}"]),
    "llama": (PROSE, []),
    "window": (PROSE, ["model.window=4"]),
    "lstm": (PROSE, [f"model={LSTM}"]),
}
LENGTH = 10


@pytest.fixture(scope="module", params=KINDS)
def task(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("relations")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "prose.txt").write_text("abcd efg\n" * 60)
        text, overrides = KINDS[request.param]
        overrides = [*overrides, "problem.loss={label_smoothing: 0.0}"]  # whose loss is that of the words alone
        (folder / "c.yml").write_text(text)
        made = build_task(load_config(folder / "c.yml", overrides))
        init.initialize(made.model, 3)
        for parameter in made.model.parameters():  # far from equal chances
            with no_grad():
                parameter[...] = from_numpy(parameter.numpy() * (3 if parameter.ndim > 1 else 1))
        made.model.eval()
        made.processor()
        yield made


@pytest.fixture
def write(task):
    """Writes to examples with these settings; texts and scores of each, best first."""
    predict = predict_of(task, eager=True)
    items = [replace(item, target="") if hasattr(item, "target") else item for _, item in task.examples(3)]
    items = [replace(item, text=item.text[:7]) if hasattr(item, "text") else item for item in items]
    if len(items) == 1:  # the prose is one document
        items = [replace(items[0], text=text) for text in ("abc", "d efg\nab", "g")]
    before = task.problem.search

    def found(only=None, **search):
        task.problem.search = Search(**{"max_length": LENGTH, **search})
        given = items if only is None else [items[only]]
        results = predict_items(task.processor(), task.eval_inputs, predict, given)
        return [[(each["text"], each["score"]) for each in result.get("results", [result])] for result in results]

    yield found
    task.problem.search = before


def texts(found):
    return [[text for text, _ in result] for result in found]


GREEDY = [{"beam": 1, "length_penalty": 0.0}, {"temperature": 1e-6}, {"temperature": 1e-30}, {"cached": False},
          {"temperature": 1.0, "top_k": 1}, {"temperature": 1.0, "top_p": 0.0}, {"temperature": 1.0, "min_p": 1.0},
          {"repetition_penalty": 1.0}, {"stop": ("never there",)}]  # fmt: skip
NEUTRAL = [{"top_p": 1.0}, {"min_p": 0.0}, {"repetition_penalty": 1.0}, {"top_k": 10**6}, {"cached": False}]


def test_ways_to_take_the_likeliest_word_are_one(write):
    greedy = texts(write())
    assert [texts(write(**search)) for search in GREEDY] == [greedy] * len(GREEDY)


def test_settings_that_leave_all_words_draw_the_same(write):
    drawn = texts(write(temperature=1.3, seed=2))
    assert [texts(write(temperature=1.3, seed=2, **search)) for search in NEUTRAL] == [drawn] * len(NEUTRAL)
    assert drawn != texts(write(temperature=1.3, seed=4))


def test_the_best_of_several_results_is_the_one_result(write):
    for search in ({"beam": 4}, {"beam": 3, "length_penalty": 0.0}):
        one, several = texts(write(**search)), texts(write(**search, results=3))
        assert [result[:1] for result in several] == one
        assert all(len(set(result)) == len(result) == 3 for result in several)
    one, several = texts(write(temperature=1.3)), texts(write(temperature=1.3, results=3))
    assert all(own[0] in result for own, result in zip(one, several, strict=True))


def test_neighbours_change_no_text(write):
    for search in ({}, {"beam": 3}, {"temperature": 1.3, "seed": 1}):
        assert [texts(write(k, **search))[0] for k in range(3)] == texts(write(**search))


def test_a_wider_beam_of_unpenalized_scores_finds_nothing_worse(write):
    """It holds of beams that keep all: there are fewer texts of two words than hypotheses."""
    narrow, wide = (write(beam=beam, length_penalty=0.0, max_length=2) for beam in (1, 300))
    for one, other in zip(narrow, wide, strict=True):
        assert other[0][1] >= one[0][1] - 1e-5


def written(task, prompts, count, **search):
    """The words that are written to prompts, with those given, and their scores."""
    tokenizer = task.processor().sequencer.writing
    how = Search(max_length=count, **search)
    writer = Writer(prompts, task.problem.limits(task.model, tokenizer), how)
    predict = predict_of(task, eager=True)
    for arrays in steps(writer):
        writer.take(predict({name: arrays[name] for name in task.eval_inputs}))
    return [results[0] for results in writer.results()]


def prompts_of(task):
    sources = [np.array([5, 6, 4, 2]), np.array([7, 2])]
    return [Prompt(source=s) for s in sources] if task.model.memory_width else [Prompt((5, 6)), Prompt((7,))]


def test_a_text_written_in_two_goes_is_that_of_one(task):
    prompts = prompts_of(task)
    whole = written(task, prompts, 8)
    first = written(task, prompts, 3)
    again = [replace(p, given=h.ids) for p, h in zip(prompts, first, strict=True) if not h.complete]
    rest = written(task, again, 5) if again else []
    ended = [h for h in first if h.complete]
    assert [h.ids for h in rest] + [h.ids for h in ended] == (
        [w.ids for w, h in zip(whole, first, strict=True) if not h.complete]
        + [w.ids for w, h in zip(whole, first, strict=True) if h.complete]
    )


def test_the_score_of_a_text_is_its_loss(task):
    """Of the whole text in one pass, as training sees it, and word by word with what is kept."""
    tokenizer = task.processor().sequencer.writing
    losses = losses_of(task, eager=True)
    start, stop = tokenizer.opening, tokenizer.closing
    for prompt in prompts_of(task):
        bare = replace(prompt, given=())
        (best,) = written(task, [bare], LENGTH, length_penalty=0.0)
        ids = np.array([start, *best.ids, *([stop] if best.complete else [])], np.int64)
        batch = {"ids": ids[:-1], "targets": ids[1:], "words": ids[1:], "offsets": np.array([0, len(ids) - 1])}
        if prompt.source is not None:
            sides = {"source": prompt.source, "source_offsets": np.array([0, len(prompt.source)]),
                     "target": ids[:-1], "target_offsets": batch["offsets"]}  # fmt: skip
            batch |= sides
        ((mean, weight),) = losses(batch).values()
        assert -mean * weight == pytest.approx(best.score, abs=1e-3)


def test_figures_do_not_depend_on_the_order_of_examples_or_their_number(task):
    def figures(order):
        dataset = task._eval_set
        kept = dataset.examples, dataset.places
        dataset.examples, dataset.places = ([each[i] for i in order] for each in kept)
        try:
            return evaluate(task, predict_of(task, eager=True), task.eval_loader(workers=0))
        finally:
            dataset.examples, dataset.places = kept

    count = len(task._eval_set.examples)
    expected = figures(range(count))
    assert figures([*range(count)][::-1]) == pytest.approx(expected, rel=1e-6)
    assert figures([i // 2 for i in range(2 * count)]) == pytest.approx(expected, rel=1e-6)
