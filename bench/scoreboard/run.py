"""The scoreboard of a part: one line a claim, and exit status 0 only if none of them misses."""

from __future__ import annotations

import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from bench.harness import record
from bench.harness.testset import DATA, NoDataError
from bench.papers.l2s.subjects import MODELS
from bench.scoreboard.claim import Claim, Settings, Verdict

FRAME = ("__init__", "claim", "run")
PARTS = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*") if path.stem not in FRAME)


def wanted(claim: Claim, numbers: list[str]) -> bool:
    """Whether one of the numbers names the claim, or all that begin with it: 2 names 2, 2a and 2b."""
    return not numbers or claim.number in numbers or claim.number.rstrip("abcdefgh") in numbers


def judge(claim: Claim, settings: Settings) -> Verdict:
    """Measure one claim; what is not there is not measured, and whatever else goes wrong is a miss."""
    if claim.slow and settings.quick:
        return Verdict(None, "takes minutes: left out with QUICK=1")
    try:
        return claim.measure(settings)
    except NoDataError as error:
        return Verdict(None, str(error))
    except Exception as error:  # the other claims are still to be measured
        traceback.print_exc()
        return Verdict(False, f"failed: {type(error).__name__}: {error}")


def keep(part: str, claim: Claim, verdict: Verdict, settings: Settings, seconds: float) -> None:
    """Add the verdict to results/scoreboard.jsonl: what was promised, what was found, on which commit."""
    options = {"part": part, "claim": claim.number, "model": settings.model, "quick": settings.quick}
    said = {"says": claim.says, "target": claim.target, "figure": verdict.figure, "holds": verdict.holds}
    said |= {"because": verdict.because} if verdict.because else {}
    record.write("scoreboard", said | {"seconds": round(seconds, 1)}, threads=1, options=options)


def main(
    part: Annotated[str, typer.Argument(help=f"one of {', '.join(PARTS)}")],
    data: Annotated[str, typer.Option(help="folder of the text")] = DATA,
    model: Annotated[str, typer.Option(help="a model folder or a bundled name")] = "de-en",
    models: Annotated[str, typer.Option(help="folders that several models are looked for in")] = " ".join(MODELS),
    claim: Annotated[str, typer.Option(help='only these, as "2a 5" (2 names 2, 2a, 2b, ...)')] = "",
    quick: Annotated[bool, typer.Option(help="fewer sentences and rounds, no slow claim: under ten minutes")] = False,
    write: Annotated[bool, typer.Option(help="add the verdicts to bench/results/scoreboard.jsonl")] = True,
) -> None:
    """Measure the claims of a part and print a line for each."""
    if part not in PARTS:
        raise typer.BadParameter(f"no part {part!r}; there are {', '.join(PARTS)}")
    every: list[Claim] = import_module(f"bench.scoreboard.{part}").CLAIMS
    claims = [one for one in every if wanted(one, claim.split())]
    if not claims:
        raise typer.BadParameter(f"no claim {claim!r}; part {part} has {', '.join(one.number for one in every)}")
    settings = Settings(data, model, quick, tuple(models.split()))
    verdicts, explained = [], 0
    for one in claims:
        start = time.perf_counter()
        verdict = judge(one, settings)
        if write:
            keep(part, one, verdict, settings, time.perf_counter() - start)
        verdicts.append(verdict.word)
        explained += verdict.explained
        because = f"; {verdict.word}, because {verdict.because}" if verdict.because else ""
        print(
            f"{verdict.word:<12}  {one.number:<3} {one.says}: {verdict.figure} (target: {one.target}){because}",
            flush=True,
        )
    print(", ".join(f"{verdicts.count(word)} {word}" for word in ("holds", "misses", "not measured")))
    print(f"{explained} of {len(verdicts)} hold or have their reason measured")
    raise typer.Exit(int("misses" in verdicts))
