"""The LSTM encoder-decoder with attention and input feeding, as in OpenNMT."""
