"""A server of pictures against its own predictor, its latency at half load, and swaps of versions under load.

`python benchmarks/serving_models.py EXPORT PICTURE...` serves an exported model of pictures. In turns, in each round:
the predictor alone on arrays that are ready, one picture at a time; the same from the pictures' files (read, prepared,
predicted); and clients of the server in another process, which send files over HTTP. Then clients ask at half the rate
that the server reached, at random moments (Poisson), and at last `--swap-minutes` of requests while a version is
replaced every `--swap-every` seconds: each answer is counted, and the memory of the server after each swap.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import ROOT, resident
from serving_reading import used

sys.path.insert(0, str(ROOT))

from suites.engine.predict.inference import Model, open_model
from suites.engine.predict.items import batches_of, predict_items
from suites.engine.serving.models import Offer, Share
from suites.engine.serving.service import Settings
from suites.engine.serving.versions import Source


def clients(
    address: str, bodies: Sequence[bytes], count: int, rate: float, seconds: float, even: bool, told: Any
) -> None:
    """Ask over `count` connections; puts seconds of each answer, and statuses other than 200.

    At `rate` requests a second in all, at random moments or `even` ones; 0 asks again as soon as there is an answer.
    Latencies are from the moment that a request was due.
    """
    waits: list[float] = []
    wrong: list[str] = []
    start = time.monotonic()
    end = start + seconds

    def ask(number: int) -> None:
        chance = random.Random(number)
        connection = HTTPConnection(address, timeout=60)
        due = start - (count - 1 - number) / rate if even else start
        while True:
            if rate:
                due += count / rate if even else chance.expovariate(rate / count)
                time.sleep(max(0.0, due - time.monotonic()))
            else:
                due = time.monotonic()
            if due > end:
                return
            try:
                connection.request("POST", "/v1/scores", chance.choice(bodies))
                answer = connection.getresponse()
                data = answer.read()
            except OSError as error:
                wrong.append(repr(error))
                connection = HTTPConnection(address, timeout=60)
                continue
            if answer.status != 200:
                wrong.append(f"{answer.status}: {data[:200]!r}")
            waits.append(time.monotonic() - due)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put((waits, wrong))


def asked(
    server: Any, bodies: Sequence[bytes], count: int, rate: float, seconds: float, even: bool = False
) -> tuple[list[float], list[str]]:
    """What clients in another process saw."""
    context = get_context("spawn")
    told = context.Queue()
    address = server.url.removeprefix("http://")
    process = context.Process(target=clients, args=(address, bodies, count, rate, seconds, even, told))
    process.start()
    found: tuple[list[float], list[str]] = told.get(timeout=seconds + 300)
    process.join()
    return found


def own_rate(model: Model, items: Sequence[Any], seconds: float, *, read: bool) -> tuple[float, float]:
    """Pictures a second and CPU seconds of one, one after the other: from their files, or of the network alone."""
    processor: Any = model.processor
    ready = [] if read else [next(iter(batches_of(processor, [processor.from_json(item)]))) for item in items]
    start, done, before = time.monotonic(), 0, time.process_time()
    while time.monotonic() < start + seconds:
        at = done % len(items)
        if read:
            predict_items(processor, model.inputs, model.predict, [processor.from_json(items[at])])
        else:
            model.predict({name: ready[at][name] for name in model.inputs})
        done += 1
    return done / (time.monotonic() - start), (time.process_time() - before) / done


def told_of(name: str, values: Sequence[float], form: str) -> str:
    """The median with the smallest and largest."""
    return f"{name} {form % statistics.median(values)} [{form % min(values)}, {form % max(values)}]"


def swaps(server: Any, export: Path, folder: Path, bodies: Sequence[bytes], every: float, minutes: float) -> None:
    """Replace the version under load; print what was lost, and the memory."""
    found: list[Any] = []
    load = threading.Thread(target=lambda: found.append(asked(server, bodies, 8, 0.0, 60 * minutes)))
    load.start()
    memory, number = [], 1
    while load.is_alive():
        load.join(every)
        number += 1
        shutil.copytree(export, folder / f".{number}")
        os.rename(folder / f".{number}", folder / str(number))
        while load.is_alive() and server.models.versions[0].label != str(number):
            time.sleep(0.05)
        shutil.rmtree(folder / str(number - 1))
        memory.append(resident())
    waits, wrong = found[0]
    print(
        f"swaps: {len(memory)} in {minutes:g} minutes, {len(waits)} answers, {len(wrong)} lost or refused {wrong[:3]}; "
        f"p50 {1000 * np.percentile(waits, 50):.0f} ms, p99 {1000 * np.percentile(waits, 99):.0f} ms; memory after "
        f"swaps {memory[0]:.0f} MB, {statistics.median(memory):.0f} MB in the middle, {memory[-1]:.0f} MB at the end",
        flush=True,
    )


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("export", type=Path)
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--swap-minutes", type=float, default=3.0)
    parser.add_argument("--swap-every", type=float, default=5.0)
    a = parser.parse_args()
    from tests.suites.engine.serving import toy

    items = [base64.b64encode(picture.read_bytes()).decode() for picture in a.pictures]
    bodies = [json.dumps({"input": item}).encode() for item in items]
    model = open_model(a.export)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "versions"
        shutil.copytree(a.export, folder / "1")
        offer = Offer("pictures", (Share(Source(folder, open_model), 1.0),))
        with toy.running([offer], Settings()) as server:
            rows = []
            for _ in range(a.rounds + 1):  # the first warms up
                alone = own_rate(model, items, a.seconds, read=False)
                whole = own_rate(model, items, a.seconds, read=True)
                before = used(server.service)
                waits, wrong = asked(server, bodies, a.clients, 0.0, a.seconds)
                assert not wrong, wrong[:3]
                served = len(waits) / a.seconds, (used(server.service) - before) / len(waits)
                rows.append((alone, whole, served))
            rows = rows[1:]
            for at, unit, form in ((0, "pictures/s", "%.1f"), (1, "CPU seconds a picture", "%.4f")):
                own, read, served_ = ([row[kind][at] for row in rows] for kind in range(3))
                for name, values in (("network", own), ("from files", read), (f"server, {a.clients} clients", served_)):
                    print(told_of(f"{unit}, {name}:", values, form))
                for name, values in (("network", own), ("from files", read)):
                    ratios = [ours / other for ours, other in zip(served_, values, strict=True)]
                    print(told_of(f"{unit}, server / {name}:", ratios, "%.2f"), flush=True)
            half = statistics.median(row[2][0] for row in rows) / 2
            for even in (False, True):
                latencies = []
                for _ in range(a.rounds):
                    waits, wrong = asked(server, bodies, 16, half, 2 * a.seconds, even)
                    assert not wrong, wrong[:3]
                    p50, p99 = np.percentile(waits, 50), np.percentile(waits, 99)
                    latencies.append((1000 * p50, 1000 * p99, p99 / p50))
                print(f"half load, {half:.1f} pictures/s at {'even' if even else 'random'} moments:")
                for at, (what, form) in enumerate((("p50 ms", "%.0f"), ("p99 ms", "%.0f"), ("p99 / p50", "%.2f"))):
                    print(told_of(what, [row[at] for row in latencies], form), flush=True)
            swaps(server, a.export, folder, bodies, a.swap_every, a.swap_minutes)


if __name__ == "__main__":
    main()
