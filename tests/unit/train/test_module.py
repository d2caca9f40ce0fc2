"""The PyTorch module: a request's answer does not depend on the padding that its neighbors bring."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from sharpbeam.models.gru.config import GruConfig  # noqa: E402
from sharpbeam.models.lstm.config import LstmAttentionConfig  # noqa: E402
from sharpbeam.models.registry import architecture_of  # noqa: E402
from sharpbeam.models.transformer.config import TransformerConfig  # noqa: E402

CUBE = GruConfig(
    50, 40, embedding_dim=8, encoder_layers=3, encoder_dim=6, decoder_dim=10, attention_dim=7, hidden_dim=9
)
SHARP = GruConfig(
    50,
    40,
    embedding_dim=8,
    encoder_dim=6,
    decoder_dim=10,
    decoder_cell="attentional",
    attention="tanh_dot",
    attention_dim=7,
    fc_layers=3,
    fc_dim=11,
    top="gru",
    top_dim=12,
    readout="none",
    hidden_dim=12,
)


LSTM = LstmAttentionConfig(50, 40, embedding_dim=8, layers=3, hidden_dim=10)


TRANSFORMER = TransformerConfig(
    50,
    40,
    hidden_dim=12,
    encoder_layers=2,
    decoder_layers=2,
    encoder_heads=3,
    decoder_heads=2,
    encoder_ffn_dim=10,
    decoder_ffn_dim=10,
)
CONFIGS = {"cube": CUBE, "sharp": SHARP, "lstm": LSTM, "transformer": TRANSFORMER}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_request_alone_equals_itself_in_a_padded_batch(config):
    torch.manual_seed(2)
    model = architecture_of(config).module(config).eval()
    lengths = torch.tensor([3, 9, 1, 6])
    source = torch.randint(4, 50, (4, 9))
    mask = torch.arange(9) < lengths[:, None]
    source = torch.where(mask, source, config.pad_id)
    target = torch.randint(4, 40, (4, 5))
    with torch.no_grad():
        encoded, hidden = model.encode(source, mask), model(source, mask, target)
        for i, length in enumerate(lengths.tolist()):
            alone = model.encode(source[i : i + 1, :length], None)
            if config is TRANSFORMER:  # keys and values of each layer; states are empty at first
                torch.testing.assert_close(encoded[:, i : i + 1, :length], alone, rtol=0, atol=1e-6)
            else:
                (memory, begin), (own, start) = encoded, alone
                torch.testing.assert_close(begin[i : i + 1], start, rtol=0, atol=1e-6)
                torch.testing.assert_close(memory.values[i : i + 1, :length], own.values, rtol=0, atol=1e-6)
                torch.testing.assert_close(memory.keys[i : i + 1, :length], own.keys, rtol=0, atol=1e-6)
            forced = model(source[i : i + 1, :length], None, target[i : i + 1])
            torch.testing.assert_close(hidden[i : i + 1], forced, rtol=0, atol=1e-6)
        source[0, 3:] = 17  # whatever stands in the padding changes nothing
        assert torch.equal(model(source, mask, target), hidden)
