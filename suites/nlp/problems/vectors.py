"""Vectors: a vector for each text, for search and comparison, of an encoder or beside what a trained model predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from framework.errors import AttributeValueError, NotSupportedError
from framework.tensors import Tensor
from suites.engine.contract.batch import Batch
from suites.engine.registry import register
from suites.engine.serving.pooling import POOLINGS, normalized, pool
from suites.nlp.datasets import Labelled, TextDataset
from suites.nlp.problems.base import Problem
from suites.nlp.problems.classification import RowProblem

_SHOWN = 4  # numbers of a vector in a line for people


@register("problem")
class Vectors(RowProblem):
    """A vector for each text: its token vectors, pooled.

    With `of`, a problem of texts or pairs, inputs and results are that problem's, and vectors come besides.

    Args:
        pooling: how: "mean", "cls", "max", "mean_max" or "last"; a request to a server may choose another.
        normalize: whether vectors have length 1.
        of: what the model was trained for: its inputs are taken (a pair is one sequence) and its results given.
    """

    token_outputs: ClassVar[tuple[str, ...]] = ("vectors",)
    main_metric = "none"

    def __init__(self, pooling: str = "mean", normalize: bool = False, of: Problem | None = None) -> None:
        if of is not None and not isinstance(of, RowProblem):
            raise AttributeValueError(f"Vectors: of is {type(of).__name__}; takes Classification or Regression")
        super().__init__(pair=of is not None and of.pair)
        self._of = of
        if pooling not in POOLINGS:
            raise AttributeValueError(f"Vectors: pooling is '{pooling}'; takes {', '.join(POOLINGS)}")
        self.poolings = (pooling, *(name for name in POOLINGS if name != pooling))
        self._normalize = normalize

    def classes(self, dataset: TextDataset[Labelled]) -> list[str]:
        """There are none."""
        return []

    def losses(self, outputs: Tensor, inputs: Mapping[str, Tensor]) -> NoReturn:
        """NotSupportedError: there is nothing to learn from."""
        raise NotSupportedError("Vectors: nothing is minimised, so it cannot be trained; train another problem")

    def metric(self, dataset: TextDataset[Labelled], classes: Sequence[str]) -> NoReturn:
        """NotSupportedError: there is no truth to compare with."""
        raise NotSupportedError("Vectors: there is no truth to compare with, so it cannot be evaluated")

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """`vectors` [T, D], of the tokens."""
        return {"vectors": outputs}

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        """The texts' vectors, float32 [B, D]."""
        found = pool(outputs["vectors"], batch["offsets"], pooling)
        return normalized(found) if self._normalize else found

    def results(
        self, outputs: Mapping[str, np.ndarray], batch: Batch, examples: Sequence[Labelled], classes: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The texts' vectors as lists; or the results of what the model was trained for."""
        if self._of is not None:
            return self._of.results(outputs, batch, examples, classes)
        found = self.embeddings(outputs, batch, self.poolings[0])
        return [{"vector": row} for row in found.tolist()]

    def describe(self, example: Labelled, result: dict[str, Any]) -> str:
        """The text and the vector's first numbers, or its result."""
        if self._of is not None:
            return self._of.describe(example, result)
        shown = ", ".join(f"{number:.3f}" for number in result["vector"][:_SHOWN])
        return f"{example.text[:40]} -> [{shown}, ...], {len(result['vector'])} numbers"
