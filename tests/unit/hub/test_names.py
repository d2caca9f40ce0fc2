"""Names of models that are fetched."""

from __future__ import annotations

import pytest

from sharpbeam.errors import OptionError
from sharpbeam.hub.names import name_of


@pytest.mark.parametrize("text", ["de-en", "models/de-en", "C:/models", "en-pt=folder", "", "a:b", "owner/name"])
def test_what_is_no_name_is_left_to_others(text: str) -> None:
    assert name_of(text) is None


@pytest.mark.parametrize(
    ("text", "place", "languages", "kind"),
    [
        ("firefox:en-pt", "firefox/en-pt", ("en", "pt"), ""),
        ("firefox:zh-Hant-en", "firefox/zh-Hant-en", ("zh-Hant", "en"), ""),
        ("firefox:en-zh_hans", "firefox/en-zh_hans", ("en", "zh_hans"), ""),
        ("bergamot:de-en/base", "bergamot/de-en-base", ("de", "en"), "base"),
    ],
)
def test_a_pair_of_languages_may_have_scripts_and_a_kind(
    text: str, place: str, languages: tuple[str, str], kind: str
) -> None:
    name = name_of(text)
    assert name is not None
    assert (str(name), str(name.place), name.pair) == (text, place, (*languages, kind))


def test_a_place_in_the_cache_is_below_it_and_differs_by_address() -> None:
    places = [name_of(text) for text in ("hf:a/b", "hf:a/b@v1", "https://h/../../x.tar.gz", "https://g/../../x.tar.gz")]
    parts = [name.place.parts for name in places if name]
    assert len(set(parts)) == 4
    assert all(".." not in part for part in sum(parts, ()))
    assert [part[-1] for part in parts] == ["b", "b@v1", "x", "x"]


@pytest.mark.parametrize(
    "text", ["firefox:", "firefox:en", "opus:../../etc", "hf:name", "hf:../x", "hf:a/b/c", "hf:a/b@../c", "ct2:a/.."]
)
def test_a_name_that_leads_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"after (firefox|opus|hf|ct2): write"):
        name_of(text)
