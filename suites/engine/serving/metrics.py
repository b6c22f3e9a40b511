"""What a server counts, as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from suites.engine.contract.feeding import Feed
from suites.engine.serving.workers import BatchDone

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_COSTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


class Metrics:
    """The counters of one server; each server has a registry of its own."""

    def __init__(
        self, model: str, waiting: Callable[[], int], busy: Callable[[], int], feed: Feed | None = None
    ) -> None:
        self.name = model
        r = self._registry = CollectorRegistry()
        Gauge("paddock_model_info", "1, with the name of the model", ["model"], registry=r).labels(model).set(1)
        if feed is not None:
            r.register(_Following(feed))
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
        self.reader_ends = Counter("paddock_reader_ends", "Readers that hung or died and were replaced", registry=r)
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

    def collect(self) -> Iterator[Metric]:
        """All figures."""
        return iter(self._registry.collect())


def text_of(models: Sequence[Metrics]) -> bytes:
    """The figures of one model, or of several, in Prometheus' text format; of several each line names its model."""
    if len(models) == 1:
        return generate_latest(models[0]._registry)
    whole = CollectorRegistry(auto_describe=False)
    whole.register(_Together(models))
    return generate_latest(whole)


class _Together(Collector):
    """Figures of several models under common names, told apart by a label."""

    def __init__(self, models: Sequence[Metrics]) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """See the class."""
        found: dict[str, Metric] = {}
        for model in self._models:
            for family in model.collect():
                one = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                one.samples += [
                    sample._replace(labels=sample.labels | {"model": model.name}) for sample in family.samples
                ]
        yield from found.values()


class _Following(Collector):
    """What a model that follows files beside it says of itself."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def collect(self) -> Iterator[Metric]:
        """The version that answers, and the feed's counters."""
        told = InfoMetricFamily("paddock_model_version", "The version that answers")
        told.add_metric([], {"version": self._feed.version})
        yield told
        for name, counter in self._feed.counters().items():
            yield CounterMetricFamily(f"paddock_{name}", counter.help, value=counter.value)
