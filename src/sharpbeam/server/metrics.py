"""Metrics in Prometheus' format: requests, sentences, waiting, models. No text, and no key, is ever in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from sharpbeam.server.admission import Admission
from sharpbeam.server.folder import Share

if TYPE_CHECKING:
    from sharpbeam.server.pool import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one server, of whose processes each says what all have counted."""

    def __init__(
        self, models: Sequence[str], engines: dict[str, Engine], admission: Admission, share: Share | None = None
    ) -> None:
        """`models` are all that may ever be in memory, `engines` those that are now, by name."""
        self._models, self._engines, self._admission = models, engines, admission
        self._children: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        # Those of several processes are in files of prometheus_client, which outlive a process.
        own = None if share else CollectorRegistry()
        self._registry = own or CollectorRegistry()
        if share:
            MultiProcessCollector(self._registry, str(share.folder))  # type: ignore[no-untyped-call]
        self._requests = Counter("sharpbeam_requests", "Requests.", ("endpoint", "status"), registry=own)
        self._seconds = Histogram(
            "sharpbeam_request_seconds", "Time from the head of a request to the end of its answer.", ("endpoint",),
            buckets=SECONDS, registry=own,
        )  # fmt: skip
        self.characters = Counter("sharpbeam_characters", "Characters of texts.", registry=own)
        self.sentences = Counter("sharpbeam_sentences", "Sentences that were translated.", registry=own)
        self._pending, self._loaded, self._waiting, self._live = (
            Gauge(f"sharpbeam_{name}", text, labels, registry=own, multiprocess_mode="livesum")
            for name, text, labels in (
                ("pending_sentences", "Accepted sentences without an answer.", ()),
                ("models", "Models in memory, in all processes.", ()),
                ("waiting_sentences", "Sentences that wait to enter.", ("model",)),
                ("live_sentences", "Sentences that are decoded now.", ("model",)),
            )
        )

    @property
    def character_count(self) -> int:
        """The characters of all texts so far."""
        return int(self._registry.get_sample_value("sharpbeam_characters_total") or 0)

    def count_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count a request; `endpoint` is its route, never a path that a client made up."""
        key = (endpoint, status)
        if key not in self._children:  # looking a label up costs as much as counting
            self._children[key] = (self._requests.labels(endpoint, str(status)), self._seconds.labels(endpoint))
        counter, histogram = self._children[key]
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """All metrics."""
        self.refresh()
        return generate_latest(self._registry)

    def refresh(self) -> None:
        """Set the gauges of this process, for itself and the others."""
        self._pending.set(self._admission.pending)
        self._loaded.set(len(self._engines))
        for model in self._models:
            engine = self._engines.get(model)
            self._waiting.labels(model).set(engine.session.waiting if engine else 0)
            self._live.labels(model).set(engine.session.live if engine else 0)
