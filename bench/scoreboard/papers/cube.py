"""The rows of CUBE (Zhang et al. 2018): cube pruning inside of beam search, and self-normalisation."""

from __future__ import annotations

from bench.scoreboard.claim import Verdict
from bench.scoreboard.papers.row import Judge, Line, Wanted, by_option, commits, row

BEAM = 30
HEADLINE: Wanted = ("cube-headline", {"beam_size": BEAM})
MERGING: Wanted = ("cube_merging", {"beam_size": BEAM})


def setting(name: str) -> Wanted:
    """The curve of a setting over beams."""
    return "cube", {"setting": name}


SIX = [setting(f"{kind}{sn}SN") for sn in "-+" for kind in ("NBS", "NCP", "ACP")]


def point(line: Line, beam: int = BEAM) -> Line:
    """The figures at one beam."""
    return next(p for p in line["points"] if p["beam_size"] == beam)


def recurrent(line: Line) -> Verdict:
    """The paper's baseline has its best BLEU at beam 30: ours must be better there than greedy and than at beam 10."""
    bleu = {p["beam_size"]: p["bleu"] for p in line["points"]}
    best = max(bleu, key=lambda beam: bleu[beam])
    each = ", ".join(f"{value} at {beam}" for beam, value in bleu.items())
    return Verdict(bleu[BEAM] > max(bleu[1], bleu[10]), f"{line['options']['model']}, BLEU {each}; best at {best}")


def headline(name: str, times: float, within: float) -> Judge:
    """A setting with self-normalisation against beam search with it, at beam 30."""

    def judge(line: Line) -> Verdict:
        ratio = line["contenders"][name]["ratio"]
        gain = line["bleu"][name] - line["bleu"]["NBS+SN"]
        others = ", ".join(f"{n} x{c['ratio']:.2f}" for n, c in line["contenders"].items() if n != name)
        figure = f"x{ratio:.2f}, BLEU {gain:+.2f} of {line['bleu']['NBS+SN']}, {line['options'].get('set', 'tatoeba')}"
        return Verdict(ratio >= times and gain >= -within, f"{figure}; {others}")

    return judge


def texts() -> list[Line]:
    """The newest line of each set."""
    return by_option("cube_merging", "set", beam_size=BEAM)


def rows_run(_: Line) -> str:
    """The most that ACP can gain: beam search's rows over those that it runs."""
    each = [
        f"{x['options']['set']} x{p['NBS+SN']['rows_per_step'] / p['ACP+SN']['model_rows_per_step']:.2f}"
        for x in texts()
        for p in (x["points"],)
    ]
    return (
        f"time goes with the rows that the model runs, and those of beam search over ACP's, the most it can gain, are "
        f"{', '.join(each)}{commits(texts())}"
    )


def without_softmax(line: Line) -> Verdict:
    """How far ACP moves BLEU without and with self-normalisation, and how near log Z is to 0."""
    bleu = {name: p["bleu"] for name, p in line["points"].items()}
    drop = [bleu[f"ACP{sn}SN"] - bleu[f"NBS{sn}SN"] for sn in "-+"]
    normaliser = ", ".join(f"{z['mean']:.2f} (deviation {z['deviation']:.2f})" for z in line["log_z"].values())
    options = line["options"]
    return Verdict(
        drop[1] > drop[0],
        f"{options['set']}, {options['sentences']} sentences: ACP moves BLEU by {drop[0]:+.2f} without and "
        f"{drop[1]:+.2f} with self-normalisation, beam 30; log Z {normaliser}",
    )


def kept_anyway(_: Line) -> str:
    """How far ACP moves BLEU on each text without self-normalisation."""
    each = [
        f"{x['points']['ACP-SN']['bleu'] - x['points']['NBS-SN']['bleu']:+.2f} on {x['options']['sentences']} "
        f"sentences of {x['options']['set']}"
        for x in texts()
    ]
    return f"with a softmax ACP loses no BLEU here that could be kept: {', '.join(each)}{commits(texts())}"


def merging(*lines: Line) -> Verdict:
    rate = {line["setting"]: point(line, 40)["merging_rate"] for line in lines}
    holds = rate["ACP-SN"] > 1.2 * rate["NCP-SN"]
    return Verdict(holds, "beam 40: " + ", ".join(f"{name} {value:.2f}" for name, value in rate.items()))


def by_text(_: Line) -> str:
    """The rates on each text, by its length."""
    each = [
        f"{x['options']['set']} ({x['words']:.0f} words) "
        + ", ".join(f"{name} {p[name]['merging_rate']:.2f}" for name in ("NCP-SN", "NCP+SN", "ACP-SN", "ACP+SN"))
        for x in sorted(texts(), key=lambda x: float(x["words"]))
        for p in (x["points"],)
    ]
    return (
        f"rows merge by their last token, and a beam of 30 has a dozen different ones whatever the length of the text, "
        f"without and with self-normalisation: {'; '.join(each)}{commits(texts())}"
    )


ROWS = [
    row("CUBE-1", "RNNsearch with conditional GRU", "the baseline: best BLEU at beam 30", recurrent, setting("NBS-SN")),
    row("CUBE-2", "naive cube pruning, beam 30", "a little faster, BLEU kept", headline("NCP+SN", 1.0, 0.1), HEADLINE),
    row("CUBE-3", "approximate cube pruning, beam 30", "x3.5, BLEU +.07",
        headline("ACP+SN", 3.5, 0.0), HEADLINE, because=rows_run, by=[MERGING]),
    row("CUBE-4", "self-normalisation", "needed for ACP to keep BLEU",
        without_softmax, ("cube_merging", {"beam_size": BEAM, "set": "multi30k"}), because=kept_anyway),
    row("CUBE-5", "merging rates of six settings", "ACP's passes NCP's by a large margin",
        merging, *SIX, because=by_text, by=[MERGING]),
]  # fmt: skip
