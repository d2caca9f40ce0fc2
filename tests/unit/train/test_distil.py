"""Distillation on the bundled model and the demo's sentences: the whole way, a kill after each stage, bad input."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from support.foreign import demo_sentences  # noqa: E402

from sharpbeam import Translator  # noqa: E402
from sharpbeam.errors import InputError, OptionError, OutputError  # noqa: E402
from sharpbeam.options.decode import LanguageOptions, MachineOptions  # noqa: E402
from sharpbeam.text.words import WordVocabulary  # noqa: E402
from sharpbeam.train import distil  # noqa: E402
from sharpbeam.train.distil import Distillation  # noqa: E402
from sharpbeam.train.recipe import read_recipe  # noqa: E402

RECIPE = """
name = "small"
[data]
train = ["not used"]
valid = ["not used"]
[vocabulary]
size = 300
[model]
embedding_dim = 16
encoder_dim = 12
decoder_dim = 16
attention_dim = 12
hidden_dim = 16
shared_embedding = true
tied_output = true
[train]
precision = "float32"
threads = 1
max_steps = 6
batch_tokens = 200
validate_every = 3
checkpoint_every = 3
"""
STAGES = ("sentences.txt", "answers.jsonl.gz", "train.tsv", "small/checkpoint.safetensors", "report.json")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the text, twice over and as the first of two columns, and a recipe."""
    monkeypatch.setattr(distil, "LEAST", 80)
    lines = demo_sentences()
    (tmp_path / "text").write_text("".join(f"{line}\tnot this\n" for line in [*lines, *lines, "zu kurz"[3:]]))
    (tmp_path / "out").write_text(" ".join(lines[:4]))  # as a paragraph
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def job(place: Path, folder: str, **options) -> Distillation:
    languages = LanguageOptions(source_language="de", target_language="en")
    options = {"leave_out": [place / "out"], "languages": languages, "machine": MachineOptions(threads=1)} | options
    return Distillation("de-en", place / folder, [place / "text"], **options)


def files(place: Path, folder: str) -> dict[str, bytes]:
    """The files of the stages, without figures of time."""
    names = ("sentences.txt", "train.tsv", "valid.tsv", "test.tsv", "small/source.spm", "small/best/model.safetensors")
    found = {name: (place / folder / name).read_bytes() for name in names}
    return found | {"answers": gzip.decompress((place / folder / "answers.jsonl.gz").read_bytes())}


def test_the_whole_way_and_a_kill_after_each_stage(place, monkeypatch):
    lines = job(place, "whole").run(place / "recipe.toml")
    whole = files(place, "whole")
    sentences = whole["sentences.txt"].decode().splitlines()
    expected = {one for one in demo_sentences()[4:] if len(one.split()) > 1}
    assert len(sentences) == len({*sentences}) and {*sentences} == expected
    pairs = [
        line.split("\t") for name in ("train", "valid", "test") for line in whole[f"{name}.tsv"].decode().splitlines()
    ]
    answers = {a["source"]: a["hypotheses"][0]["text"] for a in map(json.loads, whole["answers"].decode().splitlines())}
    assert all(answers[source] == translation for source, translation in pairs)
    assert 80 <= len(pairs) <= len(answers) and len({source for source, _ in pairs}) == len(pairs)
    report = json.loads((place / "whole/report.json").read_text())
    assert report["teacher"]["bleu"] == pytest.approx(100) and report["small"]["bleu"] < 90
    assert [line.split()[0] for line in lines[-3:]] == ["model", "teacher", "small"]
    assert Translator(place / "whole/small/best").translate(["Guten Morgen."])[0].text is not None

    class KilledError(Exception):
        pass

    def killed(*_, **__):
        raise KilledError

    ends = ("translate_file", "Distillation._keep_pairs", "Distillation._train", "Distillation._report")
    for stage, end in enumerate(ends):
        with monkeypatch.context() as context:
            context.setattr(f"sharpbeam.train.distil.{end}", killed)
            with pytest.raises(KilledError):
                job(place, "parts").run(place / "recipe.toml")
        assert [(place / "parts" / name).exists() for name in STAGES] == [i <= stage for i in range(len(STAGES))]
    job(place, "parts").run(place / "recipe.toml")
    assert files(place, "parts") == whole


def test_a_second_student_has_the_teachers_vocabulary_and_stands_in_the_same_report(place):
    test = place / "test.tsv"
    test.write_text("".join(f"{line}\tGood morning.\n" for line in demo_sentences()[10:14]))
    job(place, "run", test=test).run(place / "recipe.toml")
    assert not {*demo_sentences()[10:14]} & {*(place / "run/sentences.txt").read_text().splitlines()}
    (place / "second.toml").write_text(RECIPE.replace("small", "second").replace("dim = 16", "dim = 8"))
    before = (place / "run/answers.jsonl.gz").stat().st_mtime_ns
    lines = job(place, "run", test=test).run(place / "second.toml", teacher_vocabulary=True)
    assert (place / "run/answers.jsonl.gz").stat().st_mtime_ns == before
    assert {"teacher", "small", "second"} == {*json.loads((place / "run/report.json").read_text())}
    assert len(lines) >= 4 and json.loads((place / "run/report.json").read_text())["second"]["sentences"] == 4
    teacher, student = (Translator(name).loaded.source for name in ("de-en", place / "run/second/best"))
    assert teacher.serialized == student.serialized


@pytest.mark.parametrize("shared", [True, False])
def test_a_student_has_a_vocabulary_of_the_kind_and_sizes_of_its_teacher(place, monkeypatch, shared):
    plans = []
    monkeypatch.setattr(distil, "train_model", lambda plan, *_: plans.append(plan) or [])
    source = WordVocabulary.build(["a b c d e f"], 50, 1)
    target = source if shared else WordVocabulary.build(["a b c d e f g"], 50, 1)
    teacher = SimpleNamespace(loaded=SimpleNamespace(source=source, target=target, folder=place))
    job(place, "run")._train(read_recipe(place / "recipe.toml"), place, teacher, None)
    sizes = {"size": len(source), "target_size": 0 if shared else len(source) + 1}
    assert dataclasses.asdict(plans[0].vocabulary).items() >= {"kind": "words", "shared": shared, **sizes}.items()


def test_sentences_that_differ_in_case_and_signs_only_are_one(place):
    lines = [f"Das Haus {number} ist alt." for number in range(80)]
    odd = ["\u201eJa\u201c,  das IST es!", "Ja: das ist es", "Er sagt\u2019s.", "Caf\xe9 oder Tee?", "Tee oder Cafe?"]
    (place / "text").write_text("\n".join([*lines, *odd]))
    (place / "test").write_text("er sagt's\tx\nCafe\u0301 oder Tee\tx\nDas Haus 3 ist alt\tx\n")
    job(place, "", leave_out=(), test=place / "test")._draw(place / "drawn")
    assert {*(place / "drawn").read_text().splitlines()} == {*lines, odd[1], odd[4]} - {lines[3]}


def test_a_pair_with_a_flag_or_an_odd_length_or_score_is_dropped(place):
    def record(source, text, score):
        return json.dumps({"source": source, "hypotheses": [{"text": text, "token_scores": [score, score]}]})

    good = [record(f"Das Haus {i} ist alt.", f"The house {i} is old.", -0.5 - i / 1000) for i in range(101)]
    bad = [
        record("Es sind 17 Leute da.", "There are people there.", -0.1),
        record("Das ist gut.", "That is a really very long answer to it.", -0.1),
        record("Neues Haus", "New House (in German)", -0.1),
        record("Das Auto ist neu.", "The car is\tnew.", -2.5),  # the lowest score, of 102
    ]
    (place / "answers").write_text("\n".join([*good, *bad]) + "\n")
    made = job(place, "")
    made._keep_pairs(place / "answers")
    kept = [line for name in ("test", "valid", "train") for line in (place / f"{name}.tsv").read_text().splitlines()]
    assert kept == [f"Das Haus {i} ist alt.\tThe house {i} is old." for i in range(101)]
    assert len((place / "test.tsv").read_text().splitlines()) == 10


def test_bad_input_is_refused_before_any_work(place, make_transformer):
    def refused(error, message, recipe="recipe.toml", **options):
        with pytest.raises(error, match=message):
            job(place, "new", **options).run(place / recipe)
        assert not (place / "new/sentences.txt").exists()

    for name in ("teacher", "", "../evil", "train.tsv"):
        (place / "new").mkdir(exist_ok=True)
        (place / "new/train.tsv").touch()
        (place / "named.toml").write_text(
            (place / "recipe.toml").read_text().replace('name = "', f'name = "{name}" #', 1)
        )
        refused(OptionError, "name is .*it must be a name for a folder", "named.toml")
        (place / "new/train.tsv").unlink()
    text = place / "text"
    whole = text.read_text()
    teacher = str(make_transformer(source_tag="target", languages={"aa": 5, "bb": 6}))
    several = dataclasses.replace(job(place, "new"), teacher=teacher)
    with pytest.raises(OptionError, match=r"source_language is 'de'; it must be one of aa, bb"):
        several.run(place / "recipe.toml")
    with pytest.raises(OptionError, match=r"names no target|target_language"):
        dataclasses.replace(several, languages=LanguageOptions()).run(place / "recipe.toml")
    (place / "lines").write_text("Nur eine Spalte.\n")
    with pytest.raises(OutputError, match=r"lines is no folder; give another --output"):
        job(place, "lines").run(place / "recipe.toml")
    refused(InputError, "lines, line 1: columns 0 to 1 are needed", test=place / "lines")
    text.unlink()
    refused(InputError, "cannot read .*text")
    text.write_text("Ein kurzer Text.\n")
    refused(InputError, r"only 1 sentences of 2 to 60 words .* at least 80 are needed. Give more --text")
    text.write_text(whole)
    refused(OptionError, "of another run: the text is another; give another --output")
    (place / "many.toml").write_text(RECIPE.replace("[vocabulary]", 'languages = ["de-en"]\n[vocabulary]'))
    refused(OptionError, "data.languages is .* empty in the recipe of a student", "many.toml")
