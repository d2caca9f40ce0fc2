"""Models of Hugging Face, converted, next to their own `generate`."""

from __future__ import annotations

from pathlib import Path

from support.foreign import demo_sentences

from sharpbeam import Translator
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face

TEXTS = [*demo_sentences()[:6], "Was 😀 ist das?", "  zwei   Leerzeichen "]
CLOSE = 1e-4


def translator(folder: Path) -> Translator:
    from support.torch_model import torch_translator

    return torch_translator(folder)


def convert(folder: Path, to: Path) -> Translator:
    read_hugging_face(folder).save(to, "toy")
    return translator(to)


def generated(tokenizer, model, text: str, **options):
    """The answer of `generate`: ids without start and end, and the best hypothesis's score (None without a beam)."""
    out = model.generate(
        **tokenizer([text], return_tensors="pt"),
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    ids = out.sequences[0].tolist()[1:]
    ends = model.generation_config.eos_token_id
    scores = getattr(out, "sequences_scores", None)
    return [i for i in ids if i not in (ends, model.config.pad_token_id)], None if scores is None else float(scores[0])
