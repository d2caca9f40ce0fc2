"""A model folder small enough to be damaged thousands of times, and what changes it."""

from __future__ import annotations

import json

import numpy as np
from safetensors.numpy import save_file

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.storage.model_folder import DIGEST
from sharpbeam.types import Request

TINY = GruConfig(5, 5, 3, 1, 2, 3, attention_dim=2, hidden_dim=3, shared_embedding=True, tied_output=True)


def answer(model):
    """Bytes of a few hidden vectors."""
    run = model.open()
    state = run.admit([Request(0, np.array([4, 1, 2], np.int32)), Request(1, np.array([3, 2], np.int32))])
    hidden, state = run.step(np.array([0, 1], np.int32), state, np.array([1, 1], np.int32))
    again, _ = run.step(np.array([1, 0], np.int32), state[::-1].copy(), np.array([4, 3], np.int32))
    return hidden.tobytes() + again.tobytes()


def edit(folder, **changes):
    """Change facts in config.json; None removes one."""
    path = folder / "config.json"
    facts = {k: v for k, v in (json.loads(path.read_text()) | changes).items() if v is not None}
    path.write_text(json.dumps(facts))


def put(path, data):
    """Write a new file: to cut an old one short makes some file systems wait for the disk, 10,000 times here."""
    path.unlink()
    path.write_bytes(data)


def rewrite(folder, tensors):
    """Other weights in the folder, as someone would who writes a model by hand."""
    save_file(tensors, folder / "model.safetensors")
    edit(folder, **{DIGEST: None})
