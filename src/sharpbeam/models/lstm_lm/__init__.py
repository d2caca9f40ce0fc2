"""The LSTM language model of the paper L2S."""
