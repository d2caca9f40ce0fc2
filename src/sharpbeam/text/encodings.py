"""Encodings of text: those of the Encoding Standard, by Python's names for them.

Python has others, which no text is in and which take long. In all of these a line feed is one byte, as in ASCII.
"""

from __future__ import annotations

import codecs
import re

from sharpbeam.options.schema import require

_KNOWN = re.compile(
    r"utf-8|ascii|cp(866|874|932|949|950|125\d)|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|gb(k|2312|18030)|"
    r"big5(hkscs)?|euc_(jp|kr)|shift_jis|iso2022_jp"
)


def known_encoding(name: str) -> str | None:
    """Python's name of an encoding that has several, such as latin-1; None for one that is not known."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return codec if _KNOWN.fullmatch(codec) else None


def check_encoding(name: str) -> str:
    """The same; raises OptionError for one that is not known."""
    codec = known_encoding(name)
    require(codec is not None, "encoding", name, "an encoding of text, such as utf-8, latin-1, cp1252 or shift_jis")
    return codec or ""
