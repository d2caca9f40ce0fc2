"""The rows of L2S (Chen et al. 2019): screened softmax, its rivals, curves and models."""

from __future__ import annotations

from bench.papers.l2s.subjects import SUBJECTS
from bench.scoreboard.claim import Verdict
from bench.scoreboard.papers.row import Judge, Line, Wanted, by_option, commits, found, row

SMALL = "lm-ptb-small"
PAPER = next(s.paper for s in SUBJECTS if s.name == SMALL)
PARAMETERS = (50, 100, 200, 250)  # r of L2S, Table 4
BUDGET = 400  # tokens of a set, where r is compared
P_AT_1, P_AT_5 = 0.998, 0.990  # of L2S on PTB-Small
CURVES: Wanted = ("curves", {"model": SMALL})
COST: Wanted = ("l2s_cost", {"model": SMALL})
SEEN: list[Wanted] = [("l2s_seen", {"clusters": r}) for r in (50, 250)]
PERPLEXITY: Wanted = ("perplexity", {"model": SMALL})


def screens(clusters: int = 100) -> Wanted:
    """The published screens of r clusters."""
    return "published_screens", {"model": SMALL, "clusters": clusters}


def fastest(line: Line, method: str, p_at_1: float, p_at_5: float) -> Line | None:
    """The fastest setting of a method with these precisions."""
    good = [p for p in line["points"] if p["method"] == method and p["p_at_1"] >= p_at_1 and p["p_at_5"] >= p_at_5]
    return max(good, key=lambda p: p["ratio"], default=None)


def said(point: Line | None) -> str:
    """A point of a curve in words."""
    return f"x{point['ratio']:.1f} at {point['p_at_1']:.4f}/{point['p_at_5']:.4f}" if point else "never that precise"


def published(clusters: int) -> tuple[list[Line], list[Line]]:
    """The newest point of each method and budget with r clusters, and the lines that they stand in."""
    points: dict[tuple[str, int | None], Line] = {}
    lines = found("published_screens", model=SMALL, clusters=clusters)
    for line in lines:
        points |= {(p["method"], p["dial"].get("budget")): p for p in line["points"]}
    used = [line for line in lines if any(p in points.values() for p in line["points"])]
    return list(points.values()), used


def screen_speed(*_: Line) -> Verdict:
    each = [published(clusters) for clusters in PARAMETERS]
    points = {"points": [point for some, _ in each for point in some]}
    own, native = (fastest(points, name, P_AT_1, P_AT_5) for name in ("l2s", "l2s, native"))
    holds = own is not None and own["ratio"] >= 10.6
    best = f", r = {own['dial']['clusters']}, sets of {own['dial']['budget']}" if own else ""
    span = f" ({own['least_ratio']:.1f} to {own['most_ratio']:.1f})" if own else ""
    lines = [line for _, some in each for line in some]
    figure = f"NumPy next to NumPy {said(own)}{span}; native {said(native)}; {SMALL}{best}"
    return Verdict(holds, figure + commits(lines))


def call_cost(line: Line) -> str:
    part = line["parts"]
    whole, call = part["screen"]["us"], part["screen, a call with next to nothing to do"]
    return (
        f"a NumPy call that has next to nothing to do is {call['us'] / whole:.0%} of the screen's {whole:.0f} us, and "
        f"only x{call['ratio']:.1f} itself: a 10,000 x 200 softmax takes {part['full softmax']['us']:.0f} us here"
    )


def robust(*_: Line) -> Verdict:
    """P@5 of L2S with sets of BUDGET over r, and whether L2S is faster than its start at the paper's precision."""
    points, lines = [], list[Line]()
    for clusters in PARAMETERS:
        some, used = published(clusters)
        points.append(next(p for p in some if p["method"] == "l2s" and p["dial"]["budget"] == BUDGET))
        lines += used
    each = ", ".join(f"r = {p['dial']['clusters']}: {p['p_at_1']:.4f}/{p['p_at_5']:.4f}" for p in points)
    hundred = {"points": published(100)[0]}
    start, own = (fastest(hundred, name, P_AT_1, P_AT_5) for name in ("spherical", "l2s"))
    beats = start is None or (own is not None and own["ratio"] > 1.1 * start["ratio"])
    holds = beats and all(p["p_at_1"] >= P_AT_1 and p["p_at_5"] >= P_AT_5 for p in points)
    faster = f"faster than its start at the paper's precision: {'yes' if beats else 'no'}"
    return Verdict(holds, f"{BUDGET} tokens a set, {each}; {faster}{commits(lines)}")


def unseen(*_: Line) -> str:
    """Precision by the vectors that were fitted on, and that of the start at the same budgets."""
    each, lines = [], list[Line]()
    for r in (50, 250):
        some = by_option("l2s_seen", "fitted_on", clusters=r, set=BUDGET)
        lines += some
        both = [f"{x['methods']['l2s']['p_at_5']:.4f} of {x['options']['fitted_on']:,}" for x in some]
        each.append(f"P@5 with r = {r} is {' and '.join(both)} vectors")
    points, used = published(100)
    at = {(p["method"], p["dial"].get("budget")): p["p_at_5"] for p in points}
    starts = ", ".join(f"{at['l2s', b]:.4f} and {at['spherical', b]:.4f} with {b}" for b in (100, 200, BUDGET))
    return (
        f"a cluster holds what its own vectors needed: {', '.join(each)}; and rare tokens fill the sets of both, P@5 "
        f"of L2S and its start (r = 100) is {starts} tokens{commits(lines + used)}"
    )


def dial(line: Line) -> Verdict:
    points = sorted((p for p in line["points"] if p["method"] == "l2s"), key=lambda p: p["dial"]["budget"])
    each = "; ".join(f"B = {p['dial']['budget']} {said(p)}" for p in points)
    rising = [p["p_at_5"] for p in points] == sorted(p["p_at_5"] for p in points)
    return Verdict(rising and points[0]["ratio"] > points[-1]["ratio"], each)


def spherical(line: Line) -> Verdict:
    point = fastest(line, "spherical", 0.988, 0.992)
    return Verdict(point is not None and point["ratio"] >= 4.0, said(point))


def of_table_2(method: str, *names: str) -> Judge:
    """A row of L2S Table 2: our implementation against the paper's speed at the paper's precision."""
    assert PAPER is not None
    ratio, p_at_1, p_at_5 = PAPER.rows[method]

    def judge(line: Line) -> Verdict:
        best = {name: fastest(line, name, p_at_1, p_at_5) for name in (names or (method,))}
        most = max((p["ratio"] for p in best.values() if p), default=0.0)
        return Verdict(most >= ratio, "; ".join(f"{name} {said(point)}" for name, point in best.items()))

    return judge


def walk(line: Line) -> str:
    part = line["parts"]
    share = part["FGD, walk"]["us"] / part["FGD"]["us"]
    return f"the walk through the graph is {share:.0%} of its time, x{part['FGD, walk']['ratio']:.2f} by itself"


def interpreted(line: Line) -> str:
    part, name = line["parts"], "Greedy-MIPS 10%"
    share = part[f"{name}, candidates"]["us"] / part[name]["us"]
    return (
        f"its candidates are chosen in NumPy (the paper: C++), {share:.0%} of the time; "
        f"their logits alone are x{part[f'{name}, their logits']['ratio']:.1f}"
    )


def codes(line: Line) -> str:
    points = [p for p in line["points"] if p["method"] == "LSH"]
    apart = max(abs(p["p_at_1"] - p["p_at_5"]) for p in points)
    one = max((p["ratio"] for p in points if p["p_at_1"] >= 0.165), default=0.0)
    return (
        f"random codes find the best token as often as the five best (at most {apart:.3f} apart in {len(points)} "
        f"settings), so .33 needs twice the tokens of .165, where it is x{one:.1f}"
    )


def screened_beams(line: Line) -> Verdict:
    holds, each = True, []
    for beam, speed, bleu in (("beam 1", 14.0, -0.04), ("beam 5", 13.0, -0.14)):
        one = line["beams"][beam]
        layer = one["times"]["exact"]["layer_ms"] / one["times"]["screen-alone"]["layer_ms"]
        holds &= layer >= speed and one["difference"] >= bleu
        each.append(f"{beam}: layer x{layer:.1f}, BLEU {one['difference']:+.2f}, {one['identical']:.1%} identical")
    options = line["options"]
    numbers = f"{options['fitted_on']:,} vectors, sets of {options['budget']}"
    return Verdict(holds, f"{options['model']}, {numbers}, {'; '.join(each)}, over our native float32 layer")


def more_vectors(line: Line) -> str:
    same = {"model": line["options"]["model"], "clusters": 100, "budget": line["options"]["budget"]}
    every = by_option("published_search", "fitted_on", **same)
    if len(every) < 2:
        return ""
    each = ", ".join(f"{x['beams']['beam 5']['difference']:+.2f} of {x['options']['fitted_on']:,}" for x in every)
    return f"what its clusters have not seen has probability 0, and BLEU follows the vectors: {each}{commits(every)}"


def perplexity(line: Line) -> Verdict:
    completed = line["completed"]
    full, own = completed["full"]["perplexity"], completed["l2s"]
    holds = own["ratio"] >= 5.69 and own["perplexity"] / full <= 115.91 / 112.28
    tail = completed.get("l2s with a tail")
    extra = f"; with our residual mass {tail['perplexity']:.2f} at x{tail['ratio']:.1f}" if tail else ""
    words = line["options"]["words"]
    return Verdict(holds, f"{full:.2f} -> {own['perplexity']:.2f} at x{own['ratio']:.2f}, {words} words{extra}")


def low_rank(line: Line) -> str:
    alone = line["completed"]["low rank alone"]
    return f"the logits of rank 20 of all tokens and their sum, without any set, are x{alone['ratio']:.2f}: the floor"


def large_vocabulary(line: Line) -> Verdict:
    point = fastest(line, "l2s", 0.99, 0.98)
    return Verdict(
        point is not None and point["ratio"] > 15, f"native {said(point)}; the model saw a quarter of an epoch"
    )


def trained(line: Line) -> Verdict:
    holds = line["perplexity"] <= 112.28
    return Verdict(
        holds, f"{SMALL} {line['perplexity']}; the 2 x 1,500 model and the 200-wide translation: not trained"
    )


def hours(line: Line) -> str:
    return (
        f"PTB-Large takes {line['seconds_a_step']:.1f} s of a core a step, {line['hours']:,.0f} hours for "
        f"{line['steps']:,} steps"
    )


ROWS = [
    row("L2S-1", "screened softmax, NumPy next to NumPy", "x10.6 at P@1 .998, P@5 .990",
        screen_speed, *map(screens, PARAMETERS), because=call_cost, by=[COST]),
    row("L2S-2", "learned clusters", "robust for r = 50..250; faster than their start",
        robust, *map(screens, PARAMETERS), because=unseen, by=SEEN),
    row("L2S-3", "learned sets", "the budget is the dial of speed and accuracy", dial, screens()),
    row("L2S-4", "spherical k-means screen", "x4 at .988/.992", spherical, screens()),
    row("L2S-5", "SVD-softmax", "x0.8 at .987/.99", of_table_2("SVD-softmax"), CURVES),
    row("L2S-6", "adaptive softmax, trained", "x1.9 at .972/.981",
        of_table_2("adaptive softmax", "adaptive softmax", "adaptive softmax, trained"), CURVES),
    row("L2S-7", "FGD", "x1.3 at .980/.989", of_table_2("FGD"), CURVES, because=walk, by=[COST]),
    row("L2S-8", "Greedy-MIPS", "x0.5 at .998/.972", of_table_2("Greedy-MIPS"), CURVES, because=interpreted, by=[COST]),
    row("L2S-9", "PCA-MIPS", "x0.14 at .322/.341", of_table_2("PCA tree"), CURVES),
    row("L2S-10", "LSH-MIPS", "x1.3 at .165/.33", of_table_2("LSH"), CURVES, because=codes),
    row("L2S-11", "beam search, probability 0 outside", "x14.0 at BLEU -.04 (beam 1), x13 at -.14 (beam 5)",
        screened_beams, ("published_search", {"model": "de-en"}), because=more_vectors),
    row("L2S-12", "perplexity, low rank outside", "x5.69, 112.28 -> 115.91", perplexity, PERPLEXITY, because=low_rank),
    row("L2S-13", "an 80,000-token vocabulary", "more than x15", large_vocabulary, ("curves", {"model": "lm-enwiki"})),
    row("L2S-14", "the models", "PTB-Small 112.28, PTB-Large 78.32",
        trained, ("text_perplexity", {"model": SMALL}), because=hours, by=[("training", {"recipe": "lm-ptb-large"})]),
]  # fmt: skip
