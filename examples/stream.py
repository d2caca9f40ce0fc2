"""Handle translations as soon as they are done, not in the order of the input: `python stream.py < german.txt`."""

from __future__ import annotations

import sys

from sharpbeam import MachineOptions, Translator

texts = [line.rstrip("\n") for line in sys.stdin]
translator = Translator("de-en", machine=MachineOptions(threads=2))
for index, translation in translator.translate_iter(texts, beam_size=2):
    print(f"{index}\t{translation.text}", flush=True)
