"""Plain text, sentences, and documents through a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.decoders import reverse, run

from sharpbeam import InputError, OptionError, OutputError, Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.documents import (
    document_steps,
    format_names,
    read_document,
    translate_document,
    translate_text,
)
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.sentences import split_sentences


def test_sentences_are_split_and_nothing_but_space_is_between() -> None:
    text = "Dr. Smith came.  He slept.\tThen? "
    ranges = split_sentences(text, "eng_Latn")
    assert [text[start:end] for start, end in ranges] == ["Dr. Smith came.", "He slept.", "Then?"]
    assert split_sentences("一。二。", "zho_Hans") == [(0, 2), (2, 4)]
    assert split_sentences("  ") == []
    for text in ("123 Main St, Apt. 4B, Ohio.", "Veja o cap. 5 e a av. 9.", "Call tel. 555 now."):
        assert len(split_sentences(text)) == 1
    assert len(split_sentences("We liked it a lot. 5 stars!")) == 2
    for text in ("A St. Martin veio.", "Era no s\u00e9c. XX.", "It begins at 7 p.m. ET.", "Call before 5 p.m. Friday."):
        assert len(split_sentences(text, "pt")) == len(split_sentences(text, "en")) == 1
    for text in ("It ends at 7 p.m. The crowd leaves.", "He lives on Elm St. The house is big.", "Go. To 22 Elm St."):
        assert len(split_sentences(text, "en")) == 2
    assert split_sentences("He lives on Elm St.", "en") == [(0, 19)]


@pytest.mark.parametrize(
    "sentences",
    [
        ['"Is it you?" she asked.', "He left."],
        ['He said: "I go.', "You stay.", 'We see."', "Then he left."],
        ["He explains.", '"No more.', 'None."', "So far."],
        ["“No one.”", '“You.” was all. "'],
    ],
)
def test_sentences_in_quotes_are_split(sentences: list[str]) -> None:
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text, "en")] == sentences


def test_line_ends_and_white_space_stay() -> None:
    text = "\n  one two. three four.\r\n\r\n12\n\tfive six"
    out = run(document_steps(read_document(text, "text"), DocumentOptions()), reverse).content
    assert out == "\n  two. one four. three\r\n\r\n12\n\tsix five"


def test_a_long_sentence_is_cut_and_nothing_is_lost() -> None:
    text = ", ".join(f"word{i}" for i in range(60))
    translated = run(document_steps(read_document(text, "text"), DocumentOptions(max_sentence=50)), reverse)
    assert all(len(sentence.source) <= 50 for sentence in translated.sentences)
    assert sorted(translated.content.split()) == sorted(text.split())


def test_equal_sentences_are_decoded_once_and_groups_change_nothing() -> None:
    text = "one two.\n" * 5 + "three four. five six."
    texts = []
    steps = document_steps(read_document(text, "text"), DocumentOptions(at_once=2))
    whole = run(document_steps(read_document(text, "text"), DocumentOptions()), lambda t: texts.append(t) or reverse(t))  # type: ignore[func-returns-value]
    assert run(steps, reverse).content == whole.content
    assert sorted(texts) == ["five six.", "one two.", "three four."]


def test_sentences_of_one_line_are_decoded_in_groups_too() -> None:
    text = " ".join(f"Word{n} and more." for n in range(7))
    steps, groups = document_steps(read_document(text, "text"), DocumentOptions(at_once=3, guards=False)), list[int]()
    with pytest.raises(StopIteration) as end:
        jobs = next(steps)
        while True:
            groups.append(len(jobs))
            jobs = steps.send([reverse(job.text) for job in jobs])
    assert groups == [3, 3, 1]
    assert (
        end.value.value.content == run(document_steps(read_document(text, "text"), DocumentOptions()), reverse).content
    )


def test_a_document_is_what_its_lines_are(tiny_model: Path, tmp_path: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    (tmp_path / "in.txt").write_text("\n".join(sentences[:8]) + "\n", encoding="utf-8")
    plain = DocumentOptions(guards=False)  # a model that says random words is never sound
    translate_document(translator, tmp_path / "in.txt", tmp_path / "out.txt", documents=plain, beam_size=3)
    lines = [result.text for result in translator.translate(sentences[:8], beam_size=3, raw=True)]
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == "\n".join(lines) + "\n"
    translated = translate_text(translator, sentences[0], documents=plain, source_language="de", beam_size=3)
    assert translated.content == lines[0]


def test_errors_say_what_is_wrong(tiny_model: Path, tmp_path: Path) -> None:
    translator = Translator(tiny_model)
    with pytest.raises(OptionError, match=r"format is 'htm'; it must be one of .* Did you mean 'html'"):
        translate_text(translator, "one", format="htm")
    with pytest.raises(OptionError, match=f"one of {', '.join(format_names())}"):
        translate_document(translator, tmp_path / "x.unknown", tmp_path / "y")
    with pytest.raises(InputError, match=r"cannot read .*x.txt: No such file"):
        translate_document(translator, tmp_path / "x.txt", tmp_path / "y")
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match=r"cannot read .*pipe.txt: it is no regular file"):
        translate_document(translator, tmp_path / "pipe.txt", tmp_path / "y")
    (tmp_path / "x.txt").write_bytes(b"one\xff")
    with pytest.raises(InputError, match=r"x.txt: .*not valid utf-8"):
        translate_document(translator, tmp_path / "x.txt", tmp_path / "y")
    (tmp_path / "link").symlink_to("x.txt")
    with pytest.raises(OutputError, match=r"is the document itself"):
        translate_document(translator, tmp_path / "x.txt", tmp_path / "link")
    assert (tmp_path / "x.txt").read_bytes() == b"one\xff"
    (tmp_path / "page.html").write_text("<p>one")
    with pytest.raises(OptionError, match=r"output is .*x.docx'; it must be the name of a file of the format html"):
        translate_document(translator, tmp_path / "page.html", tmp_path / "x.docx")
    for wrong in (None, 5, ["one"]):
        with pytest.raises(OptionError, match=r"text is .*; it must be a str, or bytes"):
            translate_text(translator, wrong)
    with pytest.raises(OptionError, match="format is None; it must be one of"):
        translate_text(translator, "one", format=None)
    with pytest.raises(OptionError, match="translator is 'de-en'; it must be a Translator"):
        translate_text("de-en", "one")


def test_one_field_is_one_name() -> None:
    document = read_document('{"ab": "one two", "a": "one two"}', "json", fields="ab")
    assert run(document_steps(document, DocumentOptions()), reverse).content == '{"ab": "two one", "a": "one two"}'


def test_spans_and_capitals_of_documents_follow_the_contract() -> None:
    document = read_document("one two https://x.y/z three\nONE TWO THREE FOUR", "text")
    texts: list[str] = []

    def decode(text: str) -> Translation:
        texts.append(text)
        return reverse(text)

    out = run(document_steps(document, DocumentOptions(guards=False)), decode).content
    assert out.splitlines()[1] == "FOUR THREE TWO ONE"
    assert "https://x.y/z" in out and not any("https" in text for text in texts)
