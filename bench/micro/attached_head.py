"""`generate` of a Hugging Face language model with our head in the place of its lm_head, and without it."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Annotated, Any

import torch
import transformers
import typer

from bench.harness import record
from bench.harness.interleave import interleave
from sharpbeam import Head

# Shapes of published models, with random weights: their speed is the shape's, their text is nothing.
SHAPES: dict[str, dict[str, Any]] = {
    "gemma-3-270m": {
        "class": "Gemma3",
        "vocab_size": 262_144,
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
    },
    "qwen3-0.6b": {
        "class": "Qwen3",
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
    },
}
PROMPT = 8  # tokens


def random_model(shape: str) -> Any:
    """A model of the shape with random weights, float32. No token ends a text."""
    facts = dict(SHAPES[shape])
    name = facts.pop("class")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}TextConfig" if name == "Gemma3" else f"{name}Config")(**facts)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def prompts(count: int, vocab: int, seed: int) -> torch.Tensor:
    """Random prompts [count, PROMPT]."""
    return torch.randint(3, vocab, (count, PROMPT), generator=torch.Generator().manual_seed(seed))


def tokens(model: Any, prompt: torch.Tensor, steps: int) -> torch.Tensor:
    """The model's greedy continuation [B, steps] of the prompts."""
    answer = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=steps, min_new_tokens=None, do_sample=False
    )
    new: torch.Tensor = answer[:, prompt.shape[1] :]
    return new


def differences(model: Any, steps: int, rows: int = 16, length: int = 64) -> dict[str, int]:
    """Greedy tokens with the head and without it, at least `steps` of them; how many texts differ."""
    checks = differ = seed = 0
    while checks < steps:
        prompt = prompts(rows, model.config.vocab_size, 100 + seed)
        alone = tokens(model, prompt, length)
        with Head.attach(model):
            differ += int((tokens(model, prompt, length) != alone).any(dim=1).sum())
        checks, seed = checks + alone.numel(), seed + 1
    return {"steps": checks, "texts": seed * rows, "texts_that_differ": differ}


def speed(model: Any, steps: int, rounds: int) -> dict[str, Any]:
    """One text at a time, by processor time: the model in float32 and in bfloat16, each with the head and without it.

    Ratios are those over the model in bfloat16, which is what a user would try first for speed.
    """
    prompt = prompts(1, model.config.vocab_size, 7)
    half = copy.deepcopy(model).to(torch.bfloat16)
    heads = {"float32 and head": Head.attach(model), "bfloat16 and head": Head.attach(half)}
    for attached in heads.values():
        attached.detach()

    def with_head(name: str) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            with heads[name]:
                return tokens(heads[name].model, prompt, steps)

        return run

    def check(outputs: dict[str, torch.Tensor]) -> None:
        if not torch.equal(outputs["float32 and head"], outputs["float32"]):
            raise ValueError("the head's tokens are not the model's")

    contenders = {
        "float32": lambda: tokens(model, prompt, steps),
        "bfloat16": lambda: tokens(half, prompt, steps),
    } | {name: with_head(name) for name in heads}
    timings = interleave(contenders, "bfloat16", rounds, check, time.process_time)
    return {
        name: {
            "ms_a_token": round(1e3 * one.median_s / steps, 3),
            "ratio": [round(value, 3) for value in (one.ratio, one.least_ratio, one.most_ratio)],
        }
        for name, one in timings.items()
    }


def main(
    shape: Annotated[str, typer.Option(help=" or ".join(SHAPES))] = "gemma-3-270m",
    steps: Annotated[int, typer.Option(help="tokens of a timed text")] = 48,
    rounds: Annotated[int, typer.Option(help="interleaved rounds; 0: no timing")] = 5,
    identical: Annotated[int, typer.Option(help="greedy steps whose tokens are compared; 0: none")] = 10_000,
) -> None:
    """Measure, print and record speed and identity, a line each, with one thread."""
    torch.set_num_threads(1)
    model = random_model(shape)
    options = {"shape": shape, "weights": "random"}
    if rounds:
        with torch.no_grad():
            figures = {"speed": speed(model, steps, rounds)}
        record.write("attached_head", figures, threads=1, options=options | {"part": "speed", "steps": steps})
        for name, one in figures["speed"].items():
            print(f"{shape}, {name}: {one['ms_a_token']} ms a token, x{one['ratio'][0]:.2f} of bfloat16")
    if identical:
        with torch.no_grad():
            same = differences(model, identical)
        record.write("attached_head", {"identity": same}, threads=1, options=options | {"part": "identity"})
        print(f"{shape}: {same['texts_that_differ']} of {same['texts']} texts differ, {same['steps']} steps")
