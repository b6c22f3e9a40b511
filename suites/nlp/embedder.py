"""A published BERT as a model of vectors: from a checkpoint's folder to an exported model, without any training."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from framework import from_numpy, no_grad, program
from framework.errors import CheckpointError
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.registry import load_suites
from suites.nlp.encoding import Encoder
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_names import load_bert
from suites.nlp.models.vectors import TextVectors
from suites.nlp.problems.vectors import Vectors
from suites.nlp.processor import TextProcessor
from suites.nlp.task import NlpTask
from suites.nlp.tokenizers import BertTokenizer


def open_encoder(checkpoint: Path) -> Bert:
    """Return the encoder of a checkpoint's folder (config.json and weights), evaluating; raises CheckpointError."""
    encoder = Bert(folder=str(checkpoint))
    load_bert(encoder, checkpoint)
    encoder.eval()
    return encoder


def export_embedder(
    checkpoint: Path, output: Path, *, max_length: int = 256, pooling: str = "mean", normalize: bool = False
) -> None:
    """Write a checkpoint's encoder with its tokenizer as an exported model of the problem `Vectors`.

    Args:
        checkpoint: folder with config.json, weights and vocab.txt; tokenizer_config.json says whether case matters.
        output: folder to write: program.json and weights.safetensors.
        max_length: tokens of a text at most, with the special ones; longer texts are cut.
        pooling: how token vectors become one, unless a request says otherwise.
        normalize: whether vectors in predictions have length 1.

    Raises CheckpointError for a file that is missing or damaged, or texts longer than the encoder has positions for.
    """
    load_suites(["nlp"])
    encoder = open_encoder(checkpoint)
    longest = encoder.max_length
    if longest is not None and max_length > longest:
        raise CheckpointError(f"{checkpoint}: has positions for {longest} tokens; max_length is {max_length}")
    model = TextVectors(encoder)
    model.eval()
    written = {
        "problem": {"type": "Vectors", "pooling": pooling, "normalize": normalize},
        "transforms": [],
        "max_length": max_length,
        "truncation": "longest_first",
    }
    processor = TextProcessor(written, Encoder(_tokenizer(checkpoint), (), max_length), [])
    batch = processor.prepare([processor.from_json(processor.example())])
    inputs = {name: from_numpy(np.asarray(batch[name])) for name in NlpTask.eval_inputs}
    for name, tensor in inputs.items():
        tensor.name = name
    problem = Vectors(pooling, normalize)
    with no_grad():
        step = program(
            lambda x: problem.predictions(model(x["ids"], x["offsets"], segment_ids=x["segment_ids"])),
            pass_names=INFERENCE_PASSES,
        )
        compiled = step.program_for(inputs)
    extra = {"suite": "nlp", "outputs": ["vectors"], "processor": processor.metadata()}
    save_program(compiled.program, output, extra=extra)


def _tokenizer(checkpoint: Path) -> BertTokenizer:
    options = checkpoint / "tokenizer_config.json"
    try:
        found = json.loads(options.read_text(encoding="utf-8")) if options.is_file() else {}
        lower_case = bool(found.get("do_lower_case", True))
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{options}: cannot be read ({error})") from error
    return BertTokenizer(str(checkpoint / "vocab.txt"), lower_case=lower_case)
