"""The settings of cube pruning, and a bench of two models of one recipe that decodes with each of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from bench.harness.testset import test_pairs
from sharpbeam import Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.report.quality import load_metrics

Options = dict[str, Any]


class WrongAnswerError(Exception):
    """A setting does not say what it should, so its time means nothing."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A way to decode."""

    name: str
    normalized: bool  # False: the self-normalized model, without a softmax
    options: Options

    def choices(self, beam: int) -> Options:
        """The options of a translation."""
        return self.options | {"beam_size": beam, "normalize": self.normalized, "return_scores": True}


def settings() -> list[Setting]:
    """The paper's six; approximate pruning by likeness; and beams of variable width (STREAM-1), without and with it."""
    kinds: dict[str, Options] = {
        "NBS": {},
        "NCP": {"cube_pruning": "exact"},
        "ACP": {"cube_pruning": "approximate"},
    }
    six = [
        Setting(f"{name}{'-' if normalized else '+'}SN", normalized, options)
        for normalized in (True, False)
        for name, options in kinds.items()
    ]
    both: Options = {"cube_pruning": "approximate", "merge_by": "both", "merge_threshold": 0.9}
    return [
        *six,
        Setting("word, then likeness .9 +SN", False, both),
        Setting("NBS+SN, margin 3", False, {"max_score_margin": 3.0}),
        Setting("ACP+SN, margin 3", False, kinds["ACP"] | {"max_score_margin": 3.0}),
    ]


class Bench:
    """Two models of one recipe, and a test set."""

    def __init__(self, plain: str, self_normalized: str, data: str, sentences: int, name: str = "tatoeba") -> None:
        """`sentences` (0 = all) of the test set, at equal distances."""
        self.name = name
        self.sources, self.references = test_pairs(data, sentences, name)
        self.words = sum(len(source.split()) for source in self.sources)
        self._translators = {True: Translator(plain), False: Translator(self_normalized)}

    def translate(self, setting: Setting, beam: int) -> list[Translation]:
        """All sentences."""
        return self._translators[setting.normalized].translate(self.sources, raw=True, **setting.choices(beam))

    def bleu(self, outputs: dict[str, list[Translation]]) -> dict[str, dict[str, float]]:
        """BLEU of each, half of its 95% interval, and p of being the first's: paired bootstrap; 1 for equal scores."""
        systems = [(name, [answer.text for answer in answers]) for name, answers in outputs.items()]
        test: Any = import_module("sacrebleu.significance").PairedTest
        _, columns = test(systems, {"BLEU": load_metrics().BLEU()}, [self.references], "bs")()
        first, *_ = scores = columns["BLEU"]
        return {
            name: {
                "bleu": round(one.score, 2),
                "half": round(float(one.ci), 2),
                "p": 1.0 if one.score == first.score else round(one.p_value, 4),
            }
            for name, one in zip(outputs, scores, strict=True)
        }

    def point(self, setting: Setting, beam: int) -> tuple[dict[str, float], list[Translation]]:
        """Time and work of one setting, and its answers."""
        before = self._translators[setting.normalized].work
        began = time.process_time()
        translations = self.translate(setting, beam)
        seconds = time.process_time() - began
        count = self._translators[setting.normalized].work.since(before)
        figures = {
            "beam_size": beam,
            "ms_per_word": round(1e3 * seconds / self.words, 4),
            "merging_rate": round(count.merging_rate, 3),
            "rows_per_step": round(count.expansions / count.request_steps, 2),
            "model_rows_per_step": round((count.model_rows or count.expansions) / count.request_steps, 2),
        }
        return figures, translations

    def check(self, chosen: Sequence[Setting]) -> None:
        """Raise WrongAnswerError unless beam 1 is greedy in all settings, and exact scores are forced ones."""
        for normalized, translator in self._translators.items():
            mine = [setting for setting in chosen if setting.normalized == normalized]
            for setting in mine:
                if self.translate(setting, 1) != self.translate(mine[0], 1):
                    raise WrongAnswerError(f"{setting.name} with beam 1 is not {mine[0].name} with beam 1")
            for setting in mine:
                if setting.options.get("cube_pruning") == "exact":
                    some = translator.translate(self.sources[:20], raw=True, **setting.choices(5))
                    texts = [translation.text for translation in some]
                    forced = translator.score(self.sources[:20], texts, normalize=normalized)
                    same = [(a, b) for a, b in zip(some, forced, strict=True) if a.tokens == b.tokens]  # cut alike
                    if not same or any(a.token_scores != b.token_scores for a, b in same):
                        raise WrongAnswerError(f"{setting.name}: scores are not the forced ones")
