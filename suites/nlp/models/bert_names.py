"""What the BERT family's tensors are called elsewhere, and loading and saving under those names.

Four families of names: Hugging Face (`encoder.layer.0.attention.self.query.weight`), PaddleNLP
(`encoder.layers.0.self_attn.q_proj.weight`), the ERNIE kit's dygraph models (`encoder_stack.block.0.attn.q.weight`) and
its static graphs (`encoder_layer_0_multi_head_att_query_fc.w_0`). Paddle's linear layers are stored [in, out].
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framework import nn
from framework.atomic import atomic_file, make_folder
from framework.confined import confine
from framework.errors import CheckpointError
from framework.io import save_tensors
from framework.tensors import from_numpy
from suites.engine.weights import LoadReport, Source, load_mapped, read_weights, rename
from suites.engine.weights.answers import check_answers, record_at, unchanged_if_refused
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_config import BertConfig, config_to_json
from suites.nlp.models.heads import Pretraining, SequenceClassifier, SpanPredictor, TokenClassifier


@dataclass(frozen=True)
class Family:
    """The names of one framework, without the model's own prefix. `{i}` is the number of a layer.

    Attributes:
        name: for messages.
        tables: of word, position, segment and task, whole names.
        parts: our layer or norm -> theirs; the weights and biases below it follow by the endings.
        endings: of a linear layer's weight and bias, and of a norm's.
        paddle: linear weights are stored [in, out].
        prefixes: that a name may begin with, of the model around the encoder.
    """

    name: str
    tables: tuple[str, str, str, str]
    parts: Mapping[str, str | tuple[str, ...]]
    endings: tuple[str, str, str, str]
    paddle: bool
    prefixes: tuple[str, ...] = ("bert.", "ernie.", "ernie_gram.", "roberta.", "data2vec_text.")


_HF = Family(
    "Hugging Face",
    tuple(f"embeddings.{kind}_embeddings.weight" for kind in ("word", "position", "token_type", "task_type")),  # type: ignore[arg-type]
    {
        "embeddings.norm": "embeddings.LayerNorm",
        "attention.qkv": tuple(f"encoder.layer.{{i}}.attention.self.{part}" for part in ("query", "key", "value")),
        "attention.out": "encoder.layer.{i}.attention.output.dense",
        "norm1": "encoder.layer.{i}.attention.output.LayerNorm",
        "up": "encoder.layer.{i}.intermediate.dense",
        "down": "encoder.layer.{i}.output.dense",
        "norm2": "encoder.layer.{i}.output.LayerNorm",
        "pooler": "pooler.dense",
        "fc": "classifier",
        "spans": "qa_outputs",
        "words.transform": "cls.predictions.transform.dense",
        "words.norm": "cls.predictions.transform.LayerNorm",
        "words.bias": "cls.predictions.bias",
        "next_sentence": "cls.seq_relationship",
    },
    (".weight", ".bias", ".weight", ".bias"),
    paddle=False,
)
_PADDLENLP = Family(
    "PaddleNLP",
    _HF.tables,
    {
        **_HF.parts,
        "embeddings.norm": "embeddings.layer_norm",
        "attention.qkv": tuple(f"encoder.layers.{{i}}.self_attn.{part}_proj" for part in "qkv"),
        "attention.out": "encoder.layers.{i}.self_attn.out_proj",
        "norm1": "encoder.layers.{i}.norm1",
        "up": "encoder.layers.{i}.linear1",
        "down": "encoder.layers.{i}.linear2",
        "norm2": "encoder.layers.{i}.norm2",
        "spans": "classifier",
        "words.transform": "cls.predictions.transform",
        "words.norm": "cls.predictions.layer_norm",
        "words.bias": "cls.predictions.decoder_bias",
    },
    _HF.endings,
    paddle=True,
)
_DYGRAPH = Family(
    "the ERNIE kit's dygraph models",
    ("word_emb.weight", "pos_emb.weight", "sent_emb.weight", "task_emb.weight"),
    {
        "embeddings.norm": "ln",
        "attention.qkv": tuple(f"encoder_stack.block.{{i}}.attn.{part}" for part in "qkv"),
        "attention.out": "encoder_stack.block.{i}.attn.o",
        "norm1": "encoder_stack.block.{i}.ln1",
        "up": "encoder_stack.block.{i}.ffn.i",
        "down": "encoder_stack.block.{i}.ffn.o",
        "norm2": "encoder_stack.block.{i}.ln2",
        "pooler": "pooler",
        "fc": "classifier",
        "spans": "classifier",
        "words.transform": "mlm",
        "words.norm": "mlm_ln",
        "words.bias": "mlm_bias",
        "next_sentence": "pooler_heads.0.nsp",
    },
    _HF.endings,
    paddle=True,
)
_STATIC = Family(
    "the ERNIE kit's static graphs",
    ("word_embedding", "pos_embedding", "sent_embedding", "task_embedding"),
    {
        "embeddings.norm": "pre_encoder_layer_norm",
        "attention.qkv": tuple(f"encoder_layer_{{i}}_multi_head_att_{part}_fc" for part in ("query", "key", "value")),
        "attention.out": "encoder_layer_{i}_multi_head_att_output_fc",
        "norm1": "encoder_layer_{i}_post_att_layer_norm",
        "up": "encoder_layer_{i}_ffn_fc_0",
        "down": "encoder_layer_{i}_ffn_fc_1",
        "norm2": "encoder_layer_{i}_post_ffn_layer_norm",
        "pooler": "pooled_fc",
        "words.transform": "mask_lm_trans_fc",
        "words.norm": "mask_lm_trans_layer_norm",
        "words.bias": "mask_lm_out_fc.b_0",
        "next_sentence": "next_sent_fc",
    },
    (".w_0", ".b_0", "_scale", "_bias"),
    paddle=True,
)
FAMILIES: dict[str, Family] = {"hf": _HF, "paddlenlp": _PADDLENLP, "ernie_dygraph": _DYGRAPH, "ernie_static": _STATIC}
_STATIC_HEADS = {"fc": "cls_out", "tags": "cls_seq_label_out", "spans": "cls_mrc_out"}  # ending in _w and _b

# Names of a file that stand for nothing to load: counters of old Hugging Face models, the output matrix where it is the
# word table, and what the optimizers of Paddle leave beside the weights.
_NOTHING = (
    r"position_ids$", r"token_type_ids$", r"predictions\.decoder\.(weight|bias)$", r"predictions\.decoder_weight$",
    r"lm_head\.decoder\.(weight|bias)$", r"_(beta[12]_pow_acc|moment[12])_0$", r"^@?LR_DECAY", r"^learning_rate",
)  # fmt: skip
_OUTPUT_MATRIX = r"(predictions|lm_head)\.decoder[._]weight$"  # the word table again, where a model has its head
_HEADS = (
    r"^cls\.", r"^cls_", r"^classifier", r"^qa_outputs", r"^mlm", r"^mask_lm", r"^next_sent", r"^pooler_heads",
    r"^lm_head\.", r"^lm\.",
)  # fmt: skip


def names_of(model: nn.Layer, family: str = "hf") -> dict[str, Source]:
    """For each tensor of a model of this suite on a `Bert`, what it is called in a family of names.

    Args:
        model: a `Bert`, or one of `suites.nlp.models.heads` on one.
        family: "hf", "paddlenlp", "ernie_dygraph" or "ernie_static".

    Raises:
        CheckpointError: the model has no published names.
    """
    found = FAMILIES[family]
    encoder = model if isinstance(model, Bert) else getattr(model, "encoder", None)
    if not isinstance(encoder, Bert):
        raise CheckpointError(f"{type(model).__name__}: only models on a Bert have names elsewhere")
    prefix = "" if model is encoder else "encoder."
    names = {prefix + ours: source for ours, source in _encoder_names(found, encoder.config).items()}
    return {**names, **_head_names(found, model)}


def _linear(family: Family, theirs: str | tuple[str, ...], ours: str) -> dict[str, Source]:
    parts = (theirs,) if isinstance(theirs, str) else theirs
    weight, bias = family.endings[:2]
    return {
        f"{ours}.weight": Source(tuple(part + weight for part in parts), axes=(1, 0) if family.paddle else None),
        f"{ours}.bias": Source(tuple(part + bias for part in parts)),
    }


def _norm(family: Family, theirs: str, ours: str) -> dict[str, Source]:
    scale, bias = family.endings[2:]
    return {f"{ours}.scale": Source((theirs + scale,)), f"{ours}.bias": Source((theirs + bias,))}


def _encoder_names(family: Family, config: BertConfig) -> dict[str, Source]:
    tables = zip(("word", "position", "segment", "task"), family.tables, strict=True)
    names = {f"embeddings.{ours}.weight": Source((theirs,)) for ours, theirs in tables}
    if not config.segment_types:
        del names["embeddings.segment.weight"]
    if not config.task_types:
        del names["embeddings.task.weight"]
    names |= _norm(family, str(family.parts["embeddings.norm"]), "embeddings.norm")
    for i in range(config.layers):
        for ours in ("attention.qkv", "attention.out", "up", "down"):
            theirs = family.parts[ours]
            numbered = theirs.format(i=i) if isinstance(theirs, str) else tuple(t.format(i=i) for t in theirs)
            names |= _linear(family, numbered, f"layers.{i}.{ours}")
        for ours in ("norm1", "norm2"):
            names |= _norm(family, str(family.parts[ours]).format(i=i), f"layers.{i}.{ours}")
    return names | _linear(family, family.parts["pooler"], "pooler")


def _head_names(family: Family, model: nn.Layer) -> dict[str, Source]:
    if isinstance(model, Pretraining):
        words = {"words.bias": Source((str(family.parts["words.bias"]),))}
        words |= _linear(family, family.parts["words.transform"], "words.transform")
        words |= _norm(family, str(family.parts["words.norm"]), "words.norm")
        return words | _linear(family, family.parts["next_sentence"], "next_sentence")
    kinds = {SequenceClassifier: "fc", TokenClassifier: "tags", SpanPredictor: "spans"}
    kind = next((kinds[cls] for cls in kinds if isinstance(model, cls)), None)
    if kind is None:
        return {}
    if family is _STATIC:
        head = _STATIC_HEADS[kind]
        return {"fc.weight": Source((head + "_w",), axes=(1, 0)), "fc.bias": Source((head + "_b",))}
    return _linear(family, family.parts["fc" if kind == "tags" else kind], "fc")


def load_bert(model: nn.Layer, path: Path | str, *, new_head: bool = False, new: Sequence[str] = ()) -> LoadReport:
    """Loads a published checkpoint into a model; the family of names is found out.

    Args:
        model: a `Bert`, or one of `suites.nlp.models.heads` on one.
        path: a weight file or the folder of a checkpoint; see `suites.engine.weights.read_weights`.
        new_head: everything around the encoder may be missing from the file and starts as it is; what the file has of
            other heads is left out.
        new: prefixes of further names of the model that the file may lack, such as "encoder.pooler".

    Returns:
        What was loaded, what is new, and what of the file found no place.

    Raises:
        CheckpointError: tensors are missing, unexpected or of another shape, all listed; the model is unchanged then.
    """
    path = Path(path)
    family, arrays = _recognised(read_weights(path), str(path))
    sources = names_of(model, family)
    head = [name for name in model.state_dict() if not isinstance(model, Bert) and not name.startswith("encoder.")]
    if new_head:  # another task's head of the same name must not come in by chance
        sources = {name: source for name, source in sources.items() if name not in head}
    unused = [*_NOTHING, *(_HEADS if new_head or isinstance(model, Bert) else [])]
    word = "encoder.embeddings.word.weight"
    copies = {_OUTPUT_MATRIX: word} if any(name.startswith("words.") for name in sources) else {}
    record, fresh = record_at(path), [*new, *(head if new_head else [])]
    with unchanged_if_refused(model, record):
        report = load_mapped(model, arrays, sources, file=str(path), new=fresh, unused=unused, copies=copies)
        check_answers(model, record, report.loaded)
    return report


def _recognised(arrays: Mapping[str, np.ndarray], file: str) -> tuple[str, dict[str, np.ndarray]]:
    """The family of a file's names, and its tensors without the prefix of the model around the encoder."""
    for key, family in FAMILIES.items():
        norm = str(family.parts["embeddings.norm"])  # tells Hugging Face from PaddleNLP, whose tables are called alike
        for prefix in ("", *family.prefixes):
            if any(name.startswith(prefix + norm) for name in arrays):
                plain = {name.removeprefix(prefix) if prefix else name: array for name, array in arrays.items()}
                return key, {_current(name, plain): array for name, array in plain.items()}
    families = ", ".join(family.name for family in FAMILIES.values())
    raise CheckpointError(
        f"{file}: no BERT, ERNIE or RoBERTa under the names of {families}; it begins with {', '.join(list(arrays)[:5])}"
    )


# RoBERTa's heads in the words of BERT's: what its classifier does first is BERT's pooler.
_ROBERTA = {
    re.compile(r"^classifier\.dense\."): "pooler.dense.",
    re.compile(r"^classifier\.out_proj\."): "classifier.",
    re.compile(r"^lm_head\.dense\."): "cls.predictions.transform.dense.",
    re.compile(r"^lm_head\.layer_norm\."): "cls.predictions.transform.LayerNorm.",
    re.compile(r"^lm_head\.bias$"): "cls.predictions.bias",
}


def _current(name: str, names: Mapping[str, object]) -> str:
    """A name of Hugging Face's today: norms had TensorFlow's gamma and beta once."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    for pattern, ours in _ROBERTA.items():
        changed = pattern.sub(ours, name)
        if changed != name and changed not in names:
            return changed
    return name


def save_hugging_face(model: nn.Layer, folder: Path | str) -> None:
    """Writes a model as a checkpoint folder that Hugging Face's transformers reads: config.json, model.safetensors.

    Args:
        model: a `Bert`, or one of `suites.nlp.models.heads` on one.
        folder: made if needed; files of these names in it are replaced.

    Raises:
        CheckpointError: the model has no such names (RoBERTa's classifier is built differently there), or a file cannot
            be written.
    """
    folder = Path(folder)
    encoder = model if isinstance(model, Bert) else getattr(model, "encoder", None)
    arrays = rename(model, names_of(model, "hf"))
    assert isinstance(encoder, Bert)
    kind = config_to_json(encoder.config)["model_type"]
    if kind == "roberta" and model is not encoder:
        raise CheckpointError("a RoBERTa with a head has no such names; save its encoder")
    heads = tuple(str(part) for part in ("cls.", "classifier.", "qa_outputs."))
    if model is not encoder:
        arrays = {name if name.startswith(heads) else f"{kind}.{name}": array for name, array in arrays.items()}
    confine(folder)
    make_folder(folder)
    save_tensors(folder / "model.safetensors", {name: from_numpy(array) for name, array in arrays.items()})
    with atomic_file(folder / "config.json") as part:
        part.write_text(json.dumps(_described(model, encoder), indent=2) + "\n", encoding="utf-8")


def _described(model: nn.Layer, encoder: Bert) -> dict[str, object]:
    """config.json: the encoder's sizes and which class of Hugging Face's the model is."""
    fields = config_to_json(encoder.config)
    family = {"bert": "Bert", "ernie": "Ernie", "roberta": "Roberta"}[fields["model_type"]]
    classes = {
        SequenceClassifier: "ForSequenceClassification",
        TokenClassifier: "ForTokenClassification",
        SpanPredictor: "ForQuestionAnswering",
        Pretraining: "ForPreTraining",
    }
    fields["architectures"] = [family + classes.get(type(model), "Model")]
    if isinstance(model, (SequenceClassifier, TokenClassifier)):
        fields["id2label"] = {str(i): f"LABEL_{i}" for i in range(model.num_classes)}
    return fields
