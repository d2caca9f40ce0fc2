"""Any model of Hugging Face: its family, and the parts that all families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.foreign import ForeignModel
from sharpbeam.convert.formats.hugging_face import read_hugging_face_weights
from sharpbeam.convert.formats.weights import Tensor, Tensors, values
from sharpbeam.convert.readers.hugging_face import generation as options
from sharpbeam.convert.readers.hugging_face import marian, t5
from sharpbeam.convert.readers.hugging_face.tokens import read_tokens
from sharpbeam.convert.readers.tokens import SUPPRESSED_BIAS
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.text.json import read_json

# From the facts of config.json and the weights of one class of `transformers`: the facts of TransformerConfig except
# those of tokens, and all tensors by our names. Raises ModelError by name for a feature that Sharpbeam lacks.
Reader = Callable[[Facts, Tensors], tuple[dict[str, Any], dict[str, Tensor]]]
# By model_type: the defaults of the class, since older versions leave them out of config.json, and the reader.
FAMILIES: Mapping[str, tuple[Mapping[str, Any], Reader]] = {
    **{kind: (defaults, marian.read_marian) for kind, defaults in marian.DEFAULTS.items()},
    **{kind: (defaults, t5.read_t5) for kind, defaults in t5.DEFAULTS.items()},
}


def read_hugging_face(folder: Path) -> ForeignModel:
    """The model in `folder`; raises ModelError if its family is none of FAMILIES, or it has a feature that we lack."""
    path = folder / "config.json"
    config = read_json(path)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ModelError(
            f"{path}: model_type is {kind!r:.60}. Sharpbeam converts models of the types {', '.join(FAMILIES)}; run "
            "others with transformers, and those without an encoder with vLLM or llama.cpp."
        )
    defaults, read = FAMILIES[kind]
    facts, generation = Facts(path, config, defaults), _generation(folder, config, defaults)
    facts.require("is_encoder_decoder", [True])
    if facts.get("quantization_config") is not None:
        raise facts.refusal("quantization_config", "left out; convert the model before it was quantized")
    options.refuse_lacking_options(generation)
    sizes, tensors = read(facts, Tensors(read_hugging_face_weights(folder)))
    tokens = read_tokens(folder, kind, sizes, options.special_ids(facts, generation))
    sizes |= tokens.facts
    sizes |= options.forced_facts(sizes.get("languages", {}), sizes.get("target_tag", False), generation)
    suppressed = options.suppressed_ids(generation)
    if suppressed and generation.flag("renormalize_logits"):
        bias = np.array(values(tensors["output_bias"]))
        bias[[token for token in suppressed if token < len(bias)]] += SUPPRESSED_BIAS
        tensors["output_bias"] = bias
        suppressed = ()  # the bias is enough, and costs nothing
    return ForeignModel(
        f"a {kind} model of Hugging Face",
        TransformerConfig(**sizes, suppressed_ids=suppressed),
        tensors,
        tokens.source,
        tokens.target,
        options.notes(generation),
        decoding=options.search_options(generation),
    )


def _generation(folder: Path, config: Mapping[str, Any], defaults: Mapping[str, Any]) -> Facts:
    """The facts of generation_config.json, then of `config`, config.json, then the defaults of the class."""
    path = folder / "generation_config.json"
    own = read_json(path) if path.is_file() else {}
    facts = {**defaults, **config, **own}
    for name in ("eos_token_id", "forced_eos_token_id"):
        if isinstance(facts.get(name), list) and len(facts[name]) == 1:
            (facts[name],) = facts[name]
    return Facts(path if own else folder / "config.json", facts)
