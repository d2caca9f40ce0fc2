"""Markup and placeholders in lines: a model sees no tag, and tags are around what their words became."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from fuzz.html_documents import nested
from support.decoders import Decoder, answer, foreign, hostile, reverse, run, same

from sharpbeam.contract.lines import line_steps
from sharpbeam.contract.sentences import Contract
from sharpbeam.decoding.results import Translation

_TAG = re.compile(r"</?[a-z]+[^>]*>")
_MARK = re.compile(r"(?:<|&lt;).*?(?:>|&gt;)|\*+|~~|\[.*?\]")


def translate(source: str) -> Translation:
    return answer(source, foreign(source))


def backwards(source: str) -> Translation:
    """Other words, in reverse order."""
    found = reverse(source)
    return answer(source, foreign(found.text), list(reversed(range(len(source.split())))))


def line(text: str, decode: Decoder = translate) -> str:
    return run(line_steps(text, Contract()), decode).text


def seen(text: str) -> list[str]:
    """The texts that are decoded of a line."""
    every: list[str] = []

    def decode(source: str) -> Translation:
        every.append(source)
        return translate(source)

    line(text, decode)
    return every


@pytest.mark.parametrize(
    ("text", "backward"),
    [
        ("See the <b>old house</b> now", "nowx <b>housex oldx</b> thex Sx"),
        ("See &lt;i&gt;the old&lt;/i&gt; house", "housex &lt;i&gt;oldx thex&lt;/i&gt; Sx"),
        (
            'A <a href="https://x.y/?z=1">red <i>car</i></a> here',
            'herex <a href="https://x.y/?z=1"><i>carx</i> redx</a> Ax',
        ),
        ("See **the old** house", "housex **oldx thex** Sx"),
        ("See the ~~old~~ *house* now", "nowx *housex* ~~oldx~~ thex Sx"),
        ("See [b]the[/b] [url=https://x.y/z]old house[/url]", "[url=https://x.y/z]housex oldx[/url] [b]thex[/b] Sx"),
        ("One <0>two</0> three <1>four</1>", "<1>fourx</1> threex <0>twox</0> Onex"),
        ("See <b>one two</i> three", "</i>threex twox <b>onex Sx"),
    ],
)
def test_tags_are_around_what_their_words_became(text: str, backward: str) -> None:
    plain = _MARK.sub("", text)
    assert seen(text) == [plain]
    assert line(text, backwards) == backward.replace("Sx", "Seex")
    assert _MARK.sub("", line(text)) == foreign(plain)


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("Two cars<br>A house", ["Two cars", "A house"]),
        ("<p>Two cars</p><p>A house</p>", ["Two cars", "A house"]),
        ("Two cars&lt;br/&gt;A house", ["Two cars", "A house"]),
        (r"Two cars\nA house", ["Two cars", "A house"]),
        ("<b>Stop!</b> The <u>car</u>.", ["Stop!", "The car."]),
    ],
)
def test_blocks_and_line_feeds_end_sentences(text: str, decoded: list[str]) -> None:
    assert seen(text) == decoded
    assert line(text, same) == text
    assert [one for one in seen(r"Use C:\new\x.txt or '\n' here") if "X1" not in one] == ["Use or here"]


def test_references_are_letters_and_signs_to_a_model_and_stay_references() -> None:
    assert seen("Don&#39;t say &quot;caf&eacute;&quot; now") == ['Don\'t say "café" now']
    assert line("He said &quot;one two&quot; now") == "Hex saidx &quot;onex twox&quot; nowx"
    assert line("The caf&eacute; &amp; Tom&#39;s &nbsp; house").count("&") == 4
    assert seen("&ldquo;One.&rdquo; Two &quot;three.&quot; Four") == ["“One.”", 'Two "three."', "Four"]
    assert seen("L&eacute;on va &agrave; Paris") == ["Léon va à Paris"]
    assert line("One &#224; two &#39; three &laquo; four").count("&") == 3  # between spaces it is no part of a word
    assert line("See https://x.y/?a=1&amp;b=&quot;c&quot; now") == "Seex https://x.y/?a=1&amp;b=&quot;c&quot; nowx"


def test_a_space_that_does_not_break_is_between_words() -> None:
    assert seen("The price is&nbsp;high") == ["The price is high"]
    assert line("The price is&nbsp;high") == "Thex pricex isx&nbsp;highx"
    assert line("Some 10&nbsp;km away") == "Somex 10&nbsp;km awayx"


def test_tags_that_are_words_and_parts_of_words_stay() -> None:
    assert line("Read <file> and H<sub>2</sub>O now") == "Readx <file> andx H<sub>2</sub>O nowx"
    assert line("<b>{name}</b> comes") == "<b>{name}</b> comesx"
    for text in ("So 2 * 3 * 4 or 2*3*4 is it", "Find *.txt and *.py in a[i] now", "He (*args, **kwargs) says it*"):
        assert {one.count("*") for one in seen(text)} == {text.count("*")}


@pytest.mark.parametrize("decode", [translate, backwards, hostile])
def test_any_tags_are_there_once_and_nested(decode: Decoder) -> None:
    rng = random.Random(7)
    for _ in range(400):
        text = ""
        for word in rng.choices(["ki", "nu", "mo", "ta", "li", "Müller", "%s", "https://x.y"], k=rng.randint(1, 9)):
            part = word
            for name in rng.sample(["b", "i", "u"], rng.choice([0, 0, 1, 2])):
                part = f"<{name}>{part} {rng.choice(['ki', 'nu mo'])}</{name}>"
            text += part + " "
        whole = run(line_steps(text.strip(), Contract(attention=True, changes={"return_attention": True})), decode)
        own = sorted(_TAG.findall(text))
        if decode is not hostile:
            assert sorted(_TAG.findall(whole.text)) == own, (text, whole.text)
            assert nested(whole.text), (text, whole.text)
        best = whole.hypotheses[0]
        assert len(best.token_scores) == len(best.tokens) + (best.tokens != ())
        assert {len(row) for row in best.attention or ()} <= {len(whole.source_tokens) + 1}


def test_placeholders_are_numbers_to_a_model() -> None:
    text = "See {n} of %s at x.com or 4711 of them"
    assert line(text) == "Seex {n} ofx %s atx x.com orx 4711 ofx themx"
    assert "See 4712 of 4713 at X4 or 4711 of them" in seen(text)
    # A count is in the answer that was decoded with it, which has its own word order.
    assert line("{n} of %s", lambda source: answer(source, "so " + source)) == "so {n} of %s"


def test_a_score_does_not_depend_on_white_space_or_spans_at_the_ends() -> None:
    def decode(source: str) -> Translation:
        one = answer(source, foreign(source))
        best = replace(one.hypotheses[0], log_prob=-1.5, score=-1.5 / 5)  # of five tokens
        return replace(one, hypotheses=(best,))

    contract = Contract(penalty=1.0)
    for text, length in (("One 12.", 5), ("One 12. ", 5), ("😀 One 12.", 5), ("One 12. Two.", 10)):
        result = run(line_steps(text, contract), decode)
        assert result.score == pytest.approx(-1.5 * length / 5 / length)
