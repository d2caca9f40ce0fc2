"""The rows of SHARP (Devlin 2017): a recurrent decoder on one core, step by step."""

from __future__ import annotations

from bench.papers.sharp.sharp import BASELINE, BLAS, BLEU_WITHIN, SAME
from bench.scoreboard.claim import Verdict
from bench.scoreboard.papers.row import Because, Judge, Line, Wanted, row

MODEL = "runs/sharp-s1/best"  # the paper's own kind
TABLE: Wanted = ("sharp", {"set": "tatoeba", "model": MODEL})
SHARES: Wanted = ("sharp_shares", {"model": MODEL})
TABLE_2: Wanted = ("table2", {})
S1, S4 = (("training", {"recipe": f"sharp-{name}"}) for name in ("s1", "s4"))


def baseline(line: Line, blas: Line) -> Verdict:
    """Whether SHARP-0 multiplies by the fastest float32 matmul of one to six rows on every shape."""
    rows, fastest = line["steps"], blas["fastest"]
    shapes = len(blas["products"])
    slower = rows[BLAS]["ratio"]
    return Verdict(
        fastest.get("Sharpbeam", 0) == shapes and slower < 1,
        f"ours is the fastest on {fastest.get('Sharpbeam', 0)} of {shapes}; {rows[BASELINE]['words_per_second']} "
        f"words/s, by OpenBLAS x{slower:.2f} (paper: 95 words/s on hardware of 2017)",
    )


def step_of(name: str, before: str, target: float) -> Judge:
    """The factor of one step of SHARP's ablation, in int16 and int8."""

    def judge(line: Line) -> Verdict:
        rows, factors = line["steps"], {}
        for kind in ("int16", "int8"):
            old = rows.get(f"{before} {kind}", rows.get(before))
            factors[kind] = rows[f"{name} {kind}"]["ratio"] / old["ratio"]
        each = ", ".join(f"{kind} x{factor:.2f}" for kind, factor in factors.items())
        return Verdict(factors["int16"] >= target, f"{each}; model {line['options']['model']}")

    return judge


def matmuls(shares: Line, line: Line) -> str:
    row_0, most = shares["steps"][BASELINE], shares["most"]["SHARP-1"]
    over = line["steps"]["SHARP-1 int16"]["ratio"] / line["steps"][BLAS]["ratio"]
    return (
        f"matmuls of the steps are {row_0['matmuls'] / row_0['ms']:.0%} of SHARP-0's time, so that without them it "
        f"would be x{most:.2f}; over the same by OpenBLAS int16 is x{over:.1f}"
    )


def spared(name: str, before: str) -> Because:
    """The most that a step with precomputed matmuls can give."""

    def because(line: Line) -> str:
        old, new = line["steps"][before], line["steps"][f"{name} int16"]
        return (
            f"the matmuls that it spares take {max(old['matmuls'] - new['matmuls'], 0.0):.2f} of {old['ms']:.2f} ms a "
            f"sentence, at most x{line['most'][name]:.2f}"
        )

    return because


def merged(line: Line) -> Verdict:
    last, eight = line["steps"]["SHARP-5 int16"], line["steps"]["SHARP-5 int8"]
    off = abs(last["bleu"] - line["steps"][BASELINE]["bleu"])
    holds = last["ratio"] >= 4.37 and last["same"] >= SAME and off <= BLEU_WITHIN
    return Verdict(
        holds,
        f"int16 x{last['ratio']:.2f}, {last['same']:.2%} identical, BLEU off {off:.3f}; int8 x{eight['ratio']:.2f}, "
        f"{eight['same']:.2%} identical; {line['distinct_parents']:.0%} distinct parents",
    )


def over_blas(line: Line) -> str:
    slower = line["steps"][BLAS]["ratio"]
    each = [line["steps"][f"SHARP-5 {kind}"]["ratio"] / slower for kind in ("int16", "int8")]
    return (
        f"this SHARP-0 is x{1 / slower:.1f} of the same by OpenBLAS, over which all steps are x{each[0]:.1f} (int16) "
        f"and x{each[1]:.1f} (int8)"
    )


def models(line: Line) -> Verdict:
    rows: dict[str, Line] = line["rows"]
    each = ", ".join(
        f"{n} {r['bleu']['tatoeba']:.2f} BLEU, {r['words_per_second']:.0f} words/s" for n, r in rows.items()
    )
    gain = rows["S4"]["bleu"]["tatoeba"] - rows["S1"]["bleu"]["tatoeba"]
    trained = {"S1", "S2", "S3", "S4", "S5", "S6", "S7"} <= set(rows)
    return Verdict(trained and gain >= 1.2, f"{each}; S2, S3, S6, S7 not trained, the others not to the end")


def ensembles(line: Line) -> Verdict:
    bleu = {name: r["bleu"]["tatoeba"] for name, r in line["rows"].items()}
    gain = [bleu[name] - bleu["S4"] for name in ("E1", "E2")]
    return Verdict(gain[0] >= 0.9 and gain[1] >= 1.1, f"E1 {gain[0]:+.2f}, E2 {gain[1]:+.2f}; not 2 and 3 x S4")


def hours(*lines: Line) -> str:
    each = ", ".join(
        f"{x['options']['recipe'].removeprefix('sharp-').upper()} {x['hours']:.1f} hours of a core" for x in lines
    )
    return f"members had a quarter of their steps or less, S2, S3, S6 and S7 none; to the end they take {each}"


ROWS = [
    row("SHARP-0", "baseline decoder, fair", "the fastest float32 matmul of one to six rows",
        baseline, TABLE, ("sharp_blas", {})),
    row("SHARP-1", "16-bit matmuls", "x2.59", step_of("SHARP-1", "SHARP-0", 2.59), TABLE,
        because=matmuls, by=[SHARES, TABLE]),
    row("SHARP-2", "precomputed embeddings", "x1.25", step_of("SHARP-2", "SHARP-1", 1.25), TABLE,
        because=spared("SHARP-2", "SHARP-1 int16"), by=[SHARES]),
    row("SHARP-3", "precomputed attention", "x1.10", step_of("SHARP-3", "SHARP-2", 1.10), TABLE,
        because=spared("SHARP-3", "SHARP-2 int16"), by=[SHARES]),
    row("SHARP-4", "vectors and tables", "x1.13", step_of("SHARP-4", "SHARP-3", 1.13), TABLE),
    row("SHARP-5", "merged states; all steps", "x4.37, 99.9% identical, BLEU within .02", merged, TABLE,
        because=over_blas),
    row("SHARP-6", "models S1 to S7", "S4 +1.2 BLEU over S1, 229 words/s", models, TABLE_2, because=hours, by=[S1, S4]),
    row("SHARP-7", "ensembles", "+.9 of two, +1.1 of three", ensembles, TABLE_2, because=hours, by=[S1, S4]),
]  # fmt: skip
