"""What a server counts, as Prometheus text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from suites.engine.contract.feeding import Feed
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.workers import BatchDone

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MODEL_LABELS = ("model", "model_version")
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_COSTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)


class Traffic:
    """What is counted of requests, whatever version answers; each server has a registry of its own.

    Args:
        by_model: tell requests apart by the model and the version that answered.
    """

    def __init__(self, by_model: bool) -> None:
        r = self.registry = CollectorRegistry()
        self.by_model = by_model
        self.in_flight = Gauge("paddock_requests_in_flight", "Requests that are being answered", registry=r)
        labels = ["route", *(_MODEL_LABELS if by_model else ())]
        self._requests = Counter("paddock_requests", "Answers by route and status", [*labels, "status"], registry=r)
        self._seconds = Histogram(
            "paddock_request_seconds",
            "From the head of a request to the end of its answer",
            labels,
            buckets=_SECONDS,
            registry=r,
        )

    def request(self, route: str, status: int, seconds: float, model: str = "", version: str = "") -> None:
        """Take in an answer, and who gave it."""
        labels = [route, *((model, version) if self.by_model else ())]
        self._requests.labels(*labels, str(status)).inc()
        self._seconds.labels(*labels).observe(seconds)


class Metrics:
    """The counters of one version of a model."""

    def __init__(
        self, model: str, waiting: Callable[[], int], busy: Callable[[], int], feed: Feed | None = None
    ) -> None:
        r = self._registry = CollectorRegistry()
        Gauge("paddock_model_info", "1, with the name of the model", ["model"], registry=r).labels(model).set(1)
        if feed is not None:
            r.register(_Following(feed))
        Gauge("paddock_queue_items", "Items that wait for a batch", registry=r).set_function(waiting)
        Gauge("paddock_workers_busy", "Workers that run a batch", registry=r).set_function(busy)
        self.queue_seconds = Histogram(
            "paddock_queue_seconds", "From arrival to the first batch", buckets=_SECONDS, registry=r
        )
        self._batch_items = Histogram("paddock_batch_items", "Items of a batch", buckets=_COUNTS, registry=r)
        self._batch_cost = Histogram("paddock_batch_cost", "Cost (tokens) of a batch", buckets=_COSTS, registry=r)
        self._batch_seconds = Histogram("paddock_batch_seconds", "Time of a batch", buckets=_SECONDS, registry=r)
        self._failed = Counter("paddock_failed_items", "Items that failed in a batch", registry=r)
        self.reader_ends = Counter("paddock_reader_ends", "Readers that hung or died and were replaced", registry=r)
        self.deaths = Counter("paddock_worker_deaths", "Workers that died and were replaced", registry=r)

    def writes(self, engine: Engine) -> None:
        """Count what an engine writes too; its `on_step` from here on tells of each step."""
        self._registry.register(_Writing(engine))
        steps = Histogram(
            "paddock_writing_step_seconds",
            "Time of a step, which writes the next token of each text",
            buckets=_SECONDS,
            registry=self._registry,
        )
        engine.on_step = steps.observe

    def batch(self, done: BatchDone) -> None:
        """Take in a batch."""
        self._batch_items.observe(done.items)
        self._batch_cost.observe(done.cost)
        self._batch_seconds.observe(done.seconds)
        self._failed.inc(done.failed)

    def collect(self) -> Iterator[Metric]:
        """All figures."""
        return iter(self._registry.collect())


class Labelled(NamedTuple):
    """The figures of a version, and who it is.

    Attributes:
        model, version: its name and its version's.
        metrics: its figures.
        swaps, refusals: newer versions that took the place of one, and those that were refused.
    """

    model: str
    version: str
    metrics: Metrics
    swaps: int
    refusals: int


def text_of(traffic: Traffic, versions: Sequence[Labelled]) -> bytes:
    """The figures in Prometheus' text format; of several models or versions each line names whose it is."""
    whole = CollectorRegistry(auto_describe=False)
    whole.register(_Together(versions, traffic.by_model))
    return generate_latest(traffic.registry) + generate_latest(whole)


class _Together(Collector):
    """Figures of versions under common names, told apart by labels where there are several."""

    def __init__(self, versions: Sequence[Labelled], by_model: bool) -> None:
        self._versions, self._by_model = versions, by_model

    def collect(self) -> Iterator[Metric]:
        """See the class."""
        found: dict[str, Metric] = {}
        for version in self._versions:
            own = dict(zip(_MODEL_LABELS, (version.model, version.version), strict=True)) if self._by_model else {}
            for family in (*version.metrics.collect(), *_renewals(version)):
                one = found.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                one.samples += [sample._replace(labels=sample.labels | own) for sample in family.samples]
        yield from found.values()


def _renewals(version: Labelled) -> Iterator[Metric]:
    yield CounterMetricFamily("paddock_swaps", "Newer versions that took the model's place", value=version.swaps)
    yield CounterMetricFamily("paddock_refused_versions", "Newer versions that were refused", value=version.refusals)


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


class _Writing(Collector):
    """What an engine has written, and what room it has."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Tokens, texts and pages."""
        engine, pool, scheduler = self._engine, self._engine.pool, self._engine.scheduler
        tokens = {
            "written": ("Tokens that were written", engine.written),
            "computed": ("Tokens that went through the network", engine.computed),
            "cached": ("Tokens of prompts and sources that were in the cache", pool.hits),
        }
        for name, (help_text, value) in tokens.items():
            yield CounterMetricFamily(f"paddock_{name}_tokens", help_text, value=value)
        figures = {
            "texts_writing": ("Texts that are being written", scheduler.running),
            "texts_waiting": ("Texts that wait to be written", scheduler.waiting),
            "cache_pages": ("Pages of the cache", pool.size),
            "cache_pages_free": ("Pages of the cache that nobody uses", pool.available),
        }
        for name, (help_text, value) in figures.items():
            yield GaugeMetricFamily(f"paddock_{name}", help_text, value=value)
