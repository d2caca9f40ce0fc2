"""Protected spans: which there are in a text."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from sharpbeam.errors import OptionError
from sharpbeam.text.spans import covered, find_spans, keep_pattern, kept, message_arms, with_foreign


def texts(text: str) -> list[str]:
    spans = find_spans(text)
    assert all(text[span.start : span.end] == span.text for span in spans)
    return [span.text for span in spans]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Visit https://x.y/a?b=c(d), please. Or http://foo.com.", "https://x.y/a?b=c(d)|http://foo.com"),
        ("Mail foo@bar.com or @user about #tag2 (#fff000).", "foo@bar.com|@user|#tag2|(#fff000)"),
        (r"Open /etc/hosts, ~/x.py and C:\Users\me.", r"/etc/hosts|~/x.py|C:\Users\me"),
        ("Read src/main.c, then file.txt.", "src/main.c|file.txt"),
        ("Run `pip install x` or pip install numpy now.", "`pip install x`|pip install numpy"),
        ("So pip install https://ab8.org/x?y=47#z pkg2==24 now", "pip install https://ab8.org/x?y=47#z pkg2==24"),
        ("Two ``ticks without others, then `f(4, 12)` is code", "`f(4, 12)`"),
        ("A ` stray one, then `f(4, 12)` is code", "`f(4, 12)`"),
        ("A `stray one, then `f(4, 12)` is code", "`f(4, 12)`"),
        ("Then git commit -m or ls -la.", "git commit -m|ls -la"),
        ("Version v1.2 and 1.2.3-rc1, part ABC-1234-X.", "v1.2|1.2.3-rc1|ABC-1234-X"),
        ("Its id is 548e8a0a-8c96-4c44-e049-548e8a0a8c96.", "548e8a0a-8c96-4c44-e049-548e8a0a8c96"),
        ("Or d41d8cd98f00b204, or wJal4r5XUtnFE, not government12The.", "d41d8cd98f00b204|wJal4r5XUtnFE"),
        ("On 2020-01-02 at 2020-01-02T10:00:00Z.", "2020-01-02|2020-01-02T10:00:00Z"),
        ("{name}, %d, %(n)d, %s: $VAR ${v}", "{name}|%d|%(n)d|%s|$VAR|${v}"),
        ("<0/> [1] :icon: &nbsp; {{x}}", "<0/>|[1]|:icon:|&nbsp;|{{x}}"),
        ("{n, plural, one {# item} other {# items}} left", "{n, plural, one {# item} other {# items}}"),
        ("See :c:func:`PyBytes_Size` and :ref:`it <x>`.", ":c:func:`PyBytes_Size`|:ref:`it <x>`"),
        ("getUserName and my_var, foo() and a::b", "getUserName|my_var|foo()|a::b"),
        ("<b>bold</b> on example.com/path 😀", "<b>|</b>|example.com/path|😀"),
        ('He wrote "{x}" and {n}px.', '"{x}"|{n}px'),
        ("Mail <a@b.com> now :( or 1\ufe0f\u20e3 ;)", "<a@b.com>|:(|1\ufe0f\u20e3|;)"),
        ("See java.util.HashMap, System.NullReference and .NET", "java.util.HashMap|System.NullReference|.NET"),
        ("At 2024-05-17 12:33:01,123 [x] and [!NOTE]", "2024-05-17 12:33:01,123|[x]|[!NOTE]"),
    ],
)
def test_spans_are_found(text: str, spans: str) -> None:
    assert texts(text) == spans.split("|")


@pytest.mark.parametrize(
    "text",
    [
        "He said: yes. U.S. officials, e.g. at 3:30 p.m., paid $5.50 and/or 1.000.000 euros.",
        "50% of it, 5% a year; 3 < 4 > 2. The end.The start, well-known - and 24/7, 1990-2000.",
        "Mr. Smith met T. S. Eliot in St. Louis on Jan. 5, at 10:15.",
        "[LAUGHTER]",
    ],
)
def test_common_text_has_none(text: str) -> None:
    assert texts(text) == []


def test_touching_spans_are_one_and_the_users_pattern_comes_first() -> None:
    assert texts("<b>{x}</b>") == ["<b>{x}</b>"]
    spans = find_spans("Use Acme Cloud at x.com", re.compile("Acme Cloud"))
    assert [span.text for span in spans] == ["Acme Cloud", "x.com"]


def test_cover_and_count() -> None:
    text = "See x.com. See x.com!"
    spans = find_spans(text)
    assert covered(text, spans) == "See Xxxxx. See Xxxxx!"
    assert kept(text, "Veja x.com. Veja x.com!", spans)
    assert not kept(text, "Veja x.com!", spans)


def test_forms_of_a_message() -> None:
    text = "{n, plural, =0 {none} one {# {x}} other {# items}}"
    assert [text[start:end] for start, end in message_arms(text)] == ["none", "# {x}", "# items"]
    assert message_arms("{n, plural, one {a") == []


@pytest.mark.parametrize(
    "part", ["a.b.", "{", "`", "-a", "<a ", "a-1", "A_", "git ", "x/", "a@", "foo_", "{a, plural,", "()"]
)
def test_no_text_takes_long(part: str) -> None:
    began = time.process_time()
    find_spans(part * 10_000)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("pattern", ["(", "(a+)+", r"(\w+\s?)*x", "(?:a|aa)+", "a" * 2000])
def test_patterns_that_may_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="keep is"):
        keep_pattern(["fine", pattern])


@pytest.mark.parametrize("pattern", [5, b"a", re.compile("a")])
def test_a_pattern_is_text(pattern: Any) -> None:
    with pytest.raises(OptionError, match="keep is"):
        keep_pattern([pattern])


def test_patterns_of_a_user_are_one() -> None:
    pattern = keep_pattern(["Acme [A-Z]+", r"\d+ (?:kg|g)\b"])
    assert [span.text for span in find_spans("Acme XY has 3 kg or 5 g", pattern)] == ["Acme XY", "3 kg", "5 g"]
    pattern = keep_pattern(["(?i)acme", "(?i)xy"])
    assert [span.text for span in find_spans("aCME has an XY.", pattern)] == ["aCME", "XY"]
    assert keep_pattern([]) is None
    with pytest.raises(OptionError, match=r"which refers to a group; give it without other patterns"):
        keep_pattern(["(x)", r"(ab)\1"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Müller lives in Köln.", ["Müller", "Köln"]),
        ("It costs £5.50, not 3 kg.", ["£5.50"]),
        ("It costs (5€) or 10 €.", ["5€", "€"]),
        ("I met Müller Köln-Süd\u2019s “Über”", ["Müller Köln", "Süd", "Über"]),
        ("Ask müller@x.de: ü", ["müller@x.de", "ü"]),
        ("这是£书", ["£"]),
        ("Müller 😀", ["Müller", "😀"]),
        ("<b>£5</b>{x}ü", ["<b>£5</b>{x}ü"]),
        ("It is 19£20£5 cm", ["19£20£5"]),
        ("\u00adü\u0301\u200b ¿Qué?", ["ü"]),
    ],
)
def test_words_that_a_vocabulary_lacks_are_spans(text: str, expected: list[str]) -> None:
    def lacks(part: str) -> bool:
        return any(sign in part for sign in "üÜö£€¿\u00ad\u200b\u0301")

    spans = with_foreign(text, find_spans(text), text, lacks)
    assert [span.text for span in spans] == expected
    assert all(span.foreign == (find_spans(span.text) == []) for span in spans)
    assert with_foreign("A plain line.", [], "A plain line.", lacks) == []
    assert with_foreign("ÜBER", [], "uber", lacks) == []  # as it is decoded
