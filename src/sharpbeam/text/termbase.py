"""Termbases in TBX (ISO 30042): of each concept, the terms of two languages."""

from __future__ import annotations

from pathlib import Path

from sharpbeam.errors import InputError
from sharpbeam.text.lines import read_whole
from sharpbeam.text.sentences import short_code
from sharpbeam.text.xml_tokens import xml_tokens

_ENTRIES = ("conceptEntry", "termEntry")
_LANGUAGES = ("langSec", "langSet")
MOST_BYTES = 64 << 20


def read_termbase(path: Path, source: str = "", target: str = "") -> dict[str, list[str]]:
    """The terms of the language `source`, each with those of `target` for the same concept.

    Without a `source` it is the language that the file says, or its first one; without a `target` it is the other one.
    Raises InputError for a file that is no TBX or lacks a language, and for one with several without a `target`.
    """
    concepts: list[dict[str, list[str]]] = []
    languages: dict[str, None] = {}
    own = language = text = ""
    content = read_whole(path, InputError, MOST_BYTES)
    try:
        for token in xml_tokens(content.decode("utf-8-sig")):
            if token.kind == "open":
                own = own or token.attributes.get("xml:lang", "-")
                if token.name in _ENTRIES:
                    concepts.append({})
                elif token.name in _LANGUAGES:
                    language = short_code(token.attributes.get("xml:lang", ""))
                    languages[language] = None
                text = "" if token.name == "term" else text  # in which elements such as hi may be
            elif token.kind == "text":
                text += token.text
            elif token.kind == "close" and token.name == "term" and concepts and text.strip():
                concepts[-1].setdefault(language, []).append(" ".join(text.split()))
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error
    first = short_code(source) or (short_code(own) if short_code(own) in languages else next(iter(languages), ""))
    others = [short_code(target)] if target else [each for each in languages if each != first]
    if first not in languages or len(others) != 1 or others[0] not in languages:
        raise InputError(
            f"{path} has the languages {', '.join(languages) or '(none)'}; a glossary needs two of them: name them as "
            "source_language and target_language (a command has --source-language and --target-language)."
        )
    terms: dict[str, list[str]] = {}
    for concept in concepts:
        for term in concept.get(first, []):
            forms = terms.setdefault(term, [])
            forms += [form for form in concept.get(others[0], []) if form not in forms]
    return {term: forms for term, forms in terms.items() if forms}
