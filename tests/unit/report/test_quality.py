"""BLEU and chrF are sacreBLEU's, with its signatures."""

from __future__ import annotations

import sys

import pytest

from sharpbeam.errors import InputError, SharpbeamError
from sharpbeam.report.quality import quality

REFERENCES = ["The cat sat on the mat.", "It rains today in the whole country."]


def test_equal_text_is_100() -> None:
    pytest.importorskip("sacrebleu")
    found = quality(REFERENCES, REFERENCES)
    assert found.bleu == pytest.approx(100)
    assert found.chrf == pytest.approx(100)


def test_figures_and_signatures_are_sacrebleus() -> None:
    sacrebleu = pytest.importorskip("sacrebleu")
    hypotheses = ["the cat sat on a mat.", "It rains today in the country."]
    found = quality(hypotheses, REFERENCES)
    assert found.bleu == sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score
    assert found.chrf == sacrebleu.corpus_chrf(hypotheses, [REFERENCES]).score
    assert found.bleu < 100  # cased
    assert found.bleu_signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert found.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_lengths_must_agree_and_there_must_be_something() -> None:
    with pytest.raises(InputError, match="1 translations but 2 references"):
        quality(["a"], REFERENCES)
    with pytest.raises(InputError, match="nothing to measure"):
        quality([], [])


def test_without_sacrebleu_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(SharpbeamError, match="pip install sacrebleu"):
        quality(["a"], ["b"])
