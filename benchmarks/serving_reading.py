"""What reading in processes of its own costs a server: answers a second with two readers and with none, in turns.

`python benchmarks/serving_reading.py` serves the bag of words of the tests (texts of 8 words: the network takes almost
no time, so this is the most that reading can cost) and a small classifier of pictures (640 x 480). Of short texts and
baseline JPEGs the processor says that reading is bounded, so the server's process reads them; each has a row beside it
for what goes through the readers: texts whose processor does not say so, and progressive JPEGs.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import replace
from http.client import HTTPConnection
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
from common import ROOT

sys.path.insert(0, str(ROOT))

from suites.engine.predict.inference import Model, open_model
from suites.engine.serving.readers import Readers
from suites.engine.serving.service import Service, Settings

READERS = (0, 2)


def clients(address: str, body: bytes, count: int, seconds: float, told: object) -> None:
    """Ask over `count` connections for so long; puts answers a second and the median latency."""
    done: list[float] = []

    def ask() -> None:
        connection = HTTPConnection(address, timeout=60)
        while time.monotonic() < end:
            start = time.monotonic()
            connection.request("POST", "/v1/scores", body)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            done.append(time.monotonic() - start)

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.put((len(done) / seconds, statistics.median(done)))  # type: ignore[attr-defined]


def used(service: Service) -> float:
    """CPU seconds of the server and its readers so far."""
    ticks = 0
    for reader in service.readers._all if isinstance(service.readers, Readers) else ():
        words = Path(f"/proc/{reader.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(words[11]) + int(words[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def measured(model: Model, body: bytes, readers: int, count: int, seconds: float) -> tuple[float, float, float]:
    """Answers a second, the median latency in seconds, and CPU seconds of an answer."""
    from tests.suites.engine.serving import toy

    context = get_context("spawn")
    told = context.Queue()
    with toy.running(model, Settings(readers=readers)) as server:
        process = context.Process(target=clients, args=(server.url.removeprefix("http://"), body, count, seconds, told))
        before = used(server.service)
        process.start()
        rate, wait = told.get(timeout=600)
        cost = (used(server.service) - before) / max(rate * seconds, 1)
        process.join()
    return rate, wait, cost


def picture(*options: int) -> bytes:
    """A request of one photo-like picture, as OpenCV's options have it."""
    noise = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)
    encoded = cv2.imencode(".jpg", np.kron(noise, np.ones((40, 40, 1), np.uint8)), options)[1]
    return json.dumps({"input": base64.b64encode(encoded.tobytes()).decode()}).encode()


def classifier(folder: Path) -> Model:
    """One of small pictures."""
    from suites.engine.predict.inference import export_run
    from suites.engine.train.training import train

    train(
        Path("classification/resnet18_digits"),
        ["runtime.epochs=null", "runtime.steps=1"],
        runs=folder,
        name="run",
    )
    export_run(folder / "run", folder / "exported")
    return open_model(folder / "exported")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0)
    asked = parser.parse_args()
    from tests.suites.engine.serving import toy

    with tempfile.TemporaryDirectory() as folder:
        words, photos = toy.model(Path(folder) / "words"), classifier(Path(folder))
        text = b'{"input": "a text of eight words as people ask"}'
        cases = {
            "short texts": (replace(words, processor=toy.ShortWordsProcessor()), text),
            "texts through readers": (words, text),
            "baseline JPEG": (photos, picture()),
            "progressive JPEG, through readers": (photos, picture(cv2.IMWRITE_JPEG_PROGRESSIVE, 1)),
        }
        for name, (model, body) in cases.items():
            for count in (1, 16):
                rows = [[measured(model, body, n, count, asked.seconds) for n in READERS] for _ in range(asked.rounds)]
                rates = [statistics.median(row[i][0] for row in rows) for i in range(2)]
                waits = [1000 * statistics.median(row[i][1] for row in rows) for i in range(2)]
                costs = [1000 * statistics.median(row[i][2] for row in rows) for i in range(2)]
                print(
                    f"{name}, {count} clients: {rates[0]:.0f} answers/s here, {rates[1]:.0f} with readers "
                    f"({rates[1] / rates[0]:.2f}); median {waits[0]:.2f} ms, {waits[1]:.2f} ms; "
                    f"CPU {costs[0]:.2f} ms an answer, {costs[1]:.2f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main()
