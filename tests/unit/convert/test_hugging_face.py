"""MarianMT, M2M100 and NLLB of Hugging Face: the same ids, tokens and scores as `generate` on the same weights."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
from support.hugging_face import CLOSE, TEXTS, convert, generated

from sharpbeam import Translator
from sharpbeam.convert.conversion import convert_model, read_model
from sharpbeam.convert.formats.hugging_face import read_torch
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face
from sharpbeam.errors import InputError, ModelError, OptionError


def test_text_becomes_the_same_ids(ours, theirs):
    tokenizer, _ = theirs
    for text in [*TEXTS, ">>eng<< Guten Morgen.", "a>>eng<<"]:
        assert ours.loaded.source.encode(text) == tokenizer(text)["input_ids"][:-1], text
    # There the tokenizer takes the end of a sentence from the text; it must not be typed.
    assert 0 not in ours.loaded.source.encode("Ende </s> hier")


def test_ids_become_the_same_text(ours, theirs):
    tokenizer, _ = theirs
    ids = list(range(3, len(ours.loaded.target) - 1, 7))
    expected = tokenizer.decode(ids, skip_special_tokens=True)
    assert ours.loaded.target.decode(ids).split() == expected.split()
    assert ours.loaded.target.decode([len(ours.loaded.target) - 1, 0, 2]) == ""


@pytest.mark.parametrize(
    ("beam", "penalty", "early"),
    [
        (1, 1.0, False),
        (4, 1.0, False),
        (4, 0.0, True),
        (5, 1.7, "never"),
        (5, 0.6, True),
        (5, -1.0, "never"),
        (10, 1.0, True),
    ],
)
def test_tokens_and_scores_are_those_of_generate(ours, theirs, beam, penalty, early):
    options = {"length_penalty": penalty, "early_stopping": early}
    answers = ours.translate(TEXTS, raw=True, beam_size=beam, max_length=20, min_length=2, **options)
    for text, answer in zip(TEXTS, answers, strict=True):
        settings = options if beam > 1 else {}
        expected, score = generated(*theirs, text, num_beams=beam, max_new_tokens=20, min_new_tokens=2, **settings)
        assert [ours.loaded.target.piece(i) for i in expected] == list(answer.hypotheses[0].tokens), text
        if score is not None:  # of hundreds, as a penalty below 0 makes them, float32 knows seven digits only
            assert score == pytest.approx(answer.score, rel=1e-6, abs=CLOSE)


def test_the_answers_are_no_trivial_ones(ours):
    """The comparison above would say little if every answer were one word, or if greedy search were beam search."""
    five, one = (ours.translate(TEXTS, raw=True, beam_size=beam, max_length=24) for beam in (5, 1))
    assert len({a.hypotheses[0].tokens for a in five}) > 4
    assert any(a.hypotheses[0].tokens != b.hypotheses[0].tokens for a, b in zip(five, one, strict=True))
    assert any(1 < len(a.hypotheses[0].tokens) < 24 for a in five)


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_weights_of_pytorch_say_the_same(marian, theirs, tmp_path, new):
    import torch

    folder = shutil.copytree(marian, tmp_path / "bin")
    (folder / "model.safetensors").unlink()
    state = theirs[1].state_dict()  # with a table of positions and copies of the embedding under other names
    torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=new)
    one, other = read_hugging_face(marian), read_hugging_face(folder)
    assert one.config == other.config
    assert one.tensors.keys() == other.tensors.keys()
    assert all(np.array_equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
    whole = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"pytorch_model\.bin cannot be read as a file of PyTorch: "):
        read_hugging_face(folder)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_widened(marian, theirs, tmp_path, dtype):
    import copy

    import torch

    half = copy.deepcopy(theirs[1]).to(getattr(torch, dtype))
    half.save_pretrained(tmp_path / "half")
    for name in ("vocab.json", "source.spm", "target.spm", "tokenizer_config.json"):
        shutil.copy(marian / name, tmp_path / "half")
    result = read_hugging_face(tmp_path / "half").tensors
    assert all(tensor.dtype == np.float32 for tensor in result.values())
    expected = half.state_dict()["model.shared.weight"].float().numpy()
    assert np.array_equal(result["target_embedding"], expected)


def test_languages_of_m2m100(transformers, m2m, tmp_path):
    ours = convert(m2m, tmp_path / "ours")
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(m2m).eval()
    for source, target in (("de", "en"), ("en", "fr")):
        tokenizer = transformers.M2M100Tokenizer.from_pretrained(m2m, src_lang=source)
        _same_as_generate(ours, tokenizer, model, source, target, tokenizer.get_lang_id(target))


def test_languages_of_nllb(transformers, nllb, tmp_path):
    ours = convert(nllb, tmp_path / "ours")
    assert set(ours.loaded.language_tags.tokens) == {"deu_Latn", "eng_Latn", "fra_Latn"}
    model = transformers.M2M100ForConditionalGeneration.from_pretrained(nllb).eval()
    for source, target in (("deu_Latn", "eng_Latn"), ("eng_Latn", "fra_Latn")):
        tokenizer = transformers.NllbTokenizer.from_pretrained(nllb, src_lang=source)
        _same_as_generate(ours, tokenizer, model, source, target, tokenizer.convert_tokens_to_ids(target))


def test_words_that_were_added_to_nllb_are_no_languages(nllb, tmp_path):
    folder = shutil.copytree(nllb, tmp_path / "nllb")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    number = max(token["id"] for token in tokenizer["added_tokens"]) + 1
    tokenizer["added_tokens"].append({"id": number, "content": "zorp", "special": False})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert set(convert(folder, tmp_path / "ours").loaded.language_tags.tokens) == {"deu_Latn", "eng_Latn", "fra_Latn"}
    (folder / "sentencepiece.bpe.model").unlink()
    with pytest.raises(ModelError, match=r"has no sentencepiece\.bpe\.model; copy that of the model"):
        convert_model(folder, tmp_path / "none")


def test_a_model_in_several_files_is_the_same(marian, tmp_path, monkeypatch):
    """Its bytes are those of all of them: the index is small."""
    folder = shutil.copytree(marian, tmp_path / "marian")
    tensors = safetensors.numpy.load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(tensors)}
    for file in set(places.values()):
        part = {name: tensor for name, tensor in tensors.items() if places[name] == file}
        safetensors.numpy.save_file(part, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    monkeypatch.setattr("sharpbeam.convert.formats.weights._SMALL", 0)
    whole, parts = (convert(one, tmp_path / name) for one, name in ((marian, "whole"), (folder, "parts")))
    assert whole.translate(TEXTS) == parts.translate(TEXTS)


def _same_as_generate(ours: Translator, tokenizer, model, source: str, target: str, target_id: int) -> None:
    texts = TEXTS[:5]
    answers = ours.translate(
        texts, raw=True, source_language=source, target_language=target, beam_size=4, max_length=16
    )
    for text, answer in zip(texts, answers, strict=True):
        out = model.generate(
            **tokenizer([text], return_tensors="pt"), num_beams=4, max_new_tokens=16, forced_bos_token_id=target_id,
            return_dict_in_generate=True, output_scores=True, do_sample=False,
        )  # fmt: skip
        expected = [i for i in out.sequences[0].tolist()[1:] if i not in (1, 2)]
        best = answer.hypotheses[0]
        assert list(best.tokens) == [ours.loaded.target.piece(i) for i in expected]
        assert ours.loaded.target.piece(target_id) not in answer.text
        assert best.token_scores[0] == 0.0
        assert abs(float(out.sequences_scores[0]) - answer.score) < CLOSE
        scored = ours.score([text], [answer.text], source_language=source, target_language=target)
        if ours.loaded.target.encode(answer.text) == expected[1:] and len(expected) < 16:
            assert abs(scored[0].log_prob - best.log_prob) < 1e-3


def test_a_language_that_the_model_lacks_is_refused(m2m, ours, tmp_path):
    other = convert(m2m, tmp_path / "ours")
    with pytest.raises(OptionError, match="source_language is 'xx'"):
        other.translate(["Hallo"], raw=True, source_language="xx")
    with pytest.raises(OptionError, match="target_language is 'fr'; it must be one of eng"):
        ours.translate(["Hallo"], raw=True, target_language="fr")


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("model_type", "opt"),
        ("model_type", ["marian"]),
        ("activation_function", "mish"),
        ("normalize_before", True),
        ("normalize_embedding", True),
        ("static_position_embeddings", False),
        ("add_final_layer_norm", True),
        ("quantization_config", {"bits": 4}),
        ("eos_token_id", [0, 2]),
        ("encoder_layers", "2"),
        ("encoder_layers", 10**9),
        ("d_model", 10**9),
        ("vocab_size", 10**12),
    ],
)
def test_what_we_lack_is_refused_by_name(marian, tmp_path, fact, value):
    folder = shutil.copytree(marian, tmp_path / "other")
    for name in ("config.json", "generation_config.json"):
        facts = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(facts | {fact: value}))
    with pytest.raises(ModelError, match=r"tensor" if type(value) is int else fact):
        read_hugging_face(folder)


@pytest.mark.parametrize("name", ["unk_id", "bos_id"])
def test_special_words_that_are_other_ones_in_the_source_are_refused(marian, tmp_path, name):
    folder = shutil.copytree(marian, tmp_path / "apart")
    source = json.loads((folder / "vocab.json").read_text())
    special = "<unk>" if name == "unk_id" else "<pad>"
    target = {piece: {source[special]: 5, 5: source[special]}.get(i, i) for piece, i in source.items()}
    if name == "bos_id":
        source, target = target, source
    (folder / "vocab.json").write_text(json.dumps(source))
    (folder / "target_vocab.json").write_text(json.dumps(target))
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": True}))
    with pytest.raises(ModelError, match=rf"{name} \d+ is .* in the source vocabulary and '{special}' in the target's"):
        read_hugging_face(folder)


def test_a_word_that_is_no_text_is_refused(marian, tmp_path):
    folder = shutil.copytree(marian, tmp_path / "other")
    words = json.loads((folder / "vocab.json").read_text())
    words["\ud800"] = words.pop("a")
    (folder / "vocab.json").write_text(json.dumps(words))
    with pytest.raises(ModelError, match=r"vocab\.json has a word with '\\ud800'"):
        read_hugging_face(folder)


def test_a_model_without_its_head_is_refused(marian, tmp_path):
    """A bare MarianModel: its tensors lack the prefix of the whole."""
    from safetensors.numpy import load_file, save_file

    folder = shutil.copytree(marian, tmp_path / "bare")
    tensors = load_file(folder / "model.safetensors")
    bare = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    save_file(bare, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"tensor 'model\.encoder\.embed_tokens\.weight' is missing"):
        read_hugging_face(folder)


def test_a_multilingual_model_has_no_default_direction(m2m, tmp_path):
    """tokenizer_config.json says de and en here, as Facebook's own does: whatever it was saved with."""
    ours = convert(m2m, tmp_path / "ours")
    with pytest.raises(OptionError, match="source_language is missing; the model needs one of af, "):
        ours.translate(TEXTS, raw=True)
    with pytest.raises(OptionError, match="target_language is missing"):
        ours.translate(TEXTS, raw=True, source_language="de")


@pytest.mark.parametrize("kind", ["m2m", "nllb"])
def test_the_class_of_the_tokenizer_says_how_words_are_numbered(m2m, nllb, tmp_path, kind):
    origin = {"m2m": m2m, "nllb": nllb}[kind]
    result = read_hugging_face(origin)
    folder = shutil.copytree(origin, tmp_path / "other")
    path = folder / "tokenizer_config.json"
    facts = json.loads(path.read_text())

    def read(**changes):
        path.write_text(json.dumps({**facts, **changes}))
        return read_hugging_face(folder)

    for name in ("MyNllbTokenizer", "PreTrainedTokenizerFast"):
        with pytest.raises(
            ModelError, match=rf"tokenizer_config\.json: tokenizer_class is '{name}'.*'M2M100Tokenizer'"
        ):
            read(tokenizer_class=name)
    assert read(tokenizer_class=None).source.serialized == result.source.serialized  # its files tell
    if kind == "nllb":
        assert read(tokenizer_class="NllbTokenizerFast").source.serialized == result.source.serialized
    else:
        (folder / "vocab.json").unlink()
        with pytest.raises(ModelError, match=r"cannot read .*vocab\.json"):
            read()


def test_tensors_that_share_numbers_stay_one(transformers, tmp_path):
    """A file that names one tensor of bfloat16 many times would else take many times its memory."""
    import torch

    table = torch.arange(600.0).reshape(20, 30).to(torch.bfloat16)
    state = {f"tied {i}": table for i in range(9)} | {"part": table[3:5, 2:7], "turned": table.T}
    for new in (True, False):
        torch.save(state, tmp_path / "tied.bin", _use_new_zipfile_serialization=new)
        result = read_torch(tmp_path / "tied.bin")
        assert all(np.array_equal(result[name].values(), tensor.float().numpy()) for name, tensor in state.items())
        assert all(np.shares_memory(result["tied 0"].bits, tensor.bits) for tensor in result.values())


@pytest.mark.parametrize("side", ["source_spm", "target_spm"])
def test_a_sentencepiece_model_that_would_not_be_heeded_is_refused(marian, side):
    name = side.replace("_", "-")
    with pytest.raises(InputError, match=f"{name} is .*source.spm; a model of Hugging Face has its own"):
        read_model(str(marian), **{side: marian / "source.spm"})
    with pytest.raises(InputError, match=f"{name} is .*source.spm; o/none, which is fetched, has its own"):
        convert_model("o/none", marian.parent / "none", **{side: marian / "source.spm"})


def test_a_layer_that_the_config_does_not_name_is_refused(marian, tmp_path):
    folder = shutil.copytree(marian, tmp_path / "other")
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"decoder_layers": 1}))
    with pytest.raises(
        ModelError, match=r"tensors that the config does not account for, such as 'model.decoder.layers.1"
    ):
        read_hugging_face(folder)
