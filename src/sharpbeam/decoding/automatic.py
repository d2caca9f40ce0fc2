"""The output layer that "auto" means on a CPU: one that was tuned, else a preview that gains, else the scan."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions, OutputLayerOptions
from sharpbeam.output_layers.preview import FIDELITY
from sharpbeam.output_layers.registry import find_output_layer, output_layers
from sharpbeam.storage.records import TUNED, TUNED_AGAIN

if TYPE_CHECKING:
    from sharpbeam.decoding.loading import LoadedModel

# Times that a step must be faster than a scan's, or whole translations by a beam.
WORTH_IT = {"greedy": 1.1, "scores": 1.1, "beam": 1.05}


def automatic_layer(loaded: LoadedModel, options: DecodeOptions) -> str:
    """The name of the fastest layer for the options that is known."""
    search, beam = options.search, options.search.beam_size > 1 and not options.search.sampling
    estimates = search.settles and not options.sampling.top_k  # others take exact sums of all rows of a preview
    if loaded.fastest and (estimates or loaded.fastest != "preview") and _reaches(loaded, options.output):
        return loaded.fastest
    kind = "beam" if beam else "scores" if search.needs_log_prob else "greedy"
    gains = loaded.gains.get(kind, 0.0) > WORTH_IT[kind] and (options.output.fidelity or 0.0) <= FIDELITY
    fitted = estimates and gains and loaded.language_tags.among(options.languages, loaded.artifacts.directions)
    return "preview" if fitted else "scan"


def _reaches(loaded: LoadedModel, options: OutputLayerOptions) -> bool:
    """Whether the tuned layer has the fidelity that is asked for; a layer that lacks it is read once."""
    if options.fidelity is not None and options not in loaded.reached:
        try:
            loaded.reached[options] = bool(loaded.layer_named(loaded.fastest, options))
        except OptionError:
            loaded.reached[options] = False
    return loaded.reached.get(options, True)


def tuned_layer(loaded: LoadedModel) -> str:
    """The output layer that `sharpbeam tune` found; empty if none, or where it is no more what was measured."""
    name = str(loaded.tuned.get("output_layer", ""))
    found = loaded.artifacts.digests(name) if name in output_layers() else {}
    whole = name in output_layers() and found.keys() >= set(find_output_layer(name).needs)
    if not name or (whole and loaded.tuned["artifacts"] in (None, found)):
        return name
    message = f"{loaded.folder / TUNED}: not used, the {name} that was measured is gone or another. {TUNED_AGAIN}"
    logging.getLogger("sharpbeam").warning("%s", message)
    return ""
