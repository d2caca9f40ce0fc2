"""Quality of translations, BLEU and chrF as sacreBLEU computes them, with its signatures; and speed on a test set."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sharpbeam.errors import InputError, needs_extra
from sharpbeam.jobs.memory import peak_memory

if TYPE_CHECKING:
    from sharpbeam.api.translator import Translator


@dataclass(frozen=True)
class Quality:
    """Corpus scores from 0 to 100, and the signatures that say exactly how they were computed."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def quality(hypotheses: Sequence[str], references: Sequence[str]) -> Quality:
    """BLEU (cased, 13a) and chrF (sacreBLEU's defaults) of hypotheses against one reference each."""
    if len(hypotheses) != len(references):
        raise InputError(f"there are {len(hypotheses)} translations but {len(references)} references.")
    if not references:
        raise InputError("there is nothing to measure: the reference has no lines.")
    metrics = load_metrics()
    bleu, chrf = metrics.BLEU(), metrics.CHRF()
    bleu_score = bleu.corpus_score(list(hypotheses), [list(references)]).score
    chrf_score = chrf.corpus_score(list(hypotheses), [list(references)]).score
    return Quality(bleu_score, str(bleu.get_signature()), chrf_score, str(chrf.get_signature()))


def load_metrics() -> Any:
    """sacreBLEU's metrics; raises SharpbeamError, with the command to install it, if it is missing."""
    with needs_extra("measuring BLEU and chrF", "report"):
        from sacrebleu import metrics
    return metrics


@dataclass(frozen=True)
class Evaluation:
    """Quality and speed of one way to decode a test set. Words are those of the source, separated by spaces."""

    quality: Quality
    sentences: int
    words: int
    seconds: float  # translating only: the model is loaded before, BLEU is computed after

    def record(self) -> dict[str, Any]:
        """The figures as JSON, with the peak memory of this process."""
        return {
            **dataclasses.asdict(self.quality),
            "sentences": self.sentences,
            "words": self.words,
            "seconds": round(self.seconds, 6),
            "words_per_second": round(self.words / self.seconds, 2),
            "sentences_per_second": round(self.sentences / self.seconds, 2),
            "peak_memory_mib": round(peak_memory() / 2**20, 1),
        }

    def summary(self) -> str:
        """The figures as text."""
        figures = self.record()
        return (
            f"  BLEU {self.quality.bleu:.2f}  {self.quality.bleu_signature}\n"
            f"  chrF {self.quality.chrf:.2f}  {self.quality.chrf_signature}\n"
            f"  {self.sentences} sentences in {self.seconds:.1f} s: {figures['sentences_per_second']:.1f} sentences/s, "
            f"{figures['words_per_second']:.0f} words/s, peak memory {figures['peak_memory_mib']:.0f} MiB"
        )


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Evaluation:
    """Translate `sources` with the decoding `options` and compare the best hypotheses with `references`."""
    began = time.perf_counter()
    translations = translator.translate(sources, raw=True, progress=progress, **options)
    seconds = time.perf_counter() - began
    words = sum(len(source.split()) for source in sources)
    return Evaluation(quality([t.text for t in translations], references), len(sources), words, seconds)
