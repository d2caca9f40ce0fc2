"""Ray: many sentences over two local workers, one of which is killed in the middle, next to one process without Ray."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.flags import Data, Model
from bench.harness import record
from bench.harness.testset import DATA, german_english
from sharpbeam import Translator

TRAIN = "tatoeba/eng-deu.train.tsv.gz"
SEARCH: Any = {"beam_size": 1, "max_length": 40}


def main(
    data: Data = DATA,
    model: Model = "de-en",
    sentences: Annotated[int, typer.Option(help="of Tatoeba's train set, the shortest")] = 100_000,
    workers: int = 2,
) -> None:
    """Compare, print and record."""
    import ray
    from support.ray_workers import DyingBatch

    import sharpbeam.ray

    texts = sorted(german_english(data, 0, TRAIN)[0], key=len)[:sentences]
    os.environ["SHARPBEAM_EXACT"] = "0"  # what users get
    sharpbeam.ray.TranslateBatch = DyingBatch  # type: ignore[misc]
    paths = os.pathsep.join(str(record.ROOT / folder) for folder in ("src", "tests"))
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "killed"
        passed = {"PYTHONPATH": paths, "SHARPBEAM_EXACT": "0", "KILLED": str(note), "KILL_AT": str(len(texts) // 2)}
        ray.init(
            num_cpus=workers, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20,
            runtime_env={"env_vars": passed},
        )  # fmt: skip
        try:
            rows = [{"id": number, "text": text} for number, text in enumerate(texts)]
            dataset = ray.data.from_items(rows, override_num_blocks=50)
            began = time.perf_counter()
            done = sharpbeam.ray.translate(dataset, model, workers=workers, batch_size=1000, **SEARCH).take_all()
            seconds = time.perf_counter() - began
        finally:
            ray.shutdown()
        killed = note.exists()
    wanted = [one.text for one in Translator(model, threads=1).translate(texts, **SEARCH)]
    answers: dict[int, list[str]] = {}
    for row in done:
        answers.setdefault(row["id"], []).append(row["translation"])
    figures = {
        "sentences": len(texts),
        "killed": int(killed),
        "lost": sum(number not in answers for number in range(len(texts))),
        "doubled": len(done) - len(answers),
        "different": sum(answers.get(number, [text])[0] != text for number, text in enumerate(wanted)),
        "seconds": round(seconds, 1),
    }
    options = {"what": "cluster", "model": model, "workers": workers, **SEARCH}
    print(record.write("service", figures, threads=1, options=options))
