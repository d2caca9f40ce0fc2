"""The recurrent encoder-decoder of the papers CUBE and SHARP."""
