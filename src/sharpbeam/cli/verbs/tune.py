"""`sharpbeam tune`: the fastest number type and output layer of a model on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.options.schema import option


@verb()
def tune(
    model: str = argument("A translation model's folder; tuned.json is written into it."),
    *,
    text: list[Path] = option((), "Source text of the kind you translate, one sentence a line. Default: samples."),
    beam_size: int | None = option(None, "Hypotheses kept at each step; 1 = greedy. Default: the model's own.", ge=1),
    sentences: int = option(100, "Sentences of the text that every choice translates."),
    source_language: str = option("", "Language of the text, for a multilingual model."),
    target_language: str = option("", "Language to translate into, for a multilingual model."),
    threads: int = option(1, "Workers that decode in parallel."),
    same: float = option(0.99, "Least share of sentences with the answer of float32, or as many as now."),
    dry_run: bool = option(False, "Measure, and write nothing."),
    undo: bool = option(False, "Remove an earlier choice, and measure nothing."),
) -> None:
    """Measure number types and output layers on this machine, and use the fastest with as many of the answers as now.

    Takes minutes. The table has what you use now, the time of each choice against it, and the share of sentences that
    come out as with float32 and the exact layer. If nothing is faster, the present choice stays.

    Examples:

    * `sharpbeam tune opus-en-pt --text news.en`
    * `sharpbeam tune opus-en-pt --undo`
    """
    from sharpbeam.report import tune as tuning

    if undo:
        removed = tuning.undo_tuning(model)
        print(f"{model}: {'the choice of tune was removed' if removed else 'there was no choice of tune'}.")
        return
    end, begin = ("", "\r\x1b[K") if sys.stderr.isatty() else ("\n", "")
    how: Any = {"beam_size": beam_size, "sentences": sentences, "threads": threads, "same": same, "dry_run": dry_run}
    how |= {"source_language": source_language, "target_language": target_language}
    how["progress"] = lambda note: print(f"{begin}{note}", end=end, file=sys.stderr, flush=True)
    result = tuning.tune(model, list(text), **how)
    print(begin, end="", file=sys.stderr, flush=True)
    print(result.table())
