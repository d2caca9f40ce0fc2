"""From which language into which one: the tokens that a multilingual model is told it by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sharpbeam.errors import OptionError, nearest
from sharpbeam.models.registry import Config
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import LanguageOptions
from sharpbeam.types import Languages


@dataclass(frozen=True)
class Direction:
    """The languages and the tokens of one direction."""

    languages: Languages = Languages()  # noqa: RUF009 (frozen)
    before: tuple[int, ...] = ()  # before the source text
    behind: tuple[int, ...] = ()  # behind it: eos, and what stands behind that
    prefix: tuple[int, ...] = ()  # what every translation begins with

    @property
    def text(self) -> slice:
        """Where the text stands in a source, between what is before it and behind it."""
        return slice(len(self.before), -len(self.behind) or None)


@dataclass(frozen=True)
class LanguageTags:
    """The languages of a model; those of one with a single direction are empty."""

    tokens: Mapping[str, int] = field(default_factory=dict)
    source: str = ""  # where nobody names one
    target: str = ""
    source_tag: str = "none"  # as in TransformerConfig
    target_tag: bool = False
    end: tuple[int, ...] = ()  # what a source ends in: eos, or nothing

    @classmethod
    def of(cls, config: Config) -> LanguageTags:
        """What `config` says of languages."""
        if not isinstance(config, TransformerConfig):
            return cls(end=(config.eos_id,))
        c = config
        end = (c.eos_id,) if c.source_eos else ()
        return cls(c.languages, c.source_language, c.target_language, c.source_tag, c.target_tag, end)

    def direction(self, asked: LanguageOptions) -> Direction:
        """The tokens for the languages that were asked for; raises OptionError for one that the model lacks.

        Where a source may say its target itself (>>fra<< of OPUS-MT), none needs to be named.
        """
        for name, code in vars(asked).items():
            if code and not self.tokens:
                raise OptionError(f"{name} is {code!r}; leave it out, the model has one direction only.")
            if code and code not in self.tokens:
                raise OptionError(f"{name} is {code!r}; it must be one of {self._all}.{nearest(code, self.tokens)}")
        source, target = asked.source_language or self.source, asked.target_language or self.target
        by_source = self.source_tag in ("source", "source-behind")
        for name, code, needed in (("source", source, by_source), ("target", target, self.target_tag)):
            if needed and not code:
                raise OptionError(f"{name}_language is missing; the model needs one of {self._all}.")
        said = source if by_source else target if self.source_tag == "target" else ""
        tag = (self.tokens[said],) if said else ()
        prefix = (self.tokens[target],) if self.target_tag else ()
        languages = Languages(source, target)
        if self.source_tag == "source-behind":
            return Direction(languages, (), (*self.end, *tag), prefix)
        return Direction(languages, tag, self.end, prefix)

    def again(self, languages: Languages) -> Direction:
        """The direction of a request whose languages are known."""
        return self.direction(LanguageOptions(languages.source, languages.target))

    def named(self, name: str) -> Direction:
        """The direction that is called "de-en", or "en" where nobody needs to know the source's language.

        Raises OptionError for another name, and for languages that the model lacks.
        """
        if not self.tokens:
            raise OptionError(f"direction is {name!r}; leave it out, the model has one direction only.")
        cuts = [place for place, letter in enumerate(name) if letter == "-"]  # a code may have a hyphen too
        pairs = [("", name), *((name[:cut], name[cut + 1 :]) for cut in cuts)]
        known = [pair for pair in pairs if {*pair} - {""} <= self.tokens.keys()]
        if not name or not known:
            raise OptionError(
                f"direction is {name!r}; it must be SOURCE-TARGET, or TARGET alone, of the languages {self._all}."
            )
        return self.direction(LanguageOptions(*known[0]))

    @property
    def _all(self) -> str:
        return ", ".join(self.tokens)
