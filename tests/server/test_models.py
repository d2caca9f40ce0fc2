"""Models of a server: directions, pivots, memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from server.conftest import Live, expected

from sharpbeam import Translator
from sharpbeam.documents import translate_text
from sharpbeam.errors import OptionError
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.app import create_app


@pytest.fixture
def several(tiny_model: Path) -> list[str]:
    return [f"de-en={tiny_model}", f"en-fr={tiny_model}/.", f"fr-en={tiny_model}/./."]


def test_wrong_arguments_of_the_application_are_named_at_once(several: list[str]) -> None:
    with pytest.raises(OptionError, match="Did you mean 'beam_size'"):
        create_app(several, beam_sise=3)
    for wrong in ("de-en", [], None):
        with pytest.raises(OptionError, match=r"models is .*; it must be a list of models"):
            create_app(wrong)


def test_a_pivot_joins_two_models(serve: Callable[..., Live], several: list[str], library: Translator) -> None:
    live = serve(several)
    text = "Balo mike."
    (english,) = expected(library, [text])
    (french,) = expected(library, [english])
    answer = live.translate(text, source="de", target="fr", alternatives=2, details=True).json()
    assert answer["translatedText"] == french
    assert len(answer["alternatives"]) == 2
    assert answer["details"][0]["translation"] == french
    assert all(not word["source"] for word in answer["details"][0]["words"])  # of the pivot, not of the text
    term = live.translate(text, source="de", target="fr", glossary={"mike": "Ax"}).json()
    assert term["translatedText"].count("Ax") == 1
    targets = {each["code"]: each["targets"] for each in live.client.get("/languages").json()}
    assert targets == {"de": ["de", "en", "fr"], "en": ["en", "fr"], "fr": ["en", "fr"]}
    other = live.translate(text, source="fr", target="de")
    assert (other.status_code, other.json()) == (400, {"error": "de is not available as a target language from fr"})


def test_codes_may_have_another_case_or_a_region(serve: Callable[..., Live], several: list[str]) -> None:
    live = serve(several)
    reference = live.translate("Balo.", source="de", target="en").json()
    for source, target in (("DE", "EN"), ("de-AT", "en_GB"), ("de", "en-US")):
        assert live.translate("Balo.", source=source, target=target).json() == reference
    assert live.translate("Balo.", source="de", target="de").json() == {"translatedText": "Balo."}


def test_a_model_is_loaded_for_its_first_request(serve: Callable[..., Live], several: list[str]) -> None:
    live = serve(several)
    assert live.metric("sharpbeam_models") == 1
    pairs = [("de", "en"), ("en", "fr"), ("fr", "en")] * 4
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda pair: live.translate("Balo.", source=pair[0], target=pair[1]), pairs))
    assert [each.status_code for each in results] == [200] * 12
    assert len({each.json()["translatedText"] for each in results}) == 1  # it is one model under three names
    assert live.metric("sharpbeam_models") == 3


def test_a_model_that_cannot_be_loaded_is_a_refusal(
    serve: Callable[..., Live], several: list[str], tiny_model: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny_model, broken)
    (broken / "model.safetensors").write_bytes(b"nothing")
    live = serve([*several, f"de-es={broken}"])
    answer = live.translate("Balo.", source="de", target="es")
    assert (answer.status_code, answer.json()) == (500, {"error": "the model broken cannot be loaded"})
    assert str(tmp_path) not in answer.text
    assert live.translate("Balo.", source="de", target="en").status_code == 200


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("de-en", ("de", "en")),
        ("opus-mt-de-en", ("de", "en")),
        ("enpt", ("en", "pt")),
        ("my-model_en-pt_BR", ("en", "pt_BR")),
        ("xx-yyy=anything", ("xx", "yyy")),
        ("xxyy=anything", ("xx", "yy")),
    ],
)
def test_the_direction_is_in_the_name(tiny_model: Path, tmp_path: Path, name: str, pair: Any) -> None:
    pytest.importorskip("fastapi", reason="needs the extra sharpbeam[server]")
    from sharpbeam.server.catalog import Catalog

    direction, _, folder = name.rpartition("=")
    shutil.copytree(tiny_model, tmp_path / folder)
    specification = f"{direction}={tmp_path / folder}" if direction else str(tmp_path / folder)
    (entry,) = Catalog([specification]).entries.values()
    assert entry.pairs == {pair}


def test_a_name_without_direction_is_an_error(tiny_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra sharpbeam[server]")
    from sharpbeam.server.catalog import Catalog

    for name in ("model", "base", "tiny", "en-pt-tiny", "de-en-big", "de-de"):
        folder = str(shutil.copytree(tiny_model, tmp_path / name))
        with pytest.raises(OptionError, match="write SOURCE-TARGET=FOLDER"):
            Catalog([folder])
    with pytest.raises(OptionError, match="write SOURCE-TARGET=FOLDER"):
        Catalog([f"de-de={tiny_model}"])


def test_one_folder_may_serve_several_directions(tiny_model: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra sharpbeam[server]")
    from sharpbeam.server.catalog import Catalog

    assert Catalog([f"de-en={tiny_model}", f"nl-en={tiny_model}"]).sources == ["de", "nl"]


def test_a_name_of_a_registry_says_its_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="needs the extra sharpbeam[server]")
    from sharpbeam.server import catalog

    monkeypatch.setattr(catalog, "check", lambda name: None)  # which looks into the registry
    (entry,) = catalog.Catalog(["firefox:en-pt/tiny"]).entries.values()
    assert entry.pairs == {("en", "pt")}


def test_a_multilingual_model_has_all_its_directions(
    serve: Callable[..., Live], make_transformer: Callable[..., Path]
) -> None:
    folder = make_transformer(languages={"de": 190, "en": 191, "fr": 192}, source_tag="source", target_tag=True)
    live = serve([str(folder)])
    translator = Translator(folder, threads=1)
    text = "Balo mike."
    for source, target in (("de", "en"), ("en", "fr"), ("de", "fr")):
        reference = translate_text(translator, text, source_language=source, target_language=target, max_length=40)
        assert live.translate(text, source=source, target=target).json()["translatedText"] == reference.content


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="port is 70000; it must be between 0 and 65535"):
        ServerOptions(port=70000)
