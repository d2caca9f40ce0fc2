"""Metrics in Prometheus' format: requests, sentences, waiting, models. No text, and no key, is ever in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from sharpbeam.server.service import Service

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.characters = 0
        """Characters of all texts so far."""
        self._registry = CollectorRegistry()
        labels = ("endpoint", "status")
        self._requests = Counter("sharpbeam_requests", "Requests.", labels, registry=self._registry)
        self._seconds = Histogram(
            "sharpbeam_request_seconds", "Time from the head of a request to the end of its answer.", ("endpoint",),
            buckets=SECONDS, registry=self._registry,
        )  # fmt: skip
        self._characters = Counter("sharpbeam_characters", "Characters of texts.", registry=self._registry)
        self._sentences = Counter("sharpbeam_sentences", "Sentences that were translated.", registry=self._registry)

    def watch(self, service: Service) -> None:
        """Report the state of `service` too: waiting and live requests, models in memory."""
        self._registry.register(_State(service))

    def count_texts(self, texts: list[str]) -> None:
        """Count the texts of a request."""
        characters = sum(map(len, texts))
        self.characters += characters
        self._characters.inc(characters)

    def count_sentence(self) -> None:
        """Count a sentence that is done."""
        self._sentences.inc()

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request; `endpoint` is its route, never a path that a client made up."""
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)


class _State:
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Any]:
        """Prometheus asks for it."""
        engines = dict(self._service.pool.engines)
        pending = GaugeMetricFamily("sharpbeam_pending_sentences", "Accepted sentences without an answer.")
        pending.add_metric([], self._service.admission.pending)
        yield pending
        for name, text in (("waiting", "Sentences that wait to enter."), ("live", "Sentences that are decoded now.")):
            gauge = GaugeMetricFamily(f"sharpbeam_{name}_sentences", text, labels=["model"])
            for model, engine in engines.items():
                gauge.add_metric([model], getattr(engine.session, name))
            yield gauge
        loaded = GaugeMetricFamily("sharpbeam_models", "Models in memory.")
        loaded.add_metric([], len(engines))
        yield loaded
