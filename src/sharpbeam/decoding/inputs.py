"""Texts as requests: checks, tokens, language tags, target prefixes, truncation."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sharpbeam.decoding.languages import Direction
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.results import EMPTY, Generation, Result, Translation, hypothesis_answer
from sharpbeam.errors import InputError
from sharpbeam.options.decode import DecodeOptions, SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.types import Hypothesis, Prefix, Request


class Forced(NamedTuple):
    """A text that an answer begins with; the log probabilities of all after its first `given` characters count."""

    text: str
    given: int


Prefixes = Sequence[str | Forced | None] | str | None
NUMBERS = 2**31  # of requests: int32
log = logging.getLogger("sharpbeam.texts")


@dataclass(slots=True)  # frozen objects take five times as long to make
class Input:
    """A text and its request."""

    text: str  # as it was given
    request: Request | None  # None for an empty text
    truncated: bool  # the text was longer than max_input_length, and part of it was cut off
    direction: Direction = Direction()  # noqa: RUF009 (it is frozen)


def encode_texts(
    loaded: LoadedModel,
    texts: Sequence[str],
    prefixes: Prefixes,
    options: DecodeOptions,
    numbers: Iterator[int] | None = None,
) -> list[Input]:
    """Encode `texts`; each takes the next of `numbers` as index of its request (None: 0, 1, ...).

    Raises InputError if texts or prefixes are not lists of strings, and OptionError for languages that the model
    lacks.
    """
    numbers = itertools.count() if numbers is None else numbers
    if loaded.task == "language":
        return _prompts(loaded, texts, prefixes, options, numbers)
    check_texts(texts, "text")
    direction = loaded.direction(options.languages)
    begin: list[Prefix | None] = [None] * len(texts)
    if prefixes is not None or direction.prefix or options.search.prefix_bias_beta:
        begin = encode_prefixes(loaded, prefixes, len(texts), direction, options)
    most, why = _most_tokens(loaded, direction, options.schedule.max_input_length)
    inputs, factor = [], options.search.max_length_factor
    for text, prefix in zip(texts, begin, strict=True):
        ids, number = loaded.source.encode(text) if text.strip() else [], next(numbers) % NUMBERS
        if not ids:
            inputs.append(Input(text, None, False, direction))
            continue
        if cut := most < len(ids):
            start = f"{text[:40]}..."
            log.warning("text %r has %d tokens; all after the first %d are cut off (%s)", start, len(ids), most, why)
            del ids[int(most) :]
        source = np.array([*direction.before, *ids, *direction.after], np.int32)
        limit = 0 if factor is None else math.ceil(factor * len(source))
        request = Request(number, source, prefix, direction.languages, max_length=limit)
        inputs.append(Input(text, request, cut, direction))
    return inputs


def requests_of(loaded: LoadedModel, texts: Sequence[str], options: DecodeOptions) -> list[Request]:
    """The requests of `texts` that are not empty; raises InputError as `encode_texts`, and if there is none."""
    requests = [text.request for text in encode_texts(loaded, texts, None, options) if text.request is not None]
    if not requests:
        raise InputError("the text is empty; there is nothing to decode.")
    return requests


def check_texts(texts: Sequence[str], what: str) -> None:
    """Raise InputError unless `texts` is a sequence of strings that can be written as UTF-8."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"give a list of {what}s, not a single one: [{what}].")
    sound = type(texts) is list or (hasattr(texts, "__getitem__") and not isinstance(texts, Mapping))
    if not (sound and hasattr(texts, "__len__")):
        raise InputError(f"the {what}s are a {type(texts).__name__}; give a list of them.")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{what} {index} is {text!r}; it must be a str.")
        if text.isascii():
            continue
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{what} {index} holds half a character (a surrogate) at {error.start}.") from error


def encode_prefixes(
    loaded: LoadedModel, prefixes: Prefixes, count: int, direction: Direction, options: DecodeOptions
) -> list[Prefix | None]:
    """Forced tokens of each of `count` answers: the tag of the target language, then its target prefix.

    They add nothing to the score, but for what `Forced` says, which is cut off at `max_length`. Raises InputError
    unless there is one prefix for each text, and each is shorter than `max_length`.
    """
    tag, beta, most = direction.prefix, options.search.prefix_bias_beta, options.search.max_length
    require(not beta or prefixes is not None, "prefix_bias_beta", beta, "0 without a target_prefix")
    require(not beta or not tag, "prefix_bias_beta", beta, "0 for a model that forces the first token")
    if prefixes is None or isinstance(prefixes, str):
        prefixes = [prefixes] * count
    if not isinstance(prefixes, Sequence):
        raise InputError(f"target_prefix is {prefixes!r}; give a text, or a list with a text or None for each.")
    check_texts(["" if prefix is None else _text_of(prefix) for prefix in prefixes], "target prefix")
    if len(prefixes) != count:
        raise InputError(f"there are {len(prefixes)} target prefixes for {count} texts; give one, or None, for each.")
    encoded: list[Prefix | None] = []
    for index, prefix in enumerate(prefixes):
        tokens = [*tag, *(loaded.target.encode(_text_of(prefix)) if prefix else [])]
        log_prob = np.zeros(len(tokens), np.float32)
        if not isinstance(prefix, Forced) and loaded.target.special_ids.get("unk_id") in tokens[len(tag) :]:
            raise InputError(f"target prefix {index}, {prefix!r}, has what the vocabulary cannot write; leave it out.")
        if isinstance(prefix, Forced):
            cube = options.search.cube_pruning
            require(cube == "none", "cube_pruning", cube, "none where a text is forced")
            first = [*tag, *loaded.target.encode(prefix.text[: prefix.given])]
            same = itertools.takewhile(bool, map(int.__eq__, first, tokens))
            log_prob[sum(same) :] = math.nan  # what the model says
            kept = max(most - 1, len(tag))
            tokens, log_prob = tokens[:kept], log_prob[:kept]
        elif len(tokens) >= most:
            raise InputError(
                f"target prefix {index} has {len(tokens)} tokens; it must have fewer than max_length ({most}). "
                "Give a shorter one, or raise max_length."
            )
        forced = Prefix(np.array(tokens, np.int32), log_prob)
        encoded.append(forced if tokens else None)
    return encoded


def _text_of(prefix: str | Forced) -> str:
    return prefix.text if isinstance(prefix, Forced) else prefix


def _most_tokens(loaded: LoadedModel, direction: Direction, max_input_length: int) -> tuple[float, str]:
    """The most tokens that a text may have, without eos and tags, and why; infinity if nothing limits them."""
    limits: list[tuple[float, str]] = [(math.inf, "")]
    if max_input_length:
        eos = len(loaded.language_tags.end)
        limits.append((max_input_length - eos, f"max_input_length is {max_input_length}" + ", eos counted" * eos))
    if positions := loaded.max_positions:
        around = len(direction.before) + len(direction.after)
        why = f"the model has positions for {positions}, of which eos and tags take {around}"
        limits.append((max(0, positions - around), why))
    return min(limits)


def _prompts(
    loaded: LoadedModel, texts: Sequence[str], prefixes: Prefixes, options: DecodeOptions, numbers: Iterator[int]
) -> list[Input]:
    """Prompts of a language model, each after an end of sentence; the beginning of a long one is cut off."""
    loaded.language_tags.direction(options.languages)  # raises for any language
    factor = options.search.max_length_factor
    require(factor is None, "max_length_factor", factor, "left out: an answer is no longer for a longer prompt")
    require(prefixes is None, "target_prefix", prefixes, "left out: a prompt is what the text begins with")
    check_texts(texts, "prompt")
    most, inputs = options.schedule.max_input_length, []
    for place, prompt in enumerate(texts):
        ids = [loaded.model.eos_id, *loaded.source.encode(prompt)]
        if cut := 0 < most < len(ids):
            log.warning(
                "prompt %d has %d tokens; all before the last %d are cut off (max_input_length)", place, len(ids), most
            )
        request = Request(next(numbers) % NUMBERS, np.array(ids[-most:], np.int32))
        inputs.append(Input(prompt, request, cut))
    return inputs


def answer_of(loaded: LoadedModel, text: Input, hypotheses: list[Hypothesis], options: SearchOptions) -> Result:
    """The answer to a text, from its hypotheses, best first."""
    answers = tuple(map(partial(hypothesis_answer, loaded.target), hypotheses))
    if loaded.task == "language":
        return Generation(text.text, answers, text.truncated)
    attends, request = options.return_attention, text.request
    if request is None:
        return Translation(text.text, (replace(EMPTY, attention=() if attends else None),))
    pieces = loaded.source.pieces(request.source[text.direction.text].tolist()) if attends else ()
    return Translation(text.text, answers, text.truncated, pieces)
