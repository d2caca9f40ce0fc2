"""`sharpbeam models`: models by name, fetched once and kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sharpbeam.cli.command import VerbGroup, verb
from sharpbeam.cli.flags import argument


@verb()
def list_() -> None:
    """List the models in the cache: name, size, license, folder.

    The cache is ~/.cache/sharpbeam; SHARPBEAM_CACHE names another folder.

    Examples:

    * `sharpbeam models list`
    """
    from sharpbeam.hub.cache import installed

    _print_table([(m.name, _megabytes(m.size), str(m.facts.get("license", "")), str(m.folder)) for m in installed()])


@verb()
def find(
    source: str = argument("Language of the text, such as en."),
    target: str = argument("Language of the translation, such as pt."),
) -> None:
    """List the models of all registries for two languages: name, kind, size to fetch, license, quality.

    A size or a figure is shown if the registry states one. Asks Mozilla, translateLocally and the Hugging Face hub.

    Examples:

    * `sharpbeam models find en pt`
    """
    import sys

    from sharpbeam.errors import InputError
    from sharpbeam.hub.registries import find

    entries, notes = find(source, target)
    seen: set[str] = set()
    rows = []
    for each in entries:
        name = f"{each.name}/{each.kind}" if str(each.name) in seen and each.kind else str(each.name)
        if name not in seen:
            rows.append((name, each.kind, _megabytes(each.size), each.license, each.quality))
        seen.add(name)
    _print_table(rows)
    for note in notes:
        print(f"sharpbeam: {note}", file=sys.stderr)
    if not rows:
        raise InputError(f"no registry that answers has a model from {source!r} to {target!r}.")


@verb()
def get(names: list[str] = argument("Names, or archives of models pack.", "NAME...")) -> None:
    """Fetch and convert models, if they are not in the cache.

    Names are firefox:SOURCE-TARGET, bergamot:SOURCE-TARGET, opus:SOURCE-TARGET, hf:OWNER/NAME, ct2:OWNER/NAME, or the
    address of an archive (.tar.gz, .zip), with #sha256=... to check it. Every verb that takes a model takes them too.

    SHARPBEAM_MIRROR stands before the host of each address; HTTPS_PROXY and HF_TOKEN hold.

    Examples:

    * `sharpbeam models get firefox:en-pt firefox:pt-en`
    """
    from sharpbeam.hub.cache import get

    for name in names:
        print(get(name))


@verb()
def remove(names: list[str] = argument("Names; models list shows them.", "NAME...")) -> None:
    """Remove models from the cache.

    Examples:

    * `sharpbeam models remove firefox:en-pt firefox:pt-en`
    """
    from sharpbeam.hub.cache import remove

    for name in names:
        remove(name)
        print(f"removed {name}")


@verb()
def pack(
    name: str = argument("A name such as firefox:en-pt; models list shows them."),
    file: Path = argument("The archive to write, such as en-pt.tar."),
) -> None:
    """Write a model of the cache as one file, for a machine without network: `models get FILE`.

    Examples:

    * `sharpbeam models pack firefox:en-pt en-pt.tar`
    """
    from sharpbeam.hub.cache import pack_model

    pack_model(name, file)
    print(file)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size else "?"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


models = VerbGroup.of("Get models by name, such as firefox:en-pt, and keep them.", list_, find, get, remove, pack)
