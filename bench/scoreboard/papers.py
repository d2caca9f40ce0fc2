"""The five papers to the letter: 38 rows, each against the paper's own claim, from the newest recorded figures.

The target is the paper's figure in the paper's own terms. What is measured on another model or corpus than the paper's
says so by that model's name; nothing here is measured anew (`python -m bench` lists what measures).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.harness import record
from bench.papers.l2s.subjects import SUBJECTS
from bench.scoreboard.claim import Claim, Settings, Verdict, pending

Line = dict[str, Any]
Judge = Callable[..., Verdict]
SMALL = "lm-ptb-small"
PAPER = next(s.paper for s in SUBJECTS if s.name == SMALL)
PARAMETERS = (50, 100, 200, 250)  # r of L2S, Table 4
P_AT_1, P_AT_5 = 0.998, 0.990  # of L2S on PTB-Small
CUBE_BEAM = 30


def newest(benchmark: str, **options: Any) -> Line | None:
    """The newest line of a benchmark with these options, or whose figures are named so at the top."""
    found = [x for x in record.read(benchmark) if options.items() <= (x["options"] | _names(x)).items()]
    return found[-1] if found else None


def _names(line: Line) -> dict[str, Any]:
    return {key: line[key] for key in ("setting",) if key in line}


def judged(judge: Judge, *wanted: tuple[str, dict[str, Any]]) -> Callable[[Settings], Verdict]:
    """`measure` of a claim from the newest line of each (benchmark, options); not measured where one is missing."""

    def measure(settings: Settings) -> Verdict:
        lines = [newest(benchmark, **options) for benchmark, options in wanted]
        for line, (benchmark, options) in zip(lines, wanted, strict=True):
            if line is None:
                return Verdict(None, f"no line in bench/results/{benchmark}.jsonl with {options}")
        try:
            verdict = judge(*lines)
        except (KeyError, StopIteration) as error:  # a line from before the figure was recorded
            return Verdict(None, f"the newest lines have no {error}; measure again")
        commits = sorted({str(line["commit"])[:7] + ("*" if line["dirty"] else "") for line in lines if line})
        return Verdict(verdict.holds, f"{verdict.figure} [{', '.join(commits)}]")

    return measure


def screens(clusters: int = 100) -> tuple[str, dict[str, Any]]:
    return "published_screens", {"model": SMALL, "clusters": clusters}


def fastest(line: Line, method: str, p_at_1: float, p_at_5: float) -> Line | None:
    """The fastest setting of a method with these precisions."""
    good = [p for p in line["points"] if p["method"] == method and p["p_at_1"] >= p_at_1 and p["p_at_5"] >= p_at_5]
    return max(good, key=lambda p: p["ratio"], default=None)


def said(point: Line | None) -> str:
    """A point of a curve in words."""
    return f"x{point['ratio']:.1f} at {point['p_at_1']:.4f}/{point['p_at_5']:.4f}" if point else "never that precise"


def screen_speed(*lines: Line) -> Verdict:
    points = {"points": [point for line in lines for point in line["points"]]}
    own, native = (fastest(points, name, P_AT_1, P_AT_5) for name in ("l2s", "l2s, native"))
    holds = own is not None and own["ratio"] >= 10.6
    best = f", r = {own['dial']['clusters']}" if own else ""
    return Verdict(holds, f"NumPy next to NumPy {said(own)}; native {said(native)}; {SMALL}{best}")


def robust(*lines: Line) -> Verdict:
    """P@5 of L2S at the largest common budget over r, and whether L2S is faster than its start at that precision."""
    budget = max(set.intersection(*(set(line["options"]["budgets"]) for line in lines)))
    points = [
        next(p for p in line["points"] if p["method"] == "l2s" and p["dial"]["budget"] == budget) for line in lines
    ]
    found = ", ".join(f"r = {p['dial']['clusters']}: {p['p_at_1']:.4f}/{p['p_at_5']:.4f}" for p in points)
    start, own = (fastest(lines[1], name, P_AT_1, P_AT_5) for name in ("spherical", "l2s"))
    beats = start is None or (own is not None and own["ratio"] > 1.1 * start["ratio"])
    holds = beats and all(p["p_at_1"] >= P_AT_1 and p["p_at_5"] >= P_AT_5 for p in points)
    answer = "yes" if beats else "no: at that precision rare tokens fill the sets of both"
    return Verdict(holds, f"{budget} tokens a set, {found}; faster than its start at the paper's precision: {answer}")


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
        found = {name: fastest(line, name, p_at_1, p_at_5) for name in (names or (method,))}
        best = max((p["ratio"] for p in found.values() if p), default=0.0)
        return Verdict(best >= ratio, "; ".join(f"{name} {said(point)}" for name, point in found.items()))

    return judge


def screened_beams(line: Line) -> Verdict:
    holds, each = True, []
    for beam, speed, bleu in (("beam 1", 14.0, -0.04), ("beam 5", 13.0, -0.14)):
        found = line["beams"][beam]
        layer = found["times"]["exact"]["layer_ms"] / found["times"]["screen-alone"]["layer_ms"]
        holds &= layer >= speed and found["difference"] >= bleu
        each.append(f"{beam}: layer x{layer:.1f}, BLEU {found['difference']:+.2f}, {found['identical']:.1%} identical")
    return Verdict(holds, f"{line['options']['model']}, {'; '.join(each)}, over our native float32 layer")


def perplexity(line: Line) -> Verdict:
    found = line["completed"]
    full, own = found["full"]["perplexity"], found["l2s"]
    holds = own["ratio"] >= 5.69 and own["perplexity"] / full <= 115.91 / 112.28
    tail = found.get("l2s with a tail")
    extra = f"; with our residual mass {tail['perplexity']:.2f} at x{tail['ratio']:.1f}" if tail else ""
    words = line["options"]["words"]
    return Verdict(holds, f"{full:.2f} -> {own['perplexity']:.2f} at x{own['ratio']:.2f}, {words} words{extra}")


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


def clusters(line: Line) -> Verdict:
    first = line["best"]["1"]
    each = "; ".join(
        f"K = {k}: {p['most_active']:.1%} at most, BLEU {p['difference']:+.2f}, {p['identical']:.0%} identical"
        for k, p in line["best"].items()
    )
    holds = first["difference"] >= -0.3 and first["identical"] >= 0.92
    return Verdict(holds, f"{each}; {line['options']['fitted_on']:,} vectors (paper: 20 million sentences)")


def scopes(own: Line, target: Line) -> Verdict:
    most = [
        max(d["most_active"] for d in line["directions"] if d["direction"].endswith("-en")) for line in (own, target)
    ]
    return Verdict(most[0] < most[1] and most[0] <= 0.125, f"{most[0]:.2%} per direction, {most[1]:.2%} per target")


def union(line: Line) -> Verdict:
    calls = line["calls"]
    each = "; ".join(f"{name} x{calls[name]['ratio']:.1f}" for name in calls if name != "exact" and "float" not in name)
    return Verdict(calls["union, K = 1"]["ratio"] >= 2.4, f"on the CPU, 16,384 tokens, 40 rows: {each}")


def assessment(line: Line) -> Verdict:
    holds = line["identical"] >= 0.92 and line["false_alarms"] <= 0.1
    power = ", ".join(f"{share:.0%} of a bias of {bias}" for bias, share in line["power"].items())
    return Verdict(holds, f"{line['identical']:.1%} identical; found: {power}; false alarms {line['false_alarms']:.0%}")


def cube_point(line: Line, beam: int = CUBE_BEAM) -> Line:
    return next(p for p in line["points"] if p["beam_size"] == beam)


def cube(setting: str, times: float, within: float) -> Judge:
    """A setting with self-normalisation against beam search with it, at beam 30."""

    def judge(line: Line) -> Verdict:
        ratio = line["contenders"][setting]["ratio"]
        gain = line["bleu"][setting] - line["bleu"]["NBS+SN"]
        others = ", ".join(f"{n} x{c['ratio']:.2f}" for n, c in line["contenders"].items() if n != setting)
        figure = f"x{ratio:.2f}, BLEU {gain:+.2f} of {line['bleu']['NBS+SN']}, {line['options'].get('set', 'tatoeba')}"
        return Verdict(ratio >= times and gain >= -within, f"{figure}; {others}")

    return judge


def recurrent(line: Line) -> Verdict:
    point = cube_point(line, 10)
    facts = f"BLEU {point['bleu']} at beam 10, {point['ms_per_word']:.2f} ms a word, {line['options']['model']}"
    return Verdict(None, f"{facts}; the paper has no figure to hold it against")


def without_softmax(plain: Line, normalised: Line, cubes: Line, pruned: Line) -> Verdict:
    drop = [cube_point(b)["bleu"] - cube_point(a)["bleu"] for a, b in ((plain, pruned), (normalised, cubes))]
    return Verdict(
        drop[1] > drop[0],
        f"ACP moves BLEU by {drop[0]:+.2f} without and {drop[1]:+.2f} with self-normalisation, beam 30",
    )


def merging(*lines: Line) -> Verdict:
    rate = {line["setting"]: cube_point(line, 40)["merging_rate"] for line in lines}
    holds = rate["ACP-SN"] > 1.2 * rate["NCP-SN"]
    return Verdict(holds, "beam 40: " + ", ".join(f"{name} {value:.2f}" for name, value in rate.items()))


def baseline(line: Line, blas: Line) -> Verdict:
    row = line["steps"]["SHARP-0"]
    return Verdict(
        row["words_per_second"] >= 95, f"{row['words_per_second']} words/s; fastest matmul {blas['fastest']}"
    )


def step_of(name: str, before: str, target: float) -> Judge:
    """The factor of one step of SHARP's ablation, in int16 and int8."""

    def judge(line: Line) -> Verdict:
        rows, found = line["steps"], {}
        for kind in ("int16", "int8"):
            old = rows.get(f"{before} {kind}", rows.get(before))
            found[kind] = rows[f"{name} {kind}"]["ratio"] / old["ratio"]
        each = ", ".join(f"{kind} x{factor:.2f}" for kind, factor in found.items())
        return Verdict(found["int16"] >= target, f"{each}; model {line['options']['model']}")

    return judge


def merged(line: Line) -> Verdict:
    row, eight = line["steps"]["SHARP-5 int16"], line["steps"]["SHARP-5 int8"]
    off = abs(row["bleu"] - line["steps"]["SHARP-0"]["bleu"])
    holds = row["ratio"] >= 4.37 and row["same"] >= 0.999 and off <= 0.02
    return Verdict(
        holds,
        f"int16 x{row['ratio']:.2f}, {row['same']:.2%} identical, BLEU off {off:.3f}; int8 x{eight['ratio']:.2f}, "
        f"{eight['same']:.2%} identical; {line['distinct_parents']:.0%} distinct parents",
    )


def models(line: Line) -> Verdict:
    rows: dict[str, Line] = line["rows"]
    each = ", ".join(
        f"{n} {r['bleu']['tatoeba']:.2f} BLEU, {r['words_per_second']:.0f} words/s" for n, r in rows.items()
    )
    gain = rows["S4"]["bleu"]["tatoeba"] - rows["S1"]["bleu"]["tatoeba"]
    return Verdict(gain >= 1.2, f"{each}; S2, S3, S6, S7 not trained, the others not to the end")


def ensembles(line: Line) -> Verdict:
    bleu = {name: row["bleu"]["tatoeba"] for name, row in line["rows"].items()}
    gain = [bleu[name] - bleu["S4"] for name in ("E1", "E2")]
    return Verdict(gain[0] >= 0.9 and gain[1] >= 1.1, f"E1 {gain[0]:+.2f}, E2 {gain[1]:+.2f}; not 2 and 3 x S4")


def shares(line: Line) -> dict[str, float]:
    """Time of each strategy as a share of FIXED's."""
    return {name: 1 / row["ratio"] for name, row in line["contenders"].items()}


def pruning(line: Line) -> Verdict:
    rows = line["contenders"]
    gain = rows["VAR-BATCH"]["bleu"] - rows["FIXED"]["bleu"]
    return Verdict(
        gain >= -0.1,
        f"BLEU {gain:+.2f}, {rows['VAR-BATCH']['expansions'] / rows['FIXED']['expansions']:.2f} of the expansions",
    )


def variable(five: Line, fifty: Line) -> Verdict:
    found = [shares(line)["VAR-BATCH"] for line in (five, fifty)]
    return Verdict(
        found[1] <= 0.346 and found[0] <= 1.117, f"{found[0]:.2f} of FIXED's time at k = 5, {found[1]:.2f} at 50"
    )


def streaming(*lines: Line) -> Verdict:
    holds, each = True, []
    for line in lines:
        share, beam = shares(line), line["options"]["beam_size"]
        saved = 1 - share["VAR-STREAM"] / share["VAR-BATCH"]
        holds &= saved >= {5: 0.19, 50: 0.14}[beam]
        each.append(f"k = {beam}, {line['options']['rows']} rows: {saved:+.1%}")
    return Verdict(holds, f"time saved of VAR-BATCH's at equal memory: {'; '.join(each)}")


def variants(line: Line) -> Verdict:
    share = shares(line)
    fixed, fifo = share["FIXED-STREAM"] / share["FIXED-OURS"], share["VAR-STR-FIFO"] / share["VAR-STREAM"]
    return Verdict(fixed <= 0.784, f"FIXED-STREAM {fixed:.2f} of FIXED-OURS's time, FIFO {fifo:.2f} of VAR-STREAM's")


def fuller(line: Line) -> Verdict:
    per = {name: row["expansions_per_step"] for name, row in line["contenders"].items()}
    figure = f"translation, at most {line['options']['rows']} rows: {per['VAR-BATCH']} -> {per['VAR-STREAM']} a step"
    return Verdict(per["VAR-STREAM"] >= 72.1 / 16.9 * per["VAR-BATCH"], figure)


def parsing(*lines: Line) -> Verdict:
    holds, each = True, []
    for line in lines:
        row = line["strategies"]["VAR-STREAM"]
        holds &= row["paper"] is not None and row["f1"] >= row["paper"][0] - 3
        each.append(f"{line['options']['task']} {row['f1']} (oracle {row['oracle_f1']}; paper {row['paper']})")
    return Verdict(holds, "; ".join(each))


def memory(beam: int, rows: int) -> tuple[str, dict[str, Any]]:
    return "stream_memory", {"set": "tatoeba", "beam_size": beam, "rows": rows}


def setting(name: str) -> tuple[str, dict[str, Any]]:
    return "cube", {"setting": name}


CURVES = ("curves", {"model": SMALL})
TABLE_2: tuple[str, dict[str, Any]] = ("table2", {})
SHARP: tuple[str, dict[str, Any]] = ("sharp", {"set": "tatoeba", "model": "runs/sharp-s1/best"})  # its own model
HEADLINE: tuple[str, dict[str, Any]] = ("cube-headline", {"beam_size": CUBE_BEAM})
CLUSTERS = ("cvp_clusters", {"centroids": 400})
DIRECTIONS: Sequence[tuple[str, dict[str, Any]]] = [
    ("directions", {"scope": scope, "kind": "best 1"}) for scope in ("direction", "target")
]
SIX = [setting(f"{kind}{sn}SN") for sn in "-+" for kind in ("NBS", "NCP", "ACP")]
ACP = [setting(name) for name in ("NBS-SN", "NBS+SN", "ACP+SN", "ACP-SN")]
TABLE: list[tuple[str, str, str, Callable[[Settings], Verdict]]] = [
    ("L2S-1", "screened softmax, NumPy next to NumPy", "x10.6 at P@1 .998, P@5 .990",
     judged(screen_speed, *map(screens, PARAMETERS))),
    ("L2S-2", "learned clusters", "robust for r = 50..250; faster than their start",
     judged(robust, *map(screens, PARAMETERS))),
    ("L2S-3", "learned sets", "the budget is the dial of speed and accuracy", judged(dial, screens())),
    ("L2S-4", "spherical k-means screen", "x4 at .988/.992", judged(spherical, screens())),
    ("L2S-5", "SVD-softmax", "x0.8 at .987/.99", judged(of_table_2("SVD-softmax"), CURVES)),
    ("L2S-6", "adaptive softmax, trained", "x1.9 at .972/.981",
     judged(of_table_2("adaptive softmax", "adaptive softmax", "adaptive softmax, trained"), CURVES)),
    ("L2S-7", "FGD", "x1.3 at .980/.989", judged(of_table_2("FGD"), CURVES)),
    ("L2S-8", "Greedy-MIPS", "x0.5 at .998/.972", judged(of_table_2("Greedy-MIPS"), CURVES)),
    ("L2S-9", "PCA-MIPS", "x0.14 at .322/.341", judged(of_table_2("PCA tree"), CURVES)),
    ("L2S-10", "LSH-MIPS", "x1.3 at .165/.33", judged(of_table_2("LSH"), CURVES)),
    ("L2S-11", "beam search, probability 0 outside", "x14.0 at BLEU -.04 (beam 1), x13 at -.14 (beam 5)",
     judged(screened_beams, ("published_search", {"model": "de-en"}))),
    ("L2S-12", "perplexity, low rank outside", "x5.69, 112.28 -> 115.91",
     judged(perplexity, ("perplexity", {"model": SMALL}))),
    ("L2S-13", "an 80,000-token vocabulary", "more than x15",
     judged(large_vocabulary, ("curves", {"model": "lm-enwiki"}))),
    ("L2S-14", "the models", "PTB-Small 112.28, PTB-Large 78.32",
     judged(trained, ("text_perplexity", {"model": SMALL}))),
    ("CVP-1", "clusters of the own output, 400, K = 1", "BLEU within .3, 92% identical", judged(clusters, CLUSTERS)),
    ("CVP-2", "maps per direction, largest active share", "12.5% against 17.5% per target",
     judged(scopes, *DIRECTIONS)),
    ("CVP-3", "union of a batch, gathered GEMM", "x2.4 of the layer (GPU, fp16)",
     judged(union, ("cvp_union", {"centroids": 400}))),
    ("CVP-4", "end to end on a GPU, dense and experts", "+23..25%, +12..14%; +6..8%", pending("needs a GPU")),
    ("CVP-5", "quality evidence", "92% identical, differences by Wilcoxon's test",
     judged(assessment, ("assessment", {}))),
    ("CUBE-1", "RNNsearch with conditional GRU", "the baseline", judged(recurrent, setting("NBS-SN"))),
    ("CUBE-2", "naive cube pruning, beam 30", "a little faster, BLEU kept",
     judged(cube("NCP+SN", 1.0, 0.1), HEADLINE)),
    ("CUBE-3", "approximate cube pruning, beam 30", "x3.5, BLEU +.07", judged(cube("ACP+SN", 3.5, 0.0), HEADLINE)),
    ("CUBE-4", "self-normalisation", "needed for ACP to keep BLEU", judged(without_softmax, *ACP)),
    ("CUBE-5", "merging rates of six settings", "ACP's passes NCP's by a large margin", judged(merging, *SIX)),
    ("SHARP-0", "baseline decoder, fair", "95 words/s", judged(baseline, SHARP, ("sharp_blas", {}))),
    ("SHARP-1", "16-bit matmuls", "x2.59", judged(step_of("SHARP-1", "SHARP-0", 2.59), SHARP)),
    ("SHARP-2", "precomputed embeddings", "x1.25", judged(step_of("SHARP-2", "SHARP-1", 1.25), SHARP)),
    ("SHARP-3", "precomputed attention", "x1.10", judged(step_of("SHARP-3", "SHARP-2", 1.10), SHARP)),
    ("SHARP-4", "vectors and tables", "x1.13", judged(step_of("SHARP-4", "SHARP-3", 1.13), SHARP)),
    ("SHARP-5", "merged states; all steps", "x4.37, 99.9% identical, BLEU within .02", judged(merged, SHARP)),
    ("SHARP-6", "models S1 to S7", "S4 +1.2 BLEU over S1, 229 words/s", judged(models, TABLE_2)),
    ("SHARP-7", "ensembles", "+.9 of two, +1.1 of three", judged(ensembles, TABLE_2)),
    ("STREAM-1", "pruning heuristics, k = 5", "BLEU as FIXED's", judged(pruning, memory(5, 160))),
    ("STREAM-2", "VAR-BATCH", "1.117 of FIXED's time at k = 5, .346 at 50",
     judged(variable, memory(5, 160), memory(50, 500))),
    ("STREAM-3", "VAR-STREAM against VAR-BATCH", "-19% at k = 5, -14% at k = 50",
     judged(streaming, memory(5, 160), memory(50, 500))),
    ("STREAM-4", "FIFO, FIXED-STREAM", ".784 of FIXED-OURS's time", judged(variants, memory(50, 500))),
    ("STREAM-5", "a limit on expansions", "16.9 -> 72.1 a step (ATIS)",
     judged(fuller, memory(5, 160))),
    ("STREAM-6", "semantic and constituency parsing", "F1 within 3 points",
     judged(parsing, *(("parsing", {"task": task}) for task in ("jobs", "geo", "atis", "constituency")))),
]  # fmt: skip
CLAIMS = [Claim(*row) for row in TABLE]
