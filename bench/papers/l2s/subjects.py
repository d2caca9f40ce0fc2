"""The models that output layers are measured on, the text for each, and what paper L2S says of its counterpart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bench.harness.testset import NoDataError
from sharpbeam.text.lines import Pair, column_pairs, read_lines

MODELS = ("models", "runs")  # where models are looked for, from the root of the project
# The widest of its kind that was trained: one layer of 1,500 for the two of the paper, with the same output layer.
INSTEAD = {"lm-ptb-large": "lm-ptb-wide"}


@dataclass(frozen=True)
class Paper:
    """A column of L2S Table 2: (speed-up, P@1, P@5) of each method, and the full softmax's milliseconds."""

    name: str
    full_ms: float | None
    rows: dict[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Subject:
    """One model: text to fit on, to choose on, and to measure on, in the folder of the text."""

    name: str
    shape: str  # of the output layer
    fit: str
    choose: str
    test: str
    columns: tuple[int, int] | None  # source and target in a file of pairs; None: plain text of a language model
    paper: Paper | None
    rank: int = 20  # of the logits outside the set when perplexity is measured (L2S section 7.3)

    def lines(self, data: str, part: str) -> Iterator[str]:
        """Source lines of the part `fit`, `choose` or `test`."""
        path = self._path(data, part)
        if self.columns is None:
            yield from read_lines(path)
        else:
            yield from (source for source, _ in column_pairs(path, *self.columns))

    def pairs(self, data: str, part: str, count: int = 0) -> list[Pair]:
        """Sources and references of a part; `count` (0 = all) are taken at equal distances."""
        assert self.columns is not None
        every = list(column_pairs(self._path(data, part), *self.columns))
        return every if not count else [every[i * len(every) // count] for i in range(min(count, len(every)))]

    def _path(self, data: str, part: str) -> Path:
        path = Path(data) / str(getattr(self, part))
        if not path.is_file():
            raise NoDataError(f"no data: {path} is not there; give the folder with --data")
        return path


def _ptb(part: str) -> str:
    return f"ptb/ptb.{part}.txt.gz"


def _tatoeba(part: str) -> str:
    return f"tatoeba/eng-deu.{part}.tsv.gz"


SUBJECTS = (
    Subject(
        "lm-ptb-small",
        "10k x 200",
        _ptb("train"),
        _ptb("valid"),
        _ptb("test"),
        None,
        Paper(
            "PTB-Small",
            0.32,
            {
                "L2S": (10.6, 0.998, 0.990),
                "spherical": (4.0, 0.988, 0.992),
                "FGD": (1.3, 0.980, 0.989),
                "SVD-softmax": (0.8, 0.987, 0.99),
                "adaptive softmax": (1.9, 0.972, 0.981),
                "Greedy-MIPS": (0.5, 0.998, 0.972),
                "PCA tree": (0.14, 0.322, 0.341),
                "LSH": (1.3, 0.165, 0.33),
            },
        ),
    ),
    Subject(
        "lm-ptb-large",
        "10k x 1500",
        _ptb("train"),
        _ptb("valid"),
        _ptb("test"),
        None,
        Paper(
            "PTB-Large",
            4.32,
            {
                "L2S": (45.3, 0.996, 0.982),
                "spherical": (6.9, 0.992, 0.971),
                "FGD": (6.9, 0.975, 0.979),
                "SVD-softmax": (2.3, 0.988, 0.981),
                "adaptive softmax": (4.2, 0.974, 0.937),
                "Greedy-MIPS": (1.8, 0.945, 0.903),
                "PCA tree": (0.5, 0.361, 0.326),
                "LSH": (2.2, 0.353, 0.31),
            },
        ),
        rank=200,
    ),
    Subject(
        "en-de-lstm",
        "25k x 500",
        _tatoeba("train"),
        _tatoeba("valid"),
        _tatoeba("test"),
        (0, 1),
        Paper(
            "NMT: DE-EN",
            4.83,
            {
                "L2S": (20.4, 0.989, 0.993),
                "spherical": (13.8, 0.991, 0.993),
                "FGD": (6.7, 0.987, 0.981),
                "SVD-softmax": (3.4, 0.98, 0.985),
                "adaptive softmax": (3.2, 0.982, 0.984),
                "Greedy-MIPS": (2.6, 0.911, 0.887),
                "PCA tree": (1.3, 0.379, 0.320),
                "LSH": (1.6, 0.131, 0.137),
            },
        ),
    ),
    Subject(
        "lm-enwiki",
        "80k x 400",
        "enwiki/train.txt.gz",
        "enwiki/valid.txt.gz",
        "enwiki/test.txt.gz",
        None,
        Paper("WikiText-103", None, {"L2S": (15.0, 0.99, 0.99)}),  # figure 9: more than 15x "without losing much"
    ),
    Subject(
        "de-en",
        "16k x 320",
        _tatoeba("train"),
        _tatoeba("valid"),
        _tatoeba("test"),
        (1, 0),
        None,
    ),
)


def find_folder(subject: Subject, roots: Sequence[str]) -> Path | None:
    """The subject's model folder, NAME or NAME/best, below the first of `roots` that has it."""
    return find_named(subject.name, roots)


def find_named(name: str, roots: Sequence[str]) -> Path | None:
    """The model folder NAME or NAME/best, below the first of `roots` that has it."""
    for root in roots:
        for folder in (Path(root) / name, Path(root) / name / "best"):
            if (folder / "config.json").is_file():
                return folder
    return None


def named(name: str, roots: Sequence[str]) -> tuple[Subject, Path]:
    """The subject of a name and its model folder; NoDataError without one."""
    subject = next((one for one in SUBJECTS if one.name == name), None)
    if subject is None:
        raise NoDataError(f"no subject {name} of L2S")
    return subject, folder_of(name, roots)


def folder_of(name: str, roots: Sequence[str]) -> Path:
    """The model folder of a name; NoDataError without one."""
    folder = find_named(name, roots)
    if folder is None:
        raise NoDataError(f"no model {name} below {', '.join(roots)}")
    return folder


def present(subject: Subject, roots: Sequence[str]) -> Subject:
    """The subject; where its model is not there and another is that stands in for it, the same with that one's name."""
    other = replace(subject, name=INSTEAD.get(subject.name, subject.name))
    return subject if find_folder(subject, roots) or not find_folder(other, roots) else other


def note(subject: Subject) -> str:
    """A remark where a model stands in for another one; empty elsewhere."""
    names = [name for name, other in INSTEAD.items() if other == subject.name]
    return f"{subject.name} in the place of {names[0]}, next to the paper's figures of that; " if names else ""


def head(lines: Iterator[str], count: int) -> list[str]:
    """The first `count` lines."""
    return list(islice(lines, count))
