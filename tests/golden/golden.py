"""Digests of every answer of two small models: `python tests/golden/golden.py` writes answers.json anew.

The models have random weights and all fitted artifacts. Write the answers anew only with a change that is meant to
change them, and say so in its commit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sharpbeam import Translation, Translator

HERE = Path(__file__).parent
ANSWERS = HERE / "answers.json"
MODELS, COMPUTE_TYPES = ("gru", "transformer"), ("float32", "int8")
LAYERS: dict[str, dict[str, Any]] = {
    "exact": {},
    "scan": {},
    "preview": {},
    "preview proven": {"output_layer": "preview", "fidelity": 1.0},
    "screen": {},
    "screen alone": {"output_layer": "screen", "screen_sets": "alone"},
    "screen union": {"output_layer": "screen", "screen_sets": "union"},
    "shortlist": {},
}
SEARCHES: dict[str, dict[str, Any]] = {
    "greedy": {"beam_size": 1, "return_scores": True},
    "beam": {"beam_size": 5},
    "attention": {"beam_size": 4, "num_hypotheses": 3, "return_attention": True},
    "margin": {"beam_size": 6, "max_score_margin": 3.0},
    "cube": {"beam_size": 5, "cube_pruning": "exact"},
    "approximate cube": {"beam_size": 5, "cube_pruning": "approximate"},
    "sampling": {"sampling": True, "num_hypotheses": 2, "seed": 3},
    "stay": {"beam_size": 4, "finishing": "stay", "early_stopping": "proven"},
    "n-grams": {"beam_size": 3, "no_repeat_ngram_size": 2},
    "alternatives": {"beam_size": 3, "return_alternatives": True, "num_hypotheses": 3},
    "repetition": {"beam_size": 3, "repetition_penalty": 1.3},
    "coverage": {"beam_size": 3, "coverage_penalty": 0.2},
}
STREAM = {"schedule": "stream", "max_rows": 20}


def answers(model: str, compute_type: str, texts: Sequence[str]) -> dict[str, str]:
    """The digest of each combination of layer and search, for texts one by one and in a stream."""
    translator = Translator(HERE / model, compute_type=compute_type, threads=1)
    digests = {}
    for layer, layer_options in LAYERS.items():
        for search, search_options in SEARCHES.items():
            options = {"output_layer": layer, "max_length": 48, "raw": True} | layer_options | search_options
            name = f"{model}, {compute_type}, {layer}, {search}"
            digests[f"{name}, one by one"] = digest([translator.translate([text], **options)[0] for text in texts])
            digests[f"{name}, stream"] = digest(translator.translate(texts, **options, **STREAM))
    return digests


def digest(translations: Sequence[Translation]) -> str:
    """Of texts, tokens, all bits of scores, and attention."""
    state = hashlib.sha256()
    for translation in translations:
        for each in translation.hypotheses:
            numbers = [None if x is None else float(x).hex() for x in (each.score, each.log_prob, *each.token_scores)]
            state.update(repr((each.text, each.tokens, numbers, each.attention)).encode())
    return state.hexdigest()[:16]


def main() -> None:
    """Write answers.json."""
    from tests.conftest import make_sentences

    texts = make_sentences(12, seed=9)
    digests = {key: d for model in MODELS for kind in COMPUTE_TYPES for key, d in answers(model, kind, texts).items()}
    ANSWERS.write_text(json.dumps(digests, indent=0) + "\n")


if __name__ == "__main__":
    main()
