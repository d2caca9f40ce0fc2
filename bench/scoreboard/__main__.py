"""`python -m bench.scoreboard PART`: one line a claim, and exit status 0 only if all of them hold."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

from bench.harness import record
from bench.harness.testset import DATA, NoDataError
from bench.papers.l2s.subjects import MODELS
from bench.scoreboard.claim import Claim, Settings, Verdict

PARTS = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__", "claim")
)


def wanted(claim: Claim, numbers: list[str]) -> bool:
    """Whether one of the numbers names the claim, or all that begin with it: 2 names 2, 2a and 2b."""
    return claim.number in numbers or claim.number.rstrip("abcdefgh") in numbers


def judge(claim: Claim, settings: Settings) -> Verdict:
    """Measure one claim; whatever goes wrong is a miss, and is said."""
    try:
        return claim.measure(settings)
    except NoDataError as error:
        return Verdict(False, f"skipped: {error}")
    except Exception as error:  # the other claims are still to be measured
        traceback.print_exc()
        return Verdict(False, f"failed: {type(error).__name__}: {error}")


def keep(part: str, claim: Claim, verdict: Verdict, settings: Settings, seconds: float) -> None:
    """Add the verdict to results/scoreboard.jsonl: what was promised, what was found, on which commit."""
    options = {"part": part, "claim": claim.number, "model": settings.model, "quick": settings.quick}
    said = {"says": claim.says, "target": claim.target, "figure": verdict.figure, "holds": verdict.holds}
    record.write("scoreboard", said | {"seconds": round(seconds, 1)}, threads=1, options=options)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scoreboard", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", default=DATA, help="folder of the text")
    parser.add_argument("--model", default="de-en", help="a model folder or a bundled name")
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), help="folders that several models are looked for in"
    )
    parser.add_argument("--quick", action="store_true", help="fewer sentences and rounds: under ten minutes")
    parser.add_argument("--claim", nargs="+", default=[], metavar="N", help="only these, as 2a or 2 (2a, 2b, ...)")
    arguments = parser.parse_args()
    every: list[Claim] = import_module(f"bench.scoreboard.{arguments.part}").CLAIMS
    claims = [claim for claim in every if not arguments.claim or wanted(claim, arguments.claim)]
    if not claims:
        numbers = ", ".join(dict.fromkeys(claim.number for claim in every))
        parser.error(f"--claim {' '.join(arguments.claim)}: part {arguments.part} has {numbers}")
    settings = Settings(arguments.data, arguments.model, arguments.quick, tuple(arguments.models))
    verdicts = []
    for claim in claims:
        start = time.perf_counter()
        verdict = judge(claim, settings)
        keep(arguments.part, claim, verdict, settings, time.perf_counter() - start)
        verdicts.append(verdict.holds)
        word = "holds " if verdict.holds else "misses"
        print(f"{word}  {claim.number:<3} {claim.says}: {verdict.figure} (target: {claim.target})", flush=True)
    print(f"{sum(verdicts)} of {len(verdicts)} claims hold")
    sys.exit(not all(verdicts))


if __name__ == "__main__":
    main()
