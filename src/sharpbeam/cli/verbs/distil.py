"""`sharpbeam distil`: a teacher and text in, a smaller model of the same translations out."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path

from sharpbeam.cli.command import verb
from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import argument
from sharpbeam.errors import needs_extra
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.options.schema import option


@verb()
def distil(
    teacher: str = argument("The model to learn from: a folder, or a name such as firefox:en-pt."),
    *,
    text: list[Path] = option(MISSING, "Text in the source language; of tab-separated lines the first column."),
    student: Path = option(MISSING, "A recipe (TOML); of its table data only max_length counts.", metavar="RECIPE"),
    output: Path = option(MISSING, "Folder of all stages; further students share it.", short="-o", metavar="FOLDER"),
    leave_out: list[Path] = option((), "Text whose lines are not learned from. May be repeated."),
    test: Path | None = option(None, "Sources, tab, references, to measure on. Default: held-out answers of TEACHER."),
    teacher_vocabulary: bool = option(False, "Take the vocabulary of TEACHER, instead of the recipe's."),
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    """Train a student on the translations of a teacher.

    Draws sentences from the text, translates them with the teacher, keeps sound pairs, trains the student (as `train`
    does) and measures both. A run that was stopped resumes when the same command is given again.

    OUTPUT/NAME/best is the student, by the name in its recipe; OUTPUT/report.json has the figures of all students.
    Languages choose the direction of a teacher that has several, and help to split and to check text.

    Examples:

    * `sharpbeam distil firefox:en-pt --text news.en.gz --student recipes/en-pt-tiny.toml --output runs/en-pt`
    """
    with needs_extra("sharpbeam distil", "train"):
        from sharpbeam.train.distil import Distillation
    job = Distillation(teacher, output, text, leave_out, test, languages, machine)
    with shown_progress() as progress:
        lines = job.run(student, teacher_vocabulary, progress)
    print("\n".join(lines))
