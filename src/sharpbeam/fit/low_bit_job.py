"""`fit_preview`: a model folder in, and text if there is any; the low-bit preview of its output layer out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sharpbeam.decoding.languages import Direction, LanguageTags
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import OptionError
from sharpbeam.fit.low_bit import fit_low_bit, gains_of
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.collect import Collector, Records
from sharpbeam.fit.texts import texts_or_made_up
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.proven import LowBit
from sharpbeam.storage.low_bit import FILE, save_low_bit
from sharpbeam.storage.model_folder import read_config
from sharpbeam.types import Floats

VECTORS = 6000  # hidden vectors that a basis of some hundred coordinates needs, and choices among tokens
USUAL = 4_000, 40_000  # tokens of a model that `convert` fits a preview for
MEASURED = 4_500  # made-up hidden vectors, at most, of whose surest third gains are measured
MADE_UP = 400  # sentences where there is no text
BEAM, TOP_K = 5, 2


@dataclass(frozen=True)
class PreviewFit:
    """The outcome of a fit."""

    folder: Path  # the model's, which the preview was written to
    preview: LowBit
    vectors: int  # that it was fitted to
    made_up: bool  # whether their sentences were made up
    gains: Mapping[str, float]  # times that the proven layer was faster than a scan here, as `gains_of` has them

    def summary(self) -> str:
        """For people."""
        width = len(self.preview.shift)
        proven, calibrated = (
            float(chosen.mean()) / 2 / width for chosen in (self.preview.coordinates, self.preview.few_coordinates)
        )
        text = "made-up sentences" if self.made_up else "the text"
        beam = "and is for you to choose in a beam, since its normalizers are not sure enough"
        if "beam" in self.gains:
            beam = f"{self.gains['beam']:.1f} times for one of beam 5"
        return (
            f"{self.folder / FILE}: fitted to {self.vectors} hidden vectors of {text}.\n"
            f"--output-layer proven previews tokens with {proven:.1%} of the bytes of an int8 scan, "
            f"--output-layer calibrated with {calibrated:.1%}. "
            f"Normalizers are off by {self.preview.normalisers[1].error:.4f} and "
            f"{self.preview.normalisers[0].error:.4f} (root mean square).\n"
            f"On this machine proven is {self.gains['greedy']:.1f} times as fast as a scan for a greedy step, "
            f"{beam}. --output-layer auto takes it where it is faster."
        )


def fit_preview(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    vectors: int = VECTORS,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> PreviewFit:
    """Fit the low-bit preview of a model's output layer, which `output_layer="proven"` and "calibrated" need.

    `text` names files with one source sentence a line (.gz too; a language model reads it); those of a multilingual
    model with their direction, as "de-en=news.de". Without text, sentences are made up of the model's own tokens: the
    proven layer then answers the same, a little slower. `vectors` hidden vectors are taken. Takes seconds to a minute.

    Raises OptionError for options that do not fit, ModelError for a model that cannot be read, InputError for text that
    cannot be read, and OutputError for a folder that cannot be written to.
    """
    require(vectors >= 100, "vectors", vectors, "100 or more")
    given = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    folder, report = find_model(str(model)), Reporter(progress)
    task = architecture_of(read_config(folder)).task
    if not given and task == "language":
        raise OptionError("text is empty; a language model needs a file of text to read.")
    loaded = load_model(folder, machine, task)
    weight, bias = loaded.model.output()
    found = []
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        texts = texts_or_made_up(loaded, given, MADE_UP)
        for i, (direction, lines) in enumerate(texts):
            wanted = -(-vectors // len(texts))
            with report.stage("collecting", wanted, "vectors") as advance:
                found.append(collected(loaded, lines, wanted, Path(work) / str(i), direction, advance)["hidden"])
    samples = np.ascontiguousarray(np.concatenate(found), np.float32)
    report.note(f"fitting to {len(samples)} hidden vectors")
    preview = fit_low_bit(weight, bias, samples)
    gains = gains_of(weight, bias, preview, samples if given else surest(weight, bias, samples))
    save_low_bit(folder, preview.arrays(), weight, bias, gains)
    return PreviewFit(folder, preview, len(samples), not given, gains)


def surest(weight: Floats, bias: Floats, samples: Floats) -> Floats:
    """The third of `samples` [N, D] whose best token is likeliest.

    Made-up text leaves more to guess than text, and sums of such rows take more tokens than those of text: the surest
    third of them is about as sure as rows of news.
    """
    some = np.ascontiguousarray(samples[:MEASURED])
    best = ExactLayer.build(weight, bias).topk(some, 1).log_prob[:, 0]
    return np.ascontiguousarray(some[best >= np.quantile(best, 2 / 3)])


def collected(
    loaded: LoadedModel,
    lines: Iterable[str],
    wanted: int,
    work: Path,
    direction: Direction | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Records:
    """At most `wanted` rows of a beam of 5 over source sentences `lines`, as `record_type` has them; `work` is a new
    folder for what is collected."""
    language = architecture_of(loaded.config).task == "language"
    direction = direction or loaded.language_tags.direction(LanguageOptions())
    collector = Collector(loaded, work, BEAM, TOP_K, loaded.machine.workers, language, direction)
    found = collector.collect(lines, {}, wanted, advance).read(lambda sentence: np.ones(len(sentence), np.bool_))
    return found[:wanted]


def worth_fitting(model: str | Path) -> bool:
    """Whether a preview can be fitted without text in seconds, and may gain: by task, languages and vocabulary."""
    config = read_config(find_model(str(model)))
    alone = architecture_of(config).task == "translation" and not LanguageTags.of(config).tokens
    return alone and USUAL[0] <= config.target_vocab_size <= USUAL[1]
