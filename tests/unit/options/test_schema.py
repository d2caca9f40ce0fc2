"""One schema for all options: types, bounds, choices, names."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar, Literal

import pytest

from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions, MachineOptions, SearchOptions
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.options.fit import ScreenOptions, ShortlistOptions
from sharpbeam.options.schema import Schema, build, fields_of, option, type_hints
from sharpbeam.options.server import ServerOptions
from sharpbeam.options.train import DataOptions, Recipe, TrainOptions, VocabularyOptions


@dataclass(frozen=True)
class Toy(Schema):
    table: ClassVar[str] = "toy"

    needed: int = option(MISSING, "required", ge=1)
    share: float = option(0.5, "a share", gt=0, lt=1)
    bound: int | None = option(None, "may be left out", ge=2, le=9)
    kind: Literal["true", "false", "maybe"] = option("maybe", "a choice", other_names=("sort",))
    names: tuple[str, ...] = option((), "a list")


def test_a_value_may_stand_for_one_of_another_type() -> None:
    toy = build(Toy, {"needed": 1, "share": 0.25, "kind": True, "names": ["a"]}, "toys")
    assert toy == Toy(1, 0.25, None, "true", ("a",))
    assert type(Toy(1, bound=None).bound) is type(None)
    assert type(SearchOptions(length_penalty=1).length_penalty) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"needed": 0}, "toy.needed is 0; it must be 1 or more."),
        ({"needed": 1.0}, "toy.needed is 1.0; it must be a whole number."),
        ({"needed": True}, "toy.needed is True; it must be a whole number."),
        ({"needed": 1, "share": 1.0}, "toy.share is 1.0; it must be above 0 and below 1."),
        ({"needed": 1, "share": math.nan}, "toy.share is nan; it must be above 0 and below 1."),
        ({"needed": 1, "bound": 10}, "toy.bound is 10; it must be between 2 and 9."),
        ({"needed": 1, "kind": "no"}, "toy.kind is 'no'; it must be true, false or maybe."),
        ({"needed": 1, "names": "a"}, "toy.names is 'a'; it must be a list."),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(values: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Toy(**values)
    assert str(caught.value) == message


def test_a_whole_number_beyond_all_floats_is_no_number() -> None:
    for value in (10**400, -(2**1023), 2**2000):
        with pytest.raises(OptionError, match=r"toy.share is -?[0-9.]{100,}; it must be a number"):
            Toy(needed=1, share=value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "toys: option 'needed' is missing."),
        ({"needed": 1, "shre": 0.5}, "toys: unknown option 'shre'. Did you mean 'share'?"),
        ({"needed": 1, "sort": "maybe"}, "toys: unknown option 'sort'; here it is called 'kind'."),
        ({"needed": 1, "xyzzy": 0}, "toys: unknown option 'xyzzy'. Allowed are bound, kind, names, needed, share."),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(table: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        build(Toy, table, "toys")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("num_beams", "beam_size"),
        ("max_new_tokens", "max_length"),
        ("sampling_topk", "top_k"),
    ],
)
def test_names_of_other_programs_are_translated(old: str, new: str) -> None:
    options: dict[str, Any] = {old: 1}
    with pytest.raises(OptionError, match=f"unknown option '{old}'; here it is called '{new}'"):
        DecodeOptions.of(**options)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("word_products", "precomputed_embeddings"),
        ("source_products", "precomputed_attention"),
        ("inter_threads", "threads"),
    ],
)
def test_names_of_machine_options_are_translated(old: str, new: str) -> None:
    with pytest.raises(OptionError, match=f"unknown option '{old}'; here it is called '{new}'"):
        build(MachineOptions, {old: 1}, "machine options")


def test_choices_of_other_programs_are_answered_by_ours() -> None:
    for theirs, ours in (("int8_float32", "int8"), ("default", "auto")):
        with pytest.raises(OptionError, match=f"compute_type is '{theirs}'; it must be {ours}, which takes its place"):
            MachineOptions(compute_type=theirs)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="compute_type is 7; it must be auto, float32"):
        MachineOptions(compute_type=7)  # type: ignore[arg-type]


def test_an_option_that_is_on_says_what_switching_it_off_does() -> None:
    groups = [*type_hints(DecodeOptions).values(), MachineOptions, DocumentOptions, ServerOptions, ScreenOptions]
    results = [field for group in groups for field in fields_of(group).values() if field.default is True]
    assert len(results) >= 6 and all(field.metadata["off"] for field in results)


def test_every_option_is_explained_in_at_most_twenty_words() -> None:
    groups = [*type_hints(DecodeOptions).values(), MachineOptions, DocumentOptions, ServerOptions, ScreenOptions]
    groups += [ShortlistOptions, DataOptions, VocabularyOptions, TrainOptions, Recipe]
    for group in groups:
        for name, field in fields_of(group).items():
            for text in (field.metadata["help"], field.metadata["off"]):
                assert len(text.split()) <= 20, (group.__name__, name)


@pytest.mark.parametrize(
    ("options_type", "values"),
    [
        (MachineOptions, {"isa": "plain"}),
        (MachineOptions, {"device": "torch-cpu"}),
        (SearchOptions, {"early_stopping": "exhaustive"}),
    ],
)
def test_choices_for_tests_are_taken_and_not_listed(options_type: Any, values: dict[str, str]) -> None:
    options_type(**values)
    for name, value in values.items():
        with pytest.raises(OptionError, match=f"{name} is 'x'; it must be ") as raised:
            options_type(**{name: "x"})
        assert value not in str(raised.value)


def test_every_option_has_help_and_no_other_name_is_taken_twice() -> None:
    groups = [*type_hints(DecodeOptions).values(), MachineOptions, ScreenOptions, ShortlistOptions]
    for group in groups:
        assert all(field.metadata["help"] for field in fields_of(group).values())
    names = [
        name for group in groups[:-2] for field in fields_of(group).values() for name in field.metadata["other_names"]
    ]
    assert len(names) == len(set(names))
    assert not set(names) & {name for group in groups for name in fields_of(group)}


def test_options_are_changed_by_name_and_built_once() -> None:
    base = DecodeOptions.of(beam_size=3, output_layer="scan")
    assert base.changed() is base
    changed = base.changed(max_length=30, early_stopping=True)
    assert changed == DecodeOptions.of(beam_size=3, output_layer="scan", max_length=30, early_stopping="true")
    assert changed.by_name()["beam_size"] == 3
    with pytest.raises(OptionError, match="num_hypotheses is 5; it must be between 1 and beam_size"):
        base.changed(num_hypotheses=5)
