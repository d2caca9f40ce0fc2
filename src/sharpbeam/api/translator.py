"""Translator: texts in, translations out, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from sharpbeam.api.base import TextDecoder, in_order
from sharpbeam.contract.decoding import Pattern, decode_lines
from sharpbeam.contract.sentences import Contract
from sharpbeam.contract.steps import Results
from sharpbeam.contract.terms import check_options
from sharpbeam.decoding.forced import force_all
from sharpbeam.decoding.inputs import Prefixes, check_texts, encode_texts
from sharpbeam.decoding.results import Scored, Translation, scored
from sharpbeam.errors import InputError, OptionError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.schema import require
from sharpbeam.text.glossary import Glossary, Terms
from sharpbeam.text.spans import keep_pattern
from sharpbeam.text.spelling import Spelling


class Translator(TextDecoder[Translation]):
    """A translation model, ready to use. Its methods may be called from several threads at once.

    Keyword options of its methods are the fields of SearchOptions, SamplingOptions, ScheduleOptions, OutputLayerOptions
    and LanguageOptions (beam_size, num_hypotheses, length_penalty, max_length, output_layer and others); an unknown
    name or a wrong value raises OptionError. Options that many calls share can be given to the constructor, or built
    once and passed as `options`, a DecodeOptions; keywords change them. Multilingual models need `target_language`, and
    some `source_language`.

    `target_prefix` is the text that the translations of each text must begin with, or None; a str applies to all texts.
    As in CTranslate2 the tokens of the prefix belong to the answer and count for lengths and the length penalty, but
    add nothing to the score (their token scores are 0).

    `glossary` maps terms of the source to their translations: {"Haus": "home", "Katze": ["cat", "kitty"]}, or a
    Glossary, which says how terms are found. Each term that is in a text has its translation, once for each place: a
    sentence that lacks it is decoded again from there on (contract/terms.py says how). Sampling, cube_pruning,
    prefix_bias_beta, return_alternatives and target_prefix are refused with it.
    """

    task = "translation"

    def translate(
        self,
        texts: Sequence[str],
        *,
        target_prefix: Prefixes = None,
        glossary: Glossary | Terms | None = None,
        raw: bool = False,
        keep: Sequence[str] = (),
        progress: Callable[[int], None] | None = None,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> list[Translation]:
        """Translate `texts`; returns one translation for each, in their order.

        A text may hold several sentences, which are decoded one by one: their tokens and scores follow one another, the
        score is that of all tokens together, and hypothesis r has hypothesis r of each sentence. URLs, addresses,
        code, placeholders and the like come out byte for byte, each as one token, as matches of the regular expressions
        `keep` do ("Acme [A-Z]+"). `raw` decodes each text as it stands, as target_prefix and return_alternatives do.

        `progress` is called with the number of texts that just finished. An empty text, or one of spaces, has an empty
        translation. Raises InputError for texts that are not a list of strings.
        """
        common: Any = {"target_prefix": target_prefix, "glossary": glossary, "raw": raw, "keep": keep}
        return in_order(self.translate_iter(texts, **common, options=options, **keywords), len(texts), progress)

    def translate_iter(
        self,
        texts: Sequence[str],
        *,
        target_prefix: Prefixes = None,
        glossary: Glossary | Terms | None = None,
        raw: bool = False,
        keep: Sequence[str] = (),
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> Results:
        """Yield (index in `texts`, translation) as they finish, which is not the order of `texts`.

        Closing the iterator stops the work and its threads. Options and texts are checked by the call itself, not at
        the first result.
        """
        require(isinstance(raw, bool), "raw", raw, "True or False")
        settings, pattern = self._options(options, keywords), keep_pattern(keep)
        if target_prefix == "" or (isinstance(target_prefix, (list, tuple)) and not any(target_prefix)):
            target_prefix = None
        whole = {"raw": raw, "target_prefix": target_prefix is not None}
        whole["return_alternatives"] = settings.search.return_alternatives
        for name in (name for name, given in whole.items() if given and keep):
            raise OptionError(f"keep is given with {name}, which protects nothing; leave out one of them.")
        terms, spelling = Glossary.of(glossary), Spelling(lambda: self.loaded.source)
        if terms is not None:
            check_options(settings)
            if target_prefix is not None:
                raise OptionError("glossary is given with target_prefix; leave out one of them.")
        elif any(whole.values()):
            return self._decode(texts, settings, target_prefix)
        contract = partial(self._contract, settings, terms)
        return decode_lines(texts, self._decode, settings, contract, spelling, pattern, terms, raw)

    def _contract(self, how: DecodeOptions, terms: Glossary | None, spelling: Spelling, pattern: Pattern) -> Contract:
        tags, search = self.loaded.language_tags, how.search
        languages = tags.told(how.languages, self.loaded.folder.absolute().parts)
        return Contract(
            languages.source,
            languages.target,
            attends=self.loaded.attends,
            attention=search.return_attention,
            penalty=search.length_penalty,
            pattern=pattern,
            glossary=terms,
            spelling=spelling,
            again=not search.sampling,
            tags=tags.tokens if tags.source_tag == "target" else (),
        )

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        options: DecodeOptions | None = None,
        **keywords: Unpack[DecodeKeywords],
    ) -> list[Scored]:
        """Score each target as the translation of its source, by forced decoding.

        The vocabulary splits a target into pieces, and eos ends it, so an empty one is scored too. Of the options
        length_penalty, batch_tokens, max_input_length, languages and output layer matter. Raises InputError for lists
        of different lengths, an empty source, and a target that is longer than the model has positions for.
        """
        settings, loaded = self._options(options, keywords), self.loaded
        check_texts(targets, "target")
        inputs = encode_texts(loaded, sources, None, settings)
        if len(sources) != len(targets):
            raise InputError(f"{len(sources)} sources but {len(targets)} targets; give one target for each source.")
        requests = [text.request for text in inputs if text.request is not None]
        if len(requests) < len(sources):
            empty = next(index for index, each in enumerate(inputs) if each.request is None)
            raise InputError(f"source {empty} is empty, so its target cannot be scored; leave the pair out.")
        eos, encode = loaded.model.eos_id, loaded.target.encode
        tag = loaded.language_tags.direction(settings.languages).prefix
        tokens = {i: np.array([*tag, *encode(text), eos], np.int32) for i, text in enumerate(targets)}
        most = loaded.max_positions
        for i, ids in tokens.items():
            if 0 < most < len(ids):
                raise InputError(f"target {i} has {len(ids)} tokens, eos counted; the model has positions for {most}.")
        log_probs_of = force_all(loaded, requests, tokens, settings)
        for log_probs in log_probs_of.values():
            log_probs[: len(tag)] = 0.0  # a forced tag adds nothing, as in translation
        penalty = settings.search.length_penalty
        return [scored(loaded.target, text, tokens[i], log_probs_of[i], penalty) for i, text in enumerate(targets)]
