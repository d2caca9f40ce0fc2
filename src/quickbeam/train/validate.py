"""Validation of a translation model during training: loss and greedy BLEU."""

from __future__ import annotations

import sacrebleu
import torch
from torch import Tensor

from quickbeam.models.recurrent.config import RecurrentConfig
from quickbeam.models.recurrent.module import RecurrentModule
from quickbeam.text.sentencepiece import SentencePieceVocabulary
from quickbeam.train.data import Batch, ParallelData
from quickbeam.train.loss import output_loss

BATCH = 256  # pairs of similar length at a time


@torch.no_grad()
def validate(
    config: RecurrentConfig,
    weights: dict[str, Tensor],
    data: ParallelData,
    pairs: list[tuple[str, str]],
    vocabulary: SentencePieceVocabulary,
    device: torch.device,
) -> tuple[float, float]:
    """Loss (nats for each target token, no smoothing) and greedy BLEU (sacreBLEU default) on `data`."""
    model = RecurrentModule(config).to(device)
    model.load_state_dict(weights)
    model.eval()
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


def greedy(model: RecurrentModule, batch: Batch, device: torch.device) -> list[list[int]]:
    """Greedy translations of a batch, at most twice the source length plus ten tokens."""
    config = model.config
    memory = model.encode(batch.source.to(device), None if batch.source_mask is None else batch.source_mask.to(device))
    state = model.decoder.begin(memory)
    weight, bias = model.output()
    token = torch.full((len(batch.source),), config.bos_id, device=device)
    done = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(2 * batch.source.shape[1] + 10):
        hidden, state, _ = model.decoder.step(model.embed(token), state, memory)
        token = torch.addmm(bias, hidden, weight.t()).argmax(1)
        done |= token == config.eos_id
        if bool(done.all()):
            break
        tokens.append(torch.where(done, config.eos_id, token))
    if not tokens:
        return [[] for _ in range(len(token))]
    return [[t for t in row if t != config.eos_id] for row in torch.stack(tokens, 1).tolist()]
