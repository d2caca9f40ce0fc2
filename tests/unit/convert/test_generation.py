"""The defaults of `generate` for a model of Hugging Face: forced and banned tokens, lengths, search options."""

from __future__ import annotations

import json
import shutil

import pytest
from support.hugging_face import CLOSE, TEXTS, convert, generated

from sharpbeam.convert.readers.hugging_face.read import read_hugging_face
from sharpbeam.errors import ModelError
from sharpbeam.options.decode import DecodeOptions


def test_a_banned_word_is_never_said(ours, marian, tmp_path):
    pad = ours.loaded.target.piece(len(ours.loaded.target) - 1)
    assert all(pad not in a.hypotheses[0].tokens for a in ours.translate(TEXTS, raw=True, beam_size=5, max_length=24))
    other = shutil.copytree(marian, tmp_path / "allowed")
    facts = json.loads((other / "generation_config.json").read_text())
    del facts["bad_words_ids"]
    (other / "generation_config.json").write_text(json.dumps(facts))
    allowed = convert(other, tmp_path / "ours")
    assert any(pad in a.hypotheses[0].tokens for a in allowed.translate(TEXTS, raw=True, beam_size=5, max_length=24))


def test_a_forced_prefix_is_that_of_generate(ours, theirs):
    """There as a beginning of the decoder's input, which adds nothing to the score; its length counts for us only."""
    import torch

    tokenizer, model = theirs
    ids = ours.loaded.target.encode("time is")
    start = torch.tensor([[model.generation_config.decoder_start_token_id, *ids]])
    for beam in (1, 5):
        answers = ours.translate(
            TEXTS, raw=True, beam_size=beam, target_prefix="time is", max_length=20, length_penalty=0.0
        )
        for text, answer in zip(TEXTS, answers, strict=True):
            settings = {"length_penalty": 0.0} if beam > 1 else {}
            expected, score = generated(
                tokenizer,
                model,
                text,
                num_beams=beam,
                max_new_tokens=20 - len(ids),
                decoder_input_ids=start,
                **settings,
            )
            assert [ours.loaded.target.piece(i) for i in expected] == list(answer.hypotheses[0].tokens)
            assert score is None or abs(score - answer.score) < CLOSE


def test_a_banned_word_below_0_is_refused(marian, tmp_path):
    folder = shutil.copytree(marian, tmp_path / "other")
    facts = json.loads((folder / "generation_config.json").read_text())
    changes = {"bad_words_ids": [[-99999999]], "renormalize_logits": True}
    (folder / "generation_config.json").write_text(json.dumps(facts | changes))
    with pytest.raises(ModelError, match="bad_words_ids"):
        read_hugging_face(folder)


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("forced_bos_token_id", 5),
        ("encoder_no_repeat_ngram_size", 3),
        ("encoder_repetition_penalty", 1.2),
        ("exponential_decay_length_penalty", [5, 1.1]),
        ("num_beam_groups", 2),
        ("force_words_ids", [[5]]),
        ("penalty_alpha", 0.6),
        ("guidance_scale", 1.5),
    ],
)
def test_what_generate_alone_heeds_is_refused_by_name(marian, tmp_path, fact, value):
    folder = shutil.copytree(marian, tmp_path / "other")
    facts = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(facts | {fact: value}))
    with pytest.raises(ModelError, match=f"generation_config.json: {fact} is"):
        read_hugging_face(folder)
    idle = {
        "encoder_no_repeat_ngram_size": 0,
        "encoder_repetition_penalty": 1.0,
        "num_beam_groups": 1,
        "penalty_alpha": 0.0,
        "guidance_scale": 1.0,
    }.get(fact)
    (folder / "generation_config.json").write_text(json.dumps(facts | {fact: idle}))
    assert read_hugging_face(folder).config == read_hugging_face(marian).config


def test_a_forced_language_is_the_default_one(m2m, tmp_path):
    folder = shutil.copytree(m2m, tmp_path / "other")
    config = read_hugging_face(m2m).config
    facts = json.loads((folder / "generation_config.json").read_text())
    for token, code in ((config.languages["fr"], "fr"), (7, None), ("x", None)):
        (folder / "generation_config.json").write_text(json.dumps(facts | {"forced_bos_token_id": token}))
        if code is None:
            with pytest.raises(ModelError, match="forced_bos_token_id"):
                read_hugging_face(folder)
        else:
            assert (config.target_language, read_hugging_face(folder).config.target_language) == ("", code)


@pytest.mark.parametrize("where", ["config.json", "generation_config.json"])
def test_its_own_search_options_are_the_defaults(marian, tmp_path, where):
    """Hugging Face's max_length and min_length count the token that the decoder starts from."""
    folder = shutil.copytree(marian, tmp_path / "other")
    own = {"num_beams": 2, "length_penalty": 0.5, "max_length": 8, "min_length": 3, "early_stopping": True}
    facts = json.loads((folder / where).read_text())
    (folder / where).write_text(json.dumps(facts | own))
    ours = convert(folder, tmp_path / "ours")
    own = {"beam_size": 2, "length_penalty": 0.5, "max_length": 7, "min_length": 2, "early_stopping": "true"}
    assert ours.defaults == DecodeOptions().changed(**own)
    one, other = (
        ours.translate(TEXTS, raw=True),
        convert(marian, tmp_path / "plain").translate(TEXTS, raw=True, **own),
    )
    assert [(a.hypotheses[0].tokens, a.hypotheses[0].score) for a in one] == [
        (b.hypotheses[0].tokens, b.hypotheses[0].score) for b in other
    ]
    (folder / where).write_text(json.dumps(facts | own | {"num_beams": 0}))
    with pytest.raises(ModelError, match=r"config\.json: .*beam_size is 0"):
        read_hugging_face(folder)


@pytest.mark.parametrize(
    ("own", "lengths"),
    [
        ({"max_length": 200, "max_new_tokens": 6}, (0, 6)),
        ({"min_length": 2, "max_length": 30, "min_new_tokens": 7}, (7, 29)),
        ({"min_length": 9, "max_length": 9}, (8, 8)),
        ({"min_new_tokens": 6, "max_new_tokens": 6}, (6, 6)),
    ],
)
@pytest.mark.parametrize("beam", [1, 4])
def test_lengths_of_a_generation_config_are_those_of_generate(theirs, marian, tmp_path, own, lengths, beam):
    """New tokens are preferred to lengths, which count the token that the decoder starts from."""
    folder = shutil.copytree(marian, tmp_path / "other")
    facts = json.loads((folder / "generation_config.json").read_text()) | own | {"num_beams": beam}
    (folder / "generation_config.json").write_text(json.dumps(facts))
    ours = convert(folder, tmp_path / "ours")
    search = ours.defaults.search
    assert (search.min_length, search.max_length) == lengths
    for text, answer in zip(TEXTS, ours.translate(TEXTS, raw=True), strict=True):
        tokens, _ = generated(*theirs, text, num_beams=beam, **own)
        assert [ours.loaded.target.piece(token) for token in tokens] == list(answer.tokens)


def test_a_banned_eos_is_not_banned(marian, tmp_path):
    """`generate` takes eos out of bad_words_ids: else no answer would end before max_length."""
    folder = shutil.copytree(marian, tmp_path / "other")
    facts = json.loads((folder / "generation_config.json").read_text())
    banned = facts["bad_words_ids"]
    (folder / "generation_config.json").write_text(json.dumps(facts | {"bad_words_ids": [*banned, [0]]}))
    assert read_hugging_face(folder).config == read_hugging_face(marian).config


@pytest.mark.parametrize("generation", [True, False], ids=["generation_config.json", "config.json"])
@pytest.mark.parametrize("forced", [0, [0], None, "left out"])
def test_an_end_that_is_forced_at_max_length_is_kept(transformers, marian, tmp_path, generation, forced):
    """As `generate` would force it: OPUS-MT's files name it."""
    folder = shutil.copytree(marian, tmp_path / "other")
    if not generation:
        (folder / "generation_config.json").unlink()
    for path in folder.glob("*config.json"):
        facts = json.loads(path.read_text())
        facts.pop("forced_eos_token_id", None)
        path.write_text(json.dumps(facts | ({} if forced == "left out" else {"forced_eos_token_id": forced})))
    theirs = transformers.MarianMTModel.from_pretrained(folder).generation_config.forced_eos_token_id
    assert read_hugging_face(folder).decoding.get("forced_eos", False) == (theirs is not None)
