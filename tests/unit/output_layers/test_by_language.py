"""Screens per direction and per target: collecting, routing of rows, the model folder, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.artifacts import read_screens, save_screens

from sharpbeam import Translator
from sharpbeam.decoding.inputs import encode_texts
from sharpbeam.decoding.loading import load_model
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.fit.collect import FACTOR, Collection, Collector
from sharpbeam.fit.screen.job import unit_of
from sharpbeam.fit.screen.residual_mass import NEVER
from sharpbeam.options.decode import DecodeOptions, LanguageOptions, MachineOptions, SearchOptions
from sharpbeam.output_layers.by_language import ByLanguage
from sharpbeam.output_layers.screen import FallbackTest, ResidualMass, Screen, Screens
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Hypothesis, Languages, Per, Request

LANGUAGES = {"aa": 9, "bb": 10, "cc": 11}
DIRECTIONS = ("aa-bb", "bb-aa", "cc-aa")
NAMED = [Languages(*name.split("-")) for name in DIRECTIONS]
PLAIN = {"beam_size": 3, "max_length": 12}
Make = Callable[..., Path]


@pytest.fixture
def model(make_transformer: Make) -> Path:
    return make_transformer(source_tag="target", languages=LANGUAGES)


def output_of(model: Path) -> tuple[Any, Any]:
    return load_model(model, MachineOptions()).model.output()


def some_screen(seed: int, words: int) -> Screen:
    """Five clusters of `words` words each, eos in all of them."""
    draw = np.random.default_rng(seed)
    weight = draw.normal(size=(5, 16)).astype(np.float32)
    sets = [np.sort(np.append(2, draw.choice(np.arange(3, 200), words - 1, replace=False))) for _ in range(5)]
    start = np.arange(0, 5 * words + 1, words, dtype=np.int32)
    return Screen(weight, np.zeros(5, np.float32), start, np.concatenate(sets).astype(np.int32))


def put(model: Path, per: Per, screens: dict[str, Screen]) -> Translator:
    save_screens(model, Screens(per, screens), *output_of(model), {scope: {"method": "drawn"} for scope in screens})
    return Translator(model)


def options_of(name: str) -> dict[str, str]:
    source, _, target = name.rpartition("-")
    return {"source_language": source, "target_language": target}


def answers(translator: Translator, sentences: list[str], **options: Any) -> list[Any]:
    return [(t.text, t.score, t.token_scores) for t in translator.translate(sentences, **PLAIN, **options)]


# ---- collecting


@pytest.mark.parametrize(
    "facts",
    [
        {"source_tag": "target"},
        {"source_tag": "source", "target_tag": True},
        {"source_tag": "source-behind", "target_tag": True},  # vocabulary: stored
    ],  # vocabulary: stored
    ids=lambda facts: "-".join(map(str, facts.values())),
)
def test_the_vectors_are_those_of_the_translation_into_that_language(
    make_transformer: Make, sentences: list[str], tmp_path: Path, facts: dict[str, Any]
) -> None:
    """Greedy: a step for each token that is not forced, and the best of each step is that token."""
    folder = make_transformer(languages=LANGUAGES, **facts)
    translator = Translator(folder)
    results = {}
    for name in ("aa-bb", "cc-aa"):
        direction = translator.loaded.language_tags.named(name)
        place = tmp_path / name
        collector = Collector(translator.loaded, place, beam_size=1, top_k=1, direction=direction)
        (part,) = collector.collect(sentences[:9], {}, 10**9, lambda _: None).parts
        options = {"beam_size": 1, "return_scores": True, "max_length_factor": FACTOR, **options_of(name)}
        expected = translator.translate(sentences[:9], **options)
        for i, translation in enumerate(expected):
            own = part[part["sentence"] == i]
            forced = len(direction.prefix)
            assert own["log_prob"][:, 0].tolist() == pytest.approx(list(translation.token_scores[forced:]))
            assert own["step"].tolist() == list(range(forced, len(translation.token_scores)))
        results[name] = part["hidden"].tobytes()
    assert len(set(results.values())) == 2


def collection(sentences: Sequence[int]) -> Collection:
    record = np.zeros(len(sentences), [("sentence", np.int32), ("hidden", np.float32, 2)])
    record["sentence"], record["hidden"][:, 0] = sentences, sentences
    return Collection([record[:2], record[2:]])


def test_sentences_of_several_collections_stay_apart_and_keep_what_they_are_for() -> None:
    first, second, third = collection([0, 3, 21]), collection([3, 4, 5]), collection([0, 1, 2])
    together = Collection.of([first, second, third])
    results = together.read(lambda numbers: np.ones(len(numbers), np.bool_))
    assert len(together) == len(set(results["sentence"].tolist())) == 9
    assert (results["sentence"] % 10).tolist() == [0, 3, 1, 3, 4, 5, 0, 1, 2]
    chosen = together.read(lambda numbers: numbers % 10 == 0)
    assert chosen["sentence"].tolist() == results["sentence"][results["hidden"][:, 0] == 0].tolist()
    assert first.parts[0]["sentence"].tolist() == [0, 3]


def test_the_unit_that_has_a_screen_of_its_own() -> None:
    assert unit_of(NAMED, "target", True) == "target" and unit_of(NAMED, "all", True) == "all"
    assert unit_of(NAMED, "auto", True) == "direction" and unit_of([Languages()], "auto", False) == "all"
    with pytest.raises(OptionError, match="per is 'pair'; it must be auto, all, target or direction"):
        unit_of(NAMED, "pair", True)
    with pytest.raises(OptionError, match="per is 'target'; it must be all for a model with one direction only"):
        unit_of([Languages()], "target", False)
    with pytest.raises(OptionError, match="direction of --text is 'bb'; it must be given as SOURCE-TARGET=FILE"):
        unit_of([Languages("", "bb")], "direction", True)
    assert unit_of([*NAMED, Languages("", "bb")], "auto", True) == "target"
    with pytest.raises(OptionError, match="direction of --text is ''; it must be given as TARGET=FILE"):
        unit_of([Languages()], "auto", True)


# ---- answers


def test_scopes_with_the_same_sets_say_the_same(model: Path, sentences: list[str]) -> None:
    one, other = some_screen(1, 40), some_screen(2, 40)
    results = {}
    kinds: dict[Per, dict[str, Screen]] = {
        "all": {"": one},
        "target": {"aa": one, "bb": one},
        "direction": dict.fromkeys(DIRECTIONS, one),
    }
    for per, screens in kinds.items():
        translator = put(model, per, screens)
        results[per] = [answers(translator, sentences[:20], output_layer="screen", **options_of(n)) for n in DIRECTIONS]
    assert results["all"] == results["target"] == results["direction"]
    translator = put(model, "direction", {**kinds["direction"], "bb-aa": other})
    last = [answers(translator, sentences[:20], output_layer="screen", **options_of(n)) for n in DIRECTIONS]
    assert last[0] == results["all"][0] and last[1] != results["all"][1] and last[2] == results["all"][2]


def mixed_requests(translator: Translator, sentences: list[str]) -> list[Request]:
    """One request for each sentence, the directions alternating."""
    made = []
    for i, sentence in enumerate(sentences):
        options = DecodeOptions(languages=LanguageOptions(**options_of(DIRECTIONS[i % 3])))
        (encoded,) = encode_texts(translator.loaded, [sentence], None, options)
        assert encoded.request is not None
        made.append(replace(encoded.request, index=i))
    return made


def run(translator: Translator, requests: list[Request], name: str, tokens: int) -> dict[int, list[Hypothesis]]:
    parts = translator.loaded
    search = BeamSearch(SearchOptions(**PLAIN), parts.model.bos_id, parts.model.eos_id, 200)
    batches = FixedBatches(RequestQueue(requests, tokens))
    return dict(decode(parts.model.open(), translator.loaded.layer_named(name), search, batches))


@pytest.mark.parametrize("per", ["target", "direction"])
def test_directions_in_one_batch_say_what_they_say_alone(model: Path, sentences: list[str], per: Per) -> None:
    names = DIRECTIONS if per == "direction" else ("aa", "bb")
    translator = put(model, per, {name: some_screen(i, 30) for i, name in enumerate(names)})
    requests = mixed_requests(translator, sentences[:24])
    together, alone = (run(translator, requests, "screen", tokens) for tokens in (10_000, 1))
    assert together == alone
    for i, request in enumerate(requests):
        options = options_of(DIRECTIONS[i % 3])
        (translation,) = translator.translate([sentences[i]], output_layer="screen", **PLAIN, **options)
        assert together[request.index][0].token_log_probs == translation.token_scores


def test_log_probs_of_mixed_rows_are_those_of_their_screens(model: Path) -> None:
    screens = {name: some_screen(i, 30) for i, name in enumerate(DIRECTIONS)}
    layer = put(model, "direction", screens).loaded.layer_named("screen")
    assert isinstance(layer, ByLanguage)
    hidden = np.random.default_rng(5).normal(size=(12, 16)).astype(np.float32)
    request = np.array([3, 1, 2, 1, 3, 2, 2, 1, 3, 3, 1, 2], np.int32)
    source = np.array([5, 2], np.int32)
    one = layer.open()
    one.admit([Request(i + 1, source, languages=own) for i, own in enumerate(NAMED)])
    top = one.topk(hidden, 4, request)
    scored = one.log_prob(hidden, top.token[:, 1].copy(), request)
    assert scored.tobytes() == top.log_prob[:, 1].tobytes()
    for row, index in enumerate(request.tolist()):
        own = layer.layers[DIRECTIONS[index - 1]].open().topk(hidden[row : row + 1], 4, request[row : row + 1])
        assert own.token.tolist() == top.token[row : row + 1].tolist()
        assert own.log_prob.tobytes() == top.log_prob[row].tobytes()
    one.evict(np.array([1, 3], np.int32))
    left = one.topk(hidden[request == 2], 4, request[request == 2])
    assert left.log_prob.tobytes() == top.log_prob[request == 2].tobytes()
    assert layer.fallback_share == 0


def test_rows_that_fall_back_are_answered_from_all_tokens(model: Path, sentences: list[str]) -> None:
    """In one direction all rows fall back, in another none: each row is held to its own."""
    tail = ResidualMass(np.zeros((5, 1, 16), np.float32), np.full((5, 1), -30, np.float32))
    test = FallbackTest(np.zeros((5, 16), np.float32), 1, np.inf, 0.0, 0.0, NEVER)
    screens = {name: replace(some_screen(1, 30), residual=tail, fallback=test) for name in DIRECTIONS}
    screens["cc-aa"] = replace(screens["cc-aa"], fallback=replace(test, threshold=-NEVER))
    translator = put(model, "direction", screens)
    requests = mixed_requests(translator, sentences[:12])
    results, exact = (run(translator, requests, name, 10_000) for name in ("screen", "scan"))
    same = [[one.tokens for one in results[i]] == [one.tokens for one in exact[i]] for i in range(12)]
    assert all(same[0::3]) and all(same[1::3]) and not all(same[2::3])
    layer = translator.loaded.layer_named("screen")
    assert isinstance(layer, ByLanguage) and layer.fallback_share is not None and 0.5 < layer.fallback_share < 1


def test_alternatives_and_scores_take_the_screen_of_the_direction(model: Path, sentences: list[str]) -> None:
    screens = {name: some_screen(i, 30) for i, name in enumerate(DIRECTIONS)}
    translator, options = put(model, "direction", screens), options_of("cc-aa")
    alone = put(model, "all", {"": screens["cc-aa"]})
    few = {**PLAIN, "num_hypotheses": 3, "return_alternatives": True, "output_layer": "screen"}
    keywords = {"output_layer": "screen", **options}
    assert translator.translate(sentences[:5], **few, **options) == alone.translate(sentences[:5], **few, **options)
    pairs = (sentences[:5], sentences[5:10])
    assert translator.score(*pairs, **keywords) == alone.score(*pairs, **keywords)


# ---- the folder, and what is refused


def test_what_is_saved_is_read(model: Path) -> None:
    screens = {name: some_screen(i, 20 + i) for i, name in enumerate(DIRECTIONS)}
    put(model, "direction", screens)
    results = read_screens(model, *output_of(model))
    assert results.per == "direction" and list(results.by_scope) == list(DIRECTIONS)
    for scope, screen in results.by_scope.items():
        for name in ("weight", "bias", "start", "token"):
            np.testing.assert_array_equal(getattr(screen, name), getattr(screens[scope], name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"per": "pair"}, "per is 'pair'; it must be target or direction"),
        ({"screens": {}}, "it must be target or direction, with screens"),
        ({"screens": {"aa-bb": {}}}, "which are of none of aa-bb"),
        ({"screens": {**{name: {} for name in DIRECTIONS}, "bb-cc": {}}}, "it must hold bias, start, token, weight"),
    ],
)
def test_a_damaged_folder_is_refused(model: Path, change: dict[str, Any], message: str) -> None:
    put(model, "direction", {name: some_screen(i, 20) for i, name in enumerate(DIRECTIONS)})
    path = model / "screen.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=message):
        read_screens(model, *output_of(model))


def test_a_direction_without_a_screen_is_refused(model: Path, sentences: list[str]) -> None:
    translator = put(model, "direction", {name: some_screen(i, 30) for i, name in enumerate(DIRECTIONS)})

    def ask(name: str) -> list[Any]:
        return answers(translator, sentences[:3], output_layer="screen", **options_of(name))

    with pytest.raises(OptionError, match="direction is 'aa-cc'; the model has a screen for each of aa-bb, bb-aa, cc-"):
        ask("aa-cc")
    with pytest.raises(
        OptionError, match="source_language is missing; the model has a screen for each of bb-aa, cc-aa"
    ):
        ask("aa")
    with pytest.raises(OptionError, match="target_language is missing"):
        answers(translator, sentences[:3], output_layer="screen")
    assert ask("bb") == ask("aa-bb")
    assert ask("aa-bb") != answers(translator, sentences[:3], **options_of("aa-bb"))
    with pytest.raises(OptionError, match="direction is 'aa-cc'"):
        translator.score(["a"], ["b"], output_layer="screen", **options_of("aa-cc"))
    per_target = put(model, "target", {"aa": some_screen(1, 30)})
    with pytest.raises(OptionError, match="target_language is 'bb'; the model has a screen for each of aa"):
        answers(per_target, sentences[:3], output_layer="screen", **options_of("aa-bb"))


def test_directions_by_name(make_transformer: Make) -> None:
    folder = make_transformer(source_tag="source", target_tag=True, languages={"zh-Hans": 9, "en": 10})
    language_tags = Translator(folder).loaded.language_tags
    assert language_tags.named("zh-Hans-en").languages == Languages("zh-Hans", "en")
    assert language_tags.named("en-zh-Hans").prefix == (9,)
    for name in ("xx-en", "en-", "", "Hans-en"):
        with pytest.raises(OptionError):
            language_tags.named(name)
