"""Servers to compare with, on the same HTTP stack as ours: one request at a time, and LibreTranslate's design.

`one`: our library after a lock, the same model and options. `libretranslate`: four threads, each of which loops over
the texts of a request and hands one after another to CTranslate2, with the same weights and the same beam; sentence
splitting and everything else that LibreTranslate does around it is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

from sharpbeam import Translator
from sharpbeam.server.run import listen, url_of

THREADS = 4  # LibreTranslate's default


def one_at_a_time(model: str, beam: int, threads: int) -> Callable[[str], str]:
    """Our library after a lock."""
    translator, lock = Translator(model, threads=threads, beam_size=beam), Lock()

    def translate(text: str) -> str:
        with lock:
            return translator.translate([text])[0].text

    return translate


def per_text(model: str, beam: int, threads: int) -> Callable[[str], str]:
    """CTranslate2, one text after another."""
    import ctranslate2

    from bench.engines import ctranslate2_model

    folder = Path(model)
    loaded = Translator(folder, threads=1).loaded
    written = ctranslate2_model.write(folder, ctranslate2_model.home(folder) / "int8", "int8")
    engine = ctranslate2.Translator(str(written), compute_type="int8", inter_threads=1, intra_threads=threads)
    ids = {loaded.target.piece(token): token for token in range(len(loaded.target))}
    eos = loaded.source.piece(loaded.model.eos_id)

    def translate(text: str) -> str:
        pieces = [loaded.source.piece(token) for token in loaded.source.encode(text)]
        (result,) = engine.translate_batch([[*pieces, eos]], beam_size=beam)
        return loaded.target.decode([ids[piece] for piece in result.hypotheses[0]])

    return translate


def serve(translate: Callable[[str], str], threads: int) -> None:
    """Serve POST /translate {q, source, target} until the process is ended."""
    app = FastAPI()

    @app.on_event("startup")
    def start() -> None:
        current_default_thread_limiter().total_tokens = threads

    @app.post("/translate")
    async def answer(request: Request) -> dict[str, Any]:
        q = (await request.json())["q"]
        texts = q if isinstance(q, list) else [q]
        answers = await run_in_threadpool(lambda: [translate(text) for text in texts])
        return {"translatedText": answers if isinstance(q, list) else answers[0]}

    listener = listen("127.0.0.1", 0)
    print(f"at {url_of(listener)};", file=sys.stderr, flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    kind, model, beam, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    make = {"one": one_at_a_time, "libretranslate": per_text}[kind]
    serve(make(model, beam, threads), THREADS if kind == "libretranslate" else 64)
