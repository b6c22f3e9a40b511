"""Models that write, with their tokenizers, as a generation engine takes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from framework.errors import AttributeValueError, DataError, NotSupportedError
from suites.engine.contract.capabilities.generating import CacheSettings, Prompt, Sampling, TextGenerator
from suites.nlp.models.base import TextModel
from suites.nlp.models.paged import Kind, kind_of
from suites.nlp.models.writing import WritingModel
from suites.nlp.problems.language_modeling import LanguageModeling
from suites.nlp.problems.text_to_text import TextToText
from suites.nlp.problems.writing import WritingProblem
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import Tokenizer
from suites.nlp.writing import Limits, Search
from suites.nlp.writing.chats import ChatTemplate
from suites.nlp.writing.sampling import BeamSearch, Sampler
from suites.nlp.writing.stops import StopTexts

_TOKENS = 1 << 20  # of a cache at most
_TEXTS = 64  # of a small translator's cache at most


class _Cache(NamedTuple):
    """How many pages a cache has, tokens of one, and its bytes."""

    pages: int
    page: int
    page_bytes: int


def _search(sampling: Sampling, **others: Any) -> Search:
    """A search that draws as `sampling` says, with the other arguments of `Search`."""
    return Search(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        **others,
    )


class _Generator:
    """What both kinds share; see `suites.engine.contract.capabilities.generating.TextGenerator`.

    Args:
        steps: of the model, as its `Kind` makes them.
        tokenizer: of what is written.
        limits: of the model.
        context: tokens of a text at most.
        cache: its pages.
        stop_ids: tokens that end a text besides that of `limits`.
    """

    longest_source = 0

    def __init__(
        self,
        steps: Any,
        tokenizer: Tokenizer,
        limits: Limits,
        context: int,
        cache: _Cache,
        stop_ids: Collection[int],
    ) -> None:
        self._steps, self._tokenizer, self._limits = steps, tokenizer, limits
        self.context, self.pages, self.page = context, cache.pages, cache.page
        self.stops = frozenset((limits.stop, *stop_ids))
        self.cache_bytes = cache.pages * cache.page_bytes

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self._tokenizer.text(ids)

    def chooser(self, sampling: Sampling, number: int, prompt: Sequence[int]) -> Sampler:
        """What chooses the tokens of a prompt's result `number`."""
        return Sampler(_search(sampling, seed=sampling.seed), number, prompt)

    def beams(self, sampling: Sampling, results: int, prompt: Prompt, room: int, stops: Sequence[str]) -> BeamSearch:
        """What chooses the hypotheses of a prompt."""
        kept = {"beam": sampling.beam, "length_penalty": sampling.length_penalty, "results": results}
        search = _search(sampling, **kept, stop_ids=tuple(self.stops))
        texts = StopTexts(stops, self._tokenizer.continued)
        return BeamSearch(search, prompt.tokens, self._limits.stop, room, texts, prompt.before)

    def copy(self, pages: Sequence[int], to: Sequence[int]) -> None:
        """Write what pages hold to as many others."""
        self._steps.copy(pages, to)

    def step(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Scores and totals; words beyond the vocabulary, which a model may have rows for, are left out."""
        scores, totals = self._steps(arrays)
        return scores[:, : self._limits.words], totals


class LanguageGenerator(_Generator):
    """A language model with its tokenizer and its chats.

    Args:
        model: what writes.
        kind: what computes its steps.
        problem: whether texts open with a token.
        sequencer: texts to tokens.
        limits: of the model.
        settings: of the cache.

    Raises AttributeValueError for a cache that has no page, or a model with other products than linear layers'.
    """

    temperature: float = 1.0  # OpenAI's defaults
    new_tokens: int | None = 16

    def __init__(
        self,
        model: WritingModel,
        kind: Kind,
        problem: LanguageModeling,
        sequencer: Sequencer,
        limits: Limits,
        settings: CacheSettings,
    ) -> None:
        self._problem, self._sequencer = problem, sequencer
        assert model.max_length is not None
        cache = _cache(settings, kind.page_bytes(settings.page), _TOKENS)
        steps = kind.make(model, pages=cache.pages, page=cache.page, int8=settings.int8)
        super().__init__(steps, sequencer.tokenizer, limits, model.max_length, cache, problem.search.stop_ids)

    @cached_property
    def _chat(self) -> ChatTemplate:
        tokenizer = self._sequencer.tokenizer
        if tokenizer.chat is None:
            raise NotSupportedError("this model has no chat template; ask /v1/completions")
        return ChatTemplate(tokenizer.chat, tokenizer.around)

    def encode(self, text: str) -> Prompt:
        """The tokens of a prompt, behind the token that opens a text where the model was trained with one."""
        ids = self._ids(text)
        return Prompt([self._limits.start, *ids] if self._problem.opens or not ids else ids, goes_on=True)

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> Prompt:
        """The tokens of the prompt that the model's chat template makes."""
        return Prompt(self._ids(self._chat.prompt(messages)) or [self._limits.start])

    def read(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Raises NotSupportedError: a language model has no source."""
        raise NotSupportedError("LanguageGenerator: a language model has no source")

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._sequencer.tokens([text])[0].ids.tolist()
        return ids


class TranslationGenerator(_Generator):
    """A model of pairs with its tokenizers: a prompt is a source, and what is written a translation or summary of it.

    Args:
        model: what writes.
        kind: what computes its steps.
        problem: how texts end.
        sequencer: texts to tokens.
        limits: of the model.
        settings: of the cache.

    Raises AttributeValueError for a cache that has no page, or a model with other products than linear layers'.
    """

    temperature: float = 0.0  # the likeliest translation
    new_tokens: int | None = None

    def __init__(
        self,
        model: WritingModel,
        kind: Kind,
        problem: TextToText,
        sequencer: Sequencer,
        limits: Limits,
        settings: CacheSettings,
    ) -> None:
        context = model.max_length
        assert context is not None
        self._sequencer, self.longest_source = sequencer, context
        most = _TEXTS * 2 * (context + settings.page)
        cache = _cache(settings, kind.page_bytes(settings.page), min(most, _TOKENS))
        steps = kind.make(model, pages=cache.pages, page=cache.page, int8=settings.int8)
        super().__init__(steps, sequencer.writing, limits, context, cache, problem.search.stop_ids)

    def encode(self, text: str) -> Prompt:
        """The source's tokens with the one that closes it, and the token that what is written begins with.

        Raises DataError for a text of spaces alone: there is nothing to write from.
        """
        if not text.strip():
            raise DataError("prompt: the text is empty")
        source, closing = self._sequencer.tokens([text])[0].ids.tolist(), self._sequencer.tokenizer.closing
        assert closing is not None  # `TextToText` asks for it
        return Prompt([self._limits.start], [*source, closing])

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> Prompt:
        """Raises NotSupportedError: there is no template."""
        raise NotSupportedError("this model writes a text to another one and has no chats; ask /v1/completions")

    def read(self, source: Sequence[int], pages: Sequence[int]) -> None:
        """Write what is kept of a source to its pages."""
        self._steps.read(source, pages)


def generator_of(
    model: TextModel, problem: WritingProblem, sequencer: Sequencer, limits: Limits
) -> Callable[[CacheSettings], TextGenerator] | None:
    """What makes a generator of a model; None of one whose steps are not computed in pages."""
    if not isinstance(model, WritingModel) or model.max_length is None or (kind := kind_of(model)) is None:
        return None
    if model.tables is None and isinstance(problem, LanguageModeling):
        return lambda settings: LanguageGenerator(model, kind, problem, sequencer, limits, settings)
    if model.tables is not None and isinstance(problem, TextToText):
        return lambda settings: TranslationGenerator(model, kind, problem, sequencer, limits, settings)
    return None


def _cache(settings: CacheSettings, size: int, most: int) -> _Cache:
    """Pages of `size` bytes in a cache; not more than `most` tokens fill, which a small model has no use for."""
    pages = min(int(settings.megabytes * 2**20 / size), most // settings.page)
    if pages < 1:
        raise AttributeValueError(
            f"the cache of {settings.megabytes:g} MB is less than a page of {settings.page} tokens, which takes "
            f"{size / 2**20:.2f} MB (--cache-mb)"
        )
    return _Cache(pages, settings.page, size)
