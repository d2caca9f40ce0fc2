"""Gettext catalogues: entries without a translation get one; those that have one, comments and headers stay."""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import with_placeholders
from sharpbeam.documents.segment import Part, Segment, is_translatable, written
from sharpbeam.errors import InputError, needs_extra


class PoDocument:
    """A catalogue. Plural forms all but the first are translations of msgid_plural."""

    def __init__(self, content: str) -> None:
        with needs_extra("reading PO files", "documents"):
            import polib
        if "msgid" not in content or "\n" not in content:
            raise InputError("the document has no msgid; it is not a PO file.")
        try:
            self._file = polib.pofile(content, wrapwidth=0)
        except (OSError, UnicodeError, ValueError) as error:
            raise InputError(f"the document is not a PO file: {error}.") from error
        self._commented = content.startswith("#")
        self._forms: list[tuple[Template, object, int | None]] = []  # text, entry, number of the plural form
        self.segments: list[Segment] = []
        for entry in self._file:
            if entry.obsolete or entry.translated() or not is_translatable(entry.msgid):
                continue
            if not entry.msgid_plural:
                self._add(entry.msgid, entry, None)
            for number in entry.msgstr_plural if entry.msgid_plural else ():
                if not entry.msgstr_plural[number]:
                    self._add(entry.msgid if not number else entry.msgid_plural, entry, number)

    def _add(self, text: str, entry: object, number: int | None) -> None:
        template = Template()
        template.add(with_placeholders(text), str)
        self._forms.append((template, entry, number))
        self.segments += template.segments

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The catalogue."""
        texts = iter(written(list(parts), str) for parts in translated)
        for template, entry, number in self._forms:
            text = template.filled([next(texts) for _ in template.segments])
            if number is None:
                entry.msgstr = text  # type: ignore[attr-defined]
            else:
                entry.msgstr_plural[number] = text  # type: ignore[attr-defined]
        text = str(self._file)
        return (text if self._commented else text.removeprefix("#\n")) + "\n"
