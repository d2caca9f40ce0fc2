"""Translate a few sentences, with alternatives and the scores of their tokens."""

from __future__ import annotations

from sharpbeam import Translator

translator = Translator("de-en")  # a bundled name, or a model folder
texts = ["Der Zug fährt in zehn Minuten.", "Ich habe meinen Schlüssel vergessen."]

for translation in translator.translate(texts, beam_size=5, num_hypotheses=3):
    print(translation.source)
    for hypothesis in translation.hypotheses:
        print(f"  {hypothesis.score:7.3f}  {hypothesis.text}")
    for piece, log_prob in zip(translation.tokens, translation.token_scores, strict=False):  # eos has no piece
        print(f"    {log_prob:7.3f}  {piece}")
