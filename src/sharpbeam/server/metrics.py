"""Metrics in Prometheus' format: requests, sentences, waiting, models. No text, and no key, is ever in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sharpbeam.server.admission import Admission
from sharpbeam.server.pool import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class ServerMetrics:
    """The counters of one server."""

    def __init__(self, models: Collection[str], engines: Mapping[str, Engine], admission: Admission) -> None:
        """`models` are all that may ever be in memory, `engines` those that are now, by name."""
        self._registry = own = CollectorRegistry()
        self._requests = Counter("sharpbeam_requests", "Requests.", ("endpoint", "status"), registry=own)
        self._seconds = Histogram(
            "sharpbeam_request_seconds", "Time from the head of a request to the end of its answer.", ("endpoint",),
            buckets=SECONDS, registry=own,
        )  # fmt: skip
        self.characters = Counter("sharpbeam_characters", "Characters of texts.", registry=own)
        self.sentences = Counter("sharpbeam_sentences", "Sentences that were translated.", registry=own)
        pending = Gauge("sharpbeam_pending_sentences", "Accepted sentences without an answer.", registry=own)
        pending.set_function(lambda: admission.pending)
        Gauge("sharpbeam_models", "Models in memory.", registry=own).set_function(lambda: len(engines))

        def count(state: str, model: str) -> int:
            return getattr(engines[model].session, state) if model in engines else 0

        for state, text in (("waiting", "Sentences that wait to enter."), ("live", "Sentences that are decoded now.")):
            gauge = Gauge(f"sharpbeam_{state}_sentences", text, ("model",), registry=own)
            for model in models:
                gauge.labels(model).set_function(partial(count, state, model))

    @property
    def character_count(self) -> int:
        """The characters of all texts so far."""
        return int(self._registry.get_sample_value("sharpbeam_characters_total") or 0)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request; `endpoint` is its route, never a path that a client made up."""
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)
