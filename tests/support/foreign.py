"""Parts of the models of other programs in these tests."""

from __future__ import annotations

import io
from pathlib import Path

import sentencepiece

ROOT = Path(__file__).parents[2]
ENGLISH = (
    "Good morning. What time is it? I am tired and I want to sleep. She has read the book twice. They live in a small "
    "house by the sea. Could you help me, please? We are going to the market tomorrow. He does not like cold coffee."
)


def demo_sentences() -> list[str]:
    return (ROOT / "demo/german.txt").read_text(encoding="utf-8").splitlines()


def train_pieces(lines: list[str], size: int, **options) -> bytes:
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(lines), model_writer=out, vocab_size=size, minloglevel=2, num_threads=1, **options
    )
    return out.getvalue()


def pieces_of(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model)
    return [processor.IdToPiece(i) for i in range(processor.GetPieceSize())]


def flatten(model, scale: float) -> None:
    """Make the words of a random model less sure, so that beams differ from greedy search."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "shared" in name or "embed_tokens" in name:
                parameter.mul_(scale)


def save_m2m(transformers, folder: Path, vocab_size: int) -> None:
    config = transformers.M2M100Config(
        vocab_size=vocab_size,
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        init_std=0.4,
        max_position_embeddings=128,
    )
    model = transformers.M2M100ForConditionalGeneration(config).eval()
    flatten(model, 0.5)
    model.save_pretrained(folder)
