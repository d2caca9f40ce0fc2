"""How good translations are: BLEU and chrF as sacreBLEU computes them, with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from sharpbeam.errors import InputError, SharpbeamError


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


def load_metrics() -> ModuleType:
    """sacreBLEU's metrics; where it is not installed, SharpbeamError says what to install."""
    try:
        from sacrebleu import metrics
    except ModuleNotFoundError as error:
        raise SharpbeamError(
            "BLEU and chrF need the package sacrebleu, which is not installed; run: pip install sacrebleu"
        ) from error
    return metrics
