"""Markup and files over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.conftest import Live


def send(live: Live, name: str, content: bytes, **fields: str) -> Any:
    form = {"source": "xx", "target": "yy"} | fields
    return live.client.post("/translate_file", data=form, files={"file": (name, content)})


def test_html_keeps_its_tags_and_nothing_becomes_executable(live: Live) -> None:
    source = '<p class="a">Balo <b>mike</b> nodi.</p>&lt;script&gt;alert(1)&lt;/script&gt; <script>var balo;</script>'
    answer = live.translate(source, format="html").json()["translatedText"]
    for tag in ('<p class="a">', "<b>", "</b>", "</p>", "<script>var balo;</script>"):
        assert answer.count(tag) == 1
    assert answer.count("<script") == 1
    several = live.translate([source, "<i>Balo</i>"], format="html", alternatives=1).json()
    assert several["translatedText"][0] == answer
    assert [each[0].count("<") for each in several["alternatives"]] == [source.count("<"), 2]


def test_terms_of_a_glossary_are_written_as_it_says(live: Live) -> None:
    plain = live.translate("Balo mike nodi.").json()["translatedText"]
    assert "Ax & <y>" not in plain
    answer = live.translate("Balo mike nodi.", glossary={"mike": "Ax & <y>"}, details=True).json()
    assert answer["translatedText"].count("Ax & <y>") == 1
    assert 0 < answer["details"][0]["confidence"] <= 1
    assert live.translate("Balo nodi.", glossary={"mike": "Ax"}).json() == live.translate("Balo nodi.").json()
    for wrong in ["mike"], "mike", {"mike": 1}, {"mike": ""}, {f"a{n}": "b" for n in range(1001)}:
        refused = live.translate("Balo.", glossary=wrong)
        assert (refused.status_code, "glossary" in refused.json()["error"]) == (400, True)


def test_a_file_is_translated_and_downloaded(live: Live, sentences: list[str]) -> None:
    text = f"{sentences[0]}\r\n\r\n{sentences[1]}\n"
    answer = send(live, "letter.txt", text.encode())
    assert answer.status_code == 200
    got = live.client.get(urlsplit(answer.json()["translatedFileUrl"]).path)
    assert got.text == live.translate(text).json()["translatedText"]
    assert got.headers["content-disposition"] == "attachment"
    assert "default-src 'none'" in got.headers["content-security-policy"]
    assert live.client.get("/frontend/settings").json()["filesTranslation"] is True


@pytest.mark.parametrize(
    "name", ["../../etc/passwd.txt", "..\\..\\a.txt", "/etc/cron.d/x.txt", "a\x00b.txt", "ä 🎉.txt"]
)
def test_names_of_files_lead_nowhere(live: Live, name: str) -> None:
    answer = send(live, name, b"Balo.")
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        made = urlsplit(answer.json()["translatedFileUrl"]).path.rpartition("/")[2]
        assert made.isascii() and "passwd" not in made and ".." not in made


@pytest.mark.parametrize("name", ["%2e%2e%2fetc%2fpasswd", "anything.txt", "..%5c..%5ca", "%00"])
def test_only_files_that_were_made_are_served(live: Live, name: str) -> None:
    assert live.client.get(f"/download_file/{name}").status_code == 404
    assert live.client.get(f"/page/{name}").status_code == 404


def test_files_that_cannot_be_translated(serve: Callable[..., Live]) -> None:
    live = serve(file_limit=5000)
    for answer, status, message in (
        (send(live, "program.exe", b"MZ\x90\x00"), 400, "Invalid request: file format not supported"),
        (send(live, "a.txt", b"\xff\xfe\x00"), 400, "Invalid file:"),
        (send(live, "a.txt", b"x" * 10_000), 413, "the request is larger than"),
        (send(live, "a.txt", b"Balo.", target="zz"), 400, "zz is not supported"),
        (
            live.client.post("/translate_file", data={"source": "xx", "target": "yy"}),
            400,
            "Invalid request: missing file",
        ),
    ):
        assert answer.status_code == status
        assert answer.json()["error"].startswith(message)
    none = serve(file_limit=0)
    assert send(none, "a.txt", b"Balo.").status_code == 403
    assert none.client.get("/frontend/settings").json()["supportedFilesFormat"] == []
