"""HTML and XML whose elements a client describes."""

from __future__ import annotations

from typing import Any

from sharpbeam.documents import TagOptions, read_tagged


def texts(content: str, format: str = "xml", **tags: Any) -> list[str]:
    """The texts of the segments."""
    options = {name: frozenset(value) if isinstance(value, list) else value for name, value in tags.items()}
    return [segment.text for segment in read_tagged(content, format, TagOptions(**options)).segments]


def test_elements_of_xml_are_in_a_sentence_if_there_is_text_next_to_them() -> None:
    assert texts("<doc><par>One.</par><par>Two.</par></doc>") == ["One.", "Two."]
    assert texts("<doc>\n <par>A <i><b>bold</b></i> word.</par>\n</doc>") == ["A bold word."]
    assert texts("<b>Hello</b> <i>world</i>") == ["Hello world"]
    assert texts('Hello <x id="1"/> world') == ["Hello world"]
    assert texts("</b><b>One.</b></c><b>Two.") == ["One.", "Two."]


def test_a_client_says_which_elements_split_and_which_are_ignored() -> None:
    assert texts("One.<u>Two.</u>", splitting=["u"]) == ["One.", "Two."]
    assert texts("One.<i>Two.</i>", "html", splitting=["i"]) == ["One.", "Two."]
    assert texts("<p>One</p><p>two</p>", non_splitting=["p"]) == ["Onetwo"]
    assert texts("<p>One</p><p>two</p>", outline=False) == ["Onetwo"]
    assert texts("<p>One</p><p>two</p>", outline=False, splitting=["p"]) == ["One", "two"]
    assert texts("<q>left alone</q>", ignore=["q"]) == []
    for format in ("xml", "html"):
        document = read_tagged("A <x>b &amp; c</x> d.", format, TagOptions(ignore=frozenset(["x"])))
        ((tag,),) = (segment.tags for segment in document.segments)
        assert (tag.fixed, tag.open) == (True, "<x>b &amp; c</x>")
