"""The mixtures of experts of NLLB-MoE, as models/nllb_moe of `transformers` computes them.

Two experts answer for each position, and their gates sum to 1. Experts with a capacity, which drop positions by the
rest of the batch, are refused by name. In evaluation an expert's answer is multiplied by 1 - `moe_token_dropout`,
which is folded into its second matrix here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensors, values
from sharpbeam.convert.readers.transformer import Names, in_layers
from sharpbeam.models.transformer.config import MOST_EXPERTS

DEFAULTS: dict[str, Any] = {
    "num_experts": 128,
    "encoder_sparse_step": 4,
    "decoder_sparse_step": 4,
    "router_bias": False,
    "router_dtype": "float32",
    "second_expert_policy": "all",
    "moe_eval_capacity_token_fraction": 1.0,
    "moe_token_dropout": 0.2,
}


def expert_facts(facts: Facts) -> dict[str, Any]:
    """The facts of TransformerConfig on experts; raises ModelError for a routing that we lack."""
    facts.require("second_expert_policy", ["all"])
    facts.require("router_dtype", ["float32"])
    if facts.number("moe_eval_capacity_token_fraction") < 1.0:
        why = "1.0, with which no position is dropped; Sharpbeam lacks experts with a capacity"
        raise facts.refusal("moe_eval_capacity_token_fraction", why)
    if not 0.0 <= facts.number("moe_token_dropout") < 1.0:
        raise facts.refusal("moe_token_dropout", "0 or more, and below 1")
    # A step beyond the last layer is one without mixtures.
    steps = {side: facts.integer(f"{side}_sparse_step") for side in ("encoder", "decoder")}
    steps = {side: step if step <= facts.integer(f"{side}_layers") else 0 for side, step in steps.items()}
    mixture, experts = any(steps.values()), facts.integer("num_experts")
    if mixture and not 2 <= experts <= MOST_EXPERTS:
        raise facts.refusal("num_experts", f"between 2 and {MOST_EXPERTS}")
    sides = {f"{side}_expert_step": step for side, step in steps.items()}
    return sides | {
        "experts": experts if mixture else 0,
        "router_bias": mixture and facts.flag("router_bias"),
    }


def mixture_names(names: Names, sizes: Mapping[str, Any]) -> dict[str, str]:
    """The names of NLLB-MoE's tensors; `names` are those of M2M100's."""
    own = {part: name.replace("encoder_attn", "cross_attention") for part, name in names.items()}
    ffn = {"ffn.norm": "ff_layer_norm", "ffn.up": "ffn.fc1", "ffn.down": "ffn.fc2"}
    own |= in_layers("model.{side}.layers.{layer}.", ffn, ".{end}")
    experts = f"experts.expert_<{'|'.join(map(str, range(sizes['experts'])))}>"
    parts = {"router": "router.classifier", "up": f"{experts}.fc1", "down": f"{experts}.fc2"}
    for mixture in _mixtures(sizes):
        own |= {f"{mixture}.{part}": f"model.{{side}}.layers.{{layer}}.ffn.{parts[part]}.{{end}}" for part in parts}
    return own


def scale_experts(tensors: Tensors, facts: Facts, sizes: Mapping[str, Any]) -> None:
    """Multiply the answers of experts by 1 - `moe_token_dropout`."""
    for mixture in _mixtures(sizes):
        for name in (f"{mixture}.down.weight", f"{mixture}.down.bias"):
            tensors[name] = values(tensors[name]) * (1.0 - facts.number("moe_token_dropout"))


def _mixtures(sizes: Mapping[str, Any]) -> list[str]:
    """The feed-forward parts that are mixtures, by our names."""
    steps = {side: sizes[f"{side}_expert_step"] for side in ("encoder", "decoder")}
    return [
        f"{side}.{layer}.ffn"
        for side, step in steps.items()
        for layer in (range(step - 1, sizes[f"{side}_layers"], step) if step else ())
    ]
