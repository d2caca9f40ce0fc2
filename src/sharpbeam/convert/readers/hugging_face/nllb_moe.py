"""The mixtures of experts of NLLB-MoE: what models/nllb_moe of `transformers` computes, in TransformerConfig's words.

Two experts answer for each position, and their gates sum to 1. Experts with a capacity, which drop positions by what
else is in the batch, are refused by name. In evaluation an expert's answer is multiplied by 1 - `moe_token_dropout`,
which is folded into its second matrix here.
"""

from __future__ import annotations

from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensors, Weights, joined, values
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


def add_mixture(
    tensors: Tensors, weights: Weights, facts: Facts, ours: str, theirs: str, sizes: tuple[int, int, int]
) -> None:
    """Add router and experts of one layer; `sizes` are those of a mixture, an inner and an outer vector."""
    experts, inner, dim = sizes
    tensors.add_matrix(f"{ours}.router.weight", f"{theirs}.router.classifier.weight", experts, dim)
    if facts.flag("router_bias"):
        tensors.add_vector(f"{ours}.router.bias", f"{theirs}.router.classifier.bias", experts)
    names = [f"{theirs}.experts.expert_{e}" for e in range(experts)]
    tensors[f"{ours}.up.weight"] = joined([weights.tensor(f"{name}.fc1.weight", inner, dim) for name in names])
    tensors.add_vector(f"{ours}.up.bias", [f"{name}.fc1.bias" for name in names], inner)
    kept = 1.0 - facts.number("moe_token_dropout")
    down = joined([weights.tensor(f"{name}.fc2.weight", dim, inner) for name in names])
    tensors[f"{ours}.down.weight"] = values(down) * kept
    tensors.add_vector(f"{ours}.down.bias", [f"{name}.fc2.bias" for name in names], dim)
    tensors[f"{ours}.down.bias"] = values(tensors[f"{ours}.down.bias"]) * kept
