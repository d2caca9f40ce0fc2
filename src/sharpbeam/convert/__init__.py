"""Models of other programs, converted to model folders: `convert`, and `export` for the way back.

`formats` are file formats, `readers` make our tensors and config of a program's model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharpbeam.convert.conversion import Conversion, convert, export

__all__ = ["Conversion", "convert", "export"]


def __getattr__(name: str) -> Any:
    """Import on first use, so that a reader can be imported without all others."""
    if name not in __all__:
        raise AttributeError(f"module 'sharpbeam.convert' has no attribute {name!r}")
    from sharpbeam.convert import conversion

    return getattr(conversion, name)
