"""LanguageGenerator: a language model with its tokenizer and its chats, as a generation engine takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, NotSupportedError
from suites.engine.contract.capabilities.generating import CacheSettings, Sampling
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.paged import PagedSteps
from suites.nlp.problems.language_modeling import LanguageModeling
from suites.nlp.sequences import Sequencer
from suites.nlp.writing import Limits, Search
from suites.nlp.writing.chats import ChatTemplate
from suites.nlp.writing.sampling import Sampler


class LanguageGenerator:
    """See `suites.engine.contract.capabilities.generating.TextGenerator`.

    Args:
        model: what writes.
        problem: whether texts open with a token, and how words are chosen where a request does not say so.
        sequencer: texts to tokens.
        limits: of the model.
        settings: of the cache.

    Raises AttributeValueError for a cache that has no page, or a model with other products than linear layers'.
    """

    def __init__(
        self,
        model: LanguageModel,
        problem: LanguageModeling,
        sequencer: Sequencer,
        limits: Limits,
        settings: CacheSettings,
    ) -> None:
        self._problem, self._sequencer, self._limits = problem, sequencer, limits
        assert model.max_length is not None
        self.page, self.stop, self.context = settings.page, limits.stop, model.max_length
        # Pages beyond what all sequences of a step can fill are of no use to a small model.
        size = PagedSteps.bytes_of_page(model, settings.page)
        self.pages = min(int(settings.megabytes * 2**20 / size), (1 << 20) // settings.page)
        if self.pages < 1:
            raise AttributeValueError(
                f"the cache of {settings.megabytes:g} MB is less than a page of {settings.page} tokens, which takes "
                f"{size / 2**20:.2f} MB (--cache-mb)"
            )
        self._steps = PagedSteps(model, pages=self.pages, page=settings.page, int8=settings.int8)

    @cached_property
    def _chat(self) -> ChatTemplate:
        tokenizer = self._sequencer.tokenizer
        if tokenizer.chat is None:
            raise NotSupportedError("this model has no chat template; ask /v1/completions")
        return ChatTemplate(tokenizer.chat, tokenizer.around)

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, behind the token that opens a text where the model was trained with one."""
        ids = self._ids(text)
        return [self._limits.start, *ids] if self._problem.opens or not ids else ids

    def encode_chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of the prompt that the model's chat template makes."""
        return self._ids(self._chat.prompt(messages)) or [self._limits.start]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._sequencer.tokens([text])[0].ids.tolist()
        return ids

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self._sequencer.tokenizer.text(ids)

    def chooser(self, sampling: Sampling, number: int, prompt: Sequence[int]) -> Sampler:
        """What chooses the tokens of a prompt's result `number`."""
        search = Search(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            seed=sampling.seed,
        )
        return Sampler(search, number, prompt)

    def step(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Scores and totals; words beyond the vocabulary, which a model may have rows for, are left out."""
        scores, totals = self._steps(arrays)
        return scores[:, : self._limits.words], totals
