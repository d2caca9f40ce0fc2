"""Registries of models: what each has, and the files of one.

* Firefox: records of Remote Settings (the digest of each file, what Firefox itself asks) and models.json of Mozilla's
  bucket (figures of quality, files as .gz). A model is in both where its SHA-256 is; from the records alone its files
  are .zst.
* translateLocally (Bergamot): models.json, a list of .tar.gz with their SHA-256.
* the Hugging Face hub: its API states size and digest of each file at a commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from typing import Any
from urllib.parse import quote

from sharpbeam.errors import InputError, ModelError, SharpbeamError
from sharpbeam.hub.download import File, read_url
from sharpbeam.hub.names import PAIR, Name
from sharpbeam.text.json import json_object

RECORDS = "https://firefox.settings.services.mozilla.com/v1/buckets/main/collections/translations-models-v2/records"
ATTACHMENTS = "https://firefox-settings-attachments.cdn.mozilla.net/"
BUCKET = "https://storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data/db/models.json"
BERGAMOT = "https://translatelocally.com/models.json"
HUB = "https://huggingface.co"
_TYPES = {"model", "lex", "vocab", "srcvocab", "trgvocab"}  # of Firefox's files
_HUB_FILES = {
    "hf": ("*.json", "*.safetensors", "*.spm", "*.model"),
    "ct2": ("*.json", "*.bin", "*.txt", "*.spm", "*.model", "*.yml"),
}
_FILE_NAME = re.compile(r"[A-Za-z0-9_][\w.+@-]*", re.ASCII)
PIVOTS = ("en", "fr", "de", "es")


@dataclass(frozen=True)
class ListedModel:
    """A model of a registry."""

    name: Name
    source: str = ""  # languages; "" where the registry states none
    target: str = ""
    kind: str = ""  # such as "tiny"
    files: tuple[File, ...] = ()
    license: str = "not stated"
    quality: str = ""  # a figure that the registry states
    version: tuple[int, ...] = ()
    released: bool = True

    @property
    def size(self) -> int:
        """Bytes of its files; 0 where they are not stated."""
        return sum(file.transfer or file.size or 0 for file in self.files)

    def facts(self) -> dict[str, Any]:
        """Its origin, to be kept next to the model."""
        digests = {file.name: file.sha256 or file.git for file in self.files}
        own = {"name": str(self.name), "kind": self.kind, "license": self.license, "quality": self.quality}
        return own | {"files": digests, "from": sorted({file.url.rpartition("/")[0] for file in self.files})}


def resolve(name: Name) -> ListedModel:
    """The model of that name, with its files. Raises InputError where the registry lacks it, or cannot be reached."""
    if name.registry == "url":
        url, _, digest = name.rest.partition("#sha256=")
        return ListedModel(name, files=(File(url, "archive", sha256=digest),))
    if name.registry in ("hf", "ct2"):
        return _of_hub(name, name.rest, _HUB_FILES[name.registry])
    if name.registry == "opus":
        return _of_hub(name, f"Helsinki-NLP/opus-mt-{name.rest.replace('_', '-')}", _HUB_FILES["hf"])
    source, target, kind = name.pair
    entries = entries_of(name.registry)
    own = [each for each in entries if _same(each, source, target)]
    fitting = [each for each in own if kind in ("", each.kind)]
    if fitting:
        return replace(max(fitting, key=lambda each: (each.released, each.version)), name=name)
    more = f" It has {', '.join(each.kind for each in own)}." if own else ""
    more = more or _pivots(entries, name.registry, source, target)
    raise InputError(
        f"{name.registry} has no model {name.rest!r} among {len(entries)}.{more} Try sharpbeam models find {source} "
        f"{target}."
    )


def find(source: str, target: str) -> tuple[list[ListedModel], list[str]]:
    """The models from `source` to `target` in all registries that answer, and one line for each that does not."""
    entries, notes, faults = list[ListedModel](), list[str](), list[str]()
    if not PAIR.fullmatch(f"{source}-{target}".lower()):
        raise InputError(f"the languages are {source!r} and {target!r}; give codes, such as en and pt.")
    for registry in ("firefox", "bergamot", "opus"):
        try:
            if registry == "opus":
                entries.append(resolve(Name("opus", f"{source}-{target}")))
                break
            every = entries_of(registry)
        except SharpbeamError as error:
            if registry != "opus" or "HTTP 40" not in str(error):  # the hub's answer for what it lacks
                faults.append(f"{registry}: {error}")
            continue
        own = [each for each in every if _same(each, source, target)]
        entries += sorted(own, key=lambda each: (each.released, each.version), reverse=True)
        if not own and (pivots := _pivots(every, registry, source, target)):
            notes.append(f"{registry}: none;{pivots}")
    if len(faults) == 3:
        raise InputError(f"no registry can be asked; {faults[0]}")
    return entries, notes + faults


def entries_of(registry: str) -> list[ListedModel]:
    """All models of "firefox" or "bergamot". Raises InputError where it cannot be reached."""
    return _firefox() if registry == "firefox" else list(_bergamot(_json(BERGAMOT)))


def _same(entry: ListedModel, source: str, target: str) -> bool:
    return _code(entry.source) == _code(source) and _code(entry.target) == _code(target)


def _code(language: str) -> str:
    code = language.lower().replace("_", "-")
    return "zh-hans" if code in ("zh", "zh-cn") else code


def _pivots(entries: list[ListedModel], registry: str, source: str, target: str) -> str:
    """Two models that lead there, in words; or ""."""
    pairs = {(_code(each.source), _code(each.target)) for each in entries}
    for pivot in PIVOTS:
        if {(_code(source), pivot), (pivot, _code(target))} <= pairs:
            names = f"{registry}:{source}-{pivot} and {registry}:{pivot}-{target}"
            return f" Through {pivot} it has {names}: sharpbeam serve {names.replace(' and', '')} --pivot {pivot}."
    return ""


def _json(url: str) -> Mapping[str, Any]:
    """The JSON object at `url`."""
    return json_object(read_url(url), url, ModelError)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a list; nothing for other values."""
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _firefox() -> list[ListedModel]:
    """Firefox's models: those of the bucket with the digests of the records, then those of the records alone."""
    faults, documents = list[SharpbeamError](), list[Mapping[str, Any]]()
    for url in (RECORDS, BUCKET):
        try:
            documents.append(_json(url))
        except SharpbeamError as error:
            faults.append(error)
            documents.append({})
    if len(faults) == len(documents):
        raise faults[0]
    records, entries = {each.files[0].sha256: each for each in _recorded(documents[0])}, list[ListedModel]()
    for each in _stored(documents[1]):
        recorded = records.pop(each.files[0].sha256, None)
        stated = {file.name: file for file in recorded.files} if recorded else {}
        files = tuple(
            replace(file, size=own.size, sha256=own.sha256) if (own := stated.get(file.name)) else file
            for file in each.files
        )
        entries.append(replace(recorded, kind=each.kind, files=files, quality=each.quality) if recorded else each)
    return entries + list(records.values())


def _recorded(document: Mapping[str, Any]) -> Iterator[ListedModel]:
    """The models of Remote Settings' records: one for each pair, kind and version, the model's file first."""
    groups: dict[tuple[str, ...], list[tuple[str, File]]] = {}
    for record in _objects(document.get("data")):
        with suppress(KeyError, TypeError, ValueError, ModelError):
            if record["fileType"] not in _TYPES:
                continue
            attachment, languages = record["attachment"], (record["sourceLanguage"], record["targetLanguage"])
            key = (*languages, record.get("architecture") or "", record["version"], record.get("filter_expression", ""))
            url, digest = ATTACHMENTS + quote(attachment["location"]), _text(record["decompressedHash"])
            sizes = int(record["decompressedSize"]), int(attachment["size"])
            file = File(url, _checked(record["name"]), sizes[0], digest, packing="zst", transfer=sizes[1])
            groups.setdefault(tuple(map(str, key)), []).append((record["fileType"], file))
    for (source, target, kind, version, condition), files in groups.items():
        files.sort(key=lambda pair: pair[0] != "model")
        if files[0][0] == "model":
            numbers = tuple(int(number) for number in re.findall(r"\d+", version))
            plain = not condition and version.replace(".", "").isdigit()
            name, own = Name("firefox", f"{source}-{target}"), tuple(file for _, file in files)
            yield ListedModel(name, source, target, kind, own, "MPL-2.0", "", numbers, plain)


def _stored(document: Mapping[str, Any]) -> Iterator[ListedModel]:
    """The models of the bucket's models.json, the model's file first."""
    base, models = str(document.get("baseUrl", "")), document.get("models")
    for every in models.values() if isinstance(models, dict) else ():
        for model in _objects(every):
            with suppress(KeyError, TypeError, ValueError, ModelError, AttributeError):
                files = []
                for role, file in sorted(model["files"].items(), key=lambda pair: pair[0] != "model"):
                    path = _text(file["path"])
                    packing, digest = ("gz" if path.endswith(".gz") else ""), _text(file.get("uncompressedHash") or "")
                    name, size = _checked(path.rpartition("/")[2].removesuffix(".gz")), file.get("uncompressedSize")
                    if role == "model" and not digest:
                        raise ModelError("a model without a digest")
                    files.append(File(f"{base}/{quote(path)}", name, size, digest, packing=packing))
                source, target = (str(model[f"{side}Language"]).replace("_", "-") for side in ("source", "target"))
                figures = dict(model.get("metrics") or {})
                texts = {test: ", ".join(f"{n} {v:.4g}" for n, v in own.items()) for test, own in figures.items()}
                quality = "; ".join(f"{test}: {text}" for test, text in texts.items())
                released = str(model.get("releaseStatus")).startswith("Release")
                own, kind = Name("firefox", f"{source}-{target}"), str(model.get("architecture") or "")
                yield ListedModel(own, source, target, kind, tuple(files), "MPL-2.0", quality, (), released)


def _bergamot(document: Mapping[str, Any]) -> Iterator[ListedModel]:
    """The models of a models.json of translateLocally; a source may be several languages."""
    for model in _objects(document.get("models")):
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            tags, short = model.get("srcTags"), str(model["shortName"])
            target = model.get("trgTag") or short.split("-")[1]
            file = File(str(model["url"]), "archive", sha256=str(model["checksum"]))
            for source in tags or [short.split("-", maxsplit=1)[0]]:
                name, kind = Name("bergamot", f"{source}-{target}"), str(model.get("type") or "")
                version = (kind == "tiny", int(model.get("version") or 0))  # as translateLocally chooses
                yield ListedModel(name, str(source), str(target), kind, (file,), version=version)


def _of_hub(name: Name, path: str, patterns: tuple[str, ...]) -> ListedModel:
    """A model of the Hugging Face hub, at the commit that its branch has now."""
    path, _, revision = path.partition("@")
    document = _json(f"{HUB}/api/models/{path}/revision/{quote(revision or 'main', safe='')}?blobs=true")
    commit, files = str(document.get("sha", "")), list[File]()
    for each in _objects(document.get("siblings")):
        file_name, large = str(each.get("rfilename", "")), each.get("lfs") or {}
        if "/" in file_name or not isinstance(large, dict):
            continue  # folders hold checkpoints, and other formats
        sha256, git = str(large.get("sha256") or ""), "" if large else str(each.get("blobId") or "")
        url, size = f"{HUB}/{path}/resolve/{quote(commit)}/{quote(file_name)}", large.get("size") or each.get("size")
        files.append(File(url, file_name, size if type(size) is int else None, sha256, git))
    if not any(file.name.endswith(".safetensors") for file in files):
        patterns += ("pytorch_model*.bin",)
    chosen = tuple(
        file for file in files if any(fnmatch(file.name, pattern) and _checked(file.name) for pattern in patterns)
    )
    if not chosen or not commit:
        raise InputError(f"{path} in the Hugging Face hub has no files of a model that can be read.")
    card = document.get("cardData")
    license_ = card.get("license") if isinstance(card, dict) else None
    return ListedModel(name, files=chosen, license=str(license_ or "not stated"))


def _text(value: Any) -> str:
    """`value`, which must be a str."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _checked(name: Any) -> str:
    """The name of a file in one folder; raises ModelError for one that leads elsewhere."""
    if not _FILE_NAME.fullmatch(name := _text(name)):
        raise ModelError(f"a registry names a file {name!r}, which is no plain name; it is not fetched.")
    return str(name)
