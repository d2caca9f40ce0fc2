"""Source and target language of a request, and the tag tokens that select them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from sharpbeam.errors import OptionError, nearest
from sharpbeam.models.registry import Config
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import LanguageOptions
from sharpbeam.options.schema import require
from sharpbeam.text.languages import direction_in
from sharpbeam.text.pieces import tag_code
from sharpbeam.types import Languages


@dataclass(frozen=True)
class Direction:
    """The languages and the tokens of one direction."""

    languages: Languages = Languages()  # noqa: RUF009 (frozen)
    before: tuple[int, ...] = ()  # before the source text
    after: tuple[int, ...] = ()  # after it: eos, and a language tag if the model wants it there
    prefix: tuple[int, ...] = ()  # forced at the beginning of every translation

    @property
    def text(self) -> slice:
        """Position of the text in a source, between the tokens before and after it."""
        return slice(len(self.before), -len(self.after) or None)


@dataclass(frozen=True)
class LanguageTags:
    """The languages of a model; those of one with a single direction are empty."""

    tokens: Mapping[str, int] = field(default_factory=dict)
    source: str = ""  # the default
    target: str = ""
    source_tag: str = "none"  # as in TransformerConfig
    target_tag: bool = False
    begin: tuple[int, ...] = ()  # what every source begins with
    end: tuple[int, ...] = ()  # end of every source: eos, or nothing
    prefix: tuple[int, ...] = ()  # what every translation begins with

    @classmethod
    def of(cls, config: Config) -> LanguageTags:
        """Language tags by `config`."""
        if not isinstance(config, TransformerConfig):
            return cls(end=(config.eos_id,))
        c = config
        end = (c.eos_id,) if c.source_eos else ()
        return cls(
            c.languages, c.source_language, c.target_language, c.source_tag, c.target_tag, c.source_begin, end,
            c.target_begin,
        )  # fmt: skip

    def direction(self, options: LanguageOptions) -> Direction:
        """Tokens for the languages of a request; raises OptionError for one that the model lacks.

        A source that names its target itself (>>fra<< in OPUS-MT) needs no target language.
        """
        for name, code in vars(options).items():
            if code and not self.tokens:
                raise OptionError(f"{name} is {code!r}; leave it out, the model has one direction only.")
            if code and code not in self.tokens:
                raise OptionError(f"{name} is {code!r}; it must be one of {self._all}.{nearest(code, self.tokens)}")
        source, target = options.source_language or self.source, options.target_language or self.target
        by_source = self.source_tag in ("source", "source-behind")  # vocabulary: stored
        for name, code, needed in (("source", source, by_source), ("target", target, self.target_tag)):
            if needed and not code:
                raise OptionError(f"{name}_language is missing; the model needs one of {self._all}.")
        only = f"{self.target!r}, the only one of the model" if self.target else "left out: the model has one"
        chooses = self.target_tag or self.source_tag == "target"
        require(target == self.target or chooses, "target_language", target, only)
        tag_language = source if by_source else target if self.source_tag == "target" else ""
        tag = (self.tokens[tag_language],) if tag_language else ()
        prefix = (*self.prefix, *((self.tokens[target],) if self.target_tag else ()))
        if self.source_tag == "source-behind":  # vocabulary: stored
            return Direction(Languages(source, target), self.begin, (*self.end, *tag), prefix)
        return Direction(Languages(source, target), (*self.begin, *tag), self.end, prefix)

    def told(self, options: LanguageOptions, path: tuple[str, ...]) -> Languages:
        """The languages of texts: those asked for; of a single direction those in the folder's name, as de-en, too."""
        name = [part for part in path if part != "best"][-1]  # in a training; "data" is not Danish and Tamil
        named = direction_in(name) or direction_in("-".join(name.split("-")[:2])) if "-" in name else []
        source, target = (not self.tokens and named) or (self.source, self.target)
        return Languages(options.source_language or source, options.target_language or target)

    def among(self, options: LanguageOptions, directions: Collection[str]) -> bool:
        """Whether the direction of a request is one of these, as "de-en", or "-en" for all sources; yes if empty."""
        source, target = options.source_language or self.source, options.target_language or self.target
        return not directions or f"{source}-{target}" in directions or f"-{target}" in directions

    def check_named(self, direction: Direction, pieces: Callable[[int], str]) -> None:
        """Raise OptionError where the tag of the target is missing; tags >>fra<< and <2fr> a text may have itself."""
        named = self.source_tag != "target" or direction.languages.target
        if not named and not any(map(tag_code, map(pieces, self.tokens.values()))):
            raise OptionError(f"target_language is missing; the model needs one of {self._all}.")

    def of_text(self, options: LanguageOptions, line: str = "") -> Direction:
        """As `direction`, of a text with this first line; raises OptionError also where neither has a tag it needs."""
        direction = self.direction(options)
        if not line.startswith(tuple(tag for code in self.tokens for tag in (f">>{code}<<", f"<2{code}>"))):
            self.check_named(direction, lambda _: "")
        return direction

    def named(self, name: str) -> Direction:
        """Direction by name: "de-en", or "en" for a model that needs no source language.

        Raises OptionError for any other name, and for languages that the model lacks.
        """
        if not self.tokens:
            raise OptionError(f"direction is {name!r}; leave it out, the model has one direction only.")
        cuts = [index for index, letter in enumerate(name) if letter == "-"]  # a code may have a hyphen too
        pairs = [("", name), *((name[:cut], name[cut + 1 :]) for cut in cuts)]
        matches = [pair for pair in pairs if {*pair} - {""} <= self.tokens.keys()]
        allowed = f"SOURCE-TARGET, or TARGET alone, of the languages {self._all}"
        require(bool(name and matches), "direction", name, allowed)
        return self.direction(LanguageOptions(*matches[0]))

    @property
    def _all(self) -> str:
        return ", ".join(self.tokens)
