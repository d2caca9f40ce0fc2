"""One screen for each direction of a multilingual model, against one for each target and one for all (CVP section 2.2).

`python -m bench papers.cvp.directions MODEL` takes any multilingual model folder that knows English and German, French
or Spanish. Tatoeba's train sets, both ways, are decoded with their languages; of these vectors, as many of each
direction, the screens of each scope are made: the paper's (k-means, the union of the best K tokens, nothing from all
tokens), and ours with a fallback test (`fit screen --fidelity`). On the test sets: the share of the vocabulary that is
scored, P@1 and P@5 of the screen alone, rows from all tokens, BLEU, and translations that are those of the exact layer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Sentences
from bench.harness import record
from bench.harness.cache import COLLECTING, stamp
from bench.harness.testset import DATA, NoDataError
from bench.harness.vectors import KEPT, K
from sharpbeam import Translator
from sharpbeam.decoding.languages import Direction, LanguageTags
from sharpbeam.fit.collect import Collection, Collector, OutputMatrix, Steps
from sharpbeam.fit.screen.fidelity import View
from sharpbeam.fit.screen.job import unit_of
from sharpbeam.fit.screen.search import find_screen
from sharpbeam.options.fit import ScreenOptions
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import Screens
from sharpbeam.report.quality import quality
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.text.lines import Pair, column_pairs
from sharpbeam.types import Per

ENGLISH = ("en", "eng_Latn", "eng")  # its codes in M2M100, in NLLB, in OPUS-MT
OTHERS = {"deu": ("de", "deu_Latn", "deu"), "fra": ("fr", "fra_Latn", "fra"), "spa": ("es", "spa_Latn", "spa")}
SCOPES: tuple[Per, ...] = ("direction", "target", "all")
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Text:
    """The sentence pairs of one direction."""

    name: str  # "de-en"
    direction: Direction
    data: Path
    file: str  # of Tatoeba: "eng-deu"
    columns: tuple[int, int]

    def pairs(self, part: str) -> Iterator[Pair]:
        return column_pairs(self.data / f"{self.file}.{part}.tsv.gz", *self.columns)

    def sources(self, left_out: set[str]) -> Iterator[str]:
        """Those of the train set whose English side is not among `left_out`: other languages are tested on it."""
        english = self.columns.index(0)
        return (pair[0] for pair in self.pairs("train") if pair[english] not in left_out)


def find_texts(language_tags: LanguageTags, data: str) -> list[Text]:
    """Both directions of each set whose languages the model knows; NoDataError where there are none."""
    english = next((code for code in ENGLISH if code in language_tags.tokens), None)
    texts = []
    for own, codes in OTHERS.items():
        other, path = next((c for c in codes if c in language_tags.tokens), None), Path(data) / "tatoeba"
        if english and other and (path / f"eng-{own}.test.tsv.gz").is_file():
            for name, columns in ((f"{other}-{english}", (1, 0)), (f"{english}-{other}", (0, 1))):
                texts.append(Text(name, language_tags.named(name), path, f"eng-{own}", columns))
    if not texts:
        raise NoDataError(f"no sets of {data}/tatoeba are in languages of the model: {', '.join(language_tags.tokens)}")
    return texts


class Bench:
    """A model, its hidden vectors in each direction, and what the exact layer says."""

    def __init__(self, model: str, data: str, vectors: int, sentences: int, beam_size: int) -> None:
        self.translator, self.beam_size = Translator(model), beam_size
        parts = self.translator.loaded
        self.texts, self.output = find_texts(parts.language_tags, data), OutputMatrix(*parts.model.output())
        self.tests = {t.name: list(islice(t.pairs("test"), sentences or None)) for t in self.texts}
        english = {pair[t.columns.index(0)] for t in self.texts for pair in self.tests[t.name]}
        files = [t.data / f"{t.file}.{part}.tsv.gz" for t in self.texts for part in ("train", "test")]
        digest = stamp(self.translator.loaded.folder, *files, code=(*COLLECTING, "bench/papers/cvp/directions.py"))
        self._parts = replace(parts, exact=ScanLayer.build(*parts.model.output()))  # the top k, sooner
        self._kept = KEPT / f"directions-{digest}-{beam_size}-{sentences}"
        self.fit = {t.direction.languages: self._collect(t, "train", t.sources(english), vectors) for t in self.texts}
        self.test = {
            t.name: self._collect(t, "test", (source for source, _ in self.tests[t.name]), 2**31) for t in self.texts
        }
        self.exact = {t.name: self.translate(self.translator, t, "exact") for t in self.texts}

    def _collect(self, text: Text, part: str, lines: Iterator[str], vectors: int) -> Collection:
        top_k = max(K, 2 * self.beam_size)
        collector = Collector(
            self._parts, self._kept / part / text.name, self.beam_size, top_k, direction=text.direction
        )
        return collector.collect(lines, {"vectors": vectors}, vectors, lambda _: None)

    def translate(self, translator: Translator, text: Text, output_layer: str) -> list[str]:
        languages = text.direction.languages
        options: dict[str, Any] = {"beam_size": self.beam_size, "output_layer": output_layer}
        options |= {"source_language": languages.source, "target_language": languages.target}
        return [t.text for t in translator.translate([source for source, _ in self.tests[text.name]], **options)]

    def screens(self, per: Per, options: ScreenOptions) -> Screens:
        """Fitted to the vectors of all directions that share a screen."""
        unit, groups = unit_of(list(self.fit), per, True), dict[str, list[Collection]]()
        for languages, collection in self.fit.items():
            groups.setdefault(languages.scope(unit), []).append(collection)
        eos, collections = self.translator.loaded.model.eos_id, {s: Collection.of(g) for s, g in groups.items()}
        return Screens(unit, {s: find_screen(c, self.output, eos, options).screen for s, c in collections.items()})

    def measure(self, screens: Screens, options: ScreenOptions) -> list[dict[str, Any]]:
        """Results of `screens` in each direction, on the test set."""
        rows = []
        with tempfile.TemporaryDirectory() as work:
            translator = Translator(self._copy(Path(work) / "model", screens))
            for text in self.texts:
                rows.append({"direction": text.name, **self._alone(screens, options, text)})
                texts = self.translate(translator, text, "screen")
                references = [reference for _, reference in self.tests[text.name]]
                same = sum(a == b for a, b in zip(texts, self.exact[text.name], strict=True))
                rows[-1] |= {
                    "bleu": round(quality(texts, references).bleu, 2),
                    "bleu_exact": round(quality(self.exact[text.name], references).bleu, 2),
                    "same": round(same / len(texts), 4),
                }
        return rows

    def _alone(self, screens: Screens, options: ScreenOptions, text: Text) -> dict[str, Any]:
        """Figures of the sets and of the test, without a search."""
        screen, vocab = screens.by_scope[text.direction.languages.scope(screens.per)], len(self.output.bias)
        steps = Steps.of(self.test[text.name].read(), self.output)
        paper, own = (
            View(screen, self.output, steps, replace(options, top_k=k)).measure(CONFIDENCE) for k in (K, options.top_k)
        )
        return {
            "active": round(paper.average_set / vocab, 5),
            "most_active": round(int(np.diff(screen.start).max()) / vocab, 5),
            "p_at_1": round(paper.precision_1, 4),
            f"p_at_{K}": round(paper.precision_k, 4),
            "fallback": round(own.fallback, 4),
            "fidelity": round(own.fidelity, 5),
            "rows": own.rows,
        }

    def _copy(self, place: Path, screens: Screens) -> Path:
        """The model with `screens`, its other files as links."""
        place.mkdir()
        for path in self.translator.loaded.folder.resolve().iterdir():
            if not path.name.startswith("screen."):
                (place / path.name).symlink_to(path)
        facts = {scope: {"method": "benchmark"} for scope in screens.by_scope}
        artifacts = FolderArtifacts(place, self.output.weight, self.output.bias)
        artifacts.save("screen", screens, facts[""] if screens.per == "all" else {"screens": facts})
        return place


def kinds(clusters: int, best: Sequence[int], fidelity: float, beam_size: int) -> dict[str, ScreenOptions]:
    """The screens that are fitted, by name."""
    options = ScreenOptions(method="kmeans", clusters=clusters, fidelity=0.0, top_k=K, beam_size=beam_size)
    screens = {f"best {k}": replace(options, set_k=k, neighbors=False) for k in best}
    return screens | (
        {f"fidelity {fidelity}": replace(options, fidelity=fidelity, top_k=2 * beam_size)} if fidelity else {}
    )


def table(name: str, scope: Per, rows: Sequence[dict[str, Any]]) -> str:
    """The directions of one kind and scope, and their mean."""
    return _lined(f"{name}, per {scope}", [(row["direction"], row) for row in (*rows, mean(rows))])


def comparison(name: str, by_scope: Mapping[Per, Sequence[dict[str, Any]]]) -> str:
    """The scopes of one kind side by side: what CVP section 2.2 claims of screens per direction."""
    count = len(next(iter(by_scope.values())))
    return _lined(
        f"{name}, mean of {count} directions", [(f"per {scope}", mean(rows)) for scope, rows in by_scope.items()]
    )


def mean(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of the figures of all directions; each counts the same."""
    numbers = [key for key in rows[0] if key not in ("direction", "rows")]
    return {"direction": "mean"} | {key: float(np.mean([row[key] for row in rows])) for key in numbers}


def _lined(head: str, rows: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """A head line of the figures' names, and a line for each row."""
    numbers = [key for key in rows[-1][1] if key != "direction"]
    lines = [f"{head:<36}" + "".join(f"{key:>12}" for key in numbers)]
    lines += [f"  {name:<34}" + "".join(f"{row[key]:>12.4f}" for key in numbers) for name, row in rows]
    return "\n".join(lines)


def main(
    model: Annotated[str, typer.Argument(help="a folder of a multilingual model")],
    data: Data = DATA,
    clusters: Annotated[int, typer.Option(help="of each screen (paper: 400)")] = 400,
    best: Annotated[list[int], typer.Option(help="K of the paper's sets; none: without them")] = [1, K],
    fidelity: Annotated[float, typer.Option(help="of the screens with a test; 0 = without them")] = 0.999,
    vectors: Annotated[int, typer.Option(help="of each direction to fit on, at least")] = 300_000,
    sentences: Sentences = 0,
    beam_size: int = 5,
) -> None:
    """Measure, print and record."""
    bench = Bench(model, data, vectors, sentences, beam_size)
    for name, options in kinds(clusters, best, fidelity, beam_size).items():
        whole: dict[Per, list[dict[str, Any]]] = {}
        for scope in SCOPES:
            rows = whole[scope] = bench.measure(bench.screens(scope, options), options)
            print(table(name, scope, rows), flush=True)
            folder = bench.translator.loaded.folder
            facts = {
                "model": f"{folder.parent.name}/{folder.name}",
                "scope": scope,
                "kind": name,
                "vectors": vectors,
                "sentences": sentences,
            }
            record.write("directions", {"directions": rows}, threads=1, options=facts | asdict(options))
        print(comparison(name, whole), flush=True)
