# ruff: noqa: RUF001 (signs of many scripts)
"""Protected spans: what a translation must have as the source has it, byte for byte.

URLs, addresses, handles, paths, code, placeholders of programs, versions, dates and the like. A `soft` span looks like
words, and models often copy it by themselves: a part number, a file name, an identifier. A `foreign` one is of words
with a letter or a sign that the vocabulary lacks, so that no model would see it.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sharpbeam.errors import OptionError
from sharpbeam.text.references import REFERENCE, find_references, is_space, sign_of

_TLD = "com|org|net|edu|gov|int|info|io|dev|app|eu|uk|de|fr|es|it|pt|br|ru|cn|jp|nl|pl|ch|at|se|us|ca|au|in|co|me|tv|ai"
_ENDING = (
    "txt|pdf|docx?|odt|rtf|xlsx?|ods|csv|tsv|pptx?|odp|jsonl?|xml|ya?ml|toml|ini|cfg|conf|log|md|rst|tex|html?|css|scss|"
    "jsx?|tsx?|py|pyi|ipynb|rb|rs|go|java|kt|swift|cpp|hpp|cc|cs|php|pl|lua|sh|bash|bat|ps1|sql|db|sqlite|"
    "png|jpe?g|gif|svg|webp|bmp|tiff?|ico|psd|mp3|mp4|wav|ogg|flac|avi|mkv|mov|srt|vtt|epub|po|zip|tar|gz|bz2|xz|zst|"
    "7z|rar|deb|rpm|apk|exe|dll|so|dmg|iso|img|bin|bak|tmp|lock|env|properties|strings|xliff|tmx|whl|jar"
)
_VERBOSE = "pip3?|npm|yarn|git|docker|kubectl|apt|apt-get|brew"
_COMMAND = _VERBOSE + "|sudo|npx|curl|wget|python3?|ssh|scp|chmod|chown|grep|mkdir|rm|ls|cd"
_ACTION = "install|uninstall|update|upgrade|run|build|clone|pull|push|commit|checkout|status|add|init|apply|get|compose"
_ARGUMENT = r"(?:-{1,2}[\w-]{1,40}(?:=\S{0,200}\w)?|[\w~+]{0,60}[./:@\d_~-][\w./:@+~?#&=%-]{0,200}[\w/]|[./~])"
_WIDTH = r"\d{0,4}(?:\.\d{1,4})?"
_PLURAL = r"\{\s{0,9}\w{1,60}\s{0,9},\s{0,9}(?:plural|select|selectordinal)\s{0,9},"
_EMOJI = (
    "(?:[\U0001f1e6-\U0001f1ff]{2}|[0-9#*]\ufe0f?\u20e3|[\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff]"
    "[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?(?:\u200d[\u2600-\u27bf\U0001f300-\U0001faff][\ufe0f\U0001f3fb-\U0001f3ff]?){0,8}){1,20}"
)
_LINE_FEED = r"(?<=\S)\\[nrt](?![a-z])|\\[nrt](?=[^\sa-z])|(?<=[\w.,:;!?])\\n(?=[a-z])"  # as programs write it
_HARD = (  # bounded, so that no text takes long; a tick next to a space is a stray one, and begins no code
    r"(?P<code>(?<!`)(?P<ticks>`{1,3})(?!`)(?:(?<=``)|(?=\S))[^`]{1,1000}(?:(?<=\S)|(?=``))(?P=ticks)(?!`))",
    rf"(?P<icu>{_PLURAL})",
    r"\[(?:url|quote|color|size|img)=[^\]\s]{1,500}\]",
    r"(?<!\w)(?::[a-z]\w{0,30}){1,3}:`[^`]{1,500}`",  # a role of reStructuredText
    r"(?<![a-zA-Z0-9])(?:[a-zA-Z][a-zA-Z0-9+.-]{1,11}://|www\.|(?:mailto|tel|urn|doi|magnet):)"
    r"[^\s<>\"“”„«»`{}|\\^\u3000-\u303f\uff00-\uffef]{1,2000}",
    r"(?<![\w.+%-])[\w.+%-]{0,63}\w@(?:\w[\w-]{0,62}\.){1,8}[a-zA-Z]{2,24}",
    r"</?[a-zA-Z][\w:.-]{0,60}(?:\s[^<>]{0,1000})?/?>|</?\d{1,6}\s?/?>|<!--.{0,1000}?-->|"
    r"&lt;/?[a-zA-Z][\w:.-]{0,60}(?:\s(?:(?!&[lg]t;)[^<>]){0,500})?/?&gt;",
    r"\{\{[^{}]{0,200}\}\}|[$#]\{[^{}]{0,200}\}|\{%.{0,200}?%\}|<%.{0,200}?%>|\{[\w.:$,#!+ -]{0,200}\}|%\{\w{1,60}\}|"
    r"\[\[\w{1,60}\]\]|(?<!\w)__\w{1,60}?__(?!\w)",
    rf"%\(\w{{1,60}}\)[-+#0]{{0,5}}{_WIDTH}[a-zA-Z]|"
    rf"(?<![\d%])%(?:\d{{1,2}}\$)?[-+#0]{{0,5}}{_WIDTH}(?:hh?|ll?|L|z|j|t)?[diouxXeEfFgGcrsa@](?![a-zA-Z])|%%",
    r"(?<![\w$])\$[A-Za-z_]\w{0,60}|%[A-Z_]{2,60}%",
    rf"(?P<reference>{REFERENCE})",
    rf"{_LINE_FEED}",
    r"\[\^?\d{1,4}(?:[,\u2013-]\s?\d{1,4}){0,20}\]|(?!\A\[[A-Z]+\]\Z)\[!?[A-Z_]{2,60}\]|(?<!\S)\[[ xX]\](?=\s)",
    r"(?<![\w:]):[a-z][\w+-]{0,60}:(?![\w:])",
    r"(?<![\w@/])@\w[\w.-]{0,60}\w|(?<![\w&#])#\w{1,100}",
    r"(?<![\w.:/\\])[A-Za-z]:\\[^\s\"<>|]{1,500}|\\\\\w[\w.-]{0,60}\\[^\s\"<>|]{1,500}",
    r"(?<![\w./~<])(?:~|\.{1,2})?/[\w.@+~-][\w.@+~/-]{0,500}|(?<![\w./])~/(?=\s|$)",
    rf"(?<![\w.-])(?:{_COMMAND})(?:\s(?:{_ARGUMENT}|[a-z][a-z-]{{0,20}}(?=\s-|\s\S{{0,60}}?[\d_./=]\S{{0,60}}\w))){{0,8}}\s{_ARGUMENT}(?!\w)",
    rf"(?<![\w.-])(?:{_VERBOSE})\s(?:{_ACTION})(?:\s{_ARGUMENT}){{0,8}}(?:\s[a-z][\w-]{{1,60}}(?:[=<>~!@]{{1,2}}\w[\w.]{{0,30}})?)?(?!\w)",
    r"(?<![\w-])--[a-zA-Z][\w-]{0,60}(?:=\S{0,200}\w)?|(?<![\w-])-[a-zA-Z](?![\w-])",
    r"(?<![\w.-])\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?(?![\w-])",
    rf"(?<![\w./-])(?:[\w.-]{{1,60}}/){{0,20}}[\w-]{{1,80}}(?:\.[\w-]{{1,20}}){{0,4}}\.(?i:{_ENDING})(?![\w/-]|\.\w)|"
    r"(?<![\w./-])(?:[\w.-]{1,60}/){1,20}[\w-]{1,80}\.[a-z]{1,4}(?![\w/-])",
    rf"(?<![\w.@-])(?:[a-z0-9][a-z0-9-]{{0,60}}\.){{1,8}}(?:{_TLD})(?:/[^\s<>\"“”«»`|\\]{{0,500}})?(?![\w-])",
    r"(?<![\w.:])(?:\w{1,60}::){1,8}\w{1,60}(?:\(\))?|(?<![\w.])[A-Za-z_]\w{0,60}(?:\.\w{1,60}){0,4}\(\)",
    r"(?<![\w.])(?!\d{1,3}(?:\.\d{3})+(?![\w.]))[vV]?\d{1,9}(?:\.\d{1,9}){2,8}(?:[-+][\w.]{0,60}\w)?(?!\w)|"
    r"(?<![\w.])[vV]\d{1,9}(?:\.\d{1,9}){0,8}(?:-[\w.]{0,60}\w)?(?!\w)",
    r"(?<![\w-])(?=[\w-]{0,60}?\d[\w-]{0,60}?\d)(?=[\w-]{0,60}?[A-Z])(?:[A-Z0-9]{1,30}[-_/]){1,8}[A-Z0-9]{1,30}(?![\w-])",
    r"(?<!\w)(?=\w{0,60}?\d\w{0,60}?\d)(?=\w{0,60}?[A-Z])[A-Z0-9]{5,60}(?![\w-])",
    r"(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])|"
    r"(?<!\w)(?=[a-zA-Z]{0,60}\d)(?=\d{0,60}[a-zA-Z])[0-9a-fA-F]{12,128}(?!\w)|"
    r"(?<!\w)(?=(?:[a-zA-Z]{1,60}\d{1,60}){2})(?=[A-Z0-9]{0,60}[a-z])(?=[a-z0-9]{0,60}[A-Z])[a-zA-Z0-9]{10,64}(?!\w)",
    r"(?P<face>(?<![\w:;=])[:;=]['-]?[()\[\]DPpO3](?![\w(]))",
    r"(?<![\w.])(?:(?:[a-z]\w{1,40}\.){2,8}[A-Z]|(?:[A-Z]\w{0,40}\.){1,8}[A-Z][a-z]{1,30}[A-Z]|\.[A-Z][A-Z])\w{0,60}",
    _EMOJI,
)
_SOFT = (
    r"(?<![\w-])[A-Z]{1,8}-\d{1,3}(?![\w-])",
    r"(?<![\w.-])(?:[a-z]{1,40}(?:_[a-z0-9]{1,40}){1,10}|_{1,2}[a-z]\w{1,60}|[A-Z0-9]{1,40}(?:_[A-Z0-9]{1,40}){1,10}|"
    r"[a-z]{1,40}(?:[A-Z][a-z0-9]{0,40}){1,10})(?![\w-])",
)
_SPAN = "|".join((f"(?P<soft>{_SOFT[0]})", *_HARD, f"(?P<name>{_SOFT[1]})"))  # compiled where needed, as _PART: 10 ms
_HINT = re.compile(
    r"[a-f]\d[0-9a-f]{4}|\d[a-f]{1,6}\d|[@#$%&{}<>\[\]\\/_`=|~^*+]|\w[.]\w|:\w|-\w{0,60}\d|\d\w{0,60}-|--|[a-z][A-Z]|\d[A-Z]|[A-Z]\d|v\d|\s-\w|\(\)|[:;=]['-]?[()DPpO3]|\.[A-Z]|"
    rf"[\u20e3\u2190-\u2bff\U0001f000-\U0001faff]|\b(?:{_COMMAND})\s"
)
IN_WORDS = re.compile(rf"\(\)|\b(?:{_VERBOSE})\s(?:{_ACTION})\b")  # spans that no digit, sign or capital shows
MOST_LETTERS = 4000  # of a message
MOST_PATTERN = 1000  # letters of a user's pattern
_GROUP, _FLAGS = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]|\(\?P=|\(\?\("), re.compile(r"\A\(\?([aimsux]+)\)(.*)\Z", re.S)
_NESTED = re.compile(r"(?<!\\)[+*}|][^(]{0,1000}\)(?:[+*]|\{\d*,)")  # a repeat of what repeats or has a choice
NO_WORD = re.compile(r"[^\w\s]|_|[^\W\d_].*\d|[a-z][A-Z]", re.S)  # of what is no word
# Ends of lines inside of a text: tags of blocks, as they are or escaped, and line feeds of programs.
_BLOCK = "br|hr|p|div|li|[uod]l|d[td]|t[dhr]|table|h[1-6]"
BREAK = re.compile(rf"(?:<|&lt;)/?(?:{_BLOCK})\b[^>&]*(?:>|&gt;)|\\[nrt]")
ALONE = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # ideographs, kana and Thai letters
_LATIN = "[a-zA-Z0-9\u00c0-\u024f]"
_AT = r"[^\w\s.,;:!?'\"‘’“”„«»()\[\]{}–—-]"  # a sign at a number, as of a currency
# A number with the signs at it, a letter of a script without spaces, a word, or a sign.
_PART = rf"{_AT}?\d+(?:(?:[.,]|{_AT})\d+)*[^\W{ALONE}]*{_AT}?|[{ALONE}]|[^\W{ALONE}]+|[^\w\s]"
_NO_LOSS = {*"¿¡", "Cc", "Cf", "Mn", "Me"}  # signs and categories that may be left out
_CLOSING = ".,;:!?…'\"’”»"
_AROUND = {"<": ">", "‹": "›", "(": ")", "[": "]", '"': '"', "“": "”", "«": "»", "„": "“", "'": "'", "‘": "’"}


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a text that comes out as it is, or as `text`."""

    start: int
    end: int
    text: str
    soft: bool = False
    foreign: bool = False

    def moved(self, by: int) -> Span:
        """The span in a text that begins `by` characters before this one."""
        return replace(self, start=self.start + by, end=self.end + by)


def keep_pattern(patterns: Sequence[str] | None) -> re.Pattern[str] | None:
    """One regular expression of those of a user; raises OptionError for one that is none, or that may take for ever."""
    patterns = [patterns] if isinstance(patterns, str) else patterns or ()
    for pattern in patterns:
        try:
            re.compile("" + pattern)
        except (re.error, RecursionError, OverflowError, TypeError) as error:
            raise OptionError(f"keep is {pattern!r}, which is no regular expression: {error}.") from error
        if len(pattern) > MOST_PATTERN or _NESTED.search(pattern):
            how = f"at most {MOST_PATTERN} letters, and no repeat or choice inside of a repeat, as (a+)+ has"
            raise OptionError(f"keep is {pattern[:MOST_PATTERN]!r}; it must have {how}.")
        if len(patterns) > 1 and _GROUP.search(pattern):  # next to others its number is another
            raise OptionError(f"keep is {pattern!r}, which refers to a group; give it without other patterns.")
    flagged = (_FLAGS.sub(r"(?\1:\2)", pattern) for pattern in patterns)  # flags of one pattern are not those of all
    try:
        return re.compile("|".join(f"(?:{pattern})" for pattern in flagged)) if patterns else None
    except re.error as error:
        raise OptionError(f"keep is {list(patterns)!r}, whose patterns do not go together: {error}.") from error


def find_spans(text: str, own: re.Pattern[str] | Sequence[tuple[int, int]] | None = None) -> list[Span]:
    """The protected spans of `text`, in order; none overlaps another one. `own` are matches of the user, or ranges."""
    if isinstance(own, re.Pattern):
        own = [match.span() for match in own.finditer(text) if match[0].strip()]
    spans = [Span(start, end, text[start:end]) for start, end in own or ()]
    if _HINT.search(text):
        others = [span for span in _own(text) if not overlaps(span, spans)]
        spans = sorted([*spans, *others], key=lambda span: span.start)
    return _merged(text, [_widened(text, span) for span in spans])


def with_foreign(text: str, spans: Sequence[Span], written: str, lacks: Callable[[str], bool]) -> list[Span]:
    """The spans with words and signs that a vocabulary lacks as they are `written`, in another case; in order.

    Those with one space between are one span.
    """
    found: list[Span] = []
    signs = [Span(*each) for each in find_references(text)]
    for part in re.finditer(_PART, blanked(text, [*spans, *signs])):
        span = Span(*part.span(), part[0], foreign=True)
        if _NO_LOSS.isdisjoint((part[0], unicodedata.category(part[0][0]))) and lacks(written[slice(*part.span())]):
            start = found.pop().start if found and text[found[-1].end : span.start] == " " else span.start
            found.append(replace(span, start=start, text=text[start : span.end]))
    return _merged(text, sorted([*spans, *found], key=lambda span: span.start))


def overlaps(span: Span, others: Iterable[Span]) -> bool:
    """Whether a span shares a letter with one of the others."""
    return any(span.start < other.end and other.start < span.end for other in others)


def _own(text: str) -> Iterator[Span]:
    at, pattern = 0, re.compile(_SPAN, re.S)
    while match := pattern.search(text, at):
        start, end = match.span()
        if match["reference"] and sign_of(match):
            at = end
            continue
        if match["icu"]:
            end = message_end(text, start) or end
        elif not (match["code"] or match["face"]):
            end = _trimmed(text, start, end)
        if end > start:
            yield Span(start, end, text[start:end], bool(match["soft"] or match["name"]))
        at = max(end, start + 1)


def _trimmed(text: str, start: int, end: int) -> int:
    """The end of a span without punctuation of the sentence, and closing brackets that it does not open."""
    while end - start > 1:
        opened, last = text[start:end], text[end - 1]
        lone = last in ")]}" and opened.count(last) > opened.count({")": "(", "]": "[", "}": "{"}[last])
        if not (lone or last in _CLOSING) or (text[start] in ":&{[`\"'" and not lone):
            break
        end -= 1
    return end


def message_end(text: str, start: int) -> int:
    """The end of the braces that open at `start`; 0 where they do not close."""
    depth = 0
    for at in range(start, min(len(text), start + MOST_LETTERS)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at + 1
    return 0


def message_arms(text: str) -> list[tuple[int, int]]:
    """Ranges of the texts of an ICU message: "{n, plural, one {# item} other {# items}}"."""
    head = re.match(_PLURAL, text)
    arms: list[tuple[int, int]] = []
    at = head.end() if head else len(text)
    while arm := re.compile(r"\s*(?:offset:\d+\s*)?[\w=]+\s*(?=\{)").match(text, at):
        at = message_end(text, arm.end())
        if not at:
            return []
        arms.append((arm.end() + 1, at - 1))
    return arms


def _widened(text: str, span: Span) -> Span:
    """The span with letters that it is glued to, and brackets or quotes right around it."""
    start, end = span.start, span.end
    sides = text[max(0, start - 1) : start], text[end : end + 1]
    inside = sides[0].isalnum() and sides[1].isalnum()  # of a word
    apart = BREAK.match(span.text) or (is_space(span.text) and "".join(sides).isalpha())
    if not apart and (inside or text[start].isalnum() or text[start] in "{%$@`"):
        while start > 0 and text[start - 1].isalnum():
            start -= 1
    if not apart and (inside or text[end - 1].isalnum() or text[end - 1] in "})`"):
        while end < len(text) and text[end].isalnum():
            end += 1
    while start > 0 and end < len(text) and _AROUND.get(text[start - 1]) == text[end]:
        start, end = start - 1, end + 1
    same = (start, end) == (span.start, span.end)
    return span if same else Span(start, end, text[start : span.start] + span.text + text[span.end : end], span.soft)


def _merged(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans of which those that touch or overlap are one."""
    merged: list[Span] = []
    for span in spans:
        if not merged or span.start > merged[-1].end:
            merged.append(span)
        elif span.end > (last := merged[-1]).end:
            both = last.text + text[last.end : span.end]
            merged[-1] = Span(last.start, span.end, both, foreign=last.foreign and span.foreign)
    return merged


def covered(text: str, spans: Iterable[Span]) -> str:
    """The text with a word of the same length in the place of each span."""
    for span in spans:
        text = f"{text[: span.start]}X{'x' * (span.end - span.start - 1)}{text[span.end :]}"
    return text


def blanked(text: str, spans: Iterable[Span]) -> str:
    """The text with spaces in the places of spans."""
    for span in spans:
        text = text[: span.start] + " " * (span.end - span.start) + text[span.end :]
    return text


def kept(source: str, answer: str, spans: Sequence[Span]) -> bool:
    """Whether each span is in the answer as often as in the source, where text without protection may have it too.

    What may be a word, as `a`, may be there more often: another word may be translated by it.
    """
    counts = Counter((span.text, source[span.start : span.end]) for span in spans) if spans else {}
    there = ((len(re.findall(whole(written), text)) for written, text in ((a, answer), (b, source))) for a, b in counts)
    return all(
        count <= ours and (ours <= theirs or not NO_WORD.search(text))
        for ((text, _), count), (ours, theirs) in zip(counts.items(), there, strict=True)
    )


def whole(written: str) -> str:
    """A pattern of a span's text that is no part of a Latin word: the option -l is not in "see-lo"."""
    before = f"(?<!{_LATIN})" if re.match(_LATIN, written) else ""
    return before + re.escape(written) + (f"(?!{_LATIN})" if re.search(rf"{_LATIN}\Z", written) else "")
