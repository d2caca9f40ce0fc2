"""The kernels' room: which native kernels run, and slow readable references that they are tested against."""

from __future__ import annotations

from sharpbeam import _core


def table_names() -> list[str]:
    """Names of the kernel tables that this machine can run, lowest first: scalar, avx2, avx512, avx512vnni."""
    return _core.table_names()


def table_name() -> str:
    """Name of the table in use: the best of this machine, or a lower one that SHARPBEAM_ISA names.

    Raises ValueError where SHARPBEAM_ISA names a table that this machine cannot run.
    """
    return _core.table_name()
