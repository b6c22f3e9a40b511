"""Asks the server at a steady rate about rows that are never trained on, and compares its answers with their labels."""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from suites.ctr.demo.plan import Plan, read_state
from suites.ctr.metrics import auc
from suites.engine.serving.client import Client, ServerError

_SECONDS = 10.0  # over which rates, latencies and the AUC are taken


class Asker(threading.Thread):
    """Sends requests from `start` to `stop`.

    Attributes:
        failed: requests without an answer, in all.
        last_error: of these.
    """

    def __init__(self, plan: Plan, url: str) -> None:
        super().__init__(daemon=True)
        self._plan, self._client = plan, Client(url, timeout=10.0, retries=0)
        self._stop_now, self._lock = threading.Event(), threading.Lock()
        self._answers: deque[tuple[float, float, list[float], list[int]]] = deque()  # when, seconds, scores, labels
        self._part, self._at = -1, 0
        self._items: list[dict[str, str]] = []
        self._labels: list[int] = []
        self.failed, self.last_error = 0, ""

    def run(self) -> None:
        """Ask; a request that is late is sent at once, one that is a second late never."""
        pause, due = 1 / self._plan.requests, time.monotonic()
        while not self._stop_now.wait(max(0.0, due - time.monotonic())):
            due = max(due + pause, time.monotonic() - 1)
            self._ask()

    def stop(self) -> None:
        """End after the request at hand."""
        self._stop_now.set()
        if self.ident is not None:
            self.join()
        self._client.close()

    def _ask(self) -> None:
        items, labels = self._next_rows()
        begin = time.perf_counter()
        try:
            found = self._client.score(items)
        except ServerError as error:
            self.failed, self.last_error = self.failed + 1, str(error)
            return
        seconds = time.perf_counter() - begin
        scores = [next(iter(value.values())) for value in found]
        with self._lock:
            now = time.monotonic()
            self._answers.append((now, seconds, scores, labels))
            while self._answers[0][0] < now - _SECONDS:
                self._answers.popleft()

    def _next_rows(self) -> tuple[list[dict[str, str]], list[int]]:
        """The next rows of the newest span."""
        size = self._plan.items
        if self._at + size > len(self._items):
            state = read_state(self._plan.path("asked.json"))
            if state["number"] != self._part:
                self._part, self._items, self._labels = state["number"], state["items"], state["labels"]
            self._at = 0
        begin, self._at = self._at, self._at + size
        return self._items[begin : self._at], self._labels[begin : self._at]

    def figures(self) -> dict[str, float | None]:
        """`requests` a second, `p50` and `p99` in ms, `served_auc` of the last seconds; None for what is not known."""
        with self._lock:
            answers = [a for a in self._answers if a[0] > time.monotonic() - _SECONDS]
        if len(answers) < 2:
            return {"requests": None, "p50": None, "p99": None, "served_auc": None}
        span = answers[-1][0] - answers[0][0]
        p50, p99 = np.percentile([1000 * a[1] for a in answers], [50, 99])
        scores = np.concatenate([a[2] for a in answers]).astype(np.float32)
        labels = np.concatenate([a[3] for a in answers]).astype(np.float32)
        both = 0 < labels.sum() < len(labels)
        return {
            "requests": (len(answers) - 1) / span if span > 0 else None,
            "p50": float(p50),
            "p99": float(p99),
            "served_auc": auc(scores, labels) if both else None,
        }
