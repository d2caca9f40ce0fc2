"""Steps in the core give, and count, what the same model and output layer give when they are asked through Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sharpbeam import MachineOptions, ModelError, Translator
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.lanes import Lane
from sharpbeam.decoding.loop import ForwardPass, decode
from sharpbeam.fit.preview import find_preview
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import FallbackTest, ResidualMass, Screen, ScreenLayer
from sharpbeam.output_layers.shortlist import Shortlist, ShortlistLayer
from sharpbeam.output_layers.suppressed import without
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis

SCHEDULES = ({"batch_tokens": 1}, {"batch_tokens": 40}, {"schedule": "stream", "max_rows": 9})
# Answers of the layers without it: among them tokens that they would give, and 0, which stands where a screen or a
# shortlist has too few. Or all but two and eos, fewer than a beam asks for.
BANNED = frozenset(range(0, 200, 3)) | {14, 22}
NEARLY_ALL = frozenset(range(200)) - {2, 14, 22}
Answers = tuple[dict[int, list[Hypothesis]], Work]


class InPython:
    """A model or an output layer whose runs do not tell that they are native."""

    def __init__(self, hidden: object) -> None:
        self._hidden = hidden

    def __getattr__(self, name: str) -> object:
        if name in ("native", "reason"):
            return None
        results = getattr(self._hidden, name)
        return (lambda: InPython(results())) if name == "open" else results


def answers(
    translator: Translator,
    texts: list[str],
    layer: OutputLayer,
    choices: DecodeOptions,
    python: bool,
    estimates: bool = False,
) -> Answers:
    loaded, model = translator.loaded, translator.loaded.model
    run = InPython(model).open() if python else model.open()  # type: ignore
    if python and not estimates:  # the core asks such a layer itself, for exact normalizers
        layer = InPython(layer)  # type: ignore
    search = Lane(loaded, choices).search()
    assert isinstance(search, BeamSearch)
    requests = requests_of(loaded, texts, choices)
    plan = Plan(requests, choices.schedule, choices.search.most_rows, 1, loaded.footprint)
    return dict(decode(run, layer, search, plan.schedule())), search.work


def make_screen(vocab: int, dim: int) -> Screen:
    """Two clusters; the rows of the second one, which has half of the words, fall back, as they are far from it."""
    weight = np.random.default_rng(2).normal(size=(1, dim)).astype(np.float32)
    start, token = np.array([0, vocab, vocab + vocab // 2], np.int32), np.arange(vocab, dtype=np.int32)
    tail = ResidualMass(np.zeros((2, 1, dim), np.float32), np.full((2, 1), -3, np.float32))
    center = np.array([[0], [1000]], np.float32).repeat(dim, axis=1)
    test = FallbackTest(center, k=1, margin=float("inf"), mass_weight=0.0, distance_weight=1.0, threshold=-500.0)
    clusters, bias = np.concatenate([weight, -weight]), np.zeros(2, np.float32)
    return Screen(clusters, bias, start, np.append(token, token[::2]), tail, test)


def layers(translator: Translator) -> dict[str, OutputLayer]:
    weight, bias = (np.array(array) for array in translator.loaded.model.output())
    vocab, dim = weight.shape
    draw = np.random.default_rng(1)
    scan = ScanLayer.build(weight, bias)
    lists = np.arange(vocab + 1, dtype=np.int32) * 3, draw.integers(0, vocab, 3 * vocab, np.int32)
    shortlist = Shortlist(np.arange(8, dtype=np.int32), *lists)
    preview = find_preview(weight, bias, draw.normal(size=(200, dim)).astype(np.float32))
    plain: dict[str, OutputLayer] = {
        "exact": ExactLayer.build(weight, bias),
        "logits": ExactLayer.build(weight, bias).unnormalized(),
        "scan": scan,
        "preview": PreviewLayer.build(weight, bias, preview),
        "screen": ScreenLayer.build(weight, bias, make_screen(vocab, dim), scan),
        "shortlist": ShortlistLayer(weight, bias, shortlist),
    }
    layers = plain | {"exact, three words": without(plain["exact"], sorted(NEARLY_ALL))}
    for name in ("exact", "scan", "screen", "shortlist"):
        layers[f"{name} without"] = without(plain[name], sorted(BANNED))
    return layers


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_native_steps_equal_steps_through_python(
    tiny_model: Path, make_transformer: Callable[..., Path], sentences: list[str], kind: str
) -> None:
    folder = tiny_model if kind == "recurrent" else make_transformer()
    translator = Translator(folder, machine=MachineOptions(threads=1))
    words_of: dict[str, set[int]] = {}  # the words of each layer's answers
    events = set()
    for name, layer in layers(translator).items():
        assert layer.open().native is not None
        for schedule in SCHEDULES:
            options = {"beam_size": 3, "num_hypotheses": 2, "max_length": 14, "min_length": 2, **schedule}
            choices = DecodeOptions.of(**options)
            whole = answers(translator, sentences[:9], layer, choices, python=False)
            estimates = name.split()[0] in ("scan", "preview")
            steps = answers(translator, sentences[:9], layer, choices, python=True, estimates=estimates)
            assert whole == steps, (name, schedule)
        events.add(str(whole[0]))
        results = [one for each in whole[0].values() for one in each]
        words_of[name] = {word for one in results for word in one.tokens}
        if name.endswith("without"):
            assert not words_of[name] & BANNED and words_of[name.split()[0]] & BANNED
        if name == "exact, three words":
            assert words_of[name] and not words_of[name] & NEARLY_ALL
        if isinstance(layer, ScreenLayer):
            rows, fallen_back = layer.fallback_counts
            assert 0 < fallen_back < rows  # so both layers have answered
    assert len(events) > 6  # the layers differ


def test_a_broken_layer_is_named(tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=1))
    choices = DecodeOptions.of(beam_size=3, max_length=14, min_length=9)
    weight, bias = (np.array(array) for array in translator.loaded.model.output())
    bias[7] = np.inf
    with pytest.raises(ModelError, match=r"request \d+: after 0 tokens .* NaN or \+inf"):
        answers(translator, sentences[:4], ExactLayer.build(weight, bias).unnormalized(), choices, python=False)


def test_a_layer_of_another_width_is_refused(tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=1))
    choices = DecodeOptions.of(beam_size=3)
    narrow = ExactLayer.build(np.zeros((200, 8), np.float32), np.zeros(200, np.float32))
    with pytest.raises(ValueError, match=r"the hidden vectors are \d+ wide; the layer takes 8"):
        answers(translator, sentences[:2], narrow, choices, python=False)


RULES = [
    {"repetition_penalty": 1.4},
    {"no_repeat_ngram_size": 2},
    {"forced_eos": True, "max_length": 6},
    {"cube_pruning": "exact", "merge_by": "both"},
    {"cube_pruning": "approximate"},
    {"target_prefix": "Bade ki"},
    {"target_prefix": "Bade ki", "prefix_bias_beta": 0.4},
    {"sampling": True, "top_k": 5},
    {"return_alternatives": True, "target_prefix": "Bade"},
    {"max_children": 2, "finishing": "stay", "early_stopping": "proven"},
]


@pytest.mark.parametrize("rule", RULES, ids="-".join)
def test_every_rule_applies_in_native_steps(
    make_transformer: Callable[..., Path], sentences: list[str], monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    """The same answers as where model and output layer are not known to be native; and the run tells which it was."""
    folder = make_transformer()
    options: dict[str, Any] = {"num_hypotheses": 3, "max_length": 14, "min_length": 4} | rule
    native, python = (Translator(folder, machine=MachineOptions(threads=1)) for _ in range(2))
    results = native.translate(sentences[:6], **options)
    assert native.work.steps > 0 and (native.work.python_steps, native.work.reason) == (0, "")
    made = ForwardPass.__init__

    def in_python(self: ForwardPass, *arguments: Any) -> None:
        made(self, *arguments)
        self.native, self.reason = None, "computed in Python"

    monkeypatch.setattr(ForwardPass, "__init__", in_python)
    assert python.translate(sentences[:6], **options) == results
    assert python.work.python_steps >= native.work.steps
    assert "computed in Python" in python.work.reason
