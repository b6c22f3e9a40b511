"""What the data of a run held as HTML: what sets share, counts beside each other, sizes, and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from suites.engine.reporting.html import say, table
from suites.engine.reporting.plots import Bars
from suites.engine.reporting.tally import Count, Tally, size_of_bin

_MOST_NAMES = 60  # of a table
_MOST_SKIPPED = 25  # rows of a set


def size_plots(tallies: Mapping[str, Tally]) -> list[Bars]:
    """A histogram of each kind of size, all sets in one."""
    plots = []
    for kind in dict.fromkeys(chain.from_iterable(tally.sizes for tally in tallies.values())):
        own = {name: tally.sizes[kind] for name, tally in tallies.items() if kind in tally.sizes}
        bins = sorted({int(at) for count in own.values() for at in count.counts if at.lstrip("-").isdigit()})
        if not bins:
            continue
        every = range(bins[0], min(bins[-1], bins[0] + 200) + 1)
        counts = {name: [float(count.counts[str(at)]) for at in every] for name, count in own.items()}
        plots.append(Bars(kind, "from (half octaves)", [f"{size_of_bin(at):.3g}" for at in every], counts))
    return plots


def holdings(tallies: Mapping[str, Tally]) -> list[str]:
    """Tables of what the sets held."""
    kinds = dict.fromkeys(chain.from_iterable(tally.names for tally in tallies.values()))
    parts = [_names(kind, {n: t.names[kind] for n, t in tallies.items() if kind in t.names}) for kind in kinds]
    parts += [
        f"<p>{say(kind)}: {say(_over({n: t.sizes[kind] for n, t in tallies.items() if kind in t.sizes}))}</p>"
        for kind in dict.fromkeys(chain.from_iterable(tally.sizes for tally in tallies.values()))
    ]
    said = [(name, text) for name, tally in tallies.items() for text in tally.notes]
    notes = [f"<p><strong>{say(name)}</strong>: {say(text)}</p>" for name, text in said]
    return notes + parts + _skipped(tallies)


def _names(kind: str, counts: Mapping[str, Count]) -> str:
    every = list(dict.fromkeys(chain.from_iterable(count.counts for count in counts.values())))
    if len(every) > _MOST_NAMES:  # the most frequent ones, for the others say how many there are
        every.sort(key=lambda name: -sum(count.counts[name] for count in counts.values()))
    head = [kind, *(word for name in counts for word in (name, "%"))]
    rows = []
    for name in every[:_MOST_NAMES]:
        cells = ((each.counts[name], 100 * each.counts[name] / max(each.counts.total(), 1)) for each in counts.values())
        rows.append([name, *chain.from_iterable(cells)])
    more = f"<p>and {len(every) - _MOST_NAMES} more, which are rarer</p>" if len(every) > _MOST_NAMES else ""
    return f"{table(head, rows)}{more}<p>{say(_over(counts))}</p>"


def _over(counts: Mapping[str, Count]) -> str:
    """Over how many samples something was counted."""
    words = {True: "all {:,} samples of {}", False: "the {:,} samples of {} that were read"}
    said = (words[count.whole].format(count.samples, name) for name, count in counts.items())
    return f"Counted over {', '.join(said)}"


def _skipped(tallies: Mapping[str, Tally]) -> list[str]:
    parts = []
    for name, tally in tallies.items():
        if tally.skipped:
            rows = tally.reasons[:_MOST_SKIPPED]
            more = "" if len(tally.reasons) <= _MOST_SKIPPED else f", the first {_MOST_SKIPPED} reasons"
            title = f"<h3>Left out or changed of {say(name)}: {tally.skipped:,}{more}</h3>"
            parts.append(title + table(["source", "why"], rows))
    return parts
