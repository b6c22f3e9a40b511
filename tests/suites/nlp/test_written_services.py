"""Models by the generation engine, recurrent ones, ensembles, those that copy and those that know distances: what a
`Writer` writes, alone and beside others, with many pages and few."""

from queue import Queue

import pytest

from suites.engine.cli import main
from suites.engine.contract.capabilities.generating import CacheSettings, Sampling
from suites.engine.predict.inference import open_model
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.generation.requests import EngineLimits, Wish
from suites.nlp.writing import Search, Writer, steps

from .test_writing import PROSE, SORT

LSTM = "{type: RecurrentLanguageModel, vocab_size: 16, width: 16, hidden: 24, layers: 2, max_length: 32}"
RNN = "{type: AttentionRnn, source_words: 16, target_words: 16, width: 16, hidden: 24, dropout: 0.0, max_length: 32}"
PAIRS = """{type: Transformer, source_words: 16, target_words: 16, width: 32, heads: 2, hidden: 64, encoder_layers: 1,
        decoder_layers: 2, dropout: 0.0, shared: true, max_length: 24}"""


def model_line(text):
    """The lines of a config's model."""
    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith("model:"))
    end = next(i for i in range(at + 1, len(lines)) if lines[i][:1].strip())
    return "\n".join(lines[at:end])


FORMS = {
    "lstm": (PROSE, LSTM, ["abc", "d", "efg ab"]),
    "gru": (PROSE, LSTM.replace("16, hidden", "16, cell: gru, hidden"), ["abc", "d", "efg ab"]),
    "attention": (SORT, RNN, ["3 1 2", "9 8 7 6", "4"]),
    "attention that copies": (SORT, RNN.replace("width", "copying: true, width"), ["3 1 2", "9 8 7 6", "4"]),
    "distances": (SORT, PAIRS.replace("width", "relative: 3, width"), ["3 1 2", "9 8 7 6", "4"]),
    "distances, copies": (SORT, PAIRS.replace("width", "relative: 3, copying: true, width"), ["3 1 2", "9 8 7 6", "4"]),
    "ensemble of pairs": (SORT, None, ["3 1 2", "9 8 7 6", "4"]),
}


@pytest.fixture(params=FORMS, scope="module")
def opened(request, tmp_path_factory):
    """A short run's model, and texts to write to."""
    text, model, texts = FORMS[request.param]
    folder = tmp_path_factory.mktemp("runs")
    (folder / "prose.txt").write_text("abcd efg\n" * 60)
    text = text.replace("prose.txt", str(folder / "prose.txt"))
    (folder / "c.yml").write_text(text if model is None else text.replace(model_line(text), f"model: {model}"))
    names = ("a", "b") if model is None else ("a",)
    for seed, name in enumerate(names):
        words = ["--runs", str(folder / "runs"), "--name", name, "-o", f"runtime.seed={seed}"]
        assert main(["train", str(folder / "c.yml"), *words]) == 0
    first, *others = (folder / "runs" / name for name in names)
    return open_model(first, others=others), texts


def by_writer(model, text, search):
    """The texts that a `Writer` has."""
    processor = model.processor
    prompts = processor._writes.prompts([processor.from_json(text)], processor.sequencer, processor._limits)
    writer = Writer(prompts, processor._limits, search, processor.sequencer.writing.text)
    for arrays in steps(writer):
        writer.take(model.predict(arrays))
    begun = writer.given[0] if processor._limits.memory == 0 else 0
    return [processor.sequencer.writing.text(found.ids[begun:]) for found in writer.results()[0]]


def by_engine(model, texts, search, pages=None):
    """The results that an engine has for all texts together, with so many pages of 4 words."""
    generator = model.generator(CacheSettings(megabytes=1, page=4))
    if pages is not None:
        size = generator.cache_bytes / generator.pages
        generator = model.generator(CacheSettings(megabytes=(pages + 0.5) * size / 2**20, page=4))
        assert generator.pages == pages
    engine = Engine(generator, EngineLimits(sequences=8, step_tokens=8), print)
    engine.warm_up()
    engine.start()
    how = Sampling(search.temperature, search.top_p, None, None, 1.0, search.seed, search.beam, search.length_penalty)
    pieces, found = Queue(), [[""] * search.results for _ in texts]
    for k, text in enumerate(texts):
        wish = Wish(engine.generator.encode(text), search.max_length, search.results, how)
        engine.submit(wish, lambda piece, k=k: pieces.put((k, piece)))
    left = search.results * len(texts)
    while left:
        k, piece = pieces.get(timeout=30)
        if piece.error is not None:
            raise piece.error
        found[k][piece.number] += piece.text
        left -= piece.finish is not None
    assert engine.close(5) and engine.pool.available == engine.pool.size
    return [sorted(each) for each in found] if search.temperature else found


@pytest.mark.parametrize(
    "search",
    [
        Search(max_length=9),
        Search(beam=3, results=2, max_length=9),
        Search(temperature=0.8, top_p=0.9, results=2, seed=3, max_length=9),
    ],
    ids=["likeliest", "beams", "drawn"],
)
def test_texts_are_those_of_a_writer_alone_and_together(opened, search):
    model, texts = opened
    expected = [by_writer(model, text, search) for text in texts]
    if search.temperature:  # a writer's are sorted by their scores, an engine's stand as they are numbered
        expected = [sorted(each) for each in expected]
    assert by_engine(model, texts * 4, search) == expected * 4
    assert [by_engine(model, [text], search)[0] for text in texts] == expected


def test_few_pages_write_the_same_texts(opened):
    """Of seven pages a text and its source take four to six: texts wait, and one that was begun is begun again."""
    model, texts = opened
    search = Search(max_length=9)
    expected = [by_writer(model, text, search) for text in texts]
    assert by_engine(model, texts * 3, search, pages=7) == expected * 3
