"""Flags that several benchmarks take."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[str, typer.Option(help="folder of the text")]
Model = Annotated[str, typer.Option(help="a model folder or a bundled name")]
Models = Annotated[list[str], typer.Option(help="a folder that models are looked for in; may be repeated")]
Sentences = Annotated[int, typer.Option(help="sentences of a test set, at equal distances; 0 = all")]
Rounds = Annotated[int, typer.Option(help="rounds of each contender")]
