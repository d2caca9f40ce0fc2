"""Metrics in Prometheus' format: requests, sentences, waiting, models. No text, and no key, is ever in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector

from sharpbeam.server.share import Numbers, Share

if TYPE_CHECKING:
    from sharpbeam.server.pool import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
OF_MODELS = {"waiting": "Sentences that wait to enter.", "live": "Sentences that are decoded now."}


class Metrics:
    """The counters of one server, of whose processes each says what all have counted."""

    def __init__(self, models: list[str], share: Share | None = None) -> None:
        """`models`: all that may ever be in memory."""
        self._models = models
        of_models = [f"{name} {model}" for name in OF_MODELS for model in models]
        self.numbers = Numbers(["characters", "pending", "models", *of_models], share, lasting=["characters"])
        """Those that all processes need, and the gauges."""
        self._engines: dict[str, Engine] = {}
        self._found: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        # Those of several processes are in files of prometheus_client, which outlive a process.
        own = None if share else CollectorRegistry()
        self._registry = own or CollectorRegistry()
        if share:
            MultiProcessCollector(self._registry, str(share.folder))  # type: ignore[no-untyped-call]
        labels = ("endpoint", "status")
        self._requests = Counter("sharpbeam_requests", "Requests.", labels, registry=own)
        self._seconds = Histogram(
            "sharpbeam_request_seconds", "Time from the head of a request to the end of its answer.", ("endpoint",),
            buckets=SECONDS, registry=own,
        )  # fmt: skip
        self._characters = Counter("sharpbeam_characters", "Characters of texts.", registry=own)
        self._sentences = Counter("sharpbeam_sentences", "Sentences that were translated.", registry=own)
        self._registry.register(self)

    def watch(self, engines: dict[str, Engine]) -> None:
        """Report the models in memory too, and what waits for them."""
        self._engines = engines

    def count_texts(self, texts: list[str]) -> None:
        """Count the texts of a request."""
        characters = sum(map(len, texts))
        self.numbers.add("characters", characters)
        self._characters.inc(characters)

    def count_sentence(self) -> None:
        """Count a sentence that is done."""
        self._sentences.inc()

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request; `endpoint` is its route, never a path that a client made up."""
        key = (endpoint, status)
        if key not in self._found:  # looking a label up costs as much as counting
            self._found[key] = (self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint))
        counter, histogram = self._found[key]
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)

    def refresh(self) -> None:
        """Tell the other processes what changes by itself."""
        engines = dict(self._engines)
        self.numbers.set("models", len(engines))
        for name in OF_MODELS:
            for model in self._models:
                value = getattr(engines[model].session, name) if model in engines else 0
                self.numbers.set(f"{name} {model}", value)

    def collect(self) -> Iterator[Any]:
        """The gauges; Prometheus asks for them."""
        self.refresh()
        for name, text in (
            ("pending_sentences", "Accepted sentences without an answer."),
            ("models", "Models in memory, in all processes."),
        ):
            gauge = GaugeMetricFamily(f"sharpbeam_{name}", text)
            gauge.add_metric([], self.numbers.total(name.partition("_")[0]))
            yield gauge
        for name, text in OF_MODELS.items():
            gauge = GaugeMetricFamily(f"sharpbeam_{name}_sentences", text, labels=["model"])
            for model in self._models:
                gauge.add_metric([model], self.numbers.total(f"{name} {model}"))
            yield gauge
