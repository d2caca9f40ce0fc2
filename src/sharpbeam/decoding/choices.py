"""Options changed by keywords, remembered: checking them takes longer than decoding a token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharpbeam.options.decode import DecodeOptions

if TYPE_CHECKING:
    from sharpbeam.options.keywords import DecodeKeywords

MOST = 64  # sets of keywords that are remembered


class Choices:
    """Options, and the results of changing them by keywords. Any thread may call its method."""

    def __init__(self, options: DecodeOptions) -> None:
        self.options = options
        self._known: dict[tuple[tuple[str, type, object], ...], DecodeOptions] = {}

    def changed(self, keywords: DecodeKeywords) -> DecodeOptions:
        """The options with those that are named changed; raises OptionError as `DecodeOptions.changed`."""
        if not keywords:
            return self.options
        key = tuple((name, type(value), value) for name, value in keywords.items())
        try:
            return self._known[key]
        except (KeyError, TypeError):  # a value that cannot be a key is no valid option either
            found = self.options.changed(**keywords)
        if len(self._known) >= MOST:
            self._known = {}
        self._known[key] = found
        return found
