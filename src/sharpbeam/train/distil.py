"""Distillation: a student is trained on the answers of a teacher to sentences (sequence level; Kim & Rush 2016).

Each stage leaves files in the folder, and is left out if they are there: `sentences.txt`; the teacher's
`answers.jsonl.gz`; the pairs that are kept of these, `train.tsv`, `valid.tsv` and `test.tsv`; a folder of each student.
At the end teacher and student translate the test, which gives `report.json` and, with matplotlib, `report.png`.
"""

from __future__ import annotations

import json
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sharpbeam.api.translator import Translator
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.progress import Listener
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.jobs.translate_file import count_lines, translate_file
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.options.train import DataOptions, Recipe
from sharpbeam.report.quality import evaluate, load_metrics
from sharpbeam.storage.atomic import check_folder, replacing_file, write_text
from sharpbeam.storage.model_folder import WEIGHTS
from sharpbeam.text.flags import text_flags
from sharpbeam.text.lines import check_readable, column_pairs, file_digest, read_lines
from sharpbeam.text.sentences import split_sentences
from sharpbeam.text.spans import find_spans
from sharpbeam.text.words import WordVocabulary
from sharpbeam.train.loop import train_model
from sharpbeam.train.recipe import differences, read_recipe
from sharpbeam.train.report import say
from sharpbeam.train.vocabularies import check_special_ids

WORDS, LETTERS = range(2, 61), 400  # of a sentence
RATIO = (0.5, 2.2)  # of the letters of an answer and its source
LEAST = 100  # sentences, and pairs
HELD_OUT, SEED = 700, 5  # pairs of valid.tsv, and of test.tsv; of few pairs a tenth


@dataclass(frozen=True)
class Distillation:
    """The text that a teacher translates, and the folder of all that comes of it."""

    teacher: str
    folder: Path
    texts: Sequence[Path]  # paragraphs, or tab-separated lines whose first column counts
    leave_out: Sequence[Path] = ()  # files whose lines, or first columns, nothing is learned from
    test: Path | None = None  # sources, tab, references, which are left out too; None: held-out answers
    languages: LanguageOptions = LanguageOptions()  # noqa: RUF009 (frozen)
    machine: MachineOptions = MachineOptions()  # noqa: RUF009 (frozen)

    def run(self, recipe: Path, teacher_vocabulary: bool = False, progress: Listener | None = None) -> list[str]:
        """Run the stages that are not done yet; returns lines that say how the fits went, and the table of figures.

        With `teacher_vocabulary` the student has the teacher's, else one that is trained as the `recipe` says.

        Raises InputError for text that cannot be read or is too short, and OptionError for languages that the teacher
        lacks, for a recipe that does not fit, and for the folder of another distillation.
        """
        check_readable([*self.texts, *self._left_out])
        plan = read_recipe(recipe)
        require(not plan.data.languages, "data.languages", plan.data.languages, "empty in the recipe of a student")
        taken = {"teacher", *(path.name for path in self.folder.glob("*") if not path.is_dir())}
        allowed = re.fullmatch(r"\w[\w.+-]*", plan.name) and plan.name not in taken
        require(bool(allowed), "name", plan.name, "a name for a folder (letters, digits, . + - _) that is not taken")
        load_metrics()  # before hours of work, as the next lines
        for _ in column_pairs(self.test, 0, 1) if self.test else ():
            pass
        teacher = Translator(self.teacher, machine=self.machine)
        if teacher_vocabulary:
            check_special_ids(teacher.loaded.folder, "the teacher", "Leave out --teacher-vocabulary.")
        codes: Any = asdict(self.languages) if teacher.loaded.language_tags.tokens else {}
        how = {"format": "jsonl", "raw": True, "resume": True, **codes}
        teacher.loaded.direction(LanguageOptions(**codes))  # raises OptionError
        self._begin(teacher)
        sentences, answers = self.folder / "sentences.txt", self.folder / "answers.jsonl.gz"
        if not sentences.exists():
            self._draw(sentences)
        if not answers.exists():
            with progress_bar("the teacher translates", lambda: count_lines([sentences])) as bar:
                translate_file(teacher, sentences, answers, progress=bar, **how)
        if not (self.folder / "train.tsv").exists():
            self._keep_pairs(answers)
        lines = self._train(plan, recipe.parent, teacher if teacher_vocabulary else None, progress)
        student = Translator(self.folder / plan.name / "best", machine=self.machine)
        return [*lines, *self._report({"teacher": (teacher, codes), plan.name: (student, {})})]

    @property
    def _left_out(self) -> list[Path]:
        return [*self.leave_out, *([self.test] if self.test else [])]

    def _begin(self, teacher: Translator) -> None:
        """Make the folder, or raise OptionError if it is one of another distillation."""
        texts = {"the text": self.texts, "the text to leave out": self._left_out}
        settings: dict[str, Any] = {name: [file_digest(path) for path in paths] for name, paths in texts.items()}
        settings |= {"the teacher": file_digest(teacher.loaded.folder / WEIGHTS), **asdict(self.languages)}
        path = self.folder / "distillation.json"
        if not path.exists():
            check_folder(self.folder, "the student", "another --output folder")
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(path, json.dumps(settings, indent=1) + "\n")
        elif changed := differences(json.loads(path.read_text(encoding="utf-8")), settings):
            raise OptionError(f"{path} is of another run: {'; '.join(changed)}; give another --output folder.")

    def _draw(self, path: Path) -> None:
        """Write each sentence of the texts once, in random order."""
        left = {_key(one) for path in self._left_out for one in self._sentences(path)}
        sentences = (one for path in self.texts for one in self._sentences(path))
        chosen = {_key(one): one for one in sentences if len(one.split()) in WORDS and len(one) <= LETTERS}
        drawn = [one for key, one in chosen.items() if key not in left]
        _require_enough(drawn, f"sentences of {WORDS[0]} to {WORDS[-1]} words are in the text")
        random.Random(SEED).shuffle(drawn)
        write_text(path, "".join(f"{one}\n" for one in drawn))

    def _sentences(self, path: Path) -> Iterator[str]:
        """Those of the first column of each line."""
        for line in (line.split("\t")[0].strip() for line in read_lines(path)):
            for start, end in split_sentences(line, self.languages.source_language):
                yield line[start:end]

    def _keep_pairs(self, answers: Path) -> None:
        """Write the pairs without a flag, of sound lengths and brackets, except the 1% of the lowest token scores."""
        sound, dropped = list[tuple[float, str]](), Counter[str]()
        for line in read_lines(answers):
            record = json.loads(line)
            source, best = record["source"], record["hypotheses"][0]
            answer, scores = " ".join(best["text"].split()), best["token_scores"]
            flags: list[str] = [*text_flags(source, answer, find_spans(source), self.languages.target_language)]
            flags += [] if RATIO[0] < len(answer) / len(source) < RATIO[1] else ["length"]
            flags += ["brackets"] if answer.count("(") > source.count("(") else []  # made up: "(em inglês)"
            dropped.update(flags[:1])
            sound += [] if flags else [(sum(scores) / len(scores), f"{source}\t{answer}\n")]
        least = sorted(score for score, _ in sound)[len(sound) // 100 :][:1]
        kept = [pair for score, pair in sound if [score] >= least]
        say(f"{len(kept)} pairs are kept; dropped: {dict(dropped) | {'score': len(sound) - len(kept)}}")
        _require_enough(kept, "pairs are sound")
        held = min(HELD_OUT, len(kept) // 10)
        for name, part in (("test", kept[:held]), ("valid", kept[held : 2 * held]), ("train", kept[2 * held :])):
            write_text(self.folder / f"{name}.tsv", "".join(part))

    def _train(self, plan: Recipe, base: Path, teacher: Translator | None, progress: Listener | None) -> list[str]:
        """Train the student, with the vocabulary of a `teacher`; returns the lines of its fits."""
        run, vocabulary = self.folder / plan.name, plan.vocabulary
        train, valid = ((str((self.folder / f"{name}.tsv").absolute()),) for name in ("train", "valid"))
        if teacher is not None:
            source, target = teacher.loaded.source, teacher.loaded.target
            own: Any = {"kind": "words" if isinstance(source, WordVocabulary) else "pieces", "size": len(source)}
            own |= {"shared": source is target, "target_size": 0 if source is target else len(target)}
            vocabulary = replace(vocabulary, **own)
        data = DataOptions(train, valid, max_length=plan.data.max_length)
        folder = None if teacher is None else teacher.loaded.folder
        return train_model(replace(plan, data=data, vocabulary=vocabulary), base, run, progress, folder)

    def _report(self, models: dict[str, tuple[Translator, dict[str, Any]]]) -> list[str]:
        """Measure the models, add them to those of report.json, and draw it; returns the table of all, line by line."""
        path, test = self.folder / "report.json", list(column_pairs(self.test or self.folder / "test.tsv", 0, 1))
        report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        for name, (translator, languages) in models.items():
            figures = evaluate(translator, [one for one, _ in test], [other for _, other in test], **languages).record()
            milliseconds = 1000 * figures["seconds"] / figures["sentences"]
            report[name] = figures | {
                "milliseconds_per_sentence": round(milliseconds, 3),
                "bytes": (translator.loaded.folder / WEIGHTS).stat().st_size,
            }
        write_text(path, json.dumps(report, indent=1) + "\n")
        _draw_report(report, self.folder / "report.png")
        lines = [f"{'model':<20} {'BLEU':>6} {'chrF':>6} {'ms/sentence':>12} {'MiB':>7}"]
        for name, one in report.items():
            size, milliseconds = one["bytes"] / 2**20, one["milliseconds_per_sentence"]
            lines.append(f"{name:<20} {one['bleu']:>6.1f} {one['chrf']:>6.1f} {milliseconds:>12.2f} {size:>7.1f}")
        return lines


def _key(sentence: str) -> str:
    """The letters with marks and the digits of a sentence, equal where only case, signs and spaces differ."""
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    return "".join(sign for sign in folded if unicodedata.category(sign)[0] in "LMN")


def _require_enough(items: Sequence[str], what: str) -> None:
    if len(items) < LEAST:
        raise InputError(f"only {len(items)} {what}; at least {LEAST} are needed. Give more --text.")


def _draw_report(report: dict[str, Any], path: Path) -> None:
    """A picture of quality against time, if matplotlib is there."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return
    figure = Figure()
    axes = figure.subplots()
    for name, one in report.items():
        axes.scatter(one["milliseconds_per_sentence"], one["bleu"])
        axes.annotate(name, (one["milliseconds_per_sentence"], one["bleu"]))
    axes.set(xlabel="milliseconds a sentence", ylabel="BLEU", xscale="log")
    with replacing_file(path) as temporary:
        figure.savefig(temporary, format="png")
