"""A small data set of letters, a tiny BERT as teacher, and students' configs."""

import numpy as np

from suites.engine.train.hooks import Hook as Hook
from suites.engine.train.training import train

LETTERS = "abcdefghijklmnopqrst"
ENCODER = (
    "{type: Bert, vocab_size: 25, hidden_size: 32, layers: 4, heads: 4, ffn_size: 48, max_positions: 40, dropout: 0}"
)
REST = """
problem: {type: Classification}
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 5e-3}
runtime: {steps: STEPS, workers: 0, threads: 1, evaluation: {every: 0, pictures: 0}}
"""
TEACHER = (
    f"""
suite: nlp
model: {{type: SequenceClassifier, encoder: {ENCODER}, num_classes: "${{data.num_classes}}"}}
data:
  num_classes: 2
  max_length: 24
  tokenizer: {{type: BertTokenizer, vocabulary: ROOT/vocab.txt}}
  train: {{dataset: {{type: Tsv, path: ROOT/train.tsv}}, batch_size: 16}}
  eval: {{dataset: {{type: Tsv, path: ROOT/dev.tsv}}, batch_size: 8}}
"""
    + REST
)
BOW = (
    """
suite: nlp
model: {type: BagOfWords, vocab_size: 30, num_classes: "${data.num_classes}", width: 16}
data:
  num_classes: 2
  tokenizer: {type: WordTokenizer, max_size: 30}
  train: {dataset: {type: Tsv, path: ROOT/train.tsv}, batch_size: 16}
  eval: {dataset: {type: Tsv, path: ROOT/dev.tsv}, batch_size: 8}
distil: {teachers: [ROOT/teacher]}
"""
    + REST
)


def write_data(folder, names=("good", "bad")):
    """Sentences of letters; those with an a, b or c are good."""
    rng = np.random.default_rng(0)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS]))
    for name, count in (("train", 64), ("dev", 24)):
        texts = [" ".join(rng.choice(list(LETTERS), rng.integers(2, 7))) for _ in range(count)]
        rows = [f"{names[0] if set(text) & set('abc') else names[1]}\t{text}" for text in texts]
        (folder / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *rows]) + "\n")


def write_config(folder, text, steps=4, name="c.yml"):
    """The file of a config, its words filled in."""
    (folder / name).write_text(text.replace("ROOT", str(folder)).replace("STEPS", str(steps)))
    return folder / name


def train_teacher(folder, name="teacher", steps=1):
    """A run with hardly any training: its answers are as good as random."""
    return train(write_config(folder, TEACHER, steps, f"{name}.yml"), runs=folder, name=name)
