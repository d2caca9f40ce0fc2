"""OpenNMT-py's transformer in plain PyTorch, for reading: its names of parameters, and its equations, one sentence.

Written from its onmt/encoders/transformer.py, decoders/transformer.py, modules/embeddings.py, multi_headed_attn.py and
position_ffn.py, apart from our reader.
"""

from __future__ import annotations

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "gated-gelu": F.gelu}
OPTIONS = {
    "model_task": "seq2seq", "model_type": "text", "encoder_type": "transformer", "decoder_type": "transformer",
    "enc_layers": 2, "dec_layers": 2, "heads": 4, "hidden_size": 16, "transformer_ff": 24, "dropout": [0.1],
    "position_encoding": True, "position_encoding_type": "SinusoidalInterleaved", "pos_ffn_activation_fn": "relu",
    "add_qkvbias": False, "add_ffnbias": True, "layer_norm": "standard", "norm_eps": 1e-6, "num_kv": 0,
    "max_relative_positions": 0, "relative_positions_buckets": 0, "parallel_residual": False, "copy_attn": False,
    "self_attn_type": "scaled-dot", "num_experts": 0, "sliding_window": 0, "lora_layers": [], "quant_layers": [],
    "share_embeddings": False, "share_decoder_embeddings": False, "data": {"corpus": {"path_src": "a", "weight": 1}},
}  # fmt: skip


class Positions(nn.Module):
    def __init__(self, dim, kind, length=60):
        super().__init__()
        place = torch.arange(length).float()[:, None]
        if kind == "SinusoidalInterleaved":
            table, rate = torch.zeros(length, dim), torch.exp(torch.arange(0, dim, 2) * -(math.log(10000.0) / dim))
            table[:, 0::2], table[:, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        else:
            rate = torch.exp(torch.arange(dim // 2) * -(math.log(10000) / (dim // 2 - 1)))
            table = torch.cat([torch.sin(place * rate), torch.cos(place * rate)], 1)
        self.register_buffer("pe", table[:, None])


class Embeddings(nn.Module):
    def __init__(self, words, opt):
        super().__init__()
        self.make_embedding = nn.Module()
        self.make_embedding.emb_luts = nn.ModuleList([nn.Embedding(words, opt.hidden_size)])
        if opt.position_encoding:
            self.make_embedding.pe = Positions(opt.hidden_size, opt.position_encoding_type)

    def forward(self, ids):
        found = self.make_embedding.emb_luts[0](ids)
        if not hasattr(self.make_embedding, "pe"):
            return found
        return found * math.sqrt(found.shape[-1]) + self.make_embedding.pe.pe[: len(ids), 0]


class Attention(nn.Module):
    def __init__(self, opt):
        super().__init__()
        dim, self.heads = opt.hidden_size, opt.heads
        for name in ("linear_keys", "linear_values", "linear_query", "final_linear"):
            setattr(self, name, nn.Linear(dim, dim, bias=opt.add_qkvbias))

    def forward(self, read, asking, causal=False):
        q, k, v = (
            layer(x).view(len(x), self.heads, -1).transpose(0, 1)
            for layer, x in ((self.linear_query, asking), (self.linear_keys, read), (self.linear_values, read))
        )
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        if causal:
            scores = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), float("-inf"))
        return self.final_linear((scores.softmax(-1) @ v).transpose(0, 1).reshape(len(asking), -1))


class FeedForward(nn.Module):
    def __init__(self, opt):
        super().__init__()
        dim, width = opt.hidden_size, opt.transformer_ff
        self.activation = ACTIVATIONS[opt.pos_ffn_activation_fn]
        self.w_1 = nn.Linear(dim, width, bias=opt.add_ffnbias)
        self.w_2 = nn.Linear(width, dim, bias=opt.add_ffnbias)
        if opt.pos_ffn_activation_fn in ("silu", "gated-gelu"):
            self.w_3 = nn.Linear(dim, width, bias=opt.add_ffnbias)
        self.layer_norm = nn.LayerNorm(dim, eps=opt.norm_eps)

    def forward(self, x):
        normed = self.layer_norm(x)
        inner = self.activation(self.w_1(normed))
        if hasattr(self, "w_3"):
            inner = inner * self.w_3(normed)
        return self.w_2(inner) + x


class EncoderLayer(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.self_attn, self.feed_forward = Attention(opt), FeedForward(opt)
        self.layer_norm = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)

    def forward(self, x):
        normed = self.layer_norm(x)
        return self.feed_forward(self.self_attn(normed, normed) + x)


class DecoderLayer(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.self_attn, self.context_attn, self.feed_forward = Attention(opt), Attention(opt), FeedForward(opt)
        self.layer_norm_1 = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)
        self.layer_norm_2 = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)

    def forward(self, x, memory):
        normed = self.layer_norm_1(x)
        x = self.self_attn(normed, normed, causal=True) + x
        return self.feed_forward(self.context_attn(memory, self.layer_norm_2(x)) + x)


class Side(nn.Module):
    def __init__(self, words, opt, layer, name, count):
        super().__init__()
        self.embeddings = Embeddings(words, opt)
        setattr(self, name, nn.ModuleList(layer(opt) for _ in range(count)))
        self.layer_norm = nn.LayerNorm(opt.hidden_size, eps=opt.norm_eps)


class Model(nn.Module):
    """Random weights, large enough that answers differ."""

    def __init__(self, source, target, **options):
        super().__init__()
        self.opt = opt = argparse.Namespace(**OPTIONS | options)
        self.words = source, target
        self.encoder = Side(len(source), opt, EncoderLayer, "transformer", opt.enc_layers)
        self.decoder = Side(len(target), opt, DecoderLayer, "transformer_layers", opt.dec_layers)
        self.generator = nn.Linear(opt.hidden_size, len(target))
        draw = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                weight.copy_(torch.randn(weight.shape, generator=draw) * 0.4 + (weight if "norm" in name else 0.0))
        tables = [side.embeddings.make_embedding.emb_luts[0] for side in (self.encoder, self.decoder)]
        if opt.share_embeddings:
            tables[1].weight = tables[0].weight
        if opt.share_decoder_embeddings:
            self.generator.weight = tables[1].weight

    @torch.no_grad()
    def log_probs(self, source, target):
        """log p(y_t | y_<t, x) of all words [T, V]; sources without eos, targets from <s>."""
        x = self.encoder.embeddings(torch.tensor(source))
        for layer in self.encoder.transformer:
            x = layer(x)
        memory = self.encoder.layer_norm(x)
        y = self.decoder.embeddings(torch.tensor([self.words[1].index("<s>"), *target[:-1]]))
        for layer in self.decoder.transformer_layers:
            y = layer(y, memory)
        return self.generator(self.decoder.layer_norm(y)).log_softmax(-1).numpy()

    def checkpoint(self, **changes):
        """A checkpoint as onmt/models/model_saver.py writes it."""
        state = {name: value for name, value in self.state_dict().items() if "generator" not in name}
        vocab = {"src": self.words[0], "tgt": self.words[1], "data_task": "seq2seq", "decoder_start_token": "<s>"}
        optim = torch.optim.Adam(self.parameters(), lr=0.0)
        sum(parameter.sum() for parameter in self.parameters()).backward()
        optim.step()
        whole = {"model": state, "generator": self.generator.state_dict(), "vocab": vocab, "opt": self.opt}
        return whole | {"optim": {"training_step": 1, "optimizer": optim.state_dict()}} | changes
