"""The 38 rows of the five papers: the paper's figure, ours from the newest lines of bench/results, and a verdict.

The target is the paper's figure in the paper's own terms, and is never reworded after a miss.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

from paper_row import Reading, Row, best, fastest, last, pair
from result_lines import Line, newest

SMALL, BUDGET = "lm-ptb-small", 400
L2S_11 = {"de-en": (1600, 2000), "enpt": (6400, 1997)}  # tokens of a set, the most that was tried, and test sentences
NEWS = {"model": "enpt", "set": "ntrex-en-pt"}
TEXTS = {"de-en": "de-en, Tatoeba", "enpt": "en-pt, NTREX"}  # sets fitted to text of the same kind, and to Wikipedia
TASKS = {"jobs": 87.1, "geo": 82.5, "atis": 86.6, "constituency": 91.2}  # F1 of the paper


def table_2(method: str, speed: float, one: float, five: float) -> Callable[[], Reading]:
    """A row of L2S Table 2."""

    def read() -> Reading:
        line = last("curves", model=SMALL)
        return best(line["points"], method, speed, one, five, [line])

    return read


def screens() -> list[Line]:
    """The newest published screens on lm-ptb-small for each number of clusters."""
    return newest("published_screens", ("clusters",), model=SMALL, budgets=[100, 200, 300, 400])


def hundred() -> Line:
    """Of the published screens that with the paper's number of clusters."""
    return last("published_screens", model=SMALL, clusters=100, budgets=[100, 200, 300, 400])


def published(method: str, speed: float, one: float, five: float) -> Callable[[], Reading]:
    """A method of L2S's own against the paper's speed at the paper's precision: our layer in float32, and in NumPy."""

    def read() -> Reading:
        line = hundred()
        own = native(line, f"{method}, native")
        figure, holds, used = best(own, f"{method}, native", speed, one, five, [line])
        numpy, reached, _ = best(line["points"], method, speed, one, five, used)
        return f"C++ {figure}; NumPy {numpy}", holds or reached, used

    return read


def native(line: Line, method: str) -> list[Line]:
    """The settings of a method of ours in float32, their factors over the exact layer."""
    exact = next(p for p in line["points"] if p["method"] == "exact")
    return [p | {"ratio": exact["us"] / p["us"]} for p in line["points"] if p["method"] == method]


def _l2s_2() -> Reading:
    used = screens()
    points = [p for x in used for p in x["points"] if p["method"] == "l2s" and p["dial"]["budget"] == BUDGET]
    each = ", ".join(f"{p['p_at_5']:.4f} ({p['dial']['clusters']})" for p in points)
    own, start = (fastest(hundred()["points"], name, 0.998, 0.99) for name in ("l2s", "spherical"))
    faster = own is not None and (start is None or own["ratio"] > 1.1 * start["ratio"])
    gain = "" if own is None or start is None else f"; x{own['ratio']:.1f} against x{start['ratio']:.1f}"
    return f"P@5 {each}{gain}", faster and all(p["p_at_5"] >= 0.99 for p in points), used


def _l2s_3() -> Reading:
    line = hundred()
    points = sorted((p for p in line["points"] if p["method"] == "l2s"), key=lambda p: int(p["dial"]["budget"]))
    rising = [p["p_at_5"] for p in points] == sorted(p["p_at_5"] for p in points)
    figure = "; ".join(f"{p['dial']['budget']}: {pair(p)}" for p in points)
    return figure, rising and points[0]["ratio"] > points[-1]["ratio"], [line]


def _l2s_11() -> Reading:
    each, verdicts, used = [], [], []
    for model, text in TEXTS.items():
        budget, sentences = L2S_11[model]
        line = newest("published_doses", ("fitted_on",), model=model, budget=budget, sentences=sentences)[-1]
        for beam, speed, bleu in (("beam 1", 14.0, -0.04), ("beam 5", 13.0, -0.14)):
            one, start = line["beams"][beam], f"{text}, {line['vectors']:,} vectors: " * (beam == "beam 1")
            ratio = one["times"]["exact"]["layer_ms"] / one["times"]["screen-alone"]["layer_ms"]
            verdicts.append(ratio >= speed and round(one["difference"], 2) >= bleu)
            each.append(f"{start}{beam} x{ratio:.1f}, {one['difference']:+.2f}")
        used.append(line)
    return "; ".join(each), all(verdicts[:2]), used


def _l2s_12() -> Reading:
    line = last("perplexity", model=SMALL)
    full, own = line["completed"]["full"]["perplexity"], line["completed"]["l2s"]
    holds = own["ratio"] >= 5.69 and own["perplexity"] / full <= 115.91 / 112.28
    return f"{full:.2f} to {own['perplexity']:.2f}, x{own['ratio']:.2f}", holds, [line]


def _l2s_13() -> Reading:
    line = last("published_screens", model="lm-enwiki")
    return best(line["points"], "l2s", 15.0, 0.99, 0.98, [line])


def _l2s_14() -> Reading:
    line = last("text_perplexity", model=SMALL)
    return f"{line['perplexity']:.2f}; large: not trained", False, [line]


def each_text() -> tuple[dict[str, dict[int, dict[int, Line]]], list[Line]]:
    """Published sets of each text, the one of its own kind first, by number of vectors and K; and all their lines."""
    every: dict[str, dict[int, dict[int, Line]]] = {}
    used = [x for x in newest("cvp_doses", ("model", "fitted_on", "k"), centroids=400) if "union" in x]
    for model, text in TEXTS.items():
        for line in sorted((x for x in used if x["options"]["model"] == model), key=lambda x: int(x["vectors"])):
            k = line["options"]["k"]
            point = line["best"][str(k)] | {"calls": line["calls"]}
            every.setdefault(text, {}).setdefault(line["vectors"], {})[k] = point
    if not every:
        raise LookupError("cvp_doses")
    return every, used


def _cvp_1() -> Reading:
    every, used = each_text()
    each = []
    for text, doses in every.items():
        *fewer, (most, best_of) = doses.items()
        points = [f"K = {k}: {best_of[k]['most_active']:.1%}, {beams(best_of[k])}" for k in (1, 5)]
        points += [f"K = 1 with {n / 1e6:.1f}: {beams(p[1])}" for n, p in fewer]
        each.append(f"{text}, {most / 1e6:.1f} million vectors: {'; '.join(points)}")
    one = max(next(iter(every.values())).items())[1][1]
    holds = min(one[beam]["difference"] for beam in ("beam 1", "beam 2")) >= -0.3 and one["most_active"] <= 0.125
    return f"{'. '.join(each)}; beam 1, beam 2", holds and one["beam 2"]["identical"] >= 0.92, used


def beams(point: Line) -> str:
    """What sets lose in the paper's two settings, and the share of the same outputs in the second."""
    one, two = point["beam 1"], point["beam 2"]
    return f"{one['difference']:+.2f}, {two['difference']:+.2f}, {two['identical']:.0%}"


def _cvp_2() -> Reading:
    used = [last("directions", scope=scope, kind="best 1") for scope in ("direction", "target")]
    own, target = (
        max(float(d["most_active"]) for d in line["directions"] if d["direction"].endswith("-en")) for line in used
    )
    figure = f"{own:.2%}, {target:.2%}: x{target / own:.2f}"
    if any(line["options"].get("neighbors", True) for line in used):
        return f"{figure}, of sets with tokens of the next clusters", None, used
    return figure, own <= 0.125 and target <= 0.175 and target / own >= 17.5 / 12.5, used


def _cvp_3() -> Reading:
    every, used = each_text()
    (text, doses), *_ = every.items()
    points = {k: (p["calls"]["union"]["ratio"], p["beam 2"]["difference"]) for k, p in max(doses.items())[1].items()}
    each = ", ".join(f"K = {k} x{ratio:.1f} ({bleu:+.2f})" for k, (ratio, bleu) in points.items())
    holds = any(ratio >= 2.4 and bleu >= -0.3 for ratio, bleu in points.values())
    return f"{each}; {text}; CPU, float32", holds, [x for x in used if x["vectors"] == max(doses)]


def _cvp_4() -> Reading:
    kinds = ({"kind": "dense", "beam": 1}, {"kind": "dense", "beam": 2}, {"kind": "experts"})
    used = [last("gpu", part="end_to_end", **options) for options in kinds]
    rows = [(line["contenders"]["exact"], line["contenders"]["screen-union"]) for line in used]
    gains = [(screen["ratio"][0] / exact["ratio"][0] - 1, screen["bleu"] - exact["bleu"]) for exact, screen in rows]
    holds = all(gain >= least and bleu >= -0.3 for (gain, bleu), least in zip(gains, (0.23, 0.12, 0.06), strict=True))
    return ", ".join(f"{gain:+.0%} ({bleu:+.2f})" for gain, bleu in gains), holds, used


def _cvp_5() -> Reading:
    every, used = each_text()
    each = {t: [p["beam 2"]["identical"] for p in max(doses.items())[1].values()] for t, doses in every.items()}
    figure = "; ".join(f"{text}: {', '.join(f'{share:.0%}' for share in own)}" for text, own in each.items())
    return f"{figure} (K = 1, 3, 5; beam 2); the share alone, no annotators", next(iter(each.values()))[0] >= 0.92, used


def merging(beam: int) -> Line:
    """The six settings of cube pruning at one beam, on news."""
    return newest("cube_merging", ("sentences",), beam_size=beam, set=NEWS["set"])[-1]


def change(line: Line, name: str, before: str) -> tuple[float, str]:
    """The BLEU that a setting gains over another one of its model, and that with p."""
    points = line["points"]
    gain = points[name]["bleu"] - points[before]["bleu"]
    return gain, f"{gain:+.2f} (p {points[name]['p']:.2f})"


def _cube_1() -> Reading:
    used = [merging(beam) for beam in (1, 10, 30, 40)]
    points = {line["options"]["beam_size"]: line["points"]["NBS+SN"] for line in used}
    figure = ", ".join(f"{p['bleu']:.1f} at {beam}" for beam, p in points.items())
    text = f"each +-{points[30]['half']:.1f} (en-pt, {used[0]['options']['sentences']:,} of NTREX)"
    return f"{figure}, {text}", max(points, key=lambda beam: float(points[beam]["bleu"])) == 30, used


def cube(name: str, speed: float, within: float) -> Callable[[], Reading]:
    """A setting with self-normalization against beam search with it, at beam 30: time, and BLEU on more sentences."""

    def read() -> Reading:
        line, quality = last("cube-headline", beam_size=30, set=NEWS["set"]), merging(30)
        timing, (gain, shown) = line["contenders"][name], change(quality, name, "NBS+SN")
        figure = f"x{timing['ratio']:.2f} ({timing['least_ratio']:.2f} to {timing['most_ratio']:.2f}), {shown}"
        return figure, timing["ratio"] >= speed and gain >= within, [line, quality]

    return read


def _cube_4() -> Reading:
    line = merging(30)
    (without, first), (own, second) = (change(line, f"ACP{sn}SN", f"NBS{sn}SN") for sn in "-+")
    return f"{first} without, {second} with", own > without, [line]


def _cube_5() -> Reading:
    line = merging(40)
    naive, approximate = (line["points"][f"{name}+SN"]["merging_rate"] for name in ("NCP", "ACP"))
    return f"NCP {naive:.2f}, ACP {approximate:.2f}", approximate > 1.2 * naive, [line]


def sharp() -> Line:
    """The ablation on the paper's own kind of model."""
    return last("sharp", set="tatoeba", model="runs/sharp-s1/best")


def _sharp_0() -> Reading:
    line = last("sharp_blas")
    first, shapes = line["fastest"].get("Sharpbeam", 0), len(line["products"])
    times = statistics.median(one["us"]["OpenBLAS"] / one["us"]["Sharpbeam"] for one in line["products"])
    return f"the fastest on {first} of {shapes} shapes; x{times:.1f} over OpenBLAS", first == shapes, [line]


def sharp_step(name: str, before: str, target: float) -> Callable[[], Reading]:
    """The factor of one step over the one before it."""

    def read() -> Reading:
        steps = (line := sharp())["steps"]
        factors = [
            steps[f"{name} {kind}"]["ratio"] / steps.get(f"{before} {kind}", steps.get(before))["ratio"]
            for kind in ("int16", "int8")
        ]
        return f"int16 x{factors[0]:.2f}, int8 x{factors[1]:.2f}", factors[0] >= target, [line]

    return read


def _sharp_5() -> Reading:
    line = sharp()
    whole, low = line["steps"]["SHARP-5 int16"], line["steps"]["SHARP-5 int8"]
    off = abs(whole["bleu"] - line["steps"]["SHARP-0"]["bleu"])
    figure = f"int16 x{whole['ratio']:.2f}, {whole['same']:.1%}, {off:.3f}; int8 x{low['ratio']:.2f}, {low['same']:.1%}"
    return figure, whole["ratio"] >= 4.37 and whole["same"] >= 0.999 and off <= 0.02, [line]


def sharp_models(base: str, **targets: float) -> Callable[[], Reading]:
    """What models of SHARP's Table 2 gain over another one; S4 is the mean of its seeds, E1 of the pairs of them."""

    def read() -> Reading:
        line = last("table2")
        bleu = {name: row["bleu"]["tatoeba"] for name, row in line["rows"].items()}
        seeds = [bleu[name] for name in ("S4", "S4b", "S4c")]
        bleu |= {"S4": statistics.mean(seeds), "E1": statistics.mean(bleu[name] for name in ("E1", "E1b", "E1c"))}
        gains = {name: bleu[name] - bleu[base] for name in targets}
        figure = ", ".join(f"{gain:+.2f}" for gain in gains.values())
        spread = f"S4: mean of three seeds, {min(seeds):.1f} to {max(seeds):.1f}"
        spread += ", two: of their three pairs" if "E1" in targets else ""
        return f"{figure} ({spread})", all(gains[name] >= least for name, least in targets.items()), [line]

    return read


def memory(beam: int, rows: int, **options: object) -> tuple[Line, dict[str, float]]:
    """The newest table at equal memory, and times as shares of FIXED's."""
    line = last("stream_memory", beam_size=beam, rows=rows, **options)
    return line, {name: 1 / one["ratio"] for name, one in line["contenders"].items()}


def _stream_1() -> Reading:
    used = [last("stream-bleu", name="tatoeba", beam_size=beam) for beam in (5, 50)]
    gains = [line["bleu"]["VAR-BATCH"] - line["bleu"]["FIXED"] for line in used]
    figure = f"{gains[0]:+.2f} at k = 5, {gains[1]:+.2f} at 50 ({used[0]['options']['sentences']:,} sentences)"
    return figure, min(gains) >= -0.1, used


def news() -> tuple[list[Line], list[dict[str, float]]]:
    """STREAM's tables at k = 5 and 50: Firefox's en-pt on NTREX."""
    both = [memory(5, 160, **NEWS), memory(50, 500, **NEWS)]
    return [line for line, _ in both], [shares for _, shares in both]


def _stream_2() -> Reading:
    used, (five, fifty) = news()
    shares = five["VAR-BATCH"], fifty["VAR-BATCH"]
    return f"{shares[0]:.2f}, {shares[1]:.2f} (en-pt, NTREX)", shares[0] <= 1.117 and shares[1] <= 0.346, used


def _stream_3() -> Reading:
    used, shares = news()
    saved = [1 - one["VAR-STREAM"] / one["VAR-BATCH"] for one in shares]
    each = [
        " to ".join(f"{line['contenders'][name]['steps']:,}" for name in ("VAR-BATCH", "VAR-STREAM", "STREAM"))
        for line in used
    ]
    figure = f"{', '.join(f'{round(100 * one)}%' for one in saved)}; steps, last with all rows: {'; '.join(each)}"
    return figure, saved[0] >= 0.19 and saved[1] >= 0.14, used


def _stream_4() -> Reading:
    (_, used), (_, shares) = news()
    fixed, fifo = shares["FIXED-STREAM"] / shares["FIXED-OURS"], shares["VAR-STR-FIFO"] / shares["VAR-STREAM"]
    return f"{fixed:.2f}; {fifo:.2f} (k = 50)", fixed <= 0.784 and fifo >= 1.33, [used]


def _stream_5() -> Reading:
    used = [last("parsing", task=task) for task in ("atis", "constituency")]
    each, holds = [], True
    for line in used:
        one, other = (line["strategies"][name] for name in ("VAR-BATCH", "VAR-STREAM"))
        ours = [one["expansions_per_step"], other["expansions_per_step"]]
        holds &= ours[1] / ours[0] >= other["paper"][2] / one["paper"][2]
        each.append(f"{ours[0]} to {ours[1]}")
    return "; ".join(each), holds, used


def _stream_6() -> Reading:
    used = [last("parsing", task=task) for task in TASKS]
    f1 = [line["strategies"]["VAR-STREAM"]["f1"] for line in used]
    near = all(own >= paper - 3 for own, paper in zip(f1, TASKS.values(), strict=True))
    return f"{', '.join(f'{one:.1f}' for one in f1)} (trees: GUM)", near, used


ROWS = (
    Row("L2S-1", "screened softmax", "x10.6 at .998/.990", published("l2s", 10.6, 0.998, 0.99)),
    Row("L2S-2", "learned clusters", "robust for 50 to 250; x10.6 against x4", _l2s_2),
    Row("L2S-3", "learned sets", "the budget is a dial", _l2s_3),
    Row("L2S-4", "spherical k-means", "x4 at .988/.992", published("spherical", 4.0, 0.988, 0.992)),
    Row("L2S-5", "SVD-softmax", "x0.8 at .987/.99", table_2("SVD-softmax", 0.8, 0.987, 0.99)),
    Row("L2S-6", "adaptive softmax", "x1.9 at .972/.981", table_2("adaptive softmax, trained", 1.9, 0.972, 0.981)),
    Row("L2S-7", "FGD", "x1.3 at .980/.989", table_2("FGD", 1.3, 0.98, 0.989)),
    Row("L2S-8", "Greedy-MIPS", "x0.5 at .998/.972", table_2("Greedy-MIPS", 0.5, 0.998, 0.972)),
    Row("L2S-9", "PCA-MIPS", "x0.14 at .322/.341", table_2("PCA tree", 0.14, 0.322, 0.341)),
    Row("L2S-10", "LSH-MIPS", "x1.3 at .165/.33", table_2("LSH", 1.3, 0.165, 0.33)),
    Row("L2S-11", "beam search: layer, BLEU", "beam 1 x14.0, -.04; beam 5 x13, -.14", _l2s_11),
    Row("L2S-12", "perplexity, low rank outside", "112.28 to 115.91, x5.69", _l2s_12),
    Row("L2S-13", "80,000 tokens", "over x15", _l2s_13),
    Row("L2S-14", "models: PTB small, large", "112.28, 78.32", _l2s_14),
    Row("CVP-1", "clusters: most active, BLEU, identical", "12.5%, within .3, 92%", _cvp_1),
    Row("CVP-2", "per direction, per target", "12.5%, 17.5%: x1.40", _cvp_2),
    Row("CVP-3", "union of a batch, BLEU", "x2.4, within .3 (GPU, fp16)", _cvp_3),
    Row("CVP-4", "end to end on a GPU", "+23..25%, +12..14%; +6..8%", _cvp_4),
    Row("CVP-5", "quality evidence: identical", "92%, 1,700 pairs, rank-sum test", _cvp_5),
    Row("CUBE-1", "RNNsearch", "best BLEU at beam 30", _cube_1),
    Row("CUBE-2", "naive cube pruning, beam 30", "a little faster, BLEU kept", cube("NCP+SN", 1.0, -0.1)),
    Row("CUBE-3", "approximate, beam 30", "x3.5, +.07", cube("ACP+SN", 3.5, 0.0)),
    Row("CUBE-4", "self-normalization: BLEU of ACP", "-.5 without, +.07 with", _cube_4),
    Row("CUBE-5", "merging rates, beam 40", "ACP's far above NCP's", _cube_5),
    Row("SHARP-0", "baseline", "a fair one", _sharp_0),
    Row("SHARP-1", "16-bit matmuls", "x2.59", sharp_step("SHARP-1", "SHARP-0", 2.59)),
    Row("SHARP-2", "precomputed embeddings", "x1.25", sharp_step("SHARP-2", "SHARP-1", 1.25)),
    Row("SHARP-3", "precomputed attention", "x1.10", sharp_step("SHARP-3", "SHARP-2", 1.10)),
    Row("SHARP-4", "vectors", "x1.13", sharp_step("SHARP-4", "SHARP-3", 1.13)),
    Row("SHARP-5", "merged states; all steps, same, BLEU off", "x4.37, 99.9%, .02", _sharp_5),
    Row("SHARP-6", "S1 to S7: S4 over S1", "+1.2 BLEU", sharp_models("S1", S4=1.2)),
    Row("SHARP-7", "ensembles of two, three", "+.9, +1.1 BLEU", sharp_models("S4", E1=0.9, E2=1.1)),
    Row("STREAM-1", "pruning: BLEU", "as FIXED's", _stream_1),
    Row("STREAM-2", "VAR-BATCH, k = 5, 50: share of FIXED's time", "1.117, .346", _stream_2),
    Row("STREAM-3", "VAR-STREAM, k = 5, 50: saved of VAR-BATCH's", "19%, 14%", _stream_3),
    Row("STREAM-4", "FIXED-STREAM of FIXED-OURS; FIFO of VAR-STREAM", ".784; 1.33", _stream_4),
    Row("STREAM-5", "expansions a step, ATIS; trees", "16.9 to 72.1; 48.2 to 95.7", _stream_5),
    Row("STREAM-6", "F1: JOBS, GEO, ATIS, trees", "87.1, 82.5, 86.6, 91.2", _stream_6),
)
