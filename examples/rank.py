"""Rank given translations of one sentence by their score."""

from __future__ import annotations

from sharpbeam import Translator

SOURCE = "Wir haben den letzten Bus verpasst."
CANDIDATES = ["We missed the last bus.", "We have the last bus missed.", "The weather is nice."]

answers = Translator("de-en").score([SOURCE] * len(CANDIDATES), CANDIDATES)
for answer in sorted(answers, key=lambda answer: -answer.score):
    print(f"{answer.score:8.3f}  {answer.text}")
