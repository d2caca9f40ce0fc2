"""Registries of models on the loopback: made-up answers in the formats of Mozilla, translateLocally and the hub."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

STORE = "storage.googleapis.com/moz-fx-translations-data--303e-prod-translations-data"
BUCKET = f"{STORE}/db/models.json"
RECORDS = "firefox.settings.services.mozilla.com/v1/buckets/main/collections/translations-models-v2/records"
ATTACHMENTS = "firefox-settings-attachments.cdn.mozilla.net"
BERGAMOT = "translatelocally.com/models.json"
HUB = "huggingface.co"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Registry:
    """The answers by host and path; `fault` may send another one, and `asked` has the paths that were asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.records: list[dict[str, Any]] = []
        self.models: dict[str, list[dict[str, Any]]] = {}
        self.tarballs: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.fault: Callable[[BaseHTTPRequestHandler, str, bytes], bool] = lambda handler, path, data: False
        self.address = ""

    def add_firefox(self, source: str, target: str, files: dict[str, bytes], kind: str = "tiny", **other: Any) -> None:
        """A model in the bucket and in the records: the digests of all files are in the records alone."""
        pair, roles = f"{source}-{target}", {}
        for name, data in files.items():
            role = name.partition(".")[0]
            key = {"lex": "lexicalShortlist", "srcvocab": "srcVocab", "trgvocab": "trgVocab"}.get(role, role)
            path = f"models/{pair}/run_{kind}/exported/{name}.gz"
            roles[key] = {"path": path}
            if role == "model":
                roles[key] |= {"uncompressedSize": len(data), "uncompressedHash": sha256(data)}
            self.files[f"{STORE}/{path}"] = gzip.compress(data, 1)
            location = f"main-workspace/translations-models-v2/{sha256(name.encode())[:8]}.zst"
            record = {"name": name, "sourceLanguage": source, "targetLanguage": target, "architecture": kind}
            record |= {"version": "2.0", "fileType": role, "filter_expression": "", "schema": 1, "id": location}
            record |= {"decompressedSize": len(data), "decompressedHash": sha256(data)}
            record["attachment"] = {"location": location, "size": 9, "hash": "", "filename": f"{name}.zst"}
            self.records.append(record | {"last_modified": 1})
        model = {"architecture": kind, "releaseStatus": "Release", "files": roles, "sourceLanguage": source}
        model |= {"targetLanguage": target, "metrics": {"flores200-plus": {"bleu": 38.8, "comet22": 0.87}}}
        self.models.setdefault(pair, []).append(model | other)

    def add_bergamot(self, source: str, target: str, files: dict[str, bytes], kind: str = "tiny") -> None:
        """A model of translateLocally: one archive with a folder."""
        short = f"{source}-{target}-{kind}"
        data = tar_of({f"{short}/{name}": each for name, each in files.items()})
        self.files[f"data.example/{short}.tar.gz"] = data
        model = {"modelName": short, "shortName": short, "type": kind, "src": source, "trg": target, "version": 1}
        model |= {"url": f"https://data.example/{short}.tar.gz", "checksum": sha256(data), "API": 1}
        self.tarballs.append(model)

    def add_hub(self, path: str, files: dict[str, bytes], license_: str = "apache-2.0") -> None:
        """A repository of the hub: weights are large files with a SHA-256, others have git's SHA-1."""
        siblings, commit = [], hashlib.sha1(path.encode()).hexdigest()
        for name, data in (files | {".gitattributes": b"*.bin filter=lfs", "My notes.md": b""}).items():
            blob = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            each: dict[str, Any] = {"rfilename": name, "size": len(data), "blobId": blob}
            if name.endswith((".safetensors", ".bin")):
                each["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
            siblings.append(each)
            self.files[f"{HUB}/{path}/resolve/{commit}/{name}"] = data
        answer = {"id": path, "sha": commit, "siblings": siblings, "cardData": {"license": license_}}
        self.files[f"{HUB}/api/models/{path}/revision/main"] = json.dumps(answer).encode()

    def answer(self, path: str) -> bytes | None:
        """The content of a path."""
        if path == BUCKET:
            document: Any = {"generated": "2026-09-30T00:44:58Z", "baseUrl": f"https://{STORE}", "models": self.models}
            return json.dumps(document).encode()
        if path == RECORDS:
            return json.dumps({"data": self.records}).encode()
        if path == BERGAMOT:
            return json.dumps({"models": self.tarballs}).encode()
        return self.files.get(path)


def tar_of(files: dict[str, bytes]) -> bytes:
    """A .tar.gz with these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def folder_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """The registry at an address, for SHARPBEAM_MIRROR."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].lstrip("/")
            registry.asked.append(path)
            data = registry.answer(path)
            if data is None:
                self.send_error(404)
                return
            if registry.fault(self, path, data):
                self.close_connection = True
                return
            begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            if begin and begin >= len(data):
                self.send_error(416)
                return
            send(self, data[begin:], 206 if begin else 200)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    registry.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, data: bytes, status: int = 200, length: int | None = None) -> None:
    """Answer with `data`, of the Content-Length `length` (default: its own)."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data) if length is None else length))
    handler.end_headers()
    handler.wfile.write(data)
