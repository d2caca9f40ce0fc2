"""Arguments as people give them: none, those of NumPy, and wrong ones, which are named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sharpbeam import InputError, OptionError, Translator


def test_no_prefix_is_none_and_one_that_cannot_be_written_is_refused(tiny_model: Path) -> None:
    translator = Translator(tiny_model)
    text = ["ba di. ko ba."]
    expected = translator.translate(text, max_length=5)
    for none in ("", [None], [""]):
        assert translator.translate(text, target_prefix=none, max_length=5) == expected
    with pytest.raises(InputError, match="target prefix 0, '☃', has what the vocabulary cannot write"):
        translator.translate(text, target_prefix="☃")
    assert translator.translate(text, keep=None, max_length=5) == expected
    for whole in ({"raw": True}, {"target_prefix": "ba"}, {"return_alternatives": True}):
        with pytest.raises(OptionError, match=f"keep is given with {next(iter(whole))}"):
            translator.translate(text, keep=["ba"], **whole)


def test_numbers_of_numpy_are_numbers_and_wrong_options_are_named(tiny_model: Path) -> None:
    translator = Translator(tiny_model)
    numbers = {"beam_size": np.int64(2), "length_penalty": np.float32(1.0), "return_attention": np.True_}
    assert translator.translate(["ba"], **numbers) == translator.translate(["ba"], beam_size=2, return_attention=True)
    with pytest.raises(OptionError, match=r"beam_size is 2\.0; it must be a whole number"):
        translator.translate(["ba"], beam_size=np.float64(2.0))
    with pytest.raises(OptionError, match=r"options is .*it must be DecodeOptions"):
        translator.translate(["ba"], options={"beam_size": 2})
    with pytest.raises(OptionError, match="raw is 'false'; it must be True or False"):
        translator.translate(["ba"], raw="false")
    with pytest.raises(OptionError, match="threads is an option of the model, where it is opened"):
        translator.translate(["ba"], threads=2)
    with translator.session() as session:
        with pytest.raises(OptionError, match="keep is for translate; a session decodes each text as it stands"):
            session.submit("ba", keep=["ba"])
        with pytest.raises(OptionError, match=r"options is .*it must be DecodeOptions"):
            session.submit("ba", options={"beam_size": 2})
        for wrong in ("hi", 1.5):
            with pytest.raises(OptionError, match=r"priority is .*it must be a whole number"):
                session.submit("ba", priority=wrong)
            with pytest.raises(OptionError, match=r"workers is .*it must be between 0"):
                session.start(wrong)
        assert session.pending == 0
