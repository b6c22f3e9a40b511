"""Writers in tests: by a model of arrays, whose questions are checked, and step by step by a network."""

import numpy as np

from framework import from_numpy, no_grad
from suites.nlp.writing import Hypothesis, Limits, Prompt, Search, Writer

START, STOP = 0, 1
LIMITS = Limits(START, STOP, past=1)


def write(table, prompts=((),), search=None, limits=LIMITS, continued=None) -> list[list[Hypothesis]]:
    """Writes by `table(words so far) -> logits [V]`; words before are known by the rows that were kept alone."""
    writer = Writer([Prompt(tuple(p)) for p in prompts], limits, search or Search(), continued)
    while (a := writer.batch()) is not None:
        own = np.concatenate([a["past"][:, 0], a["ids"].astype(np.float32)])
        rows = [own[a["order"][s:e]].astype(int).tolist() for s, e in pairs(a["key_offsets"])]
        assert [row[0] for row in rows] == [START] * len(rows)
        lengths = np.concatenate([np.arange(e - s - (d - c), e - s) for (s, e), (c, d) in
                                  zip(pairs(a["key_offsets"]), pairs(a["offsets"]), strict=True)])  # fmt: skip
        assert np.array_equal(a["places"], lengths)
        logits = np.array([table(row[1:]) for row in rows], np.float32)
        totals = np.log(np.exp(logits.astype(np.float64)).sum(axis=1))
        fresh = a["ids"].astype(np.float32)[:, None]
        writer.take({"scores": (logits - totals[:, None]).astype(np.float32), "totals": totals, "fresh": fresh})
    return writer.results()


def pairs(offsets):
    return list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))


def random_table(words=7, seed=0):
    """Logits that depend on all words so far."""

    def table(seen):
        return np.random.default_rng([seed, len(seen), *seen]).normal(size=words) * 2

    return table


def written_steps(writer, step, start=1):
    """Writes by a network's `step`; yields what each step gave, the hypotheses it was asked about, their words from
    `start` on, and the rows of the last word of each, where all stand one behind the other."""
    with no_grad():
        while (arrays := writer.batch()) is not None:
            found = {k: t.numpy() for k, t in step({k: from_numpy(a) for k, a in arrays.items()}).items()}
            live = writer._chooser.live
            whole = [np.array([start, *h.ids]) for h in live]
            yield found, live, whole, np.cumsum([len(text) for text in whole]) - 1
            writer.take(found)
