"""DeepL's API, by the methods of its official Python client and by what translation tools send."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from server.conftest import Live

deepl = pytest.importorskip("deepl", reason="deepl is not installed")

KEY = "my key"


@pytest.fixture
def live(serve: Callable[..., Live], models: list[str], tmp_path: Path) -> Live:
    """A server from de to en that needs a key."""
    (tmp_path / "keys").write_text(f"{KEY}\nother key\n")
    return serve([models[0].replace("xx-yy", "de-en")], api_keys=str(tmp_path / "keys"))


def client(live: Live, key: str = KEY) -> Any:
    return deepl.Translator(key, server_url=live.url, send_platform_info=False)


def library(live: Live, texts: list[str], **fields: Any) -> list[str]:
    """The translations of the server's own API."""
    answer = live.translate(texts, source="de", target="en", api_key=KEY, **fields)
    translations: list[str] = answer.json()["translatedText"]
    return translations


def test_texts_languages_and_usage(live: Live) -> None:
    api = client(live)
    one, two = api.translate_text(["Balo mike.", "Nodi."], source_lang="DE", target_lang="EN-US")
    assert [one.text, two.text] == library(live, ["Balo mike.", "Nodi."])
    assert (one.detected_source_lang, one.billed_characters) == ("DE", 10)
    hints = {
        "context": "Mike.",
        "formality": "prefer_less",
        "split_sentences": "nonewlines",
        "preserve_formatting": True,
    }
    assert api.translate_text("Nodi.", source_lang="DE", target_lang="EN-US", **hints).text == two.text
    assert [each.code for each in api.get_target_languages()] == ["EN"]
    assert [each.code for each in api.get_source_languages()] == ["DE"]
    assert api.get_usage().character.count > 0
    with pytest.raises(deepl.DeepLException, match="formality is not supported"):
        api.translate_text("Balo.", source_lang="DE", target_lang="EN-US", formality="less")
    with pytest.raises(deepl.AuthorizationException):
        client(live, "no key").translate_text("Balo.", target_lang="EN-US")


def test_tags_are_what_the_client_says(live: Live) -> None:
    def translate(text: str, handling: str = "xml", **tags: Any) -> str:
        how = {"source_lang": "DE", "target_lang": "EN-US", "tag_handling": handling}
        translation: str = client(live).translate_text(text, **how, **tags).text
        return translation

    balo, nodi, both = library(live, ["Balo.", "Nodi.", "Balo. Nodi."])
    assert translate("Balo <b>mike</b>.", "html").count("<b>") == 1
    assert translate('<doc a="1"><par>Balo.</par><par>Nodi.</par></doc>') == (
        f'<doc a="1"><par>{balo}</par><par>{nodi}</par></doc>'
    )
    assert translate("<doc>\n<par>Balo <i>mike</i> nodi.</par>\n</doc>").count("<i>") == 1
    for handling in ("xml", "html"):
        ignored = translate("Balo <x>ki &amp; nu</x> nodi.", handling, ignore_tags=["x"])
        assert ignored.count("<x>ki &amp; nu</x>") == 1
        split = translate("Balo.<u>Nodi.</u>", handling, splitting_tags="u")
        assert split == f"{balo}<u>{nodi}</u>"
    joined = translate("<p>Balo.</p> <p>Nodi.</p>", outline_detection=False)
    assert joined.replace("<p>", "").replace("</p>", "") == both
    assert translate("<p>Balo</p><q>mike</q>", non_splitting_tags=["p", "q"]).count("<") == 4


def test_what_weblate_and_omegat_send_is_answered(live: Live) -> None:
    text = 'Balo <x id="7"></x> nodi &lt;mike&gt;.'
    fields = {"text": [text], "source_lang": "DE", "target_lang": "EN", "formality": "default"}
    fields |= {"tag_handling": "xml", "ignore_tags": ["x"]}
    key = {"Authorization": f"DeepL-Auth-Key {KEY}"}
    answer = live.client.post("/v2/translate", json=fields, headers=key).json()["translations"]
    assert [each["text"].count('<x id="7"></x>') for each in answer] == [1]
    query = {"text": "Balo <a1/>nodi.", "source_lang": "DE", "target_lang": "EN", "tag_handling": "xml"}
    query |= {"split_sentences": "1", "preserve_formatting": "1", "auth_key": KEY}
    (one,) = live.client.get("/v1/translate", params=query).json()["translations"]
    assert one["text"].count("<a1/>") == 1
    refused = live.client.get("/v1/translate", params=query | {"auth_key": "wrong"})
    assert (refused.status_code, refused.json()["message"]) == (403, "Invalid API key")


def test_glossaries_are_made_listed_used_and_deleted(live: Live) -> None:
    api = client(live)
    assert [(each.source_lang, each.target_lang) for each in api.get_glossary_languages()] == [("de", "en")]
    one = api.create_glossary("mine", "DE", "EN-US", {"mike": "Ax & <y>", '"nodi"': "Bu"})
    two = api.create_glossary_from_csv("table", "DE", "EN", 'balo,"Cu, Du",DE,EN\n')
    assert (one.name, one.ready, one.source_lang, one.target_lang, one.entry_count) == ("mine", True, "DE", "EN", 2)
    assert [each.glossary_id for each in api.list_glossaries()] == [one.glossary_id, two.glossary_id]
    assert api.get_glossary(two.glossary_id).name == "table"
    assert api.get_glossary_entries(one) == {"mike": "Ax & <y>", '"nodi"': "Bu"}
    assert api.get_glossary_entries(two) == {"balo": "Cu, Du"}
    assert "Ax & <y>" in api.translate_text_with_glossary("Balo mike nodi.", one).text
    assert "Cu, Du" in api.translate_text("Balo.", source_lang="DE", target_lang="EN-US", glossary=two).text
    other = client(live, "other key")
    assert other.list_glossaries() == []
    for wrong in (lambda: other.get_glossary(one.glossary_id), lambda: api.get_glossary("../" + one.glossary_id)):
        with pytest.raises(deepl.DeepLException):
            wrong()
    with pytest.raises(deepl.DeepLException, match="has no translation"):
        api.create_glossary_from_csv("short", "DE", "EN", "balo\n")
    with pytest.raises(deepl.DeepLException, match="not supported"):
        api.create_glossary("no model", "DE", "FR", {"a": "b"})
    api.delete_glossary(one)
    with pytest.raises(deepl.GlossaryNotFoundException):
        api.get_glossary(one.glossary_id)
    with pytest.raises(deepl.DeepLException, match="there is no such glossary"):
        api.translate_text_with_glossary("Balo.", one)
    assert [each.name for each in api.list_glossaries()] == ["table"]


def test_documents_that_were_accepted_wait_while_the_server_is_busy(
    serve: Callable[..., Live], models: list[str], files_may_go_on: threading.Event
) -> None:
    live = serve([models[0].replace("xx-yy", "de-en")], queue_limit=300)
    api = deepl.Translator("any", server_url=live.url, send_platform_info=False)
    text = "\n".join(f"Balo mike nodi {n}." for n in range(300)).encode()  # one of them fills the queue
    languages = {"source_lang": "DE", "target_lang": "EN-US", "filename": "a.txt"}
    handles = [api.translate_document_upload(text, **languages) for _ in range(6)]
    with pytest.raises(deepl.DocumentNotReadyException):
        api.translate_document_download(handles[-1])
    files_may_go_on.set()
    for handle in handles:
        while not (status := api.translate_document_get_status(handle)).done:
            assert status.ok
            time.sleep(0.02)
    assert len({api.translate_document_download(handle).content for handle in handles}) == 1


def test_documents_are_uploaded_watched_and_downloaded(live: Live, tmp_path: Path) -> None:
    api = client(live)
    (tmp_path / "page.html").write_text("<p>Balo <b>mike</b>.</p>")
    glossary = api.create_glossary("mine", "DE", "EN", {"mike": "Ax"})
    with (tmp_path / "page.html").open("rb") as page:
        handle = api.translate_document_upload(page, source_lang="DE", target_lang="EN-US", glossary=glossary)
    while not (status := api.translate_document_get_status(handle)).done:
        assert status.ok
        time.sleep(0.02)
    with (tmp_path / "out.html").open("wb") as output:
        api.translate_document_download(handle, output)
    answer = (tmp_path / "out.html").read_text()
    assert answer.startswith("<p>") and answer.count("<b>") == 1 and "Ax" in answer
    wrong = deepl.DocumentHandle(handle.document_id, "no key")
    with pytest.raises(deepl.DeepLException):
        api.translate_document_get_status(wrong)
    broken = api.translate_document_upload(b"\xff\xfe\x00", target_lang="EN-US", source_lang="DE", filename="a.txt")
    while (status := api.translate_document_get_status(broken)).ok:
        time.sleep(0.02)
    assert status.error_message.startswith("Invalid file")
    with pytest.raises(deepl.DeepLException, match="Bad request"):
        api.translate_document_download(broken)
    with pytest.raises(deepl.DeepLException, match="format not supported"):
        api.translate_document_upload(b"MZ", target_lang="EN-US", filename="a.exe")
