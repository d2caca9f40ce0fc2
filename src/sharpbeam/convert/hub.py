"""Models of the Hugging Face hub, by name: only the files that are read are fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from sharpbeam.errors import InputError

_FILES = ["*.json", "*.safetensors", "*.spm", "*.model"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]
_PATIENCE = 5.0  # seconds that the hub may take to say which files a model has


def fetch(name: str) -> Path:
    """The folder with the files of model `name` ("owner/name", or "owner/name@revision") in the hub's cache here.

    Where the hub cannot be reached, what was fetched before will do. Raises InputError where huggingface_hub is not
    installed, or the hub or the model cannot be reached.
    """
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ModuleNotFoundError as error:
        raise InputError(
            f"to fetch {name} from the Hugging Face hub the package huggingface_hub is needed; run: pip install "
            "'sharpbeam[hub]', or give the folder of a model that you have."
        ) from error
    # By its version it raises errors of requests, which are OSErrors, or of httpx, whose base its own one has.
    name, _, revision = name.partition("@")
    which: dict[str, Any] = {"revision": revision or None, "ignore_patterns": ["*/*"]}  # no folders of checkpoints
    failures = (OSError, HFValidationError, cast("type[Exception]", HfHubHTTPError.__bases__[0]))
    try:
        # Asks once; a download asks on and on.
        files = HfApi().model_info(name, revision=revision or None, timeout=_PATIENCE).siblings or []
    except failures as error:
        try:
            return Path(snapshot_download(name, allow_patterns=_FILES + _OLD_WEIGHTS, local_files_only=True, **which))
        except failures:
            raise _refusal(name, error) from error
    old = [] if any(file.rfilename.endswith(".safetensors") for file in files) else _OLD_WEIGHTS
    try:
        return Path(snapshot_download(name, allow_patterns=_FILES + old, **which))
    except failures as error:
        raise _refusal(name, error) from error


def _refusal(name: str, error: Exception) -> InputError:
    from huggingface_hub.errors import RepositoryNotFoundError

    reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
    if isinstance(error, RepositoryNotFoundError):
        reason = "it has no model of that name, or not for everyone"
    return InputError(
        f"there is no folder {name}, and it cannot be fetched from the Hugging Face hub: {reason}. Check name and "
        "network, or give the folder of a model that you have."
    )
