"""Answers of registries, read as models: recorded shapes with made-up content."""

from __future__ import annotations

import random

import pytest
from support.registry import RECORDS, STORE, Registry

from sharpbeam.errors import InputError, ModelError
from sharpbeam.hub import registries
from sharpbeam.hub.names import Name

FILES = {"model.enpt.intgemm.alphas.bin": b"weights" * 9, "lex.50.50.enpt.s2t.bin": b"lex", "vocab.enpt.spm": b"vocab"}


def test_a_firefox_model_is_joined_from_bucket_and_records(registry: Registry) -> None:
    registry.add_firefox("en", "pt", FILES)
    entry = registries.resolve(Name("firefox", "en-pt"))
    assert [file.name for file in entry.files] == list(FILES)
    assert all(file.packing == "gz" and file.sha256 for file in entry.files)  # digests of all, though one is stated
    assert entry.quality == "flores200-plus: bleu 38.8, comet22 0.87"
    assert (entry.license, entry.kind, entry.version) == ("MPL-2.0", "tiny", (2, 0))


def test_either_of_mozillas_lists_is_enough(registry: Registry) -> None:
    registry.add_firefox("en", "pt", FILES)
    records, registry.records = registry.records, []
    entry = registries.resolve(Name("firefox", "en-pt"))
    assert [bool(file.sha256) for file in entry.files] == [True, False, False]
    registry.records, registry.models = records, {}
    entry = registries.resolve(Name("firefox", "en-pt"))
    assert all(file.packing == "zst" and file.sha256 for file in entry.files)
    assert entry.size == 3 * 9


def test_the_released_and_then_the_newest_model_is_chosen(registry: Registry) -> None:
    registry.add_firefox("en", "pt", {"model.enpt.intgemm.alphas.bin": b"base"}, "base-memory")
    registry.add_firefox("en", "pt", {"model.enpt.intgemm.alphas.bin": b"small"}, "tiny")
    registry.records[1] |= {"version": "2.1"}
    assert registries.resolve(Name("firefox", "en-pt")).kind == "tiny"
    own = registries.resolve(name := Name("firefox", "en-pt/base-memory"))
    assert (own.kind, own.name) == ("base-memory", name)  # its place in the cache is that of the name
    registry.records[1] |= {"version": "3.0a1"}  # for those who try what is new
    assert registries.resolve(Name("firefox", "en-pt")).kind == "base-memory"
    with pytest.raises(InputError, match="has no model 'en-pt/huge' among 2\\. It has base-memory, tiny"):
        registries.resolve(Name("firefox", "en-pt/huge"))


def test_a_direction_that_is_missing_has_a_pivot(registry: Registry) -> None:
    for source, target in (("pt", "en"), ("en", "de")):
        registry.add_firefox(source, target, {f"model.{source}{target}.intgemm.alphas.bin": source.encode()})
    with pytest.raises(InputError, match="serve firefox:pt-en firefox:en-de --pivot en"):
        registries.resolve(Name("firefox", "pt-de"))
    _, notes = registries.find("pt", "de")
    assert any("firefox: none; Through en it has firefox:pt-en and firefox:en-de" in note for note in notes)


def test_names_of_chinese_are_one(registry: Registry) -> None:
    registry.add_firefox("zh-Hans", "en", {"model.zhen.intgemm.alphas.bin": b"weights"})
    for name in ("zh-en", "zh-CN-en", "zh_hans-en"):
        assert registries.resolve(Name("firefox", name)).source == "zh-Hans"


def test_bergamot_and_hub_are_read(registry: Registry) -> None:
    registry.add_bergamot("de", "en", FILES, "base")
    registry.add_bergamot("de", "en", FILES)
    registry.add_hub("Helsinki-NLP/opus-mt-de-en", {"config.json": b"{}", "model.safetensors": b"w", "README.md": b""})
    assert registries.resolve(Name("bergamot", "de-en")).kind == "tiny"
    entry = registries.resolve(Name("opus", "de-en"))
    assert [file.name for file in entry.files] == ["config.json", "model.safetensors"]
    assert [bool(file.sha256) for file in entry.files] == [False, True]
    assert all(file.sha256 or file.git for file in entry.files)
    entries, notes = registries.find("de", "en")
    assert [str(each.name) for each in entries] == ["bergamot:de-en", "bergamot:de-en", "opus:de-en"]
    assert entries[-1].license == "apache-2.0"
    assert not notes


def test_old_weights_of_the_hub_are_taken_where_there_are_no_others(registry: Registry) -> None:
    for name, files, chosen in (
        ("o/old", {"pytorch_model.bin": b"w", "config.json": b"{}"}, ["pytorch_model.bin", "config.json"]),
        ("o/both", {"pytorch_model.bin": b"w", "model.safetensors": b"w"}, ["model.safetensors"]),
        ("o/in", {"config.json": b"{}", "onnx/model.safetensors": b"w", "flax.msgpack": b""}, ["config.json"]),
    ):
        registry.add_hub(name, files)
        assert [file.name for file in registries.resolve(Name("hf", name)).files] == chosen
    registry.add_hub("o/ct2", {"model.bin": b"w", "shared_vocabulary.txt": b"", "config.json": b"{}", "a.md": b""})
    assert len(registries.resolve(Name("ct2", "o/ct2")).files) == 3


def test_names_that_lead_out_of_a_folder_are_not_fetched(registry: Registry) -> None:
    registry.add_hub("o/evil", {"..\\..\\config.json": b"{}"})
    with pytest.raises(ModelError, match="no plain name"):
        registries.resolve(Name("hf", "o/evil"))
    registry.add_firefox("en", "pt", {"model.enpt.intgemm.alphas.bin": b"w"})
    registry.records[0]["name"] = "../../model.bin"
    registry.models["en-pt"][0]["files"]["model"]["path"] = "models/..model"
    with pytest.raises(InputError, match="has no model"):
        registries.resolve(Name("firefox", "en-pt"))


@pytest.mark.parametrize("answer", [b"", b"[]", b"{", b"<html>", b'{"data": 1, "models": [7]}', b"[" * 100_000])
def test_what_is_no_registry_is_said(registry: Registry, answer: bytes) -> None:
    registry.files |= {"translatelocally.com/models.json": answer}
    registry.answer = registry.files.get  # type: ignore[method-assign]
    with pytest.raises((ModelError, InputError), match=r"is not (JSON|a JSON object)|has no model"):
        registries.resolve(Name("bergamot", "de-en"))


def test_made_up_faults_of_records_are_left_out_or_said(registry: Registry) -> None:
    """Of 200 random damages to a record, a model stays whole or is not there; nothing else is raised."""
    damage = random.Random(31)
    whole = 0
    for _ in range(200):
        registry.records, registry.models = [], {}
        registry.add_firefox("en", "pt", FILES)
        record = damage.choice(registry.records)
        model = registry.models["en-pt"][0]
        where = damage.choice([record, record["attachment"], model, *model["files"].values()])
        where[damage.choice(sorted(where))] = damage.choice([None, 7, "", "../x", [], {"a": 1}, -1, "9" * 40])
        try:
            entry = registries.resolve(Name("firefox", "en-pt"))
        except (InputError, ModelError):
            continue
        assert entry.files[0].sha256
        assert all("/" not in file.name for file in entry.files)
        whole += 1
    assert whole > 50


def test_a_list_of_files_names_where_they_are(registry: Registry) -> None:
    registry.add_firefox("en", "pt", FILES)
    entry = registries.resolve(Name("firefox", "en-pt"))
    assert entry.files[0].url.startswith(f"https://{STORE}/models/en-pt/")
    assert RECORDS in registry.asked
    assert entry.facts()["files"][entry.files[0].name] == entry.files[0].sha256
