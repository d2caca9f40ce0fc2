"""Precision of L2S and of its start by the number of vectors that they were fitted on.

A set only holds what the vectors of its cluster have needed. With r clusters each sees 1 / r of the vectors, so where
P@5 falls with r it should rise with the vectors. Precisions on held-out vectors, nothing is timed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.harness import record
from bench.harness.vectors import Layer
from bench.papers.l2s.screens import Clusters, cluster, hits, screen_at

SHARES = (0.25, 1.0)  # of the vectors
CLUSTERS = (50, 250)
SET = 400


def seen(layer: Layer, clusters: int, share: float) -> dict[str, Any]:
    """Precision of L2S and its start with sets of SET tokens, fitted on a share of the vectors; recorded."""
    part = replace(layer, fit=layer.fit.first(round(share * len(layer.fit))))
    options = {"model": layer.name, "clusters": clusters, "set": SET, "fitted_on": len(part.fit)}
    if earlier := record.find("l2s_seen", options):
        return earlier
    fitted = {method: cluster(part, method, clusters, SET, near=False) for method in ("spherical", "l2s")}
    figures = {method: _precision(layer, one, SET) for method, one in fitted.items()}
    everything = _precision(layer, fitted["l2s"], 0.0)
    return record.write("l2s_seen", {"methods": figures, "every token seen": everything}, threads=1, options=options)


def _precision(layer: Layer, fitted: Clusters, budget: float) -> dict[str, float]:
    there = hits(screen_at(fitted, budget), layer.test, len(layer.bias))
    return {"p_at_1": round(there.p_at_1, 5), "p_at_5": round(there.p_at_5, 5), "set": round(there.average_set, 1)}
