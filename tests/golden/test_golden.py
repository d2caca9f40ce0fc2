"""Every layer x search x schedule still gives the answers that were written once, bit for bit."""

from __future__ import annotations

import json

import pytest
from golden.golden import ANSWERS, COMPUTE_TYPES, MODELS, answers

from tests.conftest import make_sentences


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
@pytest.mark.parametrize("model", MODELS)
def test_answers_are_those_that_were_written(model: str, compute_type: str) -> None:
    written = json.loads(ANSWERS.read_text())
    digests = answers(model, compute_type, make_sentences(12, seed=9))
    assert len(digests) == 192
    assert [key for key, digest in digests.items() if written[key] != digest] == []
