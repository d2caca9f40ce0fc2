"""Families of Hugging Face that people try and Sharpbeam lacks: the reason, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping

_SUMMARIES = "for summaries convert a model of BART"
_TRANSLATION = "for translation convert OPUS-MT, NLLB, M2M100 or mBART-50"
REFUSED: Mapping[str, str] = {  # by model_type
    "pegasus": f"Pegasus has another vocabulary and other positions; {_SUMMARIES}",
    "pegasus_x": f"PEGASUS-X attends in blocks; {_SUMMARIES}",
    "led": f"LED attends in windows; {_SUMMARIES}, which reads 1,024 tokens",
    "bigbird_pegasus": f"BigBird attends to blocks; {_SUMMARIES}",
    "prophetnet": f"ProphetNet predicts several tokens at once; {_SUMMARIES}",
    "xlm-prophetnet": f"XLM-ProphetNet predicts several tokens at once; {_SUMMARIES}",
    "mvp": f"MVP has prompts in every layer; {_SUMMARIES}",
    "plbart": "PLBART writes programs, with a vocabulary of its own; run it with transformers",
    "t5gemma": "T5Gemma has rotary positions and other norms than T5; run it with transformers, or convert flan-T5",
    "t5gemma2": "T5Gemma 2 has rotary positions and reads images; run it with transformers, or convert flan-T5",
    "blenderbot": "Blenderbot is for conversations; run it with transformers",
    "blenderbot-small": "Blenderbot is for conversations; run it with transformers",
    "fsmt": f"FSMT has vocabularies of fairseq; {_TRANSLATION}",
    "seamless_m4t": f"Seamless reads speech too; {_TRANSLATION}",
    "seamless_m4t_v2": f"Seamless reads speech too; {_TRANSLATION}",
    "IndicTrans": "IndicTrans2 needs the text rewritten into another script before and after, by code of its own; "
    "convert NLLB, which has these languages",
    "whisper": "Whisper reads speech; run it with faster-whisper",
    "encoder-decoder": f"a pair of two models is not supported; {_TRANSLATION}",
    "longt5": "LongT5 attends in blocks; run it with transformers",
    "switch_transformers": "one expert for each position is not supported; run it with transformers",
    **dict.fromkeys(
        ("gpt2", "llama", "mistral", "gemma", "gemma2", "gemma3", "qwen2", "qwen3", "opt", "bloom"),
        "a model without an encoder is not supported, though `Head` speeds up its output layer; run it with vLLM or "
        "llama.cpp",
    ),
}
