"""Models of vectors: a published BERT from a checkpoint's folder, or the encoder of a run, as an exported model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from framework import from_numpy, no_grad, program
from framework.errors import CheckpointError
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.tensors import Tensor
from suites.engine.config import build_value
from suites.engine.predict.inference import open_run
from suites.engine.registry import load_suites
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_names import load_bert
from suites.nlp.models.vectors import TextVectors
from suites.nlp.problems import Problem
from suites.nlp.problems.classification import RowProblem
from suites.nlp.processor import TextProcessor
from suites.nlp.sentences import sentences_of
from suites.nlp.sequences import Sequencer
from suites.nlp.task import NlpTask
from suites.nlp.tokenizers.characters import SPELLING
from suites.nlp.tokenizers.folders import tokenizer_of

_LENGTH = 256  # tokens of a text at most, where nothing says another number


def open_encoder(checkpoint: Path) -> Bert:
    """Return the encoder of a checkpoint's folder (config.json and weights), evaluating; raises CheckpointError.

    A pooler, which vectors of tokens do not need, may be missing.
    """
    encoder = Bert(folder=str(checkpoint))
    load_bert(encoder, checkpoint, new=["pooler."])
    encoder.eval()
    return encoder


def export_embedder(
    checkpoint: Path,
    output: Path,
    *,
    max_length: int | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    layer: int | None = None,
) -> str:
    """Write a checkpoint's encoder with its tokenizer as an exported model of the problem `Vectors`.

    Args:
        checkpoint: folder with config.json, weights and vocab.txt or tokenizer.json; see `tokenizer_of`.
        output: folder to write: program.json and weights.safetensors.
        max_length: tokens of a text at most, with the special ones; longer texts are cut. None for what
            sentence-transformers keeps there, else 256.
        pooling: how token vectors become one, unless a request says otherwise; None for sentence-transformers', else
            "mean".
        normalize: whether vectors have length 1; None for sentence-transformers', else not.
        layer: whose vectors are taken, from 1 on; None for the last.

    Returns:
        The pooling.

    Raises CheckpointError for a file that is missing or damaged or asks for what is not computed, or texts longer than
    the encoder has positions for.
    """
    load_suites(["nlp"])
    encoder = open_encoder(checkpoint)
    tokenizer = tokenizer_of(checkpoint)
    said = sentences_of(checkpoint, lower_case=bool(tokenizer.state().get("lower_case")))
    longest = encoder.max_length or _LENGTH
    length = max_length or min(said.max_length or _LENGTH, longest)
    if length > longest:
        raise CheckpointError(f"{checkpoint}: has positions for {longest} tokens; max_length is {length}")
    pooling = pooling or said.pooling or "mean"
    normalize = said.normalize if normalize is None else normalize
    model = TextVectors(encoder)
    model.eval()
    written = {"type": "Vectors", "pooling": pooling, "normalize": normalize}
    vectors: Problem = build_value(written, Problem, suite="nlp")
    processor = TextProcessor(vectors, Sequencer(tokenizer, (), length), [])
    export_traced(lambda x: {"vectors": model.token_vectors(**x, layer=layer)}, processor, output)
    return pooling


def export_run_embedder(
    run: Path,
    output: Path,
    *,
    pooling: str = "mean",
    normalize: bool = False,
    layer: int | None = None,
    alone: bool = False,
    max_length: int | None = None,
) -> None:
    """Write a run's model, with its best weights, as an exported model of the problem `Vectors`.

    One that was trained for classes or numbers of texts or pairs gives these too, from the same pass: vectors are of
    what it takes, so of a pair as one sequence.

    Args:
        run: folder of a run of the suite nlp, whose model has an encoder.
        output: folder to write: program.json and weights.safetensors.
        pooling: how token vectors become one, unless a request says otherwise.
        normalize: whether vectors have length 1, where nothing else is predicted.
        layer: of a Bert, whose vectors are taken, from 1 on; None for the last.
        alone: take single texts and give vectors only, also where the model was trained for something else.
        max_length: tokens at most; None for the run's own.

    Raises CheckpointError for a folder that is no such run or lengths that the model has no positions for,
    NotSupportedError for a model without vectors of tokens.
    """
    load_suites(["nlp"])
    task = open_run(run)
    if not isinstance(task, NlpTask):
        raise CheckpointError(f"{run}: is a run of another suite; only models of text give vectors of texts")
    of = None if alone or not isinstance(task.problem, RowProblem) else task.problem
    metadata = task.processor().metadata()
    longest = task.model.max_length
    length = metadata["max_length"] if max_length is None else max_length
    if longest is not None and length > longest:
        raise CheckpointError(f"{run}: has positions for {longest} tokens; max_length is {length}")
    vectors = {"type": "Vectors", "pooling": pooling, "normalize": normalize}
    trained = {} if of is None else {"of": metadata["problem"]}
    processor = TextProcessor.from_metadata({**metadata, "max_length": length, "problem": {**vectors, **trained}})

    def compute(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        own = {} if of is None else of.predictions(task.outputs(inputs))
        return {**own, "vectors": task.token_vectors(inputs, layer)}

    export_traced(compute, processor, output)


def export_traced(
    compute: Callable[[dict[str, Tensor]], dict[str, Tensor]], processor: TextProcessor, output: Path
) -> None:
    """Trace `compute`, from the arrays of a batch to results by name, and write it with its processor."""
    spelled = () if processor.sequencer.characters is None else (SPELLING,)
    batch = processor.prepare([processor.from_json(processor.example())])
    inputs = {name: from_numpy(np.asarray(batch[name])) for name in (*NlpTask.eval_inputs, *spelled)}
    for name, tensor in inputs.items():
        tensor.name = name
    with no_grad():
        names = list(compute(inputs))
        compiled = program(compute, pass_names=INFERENCE_PASSES).program_for(inputs)
    extra = {"suite": "nlp", "outputs": names, "processor": processor.metadata()}
    save_program(compiled.program, output, extra=extra)
