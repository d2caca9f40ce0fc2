"""Handle translations as they are done, which is not the order asked; stop at any time by closing the iterator."""

from __future__ import annotations

import sys

from sharpbeam import MachineOptions, Translator

texts = [line.rstrip("\n") for line in sys.stdin]
translator = Translator("de-en", machine=MachineOptions(threads=2))
for place, translation in translator.translate_iter(texts, beam_size=2):
    print(f"{place}\t{translation.text}", flush=True)
