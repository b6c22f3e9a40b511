"""What both tests of models with pages do: the next words of some texts as the arrays of one step."""

import numpy as np


class Stepped:
    """Texts whose parts a test computes in any order, each with pages of its own.

    steps: takes the arrays; texts: int64 [words] each; tables: of each text.
    """

    def __init__(self, steps, texts, tables):
        self.steps, self.texts, self.tables, self.done = steps, texts, tables, [0] * len(texts)

    def beside(self, which):
        """Arrays that a model needs besides."""
        return {}

    def step(self, counts):
        """The next `count` words of each text named; scores behind each word, text by text."""
        new = {b: self.texts[b][self.done[b] : self.done[b] + count] for b, count in counts.items()}
        for b, count in counts.items():
            self.done[b] += count
        arrays = {
            "ids": np.concatenate(list(new.values())),
            "offsets": np.cumsum([0, *map(len, new.values())]),
            "tables": np.stack([self.tables[b] for b in new]),
            "lengths": np.array([self.done[b] for b in new]),
            "rows": np.arange(sum(map(len, new.values()))),
        }
        scores, totals = self.steps(arrays | self.beside(list(new)))
        return np.split(scores + totals[:, None], np.cumsum([len(ids) for ids in new.values()])[:-1])
