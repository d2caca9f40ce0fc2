"""A new model folder of another program's files, with the preview that is fitted in a second."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from sharpbeam.convert.conversion import convert_model
from sharpbeam.convert.read import is_model_folder
from sharpbeam.errors import SharpbeamError
from sharpbeam.fit.preview import fit_preview, worth_fitting
from sharpbeam.storage.model_folder import read_config


def make_model(files: Path, folder: Path) -> None:
    """Make the model folder `folder`; the model stands without a preview where none can be fitted.

    A model folder of Sharpbeam is copied. Raises ModelError for what is no model.
    """
    if is_model_folder(files):
        shutil.copytree(files, folder)
        read_config(folder)
        return
    convert_model(files, folder)
    with suppress(SharpbeamError):
        if worth_fitting(folder):
            fit_preview(folder)
