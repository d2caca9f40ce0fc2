"""The transformer against Hugging Face's MarianMT and M2M100 with the same weights, and the config's checks."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from sharpbeam.errors import ModelError
from sharpbeam.models.config import from_facts
from sharpbeam.models.transformer.config import TransformerConfig

SIZES: dict[str, Any] = {
    "hidden_dim": 24,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_heads": 4,
    "decoder_heads": 3,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 56,
}
MARIAN = TransformerConfig(
    31,
    31,
    **SIZES,
    norm="post",
    encoder_final_norm=False,
    decoder_final_norm=False,
    activation="swish",
    shared_embedding=True,
    tied_output=True,
)
M2M100 = dataclasses.replace(
    TransformerConfig(31, 31, **SIZES, activation="gelu", shared_embedding=True, tied_output=True),
    positions="sinusoidal-t2t",
    position_offset=2,
)


def hugging_face(config):
    """A Hugging Face model of `config` with random weights, and those weights by our names."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    kind = "Marian" if config.norm == "post" else "M2M100"
    settings = getattr(transformers, f"{kind}Config")(
        vocab_size=31,
        d_model=24,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=3,
        encoder_ffn_dim=40,
        decoder_ffn_dim=56,
        activation_function=config.activation,
        scale_embedding=True,
        pad_token_id=1,
        decoder_start_token_id=1,
        forced_eos_token_id=None,
    )
    name = "MarianMTModel" if kind == "Marian" else "M2M100ForConditionalGeneration"
    torch.manual_seed(3)
    model = getattr(transformers, name)(settings).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, 1.0 if parameter.ndim == 1 else 0.0, 0.3)
    return model, ours(model.state_dict(), config)


def ours(theirs, config):
    """Their tensors under our names."""
    torch = pytest.importorskip("torch")
    tensors = {"target_embedding": theirs["model.shared.weight"]}
    tensors["output_bias"] = theirs.get("final_logits_bias", torch.zeros(1, 31))[0]

    def take(name: str, *sources: str) -> None:
        for kind in ("weight", "bias"):
            tensors[f"{name}.{kind}"] = torch.cat([theirs[f"model.{source}.{kind}"] for source in sources])

    for side, layers in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(layers):
            a, b = f"{side}.{i}", f"{side}.layers.{i}"
            take(f"{a}.attention.norm", f"{b}.self_attn_layer_norm")
            take(f"{a}.attention.qkv", *(f"{b}.self_attn.{x}_proj" for x in "qkv"))
            take(f"{a}.attention.out", f"{b}.self_attn.out_proj")
            take(f"{a}.ffn.norm", f"{b}.final_layer_norm")
            take(f"{a}.ffn.up", f"{b}.fc1")
            take(f"{a}.ffn.down", f"{b}.fc2")
            if side == "decoder":
                take(f"{a}.cross.norm", f"{b}.encoder_attn_layer_norm")
                take(f"{a}.cross.query", f"{b}.encoder_attn.q_proj")
                take(f"{a}.cross.key_value", *(f"{b}.encoder_attn.{x}_proj" for x in "kv"))
                take(f"{a}.cross.out", f"{b}.encoder_attn.out_proj")
        if config.norm == "pre":
            take(f"{side}_norm", f"{side}.layer_norm")
    return tensors


@pytest.mark.parametrize("config", [MARIAN, M2M100], ids=["marian", "m2m100"])
def test_hidden_vectors_are_those_of_hugging_face(config):
    """Broken: positions from one place further on."""
    torch = pytest.importorskip("torch")
    from sharpbeam.models.transformer.module import TransformerModule

    theirs, tensors = hugging_face(config)
    source, target = torch.randint(4, 31, (3, 9)), torch.randint(4, 31, (3, 7))
    source[0, 5:] = source[2, 3:] = 1
    mask = source != 1

    def distance(config: TransformerConfig) -> float:
        module = TransformerModule(config).eval()
        module.load_state_dict(tensors)
        return float((module(source, mask, target) - truth).abs().max())

    with torch.no_grad():
        truth = theirs.model(source, attention_mask=mask, decoder_input_ids=target).last_hidden_state
        assert truth.abs().max() > 1.0
        assert distance(config) < 1e-5
        assert distance(dataclasses.replace(config, position_offset=config.position_offset + 1)) > 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encoder_heads": 5}, "encoder_heads is 5; it must be a divisor of hidden_dim, 24"),
        ({"hidden_dim": 27, "encoder_heads": 3}, "hidden_dim is 27; it must be even, .* with positions 'sinusoidal'"),
        ({"norm": "both"}, "norm is 'both'; it must be pre or post"),
        ({"norm_epsilon": 0.0}, "norm_epsilon is 0.0; it must be between 0 and 1"),
        ({"positions": "learned"}, "max_positions is 0; it must be 1 or more with positions 'learned'"),
        ({"max_positions": 9}, "max_positions is 9; it must be 0 with positions 'sinusoidal'"),
        ({"positions": "none", "position_offset": 2}, "position_offset is 2; it must be .* 0 with positions 'none'"),
        ({"position_offset": 10**30}, "position_offset is 10+; it must be between 0 and 268435456"),
        ({"head_dim": -1}, "head_dim is -1; it must be between 0 and 65536"),
        ({"relative_buckets": 8}, "relative_buckets is 8; it must be 0 with positions 'sinusoidal'"),
        ({"positions": "relative"}, "relative_buckets is 0; it must be 4 or more"),
        (
            {"positions": "relative-shared", "relative_buckets": 8, "relative_distance": 4},
            "relative_distance is 4; it must be more than half of the 8 buckets",
        ),
        ({"norm_kind": "batch"}, "norm_kind is 'batch'; it must be layer or rms"),
        ({"experts": 4}, "experts is 4; it must be 0 without an expert_step"),
        ({"experts": 1025, "encoder_expert_step": 1}, "experts is 1025; it must be between 2 and 1024"),
        ({"encoder_expert_step": 1}, "experts is 0; it must be between 2 and 1024"),
        ({"experts": 4, "decoder_expert_step": 9}, "decoder_expert_step is 9; it must be between 0 and the . layers"),
        ({"experts": 4, "decoder_expert_step": -1}, "decoder_expert_step is -1; it must be between 0"),
        ({"router_bias": True}, "router_bias is True; it must be false without experts"),
        ({"languages": {"de": 31}}, "languages gives 'de' the token 31; it must lie inside both vocabularies"),
        ({"languages": {"de": 7}, "target_language": "fr"}, "target_language is 'fr'; it must be one of .*: de"),
        ({"target_tag": True}, "target_tag is True; it must be false without languages"),
        ({"suppressed_ids": [40]}, "suppressed_ids has 40; it must be from 0 to below 31"),
        ({"source_begin": [31]}, "source_begin has 31; it must be from 0 to below 31"),
        ({"target_begin": [-1]}, "target_begin has -1; it must be from 0 to below 31"),
        ({"suppressed_ids": ["x"]}, "suppressed_ids is 'x'; it must be a whole number"),
        ({"languages": {"de": True}}, "languages is True; it must be a whole number"),
        ({"languages": [1]}, r"languages is \[1\]; it must be a table"),
    ],
)
def test_facts_that_do_not_fit_are_named(change, message):
    facts = json.loads(json.dumps(dataclasses.asdict(MARIAN))) | change
    with pytest.raises(ModelError, match=message):
        from_facts(TransformerConfig, facts)


def test_facts_come_back_from_json():
    config = dataclasses.replace(MARIAN, languages={"de": 4, "en": 5}, target_tag=True, suppressed_ids=(3, 1))
    assert from_facts(TransformerConfig, json.loads(json.dumps(dataclasses.asdict(config)))) == config
