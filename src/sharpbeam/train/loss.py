"""The training loss, fused with the output layer: of the size of the logits only their slope is kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sharpbeam.options.train import TrainOptions

CHUNK = 256  # rows of logits in flight: 256 x 16k floats stay in the last cache level


class _OutputLoss(torch.autograd.Function):
    """Forward computes logits, loss and the gradients in one pass over the vocabulary; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        target: Tensor,
        options: tuple[float, float, torch.dtype, Tensor],
    ) -> Tensor:
        smoothing, alpha, dtype, log_chance = options
        rows, vocab = hidden.shape[0], weight.shape[0]
        low_hidden, low_weight, low_bias = hidden.to(dtype), weight.to(dtype), (bias - log_chance).to(dtype)
        spread = (-log_chance).exp()  # each word's part in the smoothing,
        spread /= spread.mean()  # 1 on average, so that a shift of all logits changes nothing
        slope = torch.empty(rows, vocab, dtype=dtype, device=hidden.device)
        sums = torch.zeros(4, dtype=torch.float64, device=hidden.device)
        mean_logits = low_hidden.float() @ (spread @ weight / vocab) + (spread * bias).mean()
        bias_grad = torch.zeros_like(bias)
        buffer = torch.empty(min(CHUNK, rows), vocab, device=hidden.device)  # one for all chunks: no new pages
        for start in range(0, rows, CHUNK):
            part = slice(start, min(start + CHUNK, rows))
            logits = buffer[: part.stop - start]
            logits.copy_(torch.addmm(low_bias, low_hidden[part], low_weight.t()))
            right = logits.gather(1, target[part, None])[:, 0]
            best = logits.amax(1)
            gradient = logits.sub_(best[:, None]).exp_()  # in place from here on: the softmax, then its slope
            total = gradient.sum(1)
            log_z = best + total.log()
            nll = (log_z - right).sum()
            smooth = (log_z - mean_logits[part]).sum()
            sums += torch.stack([nll, smooth, log_z.square().sum(), (right >= best).sum()]).double()
            # d/dlogits of (1-eps) nll + eps smooth + alpha log_z^2
            gradient *= ((1 + 2 * alpha * log_z) / total)[:, None]
            if smoothing:
                gradient -= smoothing / vocab * spread
            gradient.scatter_add_(1, target[part, None], torch.full_like(right, smoothing - 1)[:, None])
            bias_grad += gradient.sum(0)
            slope[part] = gradient
        ctx.save_for_backward(slope @ low_weight, slope.t() @ low_hidden, bias_grad)
        nll, smooth, square, right = sums
        total = (1 - smoothing) * nll + smoothing * smooth + alpha * square
        return torch.stack([total, nll, square, right]).to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        hidden_grad, weight_grad, bias_grad = ctx.saved_tensors
        scale = upstream[0]  # the other three figures are for the log only
        return (hidden_grad * scale).to(upstream.dtype), weight_grad.float() * scale, bias_grad * scale, None, None


def output_loss(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    target: Tensor,
    smoothing: float = 0.0,
    alpha: float = 0.0,
    dtype: torch.dtype = torch.float32,
    log_chance: Tensor | None = None,
) -> Tensor:
    """Loss of hidden [N, D] against target ids [N] under logits = hidden weight' + bias, summed over the N words.

    Returns [4]: the loss to minimize, (1-smoothing) nll + smoothing * mean over words of -log p + alpha (log Z)^2
    (self-normalization, CUBE-4, eq. 11); then for the log the nll in nats, the sum of (log Z)^2 and the number of right
    first guesses. Only the first has a gradient. The products run in `dtype`, the softmax in float32.

    With the `log_chance` [V] of `sample_words`, log Z and the mean are estimates of those over all words.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        options = (smoothing, alpha, dtype, torch.zeros_like(bias) if log_chance is None else log_chance)
        result: Tensor = _OutputLoss.apply(hidden, weight, bias, target, options)  # type: ignore[no-untyped-call]
    return result


def sample_words(target: Tensor, frequency: Tensor, draws: int) -> tuple[Tensor, Tensor, Tensor]:
    """A subset of the vocabulary for a sampled softmax (Jean et al. 2015): the targets [N] and `draws` other words.

    Words are drawn with replacement by their `frequency` [V] (sums to 1, float32), and a tenth as many from all alike:
    one that never is a target would else stay likely. Returns the ids [n], ascending; the log of each one's chance of
    being there, if targets too are draws by frequency, which its logit has to lose; and the place [N] of each target.
    """
    often = torch.multinomial(frequency.cpu(), draws, replacement=True)
    drawn = torch.cat([often, torch.randint(len(frequency), (draws // 10,))]).to(target.device)
    words, place = torch.unique(torch.cat([target, drawn]), return_inverse=True)
    missed = (draws + len(target)) * torch.log1p(-frequency[words].clamp(max=0.5)) - draws // 10 / len(frequency)
    return words, (-torch.expm1(missed)).log(), place[: len(target)]


def word_frequency(words: Tensor, vocab_size: int) -> Tensor:
    """The share of each word in `words` [N] int64, [V] float32."""
    return torch.bincount(words, minlength=vocab_size).float() / len(words)


def training_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, frequency: Tensor, options: TrainOptions
) -> Tensor:
    """`output_loss` as the options of training ask for it; a sampled softmax draws by `frequency` [V]."""
    log_chance = None
    if options.output_samples:
        words, log_chance, target = sample_words(target, frequency, options.output_samples)
        weight, bias = weight[words], bias[words]
    dtype = torch.bfloat16 if options.precision == "bfloat16" else torch.float32
    smoothing, alpha = options.label_smoothing, options.self_normalization
    result = output_loss(hidden, weight, bias, target, smoothing, alpha, dtype, log_chance)
    if log_chance is not None:  # the targets' logits lack it; a constant, so only the log is off without
        chance = log_chance[target].sum()
        result = result - torch.stack([(1 - smoothing) * chance, chance, 0 * chance, 0 * chance])
    return result
