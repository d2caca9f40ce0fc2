"""The options as keyword arguments, for type checkers and editors: fields of the options dataclasses.

Functions take `**options: Unpack[DecodeKeywords]` (PEP 692). Written by .ci/keywords.py: `make stubs WRITE=1`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypedDict

from sharpbeam.options.decode import ScheduleName, ScreenSets
from sharpbeam.options.machine import ComputeType, Device, Isa
from sharpbeam.options.search import CubePruning, EarlyStopping, Finishing, MergeBy

if TYPE_CHECKING:
    from sharpbeam.options.fit import Method  # which loads with the fits
if sys.version_info >= (3, 11):
    from typing import Unpack
else:
    from typing_extensions import Unpack

__all__ = ["DecodeKeywords", "MachineKeywords", "ModelKeywords", "ScreenKeywords", "ShortlistKeywords", "Unpack"]


class DecodeKeywords(TypedDict, total=False):
    """The fields of all groups of `DecodeOptions`."""

    beam_size: int
    num_hypotheses: int
    length_penalty: float
    early_stopping: EarlyStopping | bool
    patience: float
    stop_margin: float | None
    max_score_margin: float | None
    max_score_ratio: float | None
    max_children: int | None
    finishing: Finishing
    repetition_penalty: float
    no_repeat_ngram_size: int
    forced_eos: bool
    coverage_penalty: float
    prefix_bias_beta: float
    return_alternatives: bool
    min_alternative_expansion_prob: float
    return_attention: bool
    return_scores: bool
    search: str
    sampling: bool
    cube_pruning: CubePruning
    merge_by: MergeBy
    merge_threshold: float
    min_length: int
    max_length: int
    max_length_factor: float | None
    temperature: float
    top_k: int
    top_p: float
    seed: int
    schedule: ScheduleName
    batch_tokens: int
    max_rows: int
    refill_at: float
    max_step_rows: int | None
    max_wait: int | None
    max_memory: int | None
    max_input_length: int
    output_layer: str
    fidelity: float | None
    screen_sets: ScreenSets
    normalize: bool
    source_language: str
    target_language: str


class MachineKeywords(TypedDict, total=False):
    """The fields of `MachineOptions`."""

    device: Device
    threads: int
    isa: Isa
    compute_type: ComputeType
    exact: bool
    precomputed_embeddings: int
    precomputed_attention: bool
    merge_states: bool


class ModelKeywords(DecodeKeywords, MachineKeywords, total=False):
    """Options given when a model is loaded: those of the machine, and defaults of the calls."""


class ScreenKeywords(TypedDict, total=False):
    """The fields of `ScreenOptions`."""

    method: Method
    clusters: int
    budget: float
    fidelity: float
    tolerance: float
    top_k: int
    set_k: int
    neighbors: bool
    beam_size: int
    vectors: int
    rounds: int
    seed: int


class ShortlistKeywords(TypedDict, total=False):
    """The fields of `ShortlistOptions`."""

    translations: int
    frequent: int
    rounds: int
    max_pairs: int
