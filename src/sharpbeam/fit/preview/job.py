"""`fit_preview`: a model folder in, and text if there is any; the preview of its output layer out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.languages import Direction, LanguageTags
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.preview.fit import find_preview, gains_of
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.bound import design_effect, lower_bound
from sharpbeam.fit.screen.collect import Collector, Records
from sharpbeam.fit.texts import texts_or_sample
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.preview import Preview, PreviewLayer
from sharpbeam.storage.model_folder import read_config
from sharpbeam.types import Floats

VECTORS = 6000  # hidden vectors that a basis of some hundred coordinates needs, and choices among tokens
MEASURED = 12  # so many times 1 / (1 - fidelity) rows are measured: enough for a bound if few are wrong
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
        share = float(self.preview.coordinates.mean()) / 2 / len(self.preview.shift)
        text = "sample sentences; fit it again with --text for text of your own" if self.sample else "the text"
        lines = [
            f"{self.folder}: preview fitted to {self.vectors} hidden vectors of {text}.",
            f"It reads {share:.1%} of the bytes of an int8 scan, and a greedy step is {self.gains['greedy']:.1f} times "
            "as fast here. --output-layer auto uses it if it is faster.",
        ]
        if self.preview.fidelity:
            lines.append(f"--fidelity {self.preview.fidelity:.5f} and less: measured on held-out rows.")
        return "\n".join(lines)


def fit_preview(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    fidelity: float = 1.0,
    vectors: int = VECTORS,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> PreviewFit:
    """Fit the preview of a model's output layer, for `output_layer="preview"`.

    `text` names files with one source sentence a line (.gz too; a language model reads it); those of a multilingual
    model with their direction, as "de-en=news.de". Without text the sample sentences of the package are taken: the
    proven preview answers the same, perhaps a little slower. With a `fidelity` below 1, which needs text, the faster
    layer that looks at a share of the bound is measured on text that it was not fitted to. `vectors` hidden vectors are
    taken. Takes seconds to a minute.

    Raises OptionError for options that do not fit, ModelError for a model that cannot be read, InputError for text that
    cannot be read and if the fidelity is not reached (nothing is written then), OutputError for a folder that cannot be
    written to.
    """
    require(vectors >= 100, "vectors", vectors, "100 or more")
    require(0 < fidelity <= 1, "fidelity", fidelity, "above 0 and at most 1")
    given = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    require(bool(given) or fidelity == 1, "fidelity", fidelity, "1 without --text: less is measured on real text")
    folder, report = find_model(str(model)), Reporter(progress)
    task = architecture_of(read_config(folder)).task
    if not given and task == "language":
        raise OptionError("text is empty; a language model needs a file of text to read: --text FILE.")
    loaded = load_model(folder, machine, task)
    weight, bias = loaded.model.output()
    measured = 0 if fidelity == 1 else int(MEASURED / (1 - fidelity))
    parts, first = [], 0
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        texts = texts_or_sample(loaded, given)
        for i, (direction, lines) in enumerate(texts):
            count = -(-(vectors + measured) // len(texts))
            with report.stage("collecting", count, "vectors") as advance:
                part = collected(loaded, lines, count, Path(work) / str(i), direction, advance)
            part["sentence"] += first
            first = int(part["sentence"][-1]) + 1
            parts.append(part)
    records = np.concatenate(parts)
    held = _held_out(records, vectors, measured)
    samples = np.ascontiguousarray(records["hidden"][~held], np.float32)
    report.note(f"fitting to {len(samples)} hidden vectors")
    preview = find_preview(weight, bias, samples)
    if measured:
        preview = replace(preview, fidelity=measure(weight, bias, preview, records[held], loaded.machine.isa))
        if preview.fidelity < fidelity:
            raise InputError(
                f"fidelity is {fidelity}; on {int(held.sum())} rows of held-out text it is at least "
                f"{preview.fidelity:.5f}. Nothing was written; give more --text, or a lower --fidelity."
            )
    gains = gains_of(weight, bias, preview, samples)
    facts = {"gains": gains, "vectors": len(samples), "sample": not given, "measured_rows": int(held.sum())}
    loaded.artifacts.save("preview", preview, facts)
    return PreviewFit(folder, preview, len(samples), not given, gains)


def _held_out(records: Records, vectors: int, measured: int) -> Bools:
    """The rows that are measured: those of every n-th sentence."""
    if not measured:
        return np.zeros(len(records), np.bool_)
    mask: Bools = records["sentence"] * 617 % 1000 < 1000 * measured // (vectors + measured)  # spread evenly
    return mask


def missed(weight: Floats, bias: Floats, layer: PreviewLayer, records: Records) -> Bools:
    """The rows in which `layer` leaves out a token that matters to a beam search."""
    hidden, floor = (np.ascontiguousarray(records[name], np.float32) for name in ("hidden", "floor"))
    k = records["token"].shape[1]
    log_prob, token, *_ = layer.native.topk_details(hidden, k, True, floor=floor)
    kept = np.where(np.isfinite(log_prob), token, -1)
    matters = records["log_prob"] > floor[:, None] + NEAR
    mask: Bools = (matters & ~(records["token"][:, :, None] == kept[:, None, :]).any(axis=2)).any(axis=1)
    return mask


def measure(weight: Floats, bias: Floats, preview: Preview, records: Records, isa: str = "auto") -> float:
    """The lower 95% confidence bound of the share of rows that have all that matters, with a share of the bound."""
    layer = PreviewLayer.build(weight, bias, preview, isa, measured=True)
    if not len(records):
        return 0.0
    wrong = missed(weight, bias, layer, records)
    trials = len(wrong) / design_effect(wrong, records["sentence"])
    return lower_bound((1 - float(wrong.mean())) * trials, trials)


def collected(
    loaded: LoadedModel,
    lines: Iterable[str],
    count: int,
    work: Path,
    direction: Direction | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> Records:
    """At most `count` rows of a beam of 5 over source sentences `lines`, as `record_type` has them; `work` is a new
    folder for what is collected."""
    language = architecture_of(loaded.config).task == "language"
    direction = direction or loaded.language_tags.direction(LanguageOptions())
    k = min(TOP_K, loaded.vocab_size)
    collector = Collector(loaded, work, BEAM, k, loaded.machine.workers, language, direction)
    records = collector.collect(lines, {}, count, advance).read(lambda sentence: np.ones(len(sentence), np.bool_))
    return records[:count]


def worth_fitting(model: str | Path) -> bool:
    """Whether a preview can be fitted without text in seconds, and may gain: by task, languages and vocabulary."""
    config = read_config(find_model(str(model)))
    alone = architecture_of(config).task == "translation" and not LanguageTags.of(config).tokens
    return alone and USUAL[0] <= config.target_vocab_size <= USUAL[1]
