"""mBART and SMaLL-100 of Hugging Face: the ids of their tokenizers, and the answers of `generate`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.fairseq_models import write_mbart, write_small100
from support.foreign import ENGLISH, demo_sentences

from sharpbeam import ModelError, OptionError, Translator
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face

LINES = [*demo_sentences(), *ENGLISH.split(". ")]
TEXTS = [*demo_sentences()[:7], "Was 😀 ist das?", " zwei   Leerzeichen\tund ein Tabulator "]
CLOSE = 1e-4
# beam_size, length_penalty, early_stopping, min_length, max_length, no_repeat_ngram_size
WAYS: list[tuple[int, float, bool | str, int, int, int]] = [
    (1, 1.0, False, 0, 20, 0),
    (1, 1.0, False, 6, 12, 2),
    (4, 2.0, True, 8, 20, 3),
    (4, 0.0, "never", 0, 20, 0),
    (5, 1.0, False, 3, 9, 2),
]


class Pair:
    """A model here and there, and the options that select its languages."""

    def __init__(self, folder: Path, model: Any, **languages: str) -> None:
        self.folder, self.model, self.languages = folder, model, languages
        ours = folder.with_name(folder.name + "-ours")
        read_hugging_face(folder).save(ours, "toy")
        self.ours = Translator(ours)

    def ids(self, text: str) -> list[int]:
        """The source of `text` as our tokenizer and tags make it."""
        direction = self.ours.loaded.language_tags.named("-".join(self.languages.values())) if self.languages else None
        direction = direction or self.ours.loaded.language_tags.direction(self.ours.defaults.languages)
        return [*direction.before, *self.ours.loaded.source.encode(text), *direction.after]

    def check(
        self, texts: list[str], way: tuple[int, float, bool | str, int, int, int], forced: int | None
    ) -> set[Any]:
        """Raise AssertionError where an answer differs; returns all answers."""
        import torch

        beam, penalty, early, least, most, ngram = way
        options: dict[str, Any] = {"length_penalty": penalty, "early_stopping": early} if beam > 1 else {}
        answers = self.ours.translate(
            texts, raw=True, beam_size=beam, min_length=least, max_length=most, no_repeat_ngram_size=ngram, **options,
            **self.languages,
        )  # fmt: skip
        for text, answer in zip(texts, answers, strict=True):
            out = self.model.generate(
                input_ids=torch.tensor([self.ids(text)]), num_beams=beam, min_new_tokens=least, max_new_tokens=most,
                no_repeat_ngram_size=ngram, forced_bos_token_id=forced, do_sample=False,
                return_dict_in_generate=True, output_scores=True, **options,
            )  # fmt: skip
            eos = self.model.config.eos_token_id
            expected = [token for token in out.sequences[0].tolist()[1:] if token != eos]
            assert [self.ours.loaded.target.piece(token) for token in expected] == list(answer.tokens), (text, way)
            if beam > 1:
                assert float(out.sequences_scores[0]) == pytest.approx(answer.score, rel=1e-4, abs=CLOSE)
        return {answer.tokens for answer in answers}


@pytest.fixture(scope="module")
def fifty(transformers, tmp_path_factory) -> Pair:
    folder = tmp_path_factory.mktemp("mbart50") / "fifty"
    languages = {"source_language": "de_DE", "target_language": "fr_XX"}
    own = {"num_beams": 4, "length_penalty": 2.0, "no_repeat_ngram_size": 3, "min_length": 9, "early_stopping": True}
    return Pair(folder, write_mbart(folder, LINES, fifty=True, seed=4, **own), **languages)


@pytest.fixture(scope="module")
def cc25(transformers, tmp_path_factory) -> Pair:
    folder = tmp_path_factory.mktemp("mbart25") / "cc25"
    languages = {"source_language": "de_DE", "target_language": "ro_RO"}
    return Pair(folder, write_mbart(folder, LINES, fifty=False, seed=5), **languages)


@pytest.fixture(scope="module")
def small(transformers, tmp_path_factory) -> Pair:
    folder = tmp_path_factory.mktemp("small") / "small"
    return Pair(folder, write_small100(folder, LINES, seed=4), target_language="fr")


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", ["fifty", "cc25", "small"])
def test_tokens_and_scores_are_those_of_generate(request, name: str, way: tuple[Any, ...]) -> None:
    pair: Pair = request.getfixturevalue(name)
    forced = pair.ours.loaded.language_tags.tokens.get("fr_XX") if name == "fifty" else None
    if name == "small":  # M2M100 forces no end
        pair.model.generation_config.forced_eos_token_id = None
    assert len(pair.check(TEXTS, way, forced)) > 3  # or little was compared


def test_gelu_by_tanh_is_that_of_generate(transformers, cc25: Pair, tmp_path: Path) -> None:
    folder = shutil.copytree(cc25.folder, tmp_path / "gelu_new")
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"activation_function": "gelu_new"}))
    pair = Pair(folder, transformers.MBartForConditionalGeneration.from_pretrained(folder).eval(), **cc25.languages)
    assert pair.ours.loaded.model.config.activation == "gelu_tanh"  # type: ignore[attr-defined]
    for way in WAYS[2:]:
        assert len(pair.check(TEXTS, way, None)) > 3


def test_its_own_settings_are_the_defaults(fifty: Pair) -> None:
    search = fifty.ours.defaults.search
    assert (search.beam_size, search.length_penalty, search.no_repeat_ngram_size) == (4, 2.0, 3)
    assert (search.min_length, search.max_length, search.early_stopping, search.forced_eos) == (8, 29, "true", True)


def test_a_longer_answer_than_there_are_positions_is_refused_and_not_the_default(fifty: Pair, tmp_path: Path) -> None:
    folder = shutil.copytree(fifty.folder, tmp_path / "mbart")
    facts = json.loads((folder / "generation_config.json").read_text())
    for most in (None, 500):
        (folder / "generation_config.json").write_text(json.dumps(facts | {"max_length": most}))
        read_hugging_face(folder).save(tmp_path / "ours", "toy")
        ours = Translator(tmp_path / "ours")
        assert ours.defaults.search.max_length == 90
        assert ours.translate(["Guten Tag."], raw=True, min_length=89, **fifty.languages)[0].tokens
        with pytest.raises(OptionError, match="max_length is 91; it must be at most 90"):
            ours.translate(["Guten Tag."], raw=True, max_length=91, **fifty.languages)


def test_languages_of_mbart(fifty: Pair, cc25: Pair, tmp_path: Path) -> None:
    tags = fifty.ours.loaded.language_tags
    assert len(tags.tokens) == 52 and len(cc25.ours.loaded.language_tags.tokens) == 25
    assert fifty.ids("x") == [tags.tokens["de_DE"], *fifty.ours.loaded.source.encode("x"), 2]
    assert cc25.ids("x") == [*cc25.ours.loaded.source.encode("x"), 2, cc25.ours.loaded.language_tags.tokens["de_DE"]]
    with pytest.raises(OptionError, match="source_language is missing"):
        fifty.ours.translate(TEXTS[:1], raw=True, target_language="fr_XX")
    with pytest.raises(OptionError, match="target_language is missing"):
        fifty.ours.translate(TEXTS[:1], raw=True, source_language="de_DE")
    with pytest.raises(OptionError, match="target_language is 'fr_XX'; it must be 'ro_RO', the only one of the model"):
        cc25.ours.translate(TEXTS[:1], raw=True, source_language="de_DE", target_language="fr_XX")
    folder = shutil.copytree(fifty.folder, tmp_path / "one")
    facts = json.loads((folder / "generation_config.json").read_text())
    forced = tags.tokens["en_XX"]
    (folder / "generation_config.json").write_text(json.dumps(facts | {"forced_bos_token_id": forced}))
    assert read_hugging_face(folder).config.target_language == "en_XX"  # type: ignore[union-attr]
    (folder / "tokenizer_config.json").unlink()
    assert read_hugging_face(folder).config.languages == tags.tokens  # type: ignore[union-attr]
    for path in folder.glob("*config.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"decoder_start_token_id": None}))
    with pytest.raises(ModelError, match=r"decoder_start_token_id is None; it must be .* mBART-cc25"):
        read_hugging_face(folder)


def test_small_100_needs_the_target_alone(small: Pair) -> None:
    tags = small.ours.loaded.language_tags
    assert small.ids("x") == [tags.tokens["fr"], *small.ours.loaded.source.encode("x"), 2]
    with pytest.raises(OptionError, match="target_language is missing; the model needs one of af, "):
        small.ours.translate(TEXTS[:1], raw=True)
    assert small.ours.translate(TEXTS[:2], raw=True, target_language="fr", max_length=9) != small.ours.translate(
        TEXTS[:2], raw=True, target_language="de", max_length=9
    )


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("normalize_before", False),
        ("static_position_embeddings", True),
        ("forced_eos_token_id", 5),
        ("forced_bos_token_id", "x"),
        ("max_position_embeddings", 91),
        ("activation_function", "mish"),
    ],
)
def test_what_we_lack_is_refused_by_name(fifty: Pair, tmp_path: Path, fact: str, value: Any) -> None:
    folder = shutil.copytree(fifty.folder, tmp_path / "other")
    for name in ("config.json", "generation_config.json"):
        facts = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(facts | {fact: value}))
    with pytest.raises(ModelError, match="embed_positions" if fact == "max_position_embeddings" else f"{fact} is"):
        read_hugging_face(folder)


def test_families_that_we_lack_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "pegasus"}))
    message = "model_type is 'pegasus'. .* of the types marian, .*; run others with transformers"
    with pytest.raises(ModelError, match=message):
        read_hugging_face(tmp_path)
