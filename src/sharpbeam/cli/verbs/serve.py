"""`sharpbeam serve`: models as an HTTP server with a web page."""

from __future__ import annotations

import sys
from typing import Annotated

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.errors import needs_extra
from sharpbeam.options.decode import MachineOptions, OutputLayerOptions, ScheduleOptions, SearchOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.server import ServerOptions

OF_REQUESTS = "num_hypotheses", "prefix_bias_beta", "return_alternatives", "return_attention", "return_scores"


@verb(without=(*OF_REQUESTS, "min_alternative_expansion_prob", "sampling"))
def serve(
    models: list[str] = argument(
        "Folders or names; SOURCE-TARGET=FOLDER where the name does not tell the direction.", "MODEL..."
    ),
    *,
    server: ServerOptions,
    options: Annotated[DecodeKeywords, SearchOptions, ScheduleOptions, OutputLayerOptions],
    machine: MachineOptions,
) -> None:
    """Serve models over HTTP, with a web page, until Ctrl-C or SIGTERM.

    The sentences of all clients are decoded together. The server speaks the APIs of LibreTranslate (`/translate`,
    `/languages`, `/detect`) and DeepL (`/v2`), and describes itself at `/docs`. Each request is logged as one line of
    JSON on stderr, without its text.

    Examples:

    * `sharpbeam serve de-en` and open http://127.0.0.1:5000
    * `curl -d q="Guten Morgen." -d source=de -d target=en http://127.0.0.1:5000/translate`
    * `sharpbeam serve de-en en-fr=models/enfr --host 0.0.0.0 --api-keys keys.txt`
    """
    with needs_extra("sharpbeam serve", "server"):
        from sharpbeam.server.app import create_app
        from sharpbeam.server.run import listen, run

    app, begin = create_app(models, server, machine, **options), f"Serving {', '.join(models)} at "
    listener = listen(server.host, server.port)
    run(app, server, listener, lambda url: print(f"{begin}{url}; Ctrl-C ends.", file=sys.stderr, flush=True))
