"""The fused output loss against the same mathematics written plainly."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from sharpbeam.options.train import TrainOptions  # noqa: E402
from sharpbeam.train.loss import CHUNK, output_loss, sample_words, training_loss  # noqa: E402

ROWS, WIDTH, VOCAB = CHUNK + 44, 12, 37  # more than one chunk, and a last one that is not full


def plain_loss(hidden, weight, bias, target, smoothing, alpha):
    log_z = torch.logsumexp(hidden @ weight.t() + bias, 1)
    log_p = hidden @ weight.t() + bias - log_z[:, None]
    nll = -log_p.gather(1, target[:, None])[:, 0]
    loss = (1 - smoothing) * nll - smoothing * log_p.mean(1) + alpha * log_z**2
    right = (log_p.argmax(1) == target).sum()
    return loss.sum(), nll.sum(), (log_z**2).sum(), right


@pytest.fixture
def example():
    generator = torch.Generator().manual_seed(3)
    tensors = [torch.randn(shape, generator=generator) for shape in ((ROWS, WIDTH), (VOCAB, WIDTH), (VOCAB,))]
    return [t.requires_grad_() for t in tensors], torch.randint(VOCAB, (ROWS,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("alpha", [0.0, 0.05, 1.0])
def test_figures_and_gradients_equal_the_plain_ones(example, smoothing, alpha):
    inputs, target = example
    figures = output_loss(*inputs, target, smoothing, alpha)
    (figures[0] / ROWS).backward()
    results = [t.grad for t in inputs]
    exact = [t.detach().double().requires_grad_() for t in inputs]
    expected = plain_loss(*exact, target, smoothing, alpha)
    (expected[0] / ROWS).backward()
    for figure, want in zip(figures.tolist(), expected, strict=True):
        assert figure == pytest.approx(want.item(), rel=1e-5)
    for gradient, tensor in zip(results, exact, strict=True):
        torch.testing.assert_close(gradient.double(), tensor.grad, rtol=1e-4, atol=1e-7)


def test_bfloat16_products_stay_near(example):
    inputs, target = example
    exact = output_loss(*inputs, target, 0.1)[0]
    low = output_loss(*inputs, target, 0.1, 0.0, torch.bfloat16)[0]
    assert low != exact
    assert low.item() == pytest.approx(exact.item(), rel=0.01)


def test_extreme_logits_stay_finite(example):
    (hidden, weight, bias), target = example
    hidden = (hidden.detach() * 1e4).requires_grad_()
    figures = output_loss(hidden, weight, bias, target, 0.1)
    figures[0].backward()
    assert torch.isfinite(figures).all()
    assert torch.isfinite(hidden.grad).all()


def test_a_sampled_softmax_estimates_the_whole_one():
    """With many draws the corrected logits give the loss and the gradient of hidden of the whole softmax."""
    generator = torch.Generator().manual_seed(8)
    torch.manual_seed(8)
    hidden, weight, bias = (torch.randn(s, generator=generator) for s in ((64, WIDTH), (2000, WIDTH), (2000,)))
    hidden *= 0.3  # a few words must not hold all the mass
    frequency = torch.rand(2000, generator=generator) + 0.05
    frequency[:500] = 0  # never a target, and a quarter of Z
    frequency /= frequency.sum()
    target = torch.multinomial(frequency, 64, replacement=True, generator=generator)
    whole = output_loss(hidden, weight, bias, target)[1].item() / 64
    words, log_chance, place = sample_words(target, frequency, 1000)
    assert len(words) < 1000
    assert torch.equal(words[place], target)
    assert 20 < (words < 500).sum() < 40  # of 100 that are drawn from all alike
    assert (log_chance <= 0).all()

    def sampled(corrected: bool) -> float:
        figures = []
        for _ in range(20):
            words, log_chance, _ = sample_words(target, frequency, 1000)
            logits = hidden @ weight[words].t() + bias[words] - (log_chance if corrected else 0)
            right = (hidden * weight[target]).sum(1) + bias[target]
            figures.append(float((logits.logsumexp(1) - right).mean()))
        return sum(figures) / len(figures)

    assert sampled(True) == pytest.approx(whole, abs=0.05)
    options = TrainOptions(max_steps=1, output_samples=1000, label_smoothing=0.0, precision="float32")
    logged = [training_loss(hidden, weight, bias, target, frequency, options)[:2] / 64 for _ in range(20)]
    assert torch.stack(logged).mean(0).tolist() == pytest.approx([whole, whole], abs=0.05)
    assert sampled(False) != pytest.approx(whole, abs=0.3)  # without the correction Z is far too small

    def slope(draws: int) -> float:  # of the bias of the words that never are a target
        options = TrainOptions(max_steps=1, label_smoothing=0.5, output_samples=draws, precision="float32")
        free = bias.clone().requires_grad_()
        for _ in range(40):
            (training_loss(hidden, weight, free, target, frequency, options)[0] / 64 / 40).backward()
        return float(free.grad[:500].sum())

    assert slope(1000) == pytest.approx(slope(0), abs=0.03)  # unweighted smoothing makes it twice as large
