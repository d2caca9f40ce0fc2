"""Ray Data: datasets of any size over a cluster; a worker that dies costs its batch, which another one does again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sharpbeam.decoding.loading import ModelName
from sharpbeam.errors import needs_extra
from sharpbeam.jobs.batch import TranslateBatch
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.text.glossary import Glossary, Terms

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["TranslateBatch", "translate"]


def translate(
    dataset: Dataset,
    model: ModelName,
    *,
    field: str = "text",
    into: str = "translation",
    workers: int | tuple[int, int] = 1,
    batch_size: int = 512,
    glossary: Glossary | Terms | None = None,
    machine: MachineOptions | None = None,
    **options: Unpack[DecodeKeywords],
) -> Dataset:
    """The dataset with a column `into`: the translations of the column `field`. As all of Ray Data it is lazy.

    `workers` actors load the model, each with `machine.threads` CPUs (default 1) reserved; a pair is the least and the
    most of them. An actor that dies is started again, and its batches are done again: rows are neither lost nor
    doubled, and since no answer depends on its batch they are those of one process. Models are folders that every node
    has, or names of bundled ones. `glossary` is that of `Translator.translate`. Raises
    OptionError for wrong options, before any work.
    """
    with needs_extra("translating Ray datasets", "ray"):
        import ray.data
    machine = machine or MachineOptions(threads=1)
    DecodeOptions.of(**options)
    arguments: dict[str, Any] = {"field": field, "into": into, "glossary": glossary, "machine": machine, **options}
    least, most = workers if isinstance(workers, tuple) else (workers, workers)
    return dataset.map_batches(
        TranslateBatch,
        fn_constructor_args=(model,),
        fn_constructor_kwargs=arguments,
        compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
        num_cpus=max(1, machine.threads),
        batch_size=batch_size,
        max_restarts=-1,
        max_task_retries=-1,
    )
