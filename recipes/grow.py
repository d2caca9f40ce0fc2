"""A wider transformer with twice the decoder layers that says nearly what a trained one says, to be trained further.

    python recipes/grow.py models/en-pt pairs.tsv runs/grown --hidden-dim 384

After Net2Net (Chen et al. 2016). Old dimensions keep their weights, and no old layer reads the new ones yet. Positions
keep their periods as nearly as the new sinusoids have them. A new decoder layer follows each old one and adds little.
Norms, which count the new dimensions, are fitted one after the other to give what the old ones gave on some of the
pairs (tab-separated). For models of the shape of recipes/en-pt-tiny.toml.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sharpbeam import Translator
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.module import TransformerModule
from sharpbeam.storage.model_folder import read_config, read_tensors, save_model
from sharpbeam.text.lines import column_pairs

PAIRS, WORDS = 200, 14  # of like length, so that little is padding
LINES = 20_000
SMALL = 0.3  # of their usual size: the rows of new dimensions
LITTLE = 0.1  # likewise: what a new layer adds
FRESH = 0.5  # a norm's weight of a new dimension
SHAPE = {
    "norm": "post", "norm_kind": "layer", "positions": "sinusoidal-t2t", "scaled_embedding": True, "experts": 0,
    "shared_embedding": True, "tied_output": True, "encoder_final_norm": False, "decoder_final_norm": False,
    "head_dim": 0, "gated_ffn": False,
}  # fmt: skip
VOCABULARIES = ("source.spm", "target.spm")
Places = NDArray[np.intp]


def places(config: TransformerConfig, wide: TransformerConfig, name: str) -> tuple[Places, Places | None]:
    """Where the rows and the columns of an old tensor stand in the new one; without columns for vectors."""
    half, new = config.hidden_dim // 2, wide.hidden_dim // 2
    sines = np.rint(np.arange(half) * (new - 1) / (half - 1)).astype(np.intp)
    dims = np.concatenate([sines, new + sines])
    old_head, head = config.hidden_dim // config.encoder_heads, wide.hidden_dim // wide.encoder_heads
    heads = np.add.outer(head * np.arange(config.encoder_heads), np.arange(old_head)).ravel()
    every = np.arange(max(config.encoder_ffn_dim, config.decoder_ffn_dim))
    tokens = np.arange(config.target_vocab_size)

    def parts(count: int, within: Places) -> Places:
        return np.add.outer(wide.hidden_dim * np.arange(count), within).ravel()

    kinds = {
        "qkv": (parts(3, heads), dims), "query": (heads, dims), "key_value": (parts(2, heads), dims),
        "out": (dims, heads), "up": (every, dims), "down": (dims, every), "cell": (parts(2, dims), dims),
        "norm": (dims, None), "target_embedding": (tokens, dims), "output_bias": (tokens, None),
    }  # fmt: skip
    rows, columns = kinds[name if name in kinds else name.split(".")[-2]]
    return rows, None if name.endswith("bias") else columns


def widened(config: TransformerConfig, wide: TransformerConfig, old: dict[str, Tensor]) -> TransformerModule:
    """The new model with the weights of the old one, its norms not fitted yet."""
    module = TransformerModule(wide)
    head = (wide.hidden_dim / wide.encoder_heads) / (config.hidden_dim / config.encoder_heads)
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            source = ancestor(name)
            if source is None:
                if name.split(".")[-2] in ("out", "down", "cell"):
                    tensor.mul_(LITTLE)
                continue
            values, (rows, columns) = old[source], places(config, wide, name)
            if name == "target_embedding":
                values = values * (config.hidden_dim / wide.hidden_dim) ** 0.5  # embeddings are scaled by their width
                tensor.zero_()
            scale = torch.ones(len(tensor))
            if "qkv" in name or "query" in name:  # products are divided by the root of a head's width
                scale[: wide.hidden_dim] = head**0.5
            if columns is None:
                tensor.zero_()
                tensor[rows] = values * scale[rows]
                continue
            kept = torch.zeros_like(tensor)
            kept[:, columns] = SMALL * tensor[:, columns]
            kept[np.ix_(rows, columns)] = values * scale[rows, None]
            tensor.copy_(kept)
    return module


def ancestor(name: str) -> str | None:
    """The old tensor of a new one; every second layer of the decoder is new."""
    side, _, rest = name.partition(".")
    if side != "decoder":
        return name
    layer, _, rest = rest.partition(".")
    return None if int(layer) % 2 else f"decoder.{int(layer) // 2}.{rest}"


def fit_norms(old: TransformerModule, new: TransformerModule, dims: Places, run: Callable[[nn.Module], object]) -> None:
    """Each norm of the new model gives on `dims` what the old one gives, by least squares for each dimension."""
    given: dict[str, Tensor] = {}
    last = f"decoder.{new.config.decoder_layers - 1}.ffn.norm"
    for name, norm in _norms(old):
        norm.register_forward_hook(lambda _, __, out, name=name: given.update({name: out.detach()}))
    run(old)

    def fitted(name: str, norm: nn.LayerNorm) -> Callable[..., Tensor]:
        source = ancestor(name) or f"decoder.{int(name.split('.')[1]) // 2}.ffn.norm"
        target = given[source].flatten(0, -2) * ((new.config.hidden_dim / len(dims)) ** 0.5 if name == last else 1.0)

        def hook(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> Tensor:
            plain = nn.functional.layer_norm(inputs[0], inputs[0].shape[-1:], eps=norm.eps)
            z = plain.flatten(0, -2)[:, dims]
            weight = ((z - z.mean(0)) * (target - target.mean(0))).mean(0) / z.var(0, unbiased=False)
            norm.weight.fill_(FRESH), norm.bias.zero_()
            norm.weight[dims], norm.bias[dims] = weight, target.mean(0) - weight * z.mean(0)
            return plain * norm.weight + norm.bias

        return hook

    handles = [norm.register_forward_hook(fitted(name, norm)) for name, norm in _norms(new)]
    run(new)
    for handle in handles:
        handle.remove()


def _norms(module: nn.Module) -> list[tuple[str, nn.LayerNorm]]:
    return [(name, part) for name, part in module.named_modules() if isinstance(part, nn.LayerNorm)]


def main() -> None:
    """Grow a model folder."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("model", type=Path)
    flags.add_argument("pairs", type=Path)
    flags.add_argument("output", type=Path)
    flags.add_argument("--hidden-dim", type=int, required=True)
    given = flags.parse_args()
    parts, config = Translator(given.model).loaded, read_config(given.model)
    if not isinstance(config, TransformerConfig) or any(
        getattr(config, name) != value for name, value in SHAPE.items()
    ):
        raise SystemExit(f"{given.model} is no transformer with {SHAPE}")
    if given.hidden_dim <= config.hidden_dim or given.hidden_dim % config.encoder_heads:
        raise SystemExit(
            f"--hidden-dim is {given.hidden_dim}; it must be above {config.hidden_dim}, a multiple of the heads"
        )
    wide = dataclasses.replace(config, hidden_dim=given.hidden_dim, decoder_layers=2 * config.decoder_layers)
    torch.manual_seed(1)
    tensors = {name: torch.tensor(value) for name, value in read_tensors(given.model, config).items()}
    old = TransformerModule(config)
    old.load_state_dict(tensors)
    new = widened(config, wide, tensors)
    pairs = [
        ([*parts.source.encode(source), config.eos_id], [config.bos_id, *parts.target.encode(target)])
        for source, target in islice(column_pairs(given.pairs, 0, 1), LINES)
        if len(target.split()) == WORDS
    ]
    if not (pairs := pairs[:PAIRS]):
        raise SystemExit(f"no target of {WORDS} words in the first {LINES:,} lines of {given.pairs}")
    source, target = (nn.utils.rnn.pad_sequence([torch.tensor(p[i]) for p in pairs], True) for i in (0, 1))
    lengths = torch.tensor([len(pair[0]) for pair in pairs])
    mask = torch.arange(source.shape[1])[None] < lengths[:, None]
    with torch.no_grad():
        dims = places(config, wide, "decoder.0.ffn.norm.weight")[0]
        fit_norms(old.eval(), new.eval(), dims, lambda module: module(source, mask, target))
    vocabularies = {n: (given.model / n).read_bytes() for n in VOCABULARIES if (given.model / n).is_file()}
    weights = {name: value.numpy() for name, value in new.state_dict().items()}
    save_model(given.output, wide, weights, vocabularies, f"Grown from {given.model.name}.\n")


if __name__ == "__main__":
    main()
