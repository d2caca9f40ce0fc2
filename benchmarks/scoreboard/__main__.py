"""`python -m benchmarks.scoreboard PART`: one line a claim, and exit status 0 only if all of them hold."""

from __future__ import annotations

import argparse
import sys
import traceback
from importlib import import_module
from pathlib import Path

from benchmarks.scoreboard.claim import Claim, Settings, Verdict
from benchmarks.subjects import MODELS
from benchmarks.testset import DATA, NoDataError

PARTS = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("__init__", "__main__", "claim")
)


def judge(claim: Claim, settings: Settings) -> Verdict:
    """Measure one claim; whatever goes wrong is a miss, and is said."""
    try:
        return claim.measure(settings)
    except NoDataError as error:
        return Verdict(False, f"skipped: {error}")
    except Exception as error:  # the other claims are still to be measured
        traceback.print_exc()
        return Verdict(False, f"failed: {type(error).__name__}: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scoreboard", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", default=DATA, help="folder of the text")
    parser.add_argument("--model", default="de-en", help="a model folder or a bundled name")
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), help="folders that several models are looked for in"
    )
    parser.add_argument("--quick", action="store_true", help="fewer sentences and rounds: under ten minutes")
    arguments = parser.parse_args()
    claims: list[Claim] = import_module(f"benchmarks.scoreboard.{arguments.part}").CLAIMS
    settings = Settings(arguments.data, arguments.model, arguments.quick, tuple(arguments.models))
    verdicts = []
    for claim in claims:
        verdict = judge(claim, settings)
        verdicts.append(verdict.holds)
        word = "holds " if verdict.holds else "misses"
        print(f"{word}  {claim.number:<3} {claim.says}: {verdict.figure} (target: {claim.target})", flush=True)
    print(f"{sum(verdicts)} of {len(verdicts)} claims hold")
    sys.exit(not all(verdicts))


if __name__ == "__main__":
    main()
