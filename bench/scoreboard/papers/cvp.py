"""The rows of CVP (Amer et al. 2022): clusters of a multilingual model's own output, on a batch."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, Verdict, pending
from bench.scoreboard.papers.row import Line, Wanted, by_option, commits, row

CLUSTERS: Wanted = ("cvp_clusters", {"centroids": 400})
DIRECTIONS: list[Wanted] = [("directions", {"scope": scope, "kind": "best 1"}) for scope in ("direction", "target")]
MORE_PER_TARGET = 17.5 / 12.5  # how many more tokens are active per target than per direction, in the paper's figure


def clusters(line: Line) -> Verdict:
    first = line["best"]["1"]
    each = "; ".join(
        f"K = {k}: {p['most_active']:.1%} at most, BLEU {p['difference']:+.2f}, {p['identical']:.0%} identical"
        for k, p in line["best"].items()
    )
    holds = first["difference"] >= -0.3 and first["identical"] >= 0.92
    return Verdict(holds, f"{each}; {line['options']['fitted_on']:,} vectors (paper: 20 million sentences)")


def by_vectors(_: Line) -> str:
    """Quality of both ends of K over the number of vectors."""
    every = by_option("cvp_clusters", "fitted_on", centroids=400)
    if len(every) < 2:
        return ""
    each = "; ".join(
        f"{x['options']['fitted_on']:,}: "
        + ", ".join(
            f"K = {k} {x['best'][k]['difference']:+.1f} and {x['best'][k]['identical']:.0%}" for k in ("1", "5")
        )
        for x in every
    )
    return f"BLEU and identical outputs follow the vectors that are fitted on: {each}{commits(every)}"


def scopes(own: Line, target: Line) -> Verdict:
    into = [[d for d in line["directions"] if d["direction"].endswith("-en")] for line in (own, target)]
    most = [max(d["most_active"] for d in directions) for directions in into]
    mean = [sum(d["active"] for d in directions) / len(directions) for directions in into]
    holds = most[0] <= 0.125 and most[1] <= 0.175 and most[1] >= MORE_PER_TARGET * most[0]
    return Verdict(
        holds,
        f"into English, at most {most[0]:.2%} per direction, {most[1]:.2%} per target: x{most[1] / most[0]:.2f} (paper "
        f"x{MORE_PER_TARGET:.2f}); on average {mean[0]:.2%}, {mean[1]:.2%}",
    )


def union(line: Line) -> Verdict:
    calls = line["calls"]
    each = "; ".join(f"{name} x{calls[name]['ratio']:.1f}" for name in calls if name != "exact" and "float" not in name)
    return Verdict(calls["union, K = 1"]["ratio"] >= 2.4, f"on the CPU, 16,384 tokens, 40 rows: {each}")


def assessment(line: Line) -> Verdict:
    holds = line["identical"] >= 0.92 and line["false_alarms"] <= 0.1
    power = ", ".join(f"{share:.0%} of a bias of {bias}" for bias, share in line["power"].items())
    return Verdict(holds, f"{line['identical']:.1%} identical; found: {power}; false alarms {line['false_alarms']:.0%}")


ROWS: list[Claim] = [
    row("CVP-1", "clusters of the own output, 400, K = 1", "BLEU within .3, 92% identical",
        clusters, CLUSTERS, because=by_vectors),
    row("CVP-2", "maps per direction, largest active share", "12.5% against 17.5% per target", scopes, *DIRECTIONS),
    row("CVP-3", "union of a batch, gathered GEMM", "x2.4 of the layer (GPU, fp16)",
        union, ("cvp_union", {"centroids": 400})),
    Claim("CVP-4", "end to end on a GPU, dense and experts", "+23..25%, +12..14%; +6..8%", pending("needs a GPU")),
    row("CVP-5", "quality evidence", "92% identical, differences by Wilcoxon's test",
        assessment, ("assessment", {}), because=by_vectors, by=[CLUSTERS]),
]  # fmt: skip
