"""Models of the Hugging Face hub, by name: only the files that are read are fetched."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from sharpbeam.errors import InputError

_FILES = ["*.json", "*.safetensors", "*.spm", "*.model"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]
_PATIENCE = 5.0  # seconds that the hub may take to say which files a model has


def fetch(name: str) -> Path:
    """The folder with the files of model `name` ("owner/name", or "owner/name@revision") in the hub's cache here.

    If the hub cannot be reached, the files that were fetched before are used. Raises InputError if huggingface_hub is
    not installed, or the hub or the model cannot be reached.
    """
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, RepositoryNotFoundError
    except ModuleNotFoundError as error:
        raise InputError(
            f"to fetch {name} from the Hugging Face hub the package huggingface_hub is needed; run: pip install "
            "'sharpbeam[hub]', or give the folder of a model that you have."
        ) from error
    # By its version it raises errors of requests, which are OSErrors, or of httpx, whose base its own one has.
    failures = (OSError, HFValidationError, cast("type[Exception]", HfHubHTTPError.__bases__[0]))
    name, _, revision = name.partition("@")
    options: dict[str, Any] = {"revision": revision or None, "ignore_patterns": ["*/*"]}  # no folders of checkpoints
    patterns = _FILES + _OLD_WEIGHTS
    try:
        # Asks once; a download asks on and on.
        files = HfApi().model_info(name, revision=revision or None, timeout=_PATIENCE).siblings or []
        if any(file.rfilename.endswith(".safetensors") for file in files):
            patterns = _FILES
        return Path(snapshot_download(name, allow_patterns=patterns, **options))
    except failures as error:
        with suppress(*failures):
            return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=True, **options))
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        if isinstance(error, RepositoryNotFoundError):
            reason = "it has no model of that name, or not for everyone"
        raise InputError(
            f"there is no folder {name}, and it cannot be fetched from the Hugging Face hub: {reason}. Check name and "
            "network, or give the folder of a model that you have."
        ) from error
