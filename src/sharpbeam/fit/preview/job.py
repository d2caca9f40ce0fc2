"""`fit_preview`: a model folder in, and text if there is any; the preview of its output layer out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.languages import Direction, LanguageTags
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import OptionError
from sharpbeam.fit.preview.fit import find_preview, gains_of
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.collect import Collector, Records
from sharpbeam.fit.texts import texts_or_sample
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.preview import Preview, PreviewLayer
from sharpbeam.storage.model_folder import read_config

VECTORS = 6000  # hidden vectors that a basis of some hundred coordinates needs
USUAL = 4_000, 40_000  # tokens of a model that `convert` fits a preview for
BEAM, TOP_K = 5, 10  # the k best tokens of a row: a beam of 5 can use no more
Bools = NDArray[np.bool_]
NEAR = 1e-3  # a normalizer's error may move tokens that are nearer to the floor


@dataclass(frozen=True)
class PreviewFit:
    """The outcome of a fit."""

    folder: Path  # the model's, which the preview was written to
    preview: Preview
    vectors: int  # that it was fitted to
    sample: bool  # whether they are of the sample sentences of the package
    gains: Mapping[str, float]  # times that the preview was faster than a scan here, as `gains_of` has them

    def summary(self) -> str:
        """The outcome for people."""
        text = "sample sentences" if self.sample else "the text"
        gains = ", ".join(f"{name} {times:.1f}" for name, times in self.gains.items())
        share = 4 * self.preview.codes.shape[1] / self.preview.words.shape[1]
        return (
            f"{self.folder}: preview fitted to {self.vectors} hidden vectors of {text}.\nIt reads {share:.1%} of the "
            f"bytes of an int8 scan. Times as fast as one here: {gains}."
        )


def fit_preview(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    vectors: int = VECTORS,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> PreviewFit:
    """Fit the preview of a model's output layer, for `output_layer="preview"`.

    `text` names files with one source sentence a line (.gz too; a language model reads it); those of a multilingual
    model with their direction, as "de-en=news.de". Without text the sample sentences of the package are taken.
    `vectors` hidden vectors are taken. Takes seconds.

    Raises OptionError for options that do not fit, ModelError for a model that cannot be read, InputError for text that
    cannot be read, OutputError for a folder that cannot be written to.
    """
    require(vectors >= 100, "vectors", vectors, "100 or more")
    names = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    folder, report = find_model(str(model)), Reporter(progress)
    task = architecture_of(read_config(folder)).task
    if not names and task == "language":
        raise OptionError("text is empty; a language model needs a file of text to read: --text FILE.")
    loaded = load_model(folder, machine, task)
    weight, bias = loaded.model.output()
    parts = []
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        texts = texts_or_sample(loaded, names)
        for i, (direction, lines) in enumerate(texts):
            count = -(-vectors // len(texts))
            with report.stage("collecting", count, "vectors") as advance:
                parts.append(collected(loaded, lines, count, Path(work) / str(i), direction, advance)["hidden"])
    samples = np.ascontiguousarray(np.concatenate(parts), np.float32)
    report.note(f"fitting to {len(samples)} hidden vectors")
    preview = find_preview(weight, bias, samples)
    gains = gains_of(weight, bias, preview, samples)
    loaded.artifacts.save("preview", preview, {"gains": gains, "vectors": len(samples), "sample": not names})
    return PreviewFit(folder, preview, len(samples), not names, gains)


def missed(layer: PreviewLayer, records: Records) -> Bools:
    """The rows in which `layer` leaves out a token that matters to a beam search."""
    hidden, floor = (np.ascontiguousarray(records[name], np.float32) for name in ("hidden", "floor"))
    k = records["token"].shape[1]
    log_prob, token, *_ = layer.native.topk_details(hidden, k, True, floor=floor)
    kept = np.where(np.isfinite(log_prob), token, -1)
    matters = records["log_prob"] > floor[:, None] + NEAR
    mask: Bools = (matters & ~(records["token"][:, :, None] == kept[:, None, :]).any(axis=2)).any(axis=1)
    return mask


def collected(
    loaded: LoadedModel,
    lines: Iterable[str],
    count: int,
    work: Path,
    direction: Direction | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Records:
    """At most `count` rows of greedy search over source sentences `lines`, as `record_type` has them.

    Rows of a beam are alike: a fifth of them, one a step, gives codes with a smaller error in a fifth of the time.
    `work` is a new folder for what is collected.
    """
    language = architecture_of(loaded.config).task == "language"
    direction = direction or loaded.language_tags.direction(LanguageOptions())
    k = min(TOP_K, loaded.vocab_size)
    scanned = replace(loaded, exact=cast(RowLayer, loaded.layer_named("scan")))  # the same tokens, faster
    collector = Collector(scanned, work, 1, k, loaded.machine.workers, language, direction)
    records = collector.collect(lines, {}, count, advance).read(lambda sentence: np.ones(len(sentence), np.bool_))
    return records[:count]


def worth_fitting(model: str | Path) -> bool:
    """Whether a preview can be fitted without text in seconds, and may gain: by task, languages and vocabulary."""
    config = read_config(find_model(str(model)))
    alone = architecture_of(config).task == "translation" and not LanguageTags.of(config).tokens
    return alone and USUAL[0] <= config.target_vocab_size <= USUAL[1]
