"""Random documents of each format through translation.

The structure of what comes out is that of what went in, read by the libraries of the formats; with a decoder that
returns the source the text is the same too.
"""

from __future__ import annotations

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import docx
import polib
from fuzz import office_documents, string_files
from fuzz.html_documents import in_order, nested
from markdown_it import MarkdownIt
from support.decoders import Decoder, hostile, reverse, run, same

from sharpbeam.documents import document_steps, read_document
from sharpbeam.options.documents import DocumentOptions

_WORDS = "the quick Brown fox. jumps over; a lazy dog! 12 3.5 été R&D a<b x>y".split()  # noqa: SIM905


def words(draw: random.Random, most: int = 8) -> str:
    return " ".join(["Word", *draw.choices(_WORDS, k=draw.randint(0, most))])


def text(draw: random.Random) -> str:
    return "".join(draw.choice(("\n", "\r\n", "\t", " ", "12", words(draw))) for _ in range(12))


def markdown(draw: random.Random) -> str:
    def inline() -> str:
        kinds = ("**{}**", "*{}*", "`{}`", "[{}](http://a.b/c_d)", "{}", "~~{}~~", "<b>{}</b>", "**a *{}* b**")
        plain = [words(draw, 4).replace("<", "").replace("&", "and") for _ in range(draw.randint(1, 5))]
        return " ".join(draw.choice(kinds).format(part) for part in plain)

    blocks: tuple[Callable[[], str], ...] = (
        lambda: "#" * draw.randint(1, 4) + " " + inline(),
        lambda: inline() + "\n" + inline(),
        lambda: "\n".join(f"- {inline()}" for _ in range(3)),
        lambda: "\n".join(f"{number}. {inline()}" for number in range(1, 4)),
        lambda: "> " + inline() + "\n> " + inline(),
        lambda: "```\n" + words(draw) + "\n```",
        lambda: "| a | b |\n|---|---|\n| " + inline() + " | " + inline() + " |",
        lambda: "<div>\n" + words(draw) + "\n</div>",
    )
    return "\n\n".join(draw.choice(blocks)() for _ in range(draw.randint(1, 6))) + "\n"


def subtitles(draw: random.Random) -> str:
    vtt = draw.random() < 0.5
    cues = [f"{n}\n00:00:0{n}{'.' if vtt else ','}000 --> 00:00:0{n}{'.' if vtt else ','}900\n" for n in range(1, 6)]
    body = [
        "\n".join(
            draw.choice(("<i>{}</i>", "- {}", "{}")).format(words(draw).replace("<", "").replace("&", ""))
            for _ in range(draw.randint(1, 3))
        )
        for _ in cues
    ]
    return "WEBVTT\n\n" * vtt + "\n\n".join(head + own for head, own in zip(cues, body, strict=True)) + "\n"


def po(draw: random.Random) -> str:
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    for number in range(draw.randint(1, 6)):
        holder = draw.choice(("%s", "%(name)s", "{x}", "<b>y</b>", ""))
        file.append(polib.POEntry(msgid=f"{number} {words(draw)} {holder} {words(draw)}", comment=words(draw)))
    return str(file)


def structure(draw: random.Random) -> str:
    def value(depth: int) -> Any:
        kinds: tuple[Callable[[], Any], ...] = (
            lambda: words(draw) + draw.choice(("", '"', "\\", "\n{x}")),
            lambda: draw.randint(0, 9),
            lambda: None,
            lambda: [value(depth + 1) for _ in range(draw.randint(0, 3))],
            lambda: {words(draw, 1): value(depth + 1) for _ in range(draw.randint(0, 3))},
        )
        return draw.choice(kinds[: 5 if depth < 3 else 3])()

    return json.dumps({"a": value(0), "b": value(0)}, indent=draw.choice((None, 2)), ensure_ascii=draw.random() < 0.5)


def table(draw: random.Random) -> str:
    out = io.StringIO(newline="")
    rows = [[words(draw), draw.randint(0, 9), words(draw) + draw.choice(("", "\n", '"', ","))] for _ in range(4)]
    csv.writer(out).writerows([["a", "b", "c"], *rows])
    return out.getvalue()


def word(draw: random.Random) -> bytes:
    file = docx.Document()
    for _ in range(draw.randint(1, 5)):
        paragraph = file.add_paragraph(style=draw.choice((None, "List Bullet", "Heading 1")))
        for _ in range(draw.randint(1, 4)):
            part = paragraph.add_run(words(draw, 4) + " ")
            part.bold, part.italic = draw.choice((None, True)), draw.choice((None, True))
            if draw.random() < 0.2:
                part.add_break()
    file.add_table(1, 2).cell(0, 1).text = words(draw)
    out = io.BytesIO()
    file.save(out)
    return out.getvalue()


def epub(draw: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("mimetype", "application/epub+zip")
        file.writestr("META-INF/container.xml", "<container/>", zipfile.ZIP_DEFLATED)
        for number in range(2):
            body = "".join(
                f"<p>Word <i>{draw.choice(('one', 'two'))}</i><br/> {words(draw, 3).split('<')[0].replace('&', '')}</p>"
                for _ in range(4)
            )
            page = f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title>T</title></head><body>{body}</body></html>'
            file.writestr(f"page{number}.xhtml", page, zipfile.ZIP_DEFLATED)
        file.writestr("picture.png", bytes(draw.randrange(256) for _ in range(50)))
    return out.getvalue()


def page(draw: random.Random) -> str:
    def inline(depth: int) -> str:
        kinds = ("{}", "<b>{}</b>", '<a href="/?a=1&amp;b=2">{}</a>', "<i class=x>{}</i>", "{}<br/>", "<code>{}</code>")
        plain = (words(draw, 4).replace("&", "&amp;").replace("<", "&lt;") for _ in range(draw.randint(1, 4)))
        return " ".join(
            draw.choice(kinds).format(inline(depth + 1) if depth < 3 and draw.random() < 0.3 else w) for w in plain
        )

    blocks = "".join(f"<{name}>{inline(0)}</{name}>" for name in draw.choices(("p", "h1", "div", "li", "td"), k=5))
    return (
        f"<!doctype html><html><head><title>{words(draw, 2).split('&')[0]}</title></head><body>{blocks}</body></html>"
    )


def _tags(content: str) -> list[str]:
    assert nested(content)
    return sorted(in_order(content))


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    return (
        [_shape(inner) for inner in value]
        if isinstance(value, list)
        else type(value)
        if isinstance(value, str)
        else value
    )


def _blocks(page: str) -> list[Any]:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    names = {"em": "em", "i": "em", "strong": "strong", "s": "s"}
    result: list[Any] = []
    for token in parser.parse(page):
        kinds = []
        for child in token.children or []:
            if child.type == "html_inline" and child.content.strip("</>") in names:
                side = "close" if "/" in child.content else "open"
                kinds.append(f"{names[child.content.strip('</>')]}_{side}")
            elif child.type not in ("text", "softbreak"):
                kinds.append(child.type + (child.content if child.type != "link_open" else str(child.attrs)))
        result.append((token.type, sorted(kinds), token.content if token.type in ("fence", "html_block") else ""))
    return result


def _runs(content: bytes) -> list[Any]:
    file = docx.Document(io.BytesIO(content))
    formats = [{(bool(run.bold), bool(run.italic)) for run in one.runs if run.text.strip()} for one in file.paragraphs]
    return [
        (one.style and one.style.name, one.text.count("\n"), sorted(own))
        for one, own in zip(file.paragraphs, formats, strict=True)
    ]


def _times(content: str) -> list[Any]:
    return [(line if "-->" in line else "") for line in content.split("\n")]


def _pages(content: bytes) -> list[Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        pages = {name: file.read(name) for name in file.namelist()}
        assert all(nested(page.decode()) for name, page in pages.items() if name.endswith("xhtml"))
        return [
            (name, sorted(in_order(page.decode())) if name.endswith("xhtml") else page) for name, page in pages.items()
        ]


Make = Callable[[random.Random], Any]
FORMATS: dict[str, tuple[Make, Callable[[Any], Any], tuple[str, ...]]] = {
    "text": (text, lambda out: [line == "" for line in out.splitlines()], ()),
    "markdown": (markdown, _blocks, ()),
    "subtitles": (subtitles, _times, ()),
    "po": (po, lambda out: [(entry.msgid, entry.comment) for entry in polib.pofile(out)], ()),
    "json": (structure, lambda out: _shape(json.loads(out)), ()),
    "csv": (table, lambda out: [row[:2] for row in csv.reader(io.StringIO(out, newline=""))], ("c",)),
    "docx": (word, _runs, ()),
    "epub": (epub, _pages, ()),
    "pptx": (partial(office_documents.slides, say=words), office_documents.outside, ()),
    "xlsx": (partial(office_documents.workbook, say=words), office_documents.outside, ()),
    "odt": (partial(office_documents.open_text, say=words), office_documents.outside, ()),
    "xliff": (partial(string_files.xliff, say=words), string_files.xliff_kept, ()),
    "android": (partial(string_files.android, say=words), string_files.android_kept, ()),
    "properties": (partial(string_files.properties, say=words), lambda out: [*string_files.properties_read(out)], ()),
    "strings": (partial(string_files.strings, say=words), string_files.strings_kept, ()),
    "arb": (partial(string_files.arb, say=words), string_files.arb_kept, ()),
    "ass": (partial(string_files.ass, say=words), string_files.ass_kept, ()),
    "html": (page, _tags, ()),
    "xhtml": (page, _tags, ()),
}


WHOLE: dict[str, Callable[[Any], Any]] = {  # with the text, which the decoder `same` does not change
    "pptx": office_documents.slides_read,
    "xlsx": office_documents.workbook_read,
    "odt": office_documents.open_text_read,
    "xliff": string_files.xliff_read,
    "android": string_files.android_read,
    "properties": string_files.properties_read,
    "strings": string_files.strings_read,
    "arb": json.loads,
    "ass": string_files.ass_read,
}


def check(name: str, content: Any, decode: Decoder) -> None:
    """Raise AssertionError where the structure of `content` is not kept."""
    _, shape, fields = FORMATS[name]
    out = run(document_steps(read_document(content, name, fields), DocumentOptions(guards=False)), decode).content
    assert type(out) is type(content)
    if decode is same and name in WHOLE:
        assert WHOLE[name](content) == WHOLE[name](out)
    before, after = shape(content), shape(out)
    if name == "docx" and decode not in (
        same,
        reverse,
    ):  # a format whose words are not in the translation has no letter there
        for (style, breaks, formats), (new_style, new_breaks, new_formats) in zip(before, after, strict=True):
            assert (style, breaks) == (new_style, new_breaks), (before, after)
            assert {*new_formats} <= {*formats, (False, False)}, (before, after)
        return
    assert before == after, (before, after)


def check_all(count: int, seed: int = 1, decoders: Sequence[Decoder] = (same, reverse, hostile)) -> None:
    """Check so many documents of each format with each decoder; raises AssertionError."""
    for name, (make, _, _) in FORMATS.items():
        for number in range(count):
            content = make(random.Random(f"{seed}-{number}"))
            for decode in decoders:
                try:
                    check(name, content, decode)
                except Exception as error:
                    where = f"{name} {number}, {getattr(decode, '__name__', 'model')}"
                    raise AssertionError(f"{where}: {error!r}\n{content[:2000]!r}") from error
