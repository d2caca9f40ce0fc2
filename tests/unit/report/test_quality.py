"""BLEU and chrF are sacreBLEU's, with its signatures."""

from __future__ import annotations

import sys

import pytest

from sharpbeam.errors import InputError, SharpbeamError
from sharpbeam.report.quality import quality

REFERENCES = ["The cat sat on the mat.", "It rains today in the whole country."]


def test_equal_text_is_100() -> None:
    pytest.importorskip("sacrebleu")
    result = quality(REFERENCES, REFERENCES)
    assert result.bleu == pytest.approx(100)
    assert result.chrf == pytest.approx(100)


def test_figures_and_signatures_are_sacrebleus() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    hypotheses = ["the cat sat on a mat.", "It rains today in the country."]
    result = quality(hypotheses, REFERENCES)
    assert result.bleu == sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score
    assert result.chrf == sacrebleu.corpus_chrf(hypotheses, [REFERENCES]).score
    assert result.bleu < 100  # cased
    assert result.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert result.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_lengths_must_agree_and_there_must_be_something() -> None:
    with pytest.raises(InputError, match="1 translations but 2 references"):
        quality(["a"], REFERENCES)
    with pytest.raises(InputError, match="nothing to measure"):
        quality([], [])


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(SharpbeamError, match=r"pip install 'sharpbeam\[report\]'"):
        quality(["a"], ["b"])
