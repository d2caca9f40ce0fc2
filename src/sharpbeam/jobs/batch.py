"""Translation of batches in other frameworks' workers: a callable that can be pickled, and survives a fork.

The model is loaded at the first call in each process, so that a worker is sent little, and a forked worker
has threads of its own. An answer does not depend on the batch, so a framework may cut, retry and move batches freely.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.loading import ModelName
from sharpbeam.errors import InputError, nearest
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.text.glossary import Glossary, Terms

Batch = Mapping[str, Sequence[Any]]  # columns by name, of one length: of Ray Data, Hugging Face datasets, pandas


class TranslateBatch:
    """Translates the column `field` of batches into the column `into`.

    >>> dataset.map(TranslateBatch("de-en", field="de", into="en"), batched=True, num_proc=4)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: ModelName,
        *,
        field: str = "text",
        into: str = "translation",
        glossary: Glossary | Terms | None = None,
        machine: MachineOptions | None = None,
        **options: Unpack[DecodeKeywords],
    ) -> None:
        """Nothing is loaded yet. Arguments are those of Translator and `translate`; `machine`: one thread."""
        self._model, self._field, self._into = model, field, into
        self._machine, self._options = machine or MachineOptions(threads=1), options
        self._glossary = Glossary.of(glossary)
        self._loaded: tuple[int, Translator] | None = None  # by process

    def __call__(self, batch: Batch) -> dict[str, Any]:
        """The batch with one more column; raises InputError if the column is missing or holds anything but text."""
        columns = {name: batch[name] for name in batch}
        if self._field not in columns:
            names = ", ".join(columns)
            raise InputError(
                f"field is {self._field!r}; the batch has the columns {names}.{nearest(self._field, columns)}"
            )
        column = columns[self._field]
        texts = column if isinstance(column, str) else ["" if text is None else text for text in column]
        translations = self._translator().translate(texts, glossary=self._glossary)
        return columns | {self._into: [translation.text for translation in translations]}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_loaded": None}

    def _translator(self) -> Translator:
        if self._loaded is None or self._loaded[0] != os.getpid():
            self._loaded = os.getpid(), Translator(self._model, machine=self._machine, **self._options)
        return self._loaded[1]
