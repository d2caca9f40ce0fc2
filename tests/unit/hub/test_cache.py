"""Models by name from a registry on the loopback: fetched once, checked, whole or not there, whatever goes wrong."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Thread

import pytest
from support.registry import BUCKET, RECORDS, STORE, Registry, send, sha256, tar_of

import sharpbeam
from sharpbeam.errors import InputError, ModelError, OptionError, OutputError, SharpbeamError
from sharpbeam.hub import cache
from sharpbeam.hub.names import name_of

MODEL, LEX, VOCAB = "model.enpt.intgemm.alphas.bin", "lex.50.50.enpt.s2t.bin", "vocab.enpt.spm"
FILES = {MODEL: os.urandom(300_000), LEX: b"lex" * 50_000, VOCAB: b"vocab" * 9}
PATH = f"{STORE}/models/en-pt/run_tiny/exported"


def get(text: str = "firefox:en-pt") -> Path:
    return cache.get(text)


def content(folder: Path) -> dict[str, bytes]:
    names = {path.name for path in folder.iterdir()} - {"config.json", "origin.json"}
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture
def firefox(registry: Registry) -> Registry:
    registry.add_firefox("en", "pt", FILES)
    return registry


def test_a_model_is_fetched_once_and_its_origin_kept(firefox: Registry) -> None:
    folder = get()
    assert content(folder) == FILES
    count = len(firefox.asked)
    assert get() == folder
    assert len(firefox.asked) == count == 5
    (model,) = cache.installed()
    assert (model.name, model.facts["license"], model.facts["quality"][:14]) == (
        "firefox:en-pt", "MPL-2.0", "flores200-plus",
    )  # fmt: skip
    cache.remove("firefox:en-pt")
    assert not folder.exists()
    assert not cache.installed()
    with pytest.raises(InputError, match="is not in the cache; it has no models"):
        cache.remove("firefox:en-pt")


def test_random_entries_are_fetched_and_checked(registry: Registry) -> None:
    """200 models of all registries, each with the bytes that it was made of."""
    made, codes = random.Random(5), [a + b for a in "abcdefghij" for b in "klmnopqrst"]
    expected: dict[str, dict[str, bytes]] = {}
    for number in range(200):
        kind, pair = made.choice(["firefox", "bergamot", "opus"]), (codes[number % 100], codes[-1 - number // 2])
        files = {f"model.{number}.bin": made.randbytes(made.randrange(1, 3000)), "vocab.spm": made.randbytes(9)}
        if kind == "opus":
            files = {"model.safetensors": files[f"model.{number}.bin"], "source.spm": files["vocab.spm"]}
            registry.add_hub(f"Helsinki-NLP/opus-mt-{'-'.join(pair)}", files)
        else:
            (registry.add_firefox if kind == "firefox" else registry.add_bergamot)(*pair, files)
        expected[f"{kind}:{'-'.join(pair)}"] = files
    for name, files in expected.items():
        assert content(get(name)) == files
    assert len(expected) == len(cache.installed()) == 200


def test_other_registries_give_their_files(registry: Registry) -> None:
    registry.add_bergamot("de", "en", FILES)
    registry.add_hub("Helsinki-NLP/opus-mt-de-en", {"config.json": b"{}", "model.safetensors": b"w" * 9})
    assert content(get("bergamot:de-en")) == FILES
    for name in ("opus:de-en", "hf:Helsinki-NLP/opus-mt-de-en"):
        assert content(get(name)) == {"model.safetensors": b"w" * 9}
    registry.files["h.example/x.tar.gz"] = tar_of({f"a/{name}": data for name, data in FILES.items()})
    digest = sha256(registry.files["h.example/x.tar.gz"])
    assert content(get(f"https://h.example/x.tar.gz#sha256={digest}")) == FILES
    with pytest.raises(ModelError, match="its SHA-256 is"):
        get(f"https://h.example/x.tar.gz#sha256={'0' * 64}")
    for wrong in ("#sha265=" + digest, "#sha256=", f"#SHA256={digest}"):
        with pytest.raises(OptionError, match="after # write sha256="):
            get(f"https://h.example/x.tar.gz{wrong}")


def test_an_archive_brings_a_model_to_a_machine_without_network(
    firefox: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get()
    cache.pack_model("firefox:en-pt", tmp_path / "en-pt.tar")
    with pytest.raises(OutputError, match="is there already"):
        cache.pack_model("firefox:en-pt", tmp_path / "en-pt.tar")
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "other"))
    monkeypatch.setenv("SHARPBEAM_OFFLINE", "1")
    with pytest.raises(InputError, match="firefox:en-pt is not in the cache, and with --offline"):
        get()
    get(str(tmp_path / "en-pt.tar"))
    assert content(get()) == FILES
    with pytest.raises(InputError, match="give a name such as"):
        get("none.tar")
    (tmp_path / "no.tar").write_bytes(tar_of({"a/b": b""}))
    with pytest.raises(SharpbeamError, match=r"origin.json"):
        get(str(tmp_path / "no.tar"))


def test_a_copy_on_a_disk_is_a_mirror(firefox: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (RECORDS, BUCKET, *firefox.files):
        (tmp_path / "disk" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "disk" / path).write_bytes(firefox.answer(path) or b"")
    monkeypatch.setenv("SHARPBEAM_MIRROR", (tmp_path / "disk").as_uri())
    assert content(get()) == FILES
    assert not firefox.asked


Fault = Callable[[BaseHTTPRequestHandler, bytes], None]


def cut(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    """Break off in the middle; a request with a range gets the rest."""
    begin = int((handler.headers.get("Range") or "bytes=0-")[6:-1])
    send(handler, data[begin : begin + len(data) // 3 + 1], 206 if begin else 200, len(data) - begin)


def cut_without_ranges(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    send(handler, data[: len(data) // 2], 200, len(data))


def status(code: int) -> Fault:
    return lambda handler, data: handler.send_error(code)


def instead(change: Callable[[bytes], bytes]) -> Fault:
    return lambda handler, data: send(handler, change(data))


def redirect(to: str) -> Fault:
    def answer(handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.send_response(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def rubbish(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.wfile.write(b"SSH-2.0-no HTTP\r\n")


PASSING = {"cut": cut, "500": status(500), "503": status(503), "429": status(429), "rubbish": rubbish,
           "nothing": lambda handler, data: None, "half": cut_without_ranges}  # fmt: skip
LASTING = {
    "404": (status(404), "none of that name"),
    "403": (status(403), "not for everyone"),
    "410": (status(410), "HTTP 410"),
    "500": (status(500), "HTTP 500"),
    "nothing": (PASSING["nothing"], "Check the network"),
    "half": (cut_without_ranges, "the connection broke off"),
    "changed": (instead(lambda data: gzip.compress(bytes(len(gzip.decompress(data))))), "its SHA-256 is"),
    "bit": (instead(lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:]), "is broken|its SHA-256|unpacks to"),
    "short": (instead(lambda data: gzip.compress(b"short")), "it has 5 bytes, not"),
    "long": (instead(lambda data: gzip.compress(gzip.decompress(data) + b"x")), "unpacks to more than"),
    "bomb": (instead(lambda data: gzip.compress(bytes(1 << 26))), "unpacks to more than"),
    "page": (instead(lambda data: b"<html>Sign in to the network</html>"), "is broken"),
    "empty": (instead(lambda data: b""), "it has 0 bytes|is broken"),
    "loop": (redirect("/" + PATH + "/" + MODEL + ".gz"), "redirect"),
    "file": (redirect("file:///etc/passwd"), "not allowed"),
}


@pytest.mark.parametrize("name", PASSING)
@pytest.mark.parametrize("file", [MODEL, VOCAB])
def test_what_passes_is_tried_again(firefox: Registry, name: str, file: str) -> None:
    left = [1, 1]

    def fault(handler: BaseHTTPRequestHandler, path: str, data: bytes) -> bool:
        broken = path == f"{PATH}/{file}.gz" and bool(left)
        if broken:
            left.pop()
            PASSING[name](handler, data)
        return broken

    firefox.fault = fault
    assert content(get()) == FILES
    assert not left


@pytest.mark.parametrize("name", LASTING)
def test_what_lasts_is_one_clear_error_and_leaves_no_model(firefox: Registry, name: str) -> None:
    answer, reason = LASTING[name]

    def fault(handler: BaseHTTPRequestHandler, path: str, data: bytes) -> bool:
        broken = path == f"{PATH}/{MODEL}.gz"
        if broken:
            answer(handler, data)
        return broken

    firefox.fault = fault
    with pytest.raises(SharpbeamError, match=reason) as raised:
        get()
    assert "model.enpt" in str(raised.value)
    assert not cache.installed()
    firefox.fault = lambda *_: False
    assert content(get()) == FILES


def test_a_download_continues_where_a_killed_run_left_it(firefox: Registry) -> None:
    ranges: list[str | None] = []

    def fault(handler: BaseHTTPRequestHandler, path: str, data: bytes) -> bool:
        if path.endswith(f"{MODEL}.gz"):
            ranges.append(handler.headers.get("Range"))
        if len(ranges) == 1:
            cut(handler, data)
            raise ConnectionAbortedError
        return False

    firefox.fault = fault
    assert content(get()) == FILES
    assert ranges[0] is None
    assert ranges[1] is not None
    assert ranges[1].startswith("bytes=1")


def test_the_rest_of_another_version_is_not_taken(firefox: Registry) -> None:
    """The files of an earlier run are fetched anew where the registry has other files now."""
    firefox.fault = lambda handler, path, data: path.endswith("spm.gz") and not handler.send_error(404)
    with pytest.raises(InputError):
        get()
    firefox.fault = lambda *_: False
    firefox.records, firefox.models = [], {}
    firefox.add_firefox("en", "pt", FILES | {MODEL: b"new" * 1000})
    assert content(get())[MODEL] == b"new" * 1000
    work = Path(os.environ["SHARPBEAM_CACHE"]) / "work"
    assert [path.name for path in work.iterdir()] == ["firefox-en-pt.lock"]


def test_two_at_once_fetch_one_time(firefox: Registry) -> None:
    folders: list[Path] = []
    threads = [Thread(target=lambda: folders.append(get())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 4
    assert len(set(folders)) == 1
    assert firefox.asked.count(f"{PATH}/{MODEL}.gz") == 1


def test_a_full_disk_is_said(firefox: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(files: Path, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sharpbeam, "_make_model", full)
    with pytest.raises(OutputError, match=r"the disk of .* is full; SHARPBEAM_CACHE"):
        get()
    firefox.models = {}
    for record in firefox.records:
        record["attachment"]["size"] = 1 << 60
    with pytest.raises(OutputError, match=r"MiB free, and .* are needed"):
        get()


@pytest.mark.parametrize("home", ["", "/proc/none"])
def test_a_cache_that_cannot_be_is_said(firefox: Registry, monkeypatch: pytest.MonkeyPatch, home: str) -> None:
    monkeypatch.setenv("SHARPBEAM_CACHE", home)
    with pytest.raises(OutputError, match="SHARPBEAM_CACHE"):
        get()


EVIL = {
    "traversal": tar_of({"../../evil": b"x", "m/model.npz": b"y"}),
    "absolute": tar_of({"/tmp/evil-sharpbeam": b"x"}),
    "many": tar_of({f"f{i}": b"" for i in range(300)}),
    "bomb": tar_of({"model.npz": bytes(1 << 27)}),
    "no archive": b"MZ" * 100,
    "long name": tar_of({"m" * 300: b"x"}),
    "cut": tar_of({"model.npz": os.urandom(1 << 20)})[: 1 << 19],
    "broken xz": lzma.compress(gzip.decompress(tar_of({"model.npz": os.urandom(1 << 20)})))[: 1 << 19] + bytes(99),
}


@pytest.mark.parametrize("name", EVIL)
def test_an_archive_that_lies_harms_nothing(registry: Registry, tmp_path: Path, name: str) -> None:
    registry.files["h.example/x.tar.gz"] = EVIL[name]
    inside = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    try:
        assert set(content(get("https://h.example/x.tar.gz"))) <= {"model.npz", "evil", "evil-sharpbeam"}
    except ModelError as error:
        assert "archive" in str(error)
    new = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")} - inside
    assert all(path.parts[0] == "cache" for path in new)
    assert not Path("/tmp/evil-sharpbeam").exists()


def test_a_broken_archive_is_fetched_again(registry: Registry) -> None:
    registry.files["h.example/x.tar.gz"] = b"<html>busy</html>"
    with pytest.raises(ModelError, match=r"no \.tar"):
        get("https://h.example/x.tar.gz")
    registry.files["h.example/x.tar.gz"] = tar_of({"m/model.npz": b"weights"})
    assert content(get("https://h.example/x.tar.gz")) == {"model.npz": b"weights"}


def test_a_zip_is_an_archive_too(registry: Registry, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("m/model.npz", b"weights")
        packed.writestr("m/more/model.npz", b"other")
    registry.files["h.example/x.zip"] = (tmp_path / "x.zip").read_bytes()
    assert content(get("https://h.example/x.zip")) == {"model.npz": b"weights"}


def test_a_token_goes_to_the_hub_alone(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not to a mirror, and so not to where a redirect leads."""
    tokens: list[str | None] = []

    def fault(handler: BaseHTTPRequestHandler, path: str, data: bytes) -> bool:
        tokens.append(handler.headers.get("Authorization"))
        return False

    registry.fault = fault
    registry.add_hub("o/m", {"config.json": b"{}"})
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    get("hf:o/m")
    assert tokens == [None, None]


PROGRAM = """
import sys, pathlib, time
import sharpbeam
from sharpbeam.hub import cache
def slow(files, folder):
    folder.mkdir(parents=True)
    for path in sorted(files.iterdir()):
        (folder / path.name).write_bytes(path.read_bytes())
        time.sleep(0.002)
    (folder / "config.json").write_text("{}")
sharpbeam._make_model = slow
print("ready", flush=True)
cache.get("firefox:en-pt")
"""


def test_killed_at_any_moment_the_cache_is_whole(firefox: Registry) -> None:
    """At 50 moments over the time that a run takes, a kill leaves no model or all of it; then one run makes it."""

    def slow(handler: BaseHTTPRequestHandler, path: str, data: bytes) -> bool:
        time.sleep(0.004)
        return False

    firefox.fault = slow
    name, kills = name_of("firefox:en-pt"), 0
    assert name is not None
    place = Path(os.environ["SHARPBEAM_CACHE"]) / "models" / name.place
    for moment in range(50):
        child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        try:
            child.wait(moment * 0.002)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            kills += 1
        child.wait()
        child.stdout.close()
        if place.exists():
            assert content(place) == FILES
            cache.remove(str(name))
    assert kills > 10
    assert content(get()) == FILES
    work = Path(os.environ["SHARPBEAM_CACHE"]) / "work"
    assert not [path for path in work.iterdir() if path.suffix != ".lock"]
