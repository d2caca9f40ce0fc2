"""Validation of a translation model during training: loss and greedy BLEU."""

from __future__ import annotations

import sacrebleu
import torch

from sharpbeam.models.torch.module import TranslationModule
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.train.data import Batch, ParallelData
from sharpbeam.train.loss import output_loss

BATCH = 256  # pairs of similar length at a time


@torch.no_grad()
def validate(
    model: TranslationModule,
    data: ParallelData,
    pairs: list[tuple[str, str]],
    vocabulary: Vocabulary,
    device: torch.device,
) -> tuple[float, float]:
    """Loss (nats for each target token, no smoothing) and greedy BLEU (sacreBLEU default) of `model` on `data`."""
    order = sorted(range(len(data.items)), key=lambda i: len(data.items[i][0]))
    nats, words = 0.0, 0
    outputs = [""] * len(order)
    for start in range(0, len(order), BATCH):
        indices = order[start : start + BATCH]
        batch = data.batch(indices)
        mask = None if batch.source_mask is None else batch.source_mask.to(device)
        hidden = model(batch.source.to(device), mask, batch.target.to(device))
        keep = batch.label_mask.to(device)
        nats += float(output_loss(hidden[keep], *model.output(), batch.label.to(device)[keep])[1])
        words += int(keep.sum())
        for index, ids in zip(indices, greedy(model, batch, device), strict=True):
            outputs[index] = vocabulary.decode(ids)
    references = [pairs[place][1] for place in data.kept]
    return nats / words, sacrebleu.corpus_bleu(outputs, [references]).score


def greedy(model: TranslationModule, batch: Batch, device: torch.device) -> list[list[int]]:
    """Greedy translations of a batch, at most twice the source length plus ten tokens."""
    config = model.config
    mask = None if batch.source_mask is None else batch.source_mask.to(device)
    memory, state = model.encode(batch.source.to(device), mask)
    weight, bias = model.output()
    token = torch.full((len(batch.source),), config.bos_id, device=device)
    done = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(min(2 * batch.source.shape[1] + 10, model.longest)):
        hidden, state, _ = model.step(token, state, memory)
        token = torch.addmm(bias, hidden, weight.t()).argmax(1)
        done |= token == config.eos_id
        if bool(done.all()):
            break
        tokens.append(torch.where(done, config.eos_id, token))
    if not tokens:
        return [[] for _ in range(len(token))]
    return [[t for t in row if t != config.eos_id] for row in torch.stack(tokens, 1).tolist()]
