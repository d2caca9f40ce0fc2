"""Models of the Hugging Face hub, by name: only the files that are read are fetched."""

from __future__ import annotations

from pathlib import Path

from quickbeam.errors import InputError

_FILES = ["*.json", "*.safetensors", "*.spm", "*.model"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]


def fetch(name: str) -> Path:
    """The folder with the files of model `name` ("owner/name") in the hub's cache on this machine.

    Raises InputError where huggingface_hub is not installed, or the hub or the model cannot be reached.
    """
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ModuleNotFoundError as error:
        raise InputError(
            f"to fetch {name} from the Hugging Face hub the package huggingface_hub is needed; run: pip install "
            "'quickbeam[hub]', or give the folder of a model that you have."
        ) from error
    try:
        try:
            files = HfApi().list_repo_files(name)
        except Exception:  # no net: what was fetched before will do
            return Path(snapshot_download(name, allow_patterns=_FILES + _OLD_WEIGHTS, local_files_only=True))
        old = [] if any(file.endswith(".safetensors") for file in files) else _OLD_WEIGHTS
        return Path(snapshot_download(name, allow_patterns=_FILES + old))
    except Exception as error:  # what it raises for a missing net differs from version to version
        said = " ".join(str(error.__context__ or error).split())[:200] or type(error).__name__
        raise InputError(
            f"there is no folder {name}, and it cannot be fetched from the Hugging Face hub ({said}). Check name and "
            "network, or give the folder of a model that you have."
        ) from error
