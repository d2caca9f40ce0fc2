"""Lines through the text contract, with decoders that stand for models."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from support.decoders import Decoder, answer, foreign, run, same

from sharpbeam import Translator
from sharpbeam.contract.lines import cut_sentence, is_plain, line_steps
from sharpbeam.contract.sentences import Contract
from sharpbeam.contract.spans import with_spans
from sharpbeam.decoding.results import Translation
from sharpbeam.errors import OptionError
from sharpbeam.text.spans import find_spans, kept, whole
from sharpbeam.text.spelling import Spelling
from sharpbeam.text.words import WordVocabulary


def translate(source: str) -> Translation:
    return answer(source, foreign(source))


def line(text: str, decode: Decoder = translate) -> str:
    return run(line_steps(text, Contract()), decode).text


def copies(text: str, spans: Sequence[str]) -> Counter[str]:
    """How often each of the spans is in the text; a part of a longer one, or of a word, does not count."""
    pattern = "|".join(map(whole, sorted(spans, key=len, reverse=True)))
    return Counter(re.findall(pattern, text)) if pattern else Counter()


def loses_digits(source: str) -> Translation:
    """A model that copies no stand-in."""
    return answer(source, foreign(re.sub(r"\S*\d\S*", "", source)))


def twice(source: str) -> Translation:
    """A model that says everything twice."""
    return answer(source, f"{foreign(source)} {foreign(source)}")


def nothing(source: str) -> Translation:
    return answer(source, "")


def garbage(source: str) -> Translation:
    """The same for any source: stand-ins, and parts of spans."""
    return answer(source, "zz X1X1 X1 https:// 471 X1 4711 % <b {n [1 X2a `")


def invents(source: str) -> Translation:
    """The same spans for any source."""
    return answer(source, "zz https://x.y %s %s%s https://x.y/z?a=b, a@b.co {n} iPhone iPhone v1.2 v1.2.3")


WILD = (twice, nothing, garbage)


def test_sentences_are_decoded_one_by_one_and_their_spaces_stay() -> None:
    texts: list[str] = []

    def decode(source: str) -> Translation:
        texts.append(source)
        return translate(source)

    assert line("  One two.  Three four?\tFive! ", decode) == "  Onex twox.  Threex fourx?\tFivex! "
    assert texts == ["One two.", "Three four?", "Five!"]


def test_bullets_numbers_and_emoji_keep_their_places() -> None:
    for text in ("- One two.", "1. One two.", "  • (a) One two.", "😀 One two. 👍🏽"):
        assert line(text) == text.replace("One two", "Onex twox")
    assert line("12,5 %") == "12,5 %"


def test_a_line_of_lines_has_as_many() -> None:
    assert line("One\r\n\ntwo. three") == "Onex\r\n\ntwox. threex"


def test_a_long_sentence_is_cut_and_nothing_is_lost() -> None:
    text = ", ".join(f"word{chr(97 + i % 26)}" for i in range(2000))
    assert sorted(line(text).split()) == sorted(foreign(text).split())


@pytest.mark.parametrize("decode", [translate, loses_digits])
def test_spans_come_out_byte_for_byte(decode: Decoder) -> None:
    text = "Go to https://x.y/z?a=b or write to a.b@c.com, then run `x y` {name} [1]. See (http://x.com)."
    out = line(text, decode)
    assert kept(text, out, find_spans(text))
    assert "Gox tox" in out
    if decode is translate:
        assert out.startswith("Gox tox https://x.y/z?a=b orx writex tox a.b@c.com, thenx")


@pytest.mark.parametrize("decode", [*WILD, invents])
def test_no_decoder_loses_or_repeats_a_span(decode: Decoder) -> None:
    text = "Go to https://x.y/z?a=b or https://x.y and write %s to a@b.co twice: %s, then iPhone v1.2 {n}."
    spans = [span.text for span in find_spans(text)]
    assert len(spans) == 8
    out = run(line_steps(text, Contract()), decode)
    assert copies(out.text, spans) == Counter(spans)
    assert set(spans) <= {token.strip("▁.,") for token in out.tokens}


def test_what_has_no_place_is_appended_and_copies_are_removed() -> None:
    text = "Put %s here, %s there, {n} too."
    result = with_spans(text, answer(text, "Ponha %s aqui %s ali %s fim.").hypotheses[0], find_spans(text))
    assert result.text == "Ponha %s aqui %s ali  fim. {n}"
    assert result.tokens[-1] == "▁{n}"
    assert len(result.token_scores) == len(result.tokens) + 1


def test_flags_are_those_of_sentences() -> None:
    assert run(line_steps("See https://x.y now. It has 34 %s.", Contract()), translate).flags == ()
    assert run(line_steps("Put %s here.", Contract(attends=False)), nothing).flags == ("span", "cut")
    copied = run(line_steps("One two 12. We saw five more men %s here.", Contract()), same)
    assert copied.flags == ("copy",)
    looped = run(line_steps("One 12. Two.", Contract()), lambda source: answer(source, source + " so" * 9))
    assert looped.flags == ("loop",)
    raw = answer("We pay 34 for %s.", "Pagamos.")
    assert raw.flags == ("span", "number")


def test_a_protected_word_may_be_there_again() -> None:
    text = "Ana saw her."
    result = run(line_steps(text, Contract(pattern=re.compile("Ana"))), lambda source: answer(source, "Ana viu Ana."))
    assert result.text.count("Ana") >= 1


def test_a_span_is_a_token_with_its_attention() -> None:
    for source, column in (("Open https://x.y now.", 1), ("Then go to https://x.y now.", 5)):
        result = run(line_steps(source, Contract(attention=True)), translate)
        at = result.tokens.index("▁https://x.y")
        assert result.attention is not None
        assert result.attention[at].index(1.0) == column  # of the source, or of none
        assert len(result.token_scores) == len(result.tokens) + 1
        assert all(len(row) == len(result.source_tokens) + 1 for row in result.attention)


def test_a_copied_soft_span_is_left_to_the_model() -> None:
    texts: list[str] = []

    def decode(source: str) -> Translation:
        texts.append(source)
        return answer(source, source)

    assert line("My iPhone is old.", decode) == "My iPhone is old."
    assert texts == ["My iPhone is old."]


def test_texts_inside_of_messages_are_translated() -> None:
    text = "You have {n, plural, one {# new item} other {# new items}} here."
    assert line(text) == "Youx havex {n, plural, one {# newx itemx} other {# newx itemsx}} herex."
    message = "{n, plural, one {# new item} other {# new items}}"
    assert line(message) == "{n, plural, one {# newx itemx} other {# newx itemsx}}"
    assert line(f"Good news. {message} Bye now.") == f"Goodx newsx. {line(message)} Byex nowx."


def test_an_option_in_a_word_is_no_copy_of_it() -> None:
    text = "See it with -l."
    spans = find_spans(text)
    good, bad = "Para v\u00ea-lo, use -l.", "Para v\u00ea-lo."
    assert with_spans(text, answer(text, good).hypotheses[0], spans).text == good
    assert with_spans(text, answer(text, bad).hypotheses[0], spans).text == f"{bad} -l"
    assert kept(text, good, spans) and not kept(text, bad, spans)
    assert not kept(text, f"-l: {good}", spans)
    letter = find_spans("Set e.", [(4, 5)])
    assert kept("Set e.", "Definir e e sair.", letter), "a letter may be a word"


def test_columns_are_translated_apart_and_keep_their_spaces() -> None:
    text = "Date            Unit price   Place of  it"
    assert line(text) == "Datex            Unitx pricex   Placex ofx  itx"
    odd = "The quick     brown fox jumps    over the dog."
    assert [job.text for job in next(line_steps(odd, Contract()))] == [odd]
    jobs = next(line_steps(text, Contract()))
    assert [job.text for job in jobs] == ["Date", "Unit price", "Place of  it"]
    assert not is_plain(text, Spelling())


def test_no_number_is_cut_in_two() -> None:
    text = "a" * 300 + " 12,345" + "b" * 200
    assert [text[start:end] for start, end in cut_sentence(text, 0, len(text))] == ["a" * 300, "12,345" + "b" * 200]


def test_scores_tokens_and_hypotheses_of_a_line_are_those_of_its_sentences() -> None:
    result = run(line_steps("One two. Three.", Contract(penalty=1.0, attention=True)), translate)
    assert result.tokens == ("▁Onex", "▁twox.", "▁Threex.")
    assert result.token_scores == pytest.approx((-0.1, -0.2, -0.1, -0.1))
    assert len(result.attention) == 4  # type: ignore[arg-type]
    assert result.alignment == ((0, 0), (1, 1), (2, 2))


@pytest.mark.parametrize("text", ["", " ", "One more.", "“Well,” he said; it's fine!", "Ele não foi daqui…"])
def test_plain_lines(text: str) -> None:
    assert is_plain(text, Spelling())


@pytest.mark.parametrize(
    "text",
    [
        *("One. Two", "Foi para Ana", "12 men", "NATO", "iPhone", "x_y", "- a", "a\nb", "😀"),
        *("Then call foo() again.", "Then git push and wait."),
    ],
)
def test_lines_to_look_at(text: str) -> None:
    assert not is_plain(text, Spelling())


def test_random_lines_keep_the_contract() -> None:
    rng = random.Random(5)
    parts = "one|Two three.| |\t|\n|https://x.y/a|{n}|%s|[1]|a@b.co|<b>|</b>|“|(|)|1. |- |\0|中文。|x_y|v1.2|NATO|`|..."
    parts += "|X1|4711|\u202e|é|\u2028|😀|{a, plural, one {b # c} other {d}}"
    for _ in range(3000):
        text = "".join(rng.choices(parts.split("|"), k=rng.randint(1, 12)))
        decode = rng.choice([translate, loses_digits, *WILD])
        every = (re.split("(</?b>)", span.text) for span in find_spans(text) if "plural" not in span.text)
        spans = [part for parts in every for part in parts if find_spans(part)]
        out = line(text, decode)
        assert [span for span, count in Counter(spans).items() if out.count(span) < count] == [], (decode, text, out)
        assert copies(out, spans) <= copies(text, spans) | Counter(spans), (decode, text, out)
        assert re.findall("[\n\u2028]", out) == re.findall("[\n\u2028]", text)


def test_raw_and_plain_lines_are_the_same(tiny_model: str, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    plain = [text for text in sentences if is_plain(text, Spelling())]
    assert translator.translate(plain) == translator.translate(plain, raw=True)


def test_matches_of_a_user_are_kept(tiny_model: str) -> None:
    texts = ["We like the green houses", "We like the old houses", "A green Bxx"]
    found = Translator(tiny_model).translate(texts, keep=["green house", "B[x]+"])
    with pytest.raises(OptionError, match="keep is given with raw"):
        Translator(tiny_model).translate(texts, keep=["green house"], raw=True)
    assert "green house" in found[0].text
    assert found[2].text.count("Bxx") == 1
    assert found[1] == Translator(tiny_model).translate(texts[1:2], raw=True)[0]


def test_case_follows_the_source() -> None:
    assert line("ONE TWO, THREE x.com FOUR.") == "ONEX TWOX, THREEX x.com FOURX."
    assert line("One and Two of Three Four") == "Onex Andx Twox ofx Threex Fourx"
    assert line("He said STOP THAT NOW and left") == "Hex saidx STOPX THATX NOWX andx leftx"


def test_names_are_told_by_what_the_model_answers() -> None:
    sources = []

    def decode(source: str) -> Translation:
        sources.append(source)
        return answer(source, " ".join(word if word.lower() == "haram" else word + "x" for word in source.split()))

    assert line("The Old Haram Sleeps Here", decode) == "Thex Oldx Haram Sleepsx Herex"
    assert sources[:2] == ["The old haram sleeps here", "The Old Haram Sleeps Here"]
    assert "The old Haram sleeps here" in sources


def test_cells_between_tabs_are_translated_one_by_one() -> None:
    assert line("One two\tthree\t\t4") == "Onex twox\tthreex\t\t4"


def test_a_lost_number_is_put_back() -> None:
    def decode(source: str) -> Translation:
        return answer(source, foreign(source.replace("34", "dozens of")))

    assert "34" in line("She has 34 cats at home", decode)


@pytest.mark.parametrize(
    ("masked", "out"),
    [
        ("Leia em X1 na casa", "Leia em x.com na casa"),
        ("Leia X1 na casa", "Leia x.com na casa"),
        ("Leia em X1X1 na casa", "Leia em x.com na casa"),
        ("Leia escrito X1 na casa", "Leia x.com na casa"),
    ],
)
def test_words_that_govern_a_span_come_with_it(masked: str, out: str) -> None:
    def decode(source: str) -> Translation:
        return answer(source, masked) if "X1" in source else answer(source, "Leia na casa", [0, 2, 5])

    assert line("Read on x.com in the old house", decode) == out
    assert line("Read the x.com in the old house", decode) == "Leia x.com na casa"


@pytest.mark.parametrize(
    ("masked", "out"),
    [
        ("Ele quando andando X1 mais a oeste", "Ele ao andar x.com mais para o oeste"),  # after words that differ
        ("Ele ao andar de X1 de mais", "Ele ao andar x.com mais para o oeste"),
        ("X1 anda", "Ele ao andar x.com mais para o oeste"),  # far from the words that it is between
        ("Ele ao X1, andar mais para o oeste", "Ele ao x.com andar mais para o oeste"),
        ("Um homem foi X1 embora", "Ele ao andar x.com mais para o oeste"),  # by attention: words are in the same order
    ],
)
def test_a_span_is_where_the_other_answer_has_its_stand_in(masked: str, out: str) -> None:
    def decode(source: str) -> Translation:
        return answer(source, masked if "X1" in source else "Ele ao andar mais para o oeste")

    assert line("He walked the x.com further west", decode) == out


def test_a_span_after_an_article_is_after_one() -> None:
    def decode(source: str) -> Translation:
        return answer(source, "wer ist denn X1 das" if "X1" in source else "dies ist die Frau", [0, 1, 3, 3])

    assert line("this is the x.com woman", decode) == "dies ist die x.com Frau"


def test_a_place_after_a_word_that_is_there_twice_is_before_it() -> None:
    def decode(source: str) -> Translation:
        return answer(source, "chances de X1 de mudar" if "X1" in source else "chances de mudar")

    assert line("chances x.com of moving", decode) == "chances x.com de mudar"


def test_a_title_may_have_an_apostrophe_before_a_small_letter() -> None:
    assert not is_plain("O'steen Said His Daughter Sings", Spelling())


class EqualRarity(Spelling):
    def rarity(self, word: str) -> float:
        return 20.0


def test_a_listed_name_in_a_title_keeps_its_capital() -> None:
    texts: list[str] = []

    def decode(source: str) -> Translation:
        texts.append(source)
        return translate(source)

    title = "The Old Men Visit Dallas and Hezbollah's Usa Tables"
    for language in ("en", "pt"):  # without a list nothing tells names from other words
        run(line_steps(title, Contract(language, spelling=EqualRarity())), decode)
        named = "The old men visit Dallas and Hezbollah's USA tables" in texts
        assert named == (language == "en")
        texts.clear()


class NounSpelling(Spelling):
    def rarity(self, word: str) -> float:
        return 20.0 - 4.0 * (word in ("Haus", "steht", "heute", "leer"))


def test_german_nouns_in_a_title_are_told_by_their_spelling() -> None:
    texts: list[str] = []

    def decode(source: str) -> Translation:
        texts.append(source)
        return translate(source)

    run(line_steps("Mein Haus Steht Heute Leer", Contract("de", spelling=NounSpelling())), decode)
    assert "Mein Haus steht heute leer" in texts


def test_a_word_that_looks_like_an_article_moves_no_span() -> None:
    text = "Word 3.5 %1$@ la la %1$@ la la end"
    assert run(line_steps(text, Contract()), same).text == text


class AsciiSpelling(Spelling):
    def lacks(self, text: str) -> bool:
        return not text.isascii()


def test_words_that_the_vocabulary_lacks_are_kept() -> None:
    def decode(source: str) -> Translation:
        return translate(source.encode("ascii", "replace").decode())

    contract = Contract("en", spelling=AsciiSpelling())
    text = "We met Müller in Köln and paid £5 for it."
    out = run(line_steps(text, contract), decode)
    assert [word for word in out.text.split() if not word.isascii()] == ["Müller", "Köln", "£5"]
    assert out.flags == ()
    assert not is_plain("We met Müller there.", AsciiSpelling())
    whole = run(line_steps("как дела сегодня вечером", contract), decode)
    assert (whole.text, whole.flags) == ("как дела сегодня вечером", ("copy",))


@pytest.mark.parametrize(
    ("text", "lacks"), [("Łódź", True), ("50 m²", True), ("Das Äpfelchen", False), ("À", False), ("Élanovsky", True)]
)
def test_what_a_vocabulary_lacks(text: str, lacks: bool) -> None:
    assert Spelling(lambda: Translator("de-en").loaded.source).lacks(text) == lacks
    words = WordVocabulary.build(["Das Haus"], 6)
    assert not Spelling(lambda: words).lacks(text)  # which has few words
    assert not Spelling().lacks(text)
