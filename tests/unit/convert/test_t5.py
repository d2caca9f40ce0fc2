"""T5, mT5, umT5 and MADLAD-400 of Hugging Face: the ids of their tokenizers, and the answers of `generate`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.foreign import ENGLISH, demo_sentences
from support.t5_models import FAMILIES, write_t5

from sharpbeam import ModelError, OptionError, Translator
from sharpbeam.convert.conversion import convert_model
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face
from sharpbeam.models.transformer.positions import relative_buckets
from sharpbeam.storage.model_folder import read_tensors

LINES = [*demo_sentences(), *ENGLISH.split(". ")]
TEXTS = [*demo_sentences()[:7], "Was 😀 ist das?", "  zwei   Leerzeichen ", "eins"]
LONG = " ".join(demo_sentences()[:14])  # of some 500 tokens
Way = tuple[int, float, bool | str, int, int, int]
# beam_size, length_penalty, early_stopping, min_length, max_length, no_repeat_ngram_size
WAYS: list[Way] = [
    (1, 1.0, False, 0, 24, 0),
    (1, 1.0, False, 6, 12, 2),
    (4, 2.0, True, 8, 24, 3),
    (5, 0.0, "never", 0, 16, 0),
    (5, -1.0, False, 3, 9, 2),
]


class Pair:
    """A model here and there."""

    def __init__(self, folder: Path, family: str, **facts: Any) -> None:
        self.folder, self.family = folder, family
        self.model = write_t5(folder, LINES, family, seed=3, **facts)
        ours = folder.with_name(f"{folder.name}-ours")
        read_hugging_face(folder).save(ours, "toy")
        self.ours = Translator(ours)
        self.languages = {"target_language": "de"} if family == "MADLAD-400" else {}

    def ids(self, text: str) -> list[int]:
        """The source of `text` as our tokenizer and tags make it."""
        tags = self.ours.loaded.language_tags
        direction = tags.named("de") if self.languages else tags.direction(self.ours.defaults.languages)
        return [*direction.before, *self.ours.loaded.source.encode(text), *direction.after]

    def check(self, texts: list[str], way: Way, ours: Translator | None = None) -> set[Any]:
        """Raise AssertionError where an answer differs; returns all answers."""
        import torch

        beam, penalty, early, least, most, ngram = way
        options: dict[str, Any] = {"length_penalty": penalty, "early_stopping": early} if beam > 1 else {}
        answers = (ours or self.ours).translate(
            texts, raw=True, beam_size=beam, min_length=least, max_length=most, no_repeat_ngram_size=ngram, **options,
            **self.languages,
        )  # fmt: skip
        for text, answer in zip(texts, answers, strict=True):
            out = self.model.generate(
                input_ids=torch.tensor([self.ids(text)]), num_beams=beam, min_new_tokens=least, max_new_tokens=most,
                no_repeat_ngram_size=ngram, do_sample=False, return_dict_in_generate=True, output_scores=True,
                **options,
            )  # fmt: skip
            eos = self.model.config.eos_token_id
            tokens = out.sequences[0].tolist()[1:]
            expected = tokens[: tokens.index(eos)] if eos in tokens else tokens
            assert [self.ours.loaded.target.piece(token) for token in expected] == list(answer.tokens), (text, way)
            if beam > 1:
                assert float(out.sequences_scores[0]) == pytest.approx(answer.score, rel=1e-4, abs=1e-4)
        return {answer.tokens for answer in answers}


@pytest.fixture(scope="module")
def pairs(transformers, tmp_path_factory) -> dict[str, Pair]:
    home = tmp_path_factory.mktemp("t5")
    return {family: Pair(home / family, family) for family in FAMILIES}


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("family", FAMILIES)
def test_tokens_and_scores_are_those_of_generate(pairs, family: str, way: Way) -> None:
    assert len(pairs[family].check([*TEXTS[:5], TEXTS[7]], way)) > 2  # or little was compared


def test_ids_are_those_of_the_tokenizer(transformers, pairs) -> None:
    for pair in pairs.values():
        tokenizer = transformers.T5Tokenizer.from_pretrained(pair.folder)
        begin = len(pair.languages)  # the tag
        for text in [*TEXTS, LONG, "ﬁ ½ ①", "a\tb\n\nc"]:
            if pair.languages and 0 in pair.ids(text):
                continue  # there transformers 5 takes eos for what is unknown
            expected = [token for token in tokenizer(text)["input_ids"] if token != pair.model.config.eos_token_id]
            assert pair.ids(text)[begin:-1] == expected, text
        assert pair.model.config.eos_token_id not in pair.ids("Ende </s> hier")[:-1]  # it must not be typed
    result = pairs["T5"].ours.loaded.target
    assert (
        result.piece(399) == "<extra_id_0>"
        and result.piece(300) == "<extra_id_99>"
        and result.decode([0, 399, 1]) == ""
    )


def test_a_folder_without_spiece_model_is_refused(pairs, tmp_path: Path) -> None:
    """As newer versions of transformers save one."""
    folder = shutil.copytree(pairs["T5"].folder, tmp_path / "json")
    (folder / "spiece.model").unlink()
    with pytest.raises(ModelError, match=r"has no spiece\.model; copy that of the model that it was made from"):
        read_hugging_face(folder)


def test_madlad_takes_its_target_by_option_or_in_the_text(transformers, pairs) -> None:
    pair = pairs["MADLAD-400"]
    tags = pair.ours.loaded.language_tags
    assert list(tags.tokens) == ["de", "en", "zh_Hant"]
    by_option = pair.ours.translate(TEXTS[:4], raw=True, target_language="zh_Hant", max_length=12)
    by_text = pair.ours.translate([f"<2zh_Hant> {text}" for text in TEXTS[:4]], raw=True, max_length=12)
    assert [a.tokens for a in by_option] == [a.tokens for a in by_text]
    assert pair.ours.translate(TEXTS[:4], raw=True, target_language="en", max_length=12) != by_option
    tokenizer = transformers.T5Tokenizer.from_pretrained(pair.folder)
    assert pair.ids(TEXTS[0]) == tokenizer(f"<2de> {TEXTS[0]}")["input_ids"]
    with pytest.raises(OptionError, match="target_language is 'fr'; it must be one of de, en, zh_Hant"):
        pair.ours.translate(TEXTS[:1], raw=True, target_language="fr")


def test_summaries_of_long_sources(pairs) -> None:
    """Far more tokens than the distances that have buckets; cut at max_input_length where that is asked for."""
    for family in ("T5", "umT5"):
        pair = pairs[family]
        assert len(pair.ids(LONG)) > 250
        pair.check([LONG, TEXTS[0]], (4, 2.0, True, 20, 60, 3))
        (cut,) = pair.ours.translate([LONG], raw=True, beam_size=2, max_input_length=50, max_length=10)
        ids = pair.ours.loaded.source.encode(LONG)[:49]
        (whole,) = pair.ours.translate([pair.ours.loaded.source.decode(ids)], raw=True, beam_size=2, max_length=10)
        assert cut.truncated and cut.tokens == whole.tokens


def test_buckets_are_those_of_hugging_face(transformers) -> None:
    import torch
    from transformers.models.t5.modeling_t5 import T5Attention

    for count, distance in ((32, 128), (10, 14), (7, 9), (4, 3), (33, 200), (64, 1000)):
        for both in (True, False):
            relative = torch.arange(-distance - 2, distance + 3)
            expected = T5Attention._relative_position_bucket(relative, both, count, distance).numpy()
            result = relative_buckets(count, distance, both)
            assert np.array_equal(np.pad(result, 2, mode="edge"), expected), (count, distance, both)


def test_int8_keeps_the_biases_of_positions(pairs, tmp_path: Path) -> None:
    pair = pairs["umT5"]
    convert_model(pair.folder, tmp_path / "int8", quantization="int8")
    ours = Translator(tmp_path / "int8")
    result = read_tensors(tmp_path / "int8", ours.loaded.config)
    expected = read_hugging_face(pair.folder).tensors
    assert np.array_equal(result["encoder.1.attention.position_bias"], expected["encoder.1.attention.position_bias"])
    assert not np.array_equal(result["encoder.1.attention.qkv.weight"], expected["encoder.1.attention.qkv.weight"])
    assert sum(len(answer.tokens) for answer in ours.translate(TEXTS, raw=True, max_length=9)) > 20


@pytest.mark.parametrize("tied", [None, True, False])
def test_the_output_is_scaled_as_config_json_says(transformers, pairs, tmp_path: Path, tied: bool | None) -> None:
    folder = shutil.copytree(pairs["T5"].folder, tmp_path / "t5")
    facts = json.loads((folder / "config.json").read_text())
    facts = {
        name: value for name, value in facts.items() if name not in ("scale_decoder_outputs", "tie_word_embeddings")
    }
    (folder / "config.json").write_text(json.dumps(facts | ({} if tied is None else {"tie_word_embeddings": tied})))
    result = read_hugging_face(folder).tensors["decoder_norm.weight"]
    norm = pairs["T5"].model.decoder.final_layer_norm.weight.detach().numpy()
    assert np.array_equal(result, norm if tied is False else norm * np.float32(40**-0.5))


def test_old_names_are_read(pairs, tmp_path: Path) -> None:
    """PyTorch's files have the embedding three times, and T5 v1.0 a bias that no version reads."""
    import torch
    from safetensors.torch import load_file

    folder = shutil.copytree(pairs["T5"].folder, tmp_path / "bin")
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        state[name] = state["shared.weight"].clone()
    state["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.zeros(10, 5)
    torch.save(state, folder / "pytorch_model.bin")
    result, expected = read_hugging_face(folder), read_hugging_face(pairs["T5"].folder)
    assert result.config == expected.config
    assert all(np.array_equal(result.tensors[name], expected.tensors[name]) for name in expected.tensors)
    state["encoder.embed_tokens.weight"][0] += 1
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"encoder\.embed_tokens\.weight is another matrix; T5 has one embedding"):
        read_hugging_face(folder)


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("config.json", {"feed_forward_proj": "gated-tanh"}, "feed_forward_proj is 'gated-tanh'; it must be one of"),
        ("config.json", {"dense_act_fn": "silu"}, "dense_act_fn is 'silu'; it must be 'relu'"),
        ("config.json", {"tie_encoder_decoder": True}, "tie_encoder_decoder is True"),
        ("config.json", {"layer_norm_epsilon": "small"}, "layer_norm_epsilon is 'small'; it must be a number"),
        ("config.json", {"relative_attention_num_buckets": 9}, r"relative_attention_bias.weight' has shape \(10, 5\)"),
        (
            "config.json",
            {"relative_attention_max_distance": 5},
            "relative_distance is 5; it must be more than half of the 10 buckets",
        ),
        ("config.json", {"d_kv": 8}, r"has shape \(60, 40\); it must have \(40, 40\)"),
        ("config.json", {"num_layers": 2}, "tensors that the config does not account for"),
        ("tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer"}, "tokenizer_class is 'ByT5Tokenizer'"),
    ],
)
def test_what_we_lack_is_refused_by_name(
    pairs, tmp_path: Path, file: str, change: dict[str, Any], message: str
) -> None:
    folder = shutil.copytree(pairs["T5"].folder, tmp_path / "other")
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=message):
        read_hugging_face(folder)


def test_tasks_are_told_by_their_prefixes(pairs, tmp_path: Path) -> None:
    folder = shutil.copytree(pairs["T5"].folder, tmp_path / "tasks")
    path = folder / "config.json"
    tasks = {"summarization": {"prefix": "summarize: ", "num_beams": 4}, "odd": 3}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"task_specific_params": tasks}))
    assert any("'summarize: '" in note for note in read_hugging_face(folder).notes)
