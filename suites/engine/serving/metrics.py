"""What a server counts, as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from suites.engine.serving.workers import BatchDone

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_COSTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


class Metrics:
    """The counters of one server; each server has a registry of its own."""

    def __init__(self, model: str, waiting: Callable[[], int], busy: Callable[[], int]) -> None:
        r = self._registry = CollectorRegistry()
        Gauge("paddock_model_info", "1, with the name of the model", ["model"], registry=r).labels(model).set(1)
        Gauge("paddock_queue_items", "Items that wait for a batch", registry=r).set_function(waiting)
        Gauge("paddock_workers_busy", "Workers that run a batch", registry=r).set_function(busy)
        self.in_flight = Gauge("paddock_requests_in_flight", "Requests that are being answered", registry=r)
        self._requests = Counter("paddock_requests", "Answers by route and status", ["route", "status"], registry=r)
        self._seconds = Histogram(
            "paddock_request_seconds",
            "From the head of a request to the end of its answer",
            ["route"],
            buckets=_SECONDS,
            registry=r,
        )
        self.queue_seconds = Histogram(
            "paddock_queue_seconds", "From arrival to the first batch", buckets=_SECONDS, registry=r
        )
        self._batch_items = Histogram("paddock_batch_items", "Items of a batch", buckets=_COUNTS, registry=r)
        self._batch_cost = Histogram("paddock_batch_cost", "Cost (tokens) of a batch", buckets=_COSTS, registry=r)
        self._batch_seconds = Histogram("paddock_batch_seconds", "Time of a batch", buckets=_SECONDS, registry=r)
        self._failed = Counter("paddock_failed_items", "Items that failed in a batch", registry=r)
        self.deaths = Counter("paddock_worker_deaths", "Workers that died and were replaced", registry=r)

    def batch(self, done: BatchDone) -> None:
        """Take in a batch."""
        self._batch_items.observe(done.items)
        self._batch_cost.observe(done.cost)
        self._batch_seconds.observe(done.seconds)
        self._failed.inc(done.failed)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Take in an answer."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self._registry)
