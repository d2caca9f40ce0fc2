"""`python -m bench.engines.serve ENGINE SETTINGS`: a Python engine that answers the lines of bench/engines/child.py."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Translate = Callable[[Sequence[str]], list[str]]


def ours(model: str, threads: int = 1, machine: dict[str, Any] | None = None, **options: Any) -> Translate:
    """Sharpbeam, with no options but those that are given."""
    from sharpbeam import Translator

    translator = Translator(model, threads=threads, **(machine or {}))
    return lambda texts: [one.text for one in translator.translate(texts, raw=True, **options)]


def bergamot(extension: str, config: str) -> Translate:
    """Bergamot built for this machine; `config` is YAML: Marian's options and the files of the model."""
    native = _extension("_bergamot", extension)
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        file.write(config)
        file.flush()
        service = native.Service(native.ServiceConfig(numWorkers=1, cacheSize=0, logLevel="off"))
        loaded = service.modelFromConfigPath(file.name)
    options = native.ResponseOptions(qualityScores=False, alignment=False, HTML=False, sentenceMappings=False)

    def translate(texts: Sequence[str]) -> list[str]:
        vector = native.VectorString()
        for text in texts:
            vector.append(text)
        return [one.target.text for one in service.translate(loaded, vector, options)]

    return translate


def slimt(extension: str, **model: str) -> Translate:
    """slimt, greedy; its own `__init__` wants the network, so the extension is loaded by its file."""
    native = _extension("_slimt", extension)
    loaded = native.Model(native.Config(), native.Package(**model))
    service = native.Service(workers=1, cache_size=0)
    return lambda texts: [one.target.text for one in service.translate(loaded, list(texts), html=False)]


def _extension(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def marian(options: dict[str, Any]) -> Translate:
    """Marian by pymarian."""
    import pymarian

    engine = pymarian.Translator(" ".join(f"--{name} {value}" for name, value in options.items()) + " --quiet")
    return lambda texts: list(engine.translate(list(texts)))


def ctranslate2(folder: str, model: str, kind: str, beam: int, size: int) -> Translate:
    """CTranslate2 with a copy in `folder` of our `model`, whose vocabularies make the pieces."""
    import ctranslate2 as engine

    from sharpbeam.decoding.languages import LanguageTags
    from sharpbeam.options.decode import LanguageOptions
    from sharpbeam.storage.model_folder import read_config
    from sharpbeam.text.vocabulary import read_vocabularies

    source, target = read_vocabularies(Path(model))
    direction = LanguageTags.of(read_config(Path(model))).direction(LanguageOptions())
    ids = {target.piece(token): token for token in range(len(target))}
    translator = engine.Translator(folder, compute_type=kind, inter_threads=1, intra_threads=1)

    def translate(texts: Sequence[str]) -> list[str]:
        tokens = [(*direction.before, *source.encode(text), *direction.after) for text in texts]  # eos among them
        rows = [list(map(source.piece, row)) for row in tokens]
        results = translator.translate_batch(rows, beam_size=beam, max_batch_size=size)
        return [target.decode([ids[piece] for piece in one.hypotheses[0] if piece in ids]) for one in results]

    return translate


ENGINES: dict[str, Callable[..., Translate]] = {
    "ours": ours,
    "bergamot": bergamot,
    "slimt": slimt,
    "marian": marian,
    "ctranslate2": ctranslate2,
}


def _peak_mib() -> float:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints is no answer
    translate = ENGINES[sys.argv[1]](**json.loads(sys.argv[2]))
    for line in sys.stdin:
        request = json.loads(line)
        texts, size = request["texts"], request["size"]
        wall, cpu = time.perf_counter(), time.process_time()
        answers = [one for first in range(0, len(texts), size) for one in translate(texts[first : first + size])]
        took = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "peak_mib": _peak_mib()}
        out.write(json.dumps({"texts": answers, **took}) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
