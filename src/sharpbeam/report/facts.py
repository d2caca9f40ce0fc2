"""Facts of an installation and of a model folder, as `sharpbeam info` prints them."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path
from typing import Any

from sharpbeam import _core
from sharpbeam.decoding.loading import bundled_models, checked_vocabularies, find_model
from sharpbeam.errors import ModelError
from sharpbeam.models.registry import architecture_of
from sharpbeam.storage.artifacts import FolderArtifacts, present_artifacts
from sharpbeam.storage.model_folder import read_facts, read_tensors, verify_weights, weight_types
from sharpbeam.storage.records import read_precision, read_tuned
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.types import Floats
from sharpbeam.version import program_version


def describe_installation() -> dict[str, Any]:
    """Version, kernel tables and bundled models."""
    facts: dict[str, Any] = {"version": program_version(), "python": platform.python_version()}
    facts |= {"kernel_tables": list(_core.table_names()), "kernel_table_in_use": _core.table_name()}
    return facts | {"bundled_models": list(bundled_models())}


def describe_model(model: str | Path, *, verify: bool = False) -> dict[str, Any]:
    """Architecture, sizes, vocabularies, fitted artifacts, options and card of a model; raises ModelError.

    `verify` hashes the weights, whatever their size.
    """
    folder = find_model(str(model))
    facts = read_facts(folder)
    config = facts.config
    tensors = read_tensors(folder, config, facts)
    parameters = sum(tensor.size for tensor in tensors.values())
    weight = tensors["output_weight"] if "output_weight" in tensors else tensors[architecture_of(config).embedding]
    source, target = checked_vocabularies(folder, config)
    config_fields = dataclasses.asdict(config)
    card = folder / "README.md"
    verified = {"verified": verify_weights(folder)} if verify else {}
    files = [path for path in folder.iterdir() if path.is_file()]
    return {
        "folder": str(folder),
        "architecture": architecture_of(config).name,
        "parameters": parameters,
        "weights": ", ".join(weight_types(folder)),
        **verified,
        "float32_mib": round(parameters * 4 / 2**20, 1),
        "disk_mib": round(sum(path.stat().st_size for path in files) / 2**20, 1),
        "source_vocabulary": f"{type(source).__name__}, {len(source)} entries",
        "target_vocabulary": "the same" if target is source else f"{type(target).__name__}, {len(target)} entries",
        **_fitted(folder, (weight, tensors["output_bias"]), (source, target)),
        **_choices(folder),
        "decoding": facts.decoding,
        **{name: value for name, value in config_fields.items() if not name.endswith("vocab_size")},
        "special_words": {name: target.piece(token) for name, token in config_fields.items() if name.endswith("_id")},
        "card": card.read_text(encoding="utf-8", errors="replace") if card.is_file() else "",
    }


def _choices(folder: Path) -> dict[str, Any]:
    """The number type that auto means and its evidence, and what was tuned; the fault of a file that says so."""
    try:
        precision, tuned = read_precision(folder), read_tuned(folder)
    except ModelError as error:
        return {"fault": str(error)}
    return ({} if precision is None else {"compute_type": precision.summary()}) | ({"tuned": tuned} if tuned else {})


def _fitted(folder: Path, output: tuple[Floats, Floats], vocabularies: tuple[Vocabulary, Vocabulary]) -> dict[str, Any]:
    """The fitted artifacts that can be used, by name; and the fault of each that is there and cannot."""
    source, target = vocabularies
    artifacts = FolderArtifacts(folder, *output, (source.serialized, target.serialized), len(source))
    faults = {name: artifacts.fault(name) for name in present_artifacts(folder)}
    facts: dict[str, Any] = {"fitted": [name for name, fault in faults.items() if not fault]}
    if "preview" in facts["fitted"]:
        own = artifacts.facts("preview")
        facts["preview"] = {"vectors": own.get("vectors"), "sample": own.get("sample")} | artifacts.gains()
    if "screen" in facts["fitted"]:
        screens = artifacts.read("screen")
        facts["screen"] = "for all" if screens.per == "all" else f"per {screens.per}: {', '.join(screens.by_scope)}"
    return facts | {f"{name}_not_used": fault for name, fault in faults.items() if fault}
