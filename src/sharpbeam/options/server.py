"""The choices of a server: address, limits, models, access and deadlines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sharpbeam.options.documents import GUARDS, UNGUARDED
from sharpbeam.options.schema import Schema, advanced_option, option

LANGUAGE = r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?"  # a code, as the names of models have it


@dataclass(frozen=True)
class ServerOptions(Schema):
    """Address, limits and access of a server. A limit of 0 means none, if 0 is allowed."""

    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 = every network of the machine")
    port: int = option(5000, "port to listen on; 0 = a free one", ge=0, le=65535)
    api_keys: str = option("", "file of accepted API keys, one a line, plain or as sha256:HEX; empty: no key needed")
    guards: bool = option(True, GUARDS, off=UNGUARDED)
    queue_limit: int = option(
        2000, "sentences that may wait or be in flight; above it requests are refused (429, Retry-After)", ge=1
    )
    timeout: float = option(60.0, "seconds after which a request is refused and its work dropped (503)", gt=0)
    char_limit: int = option(20_000, "characters of the texts of one request; 0 = no limit", ge=0)
    batch_limit: int = option(256, "texts in one request; 0 = no limit", ge=0)
    body_limit: int = advanced_option(2**20, "bytes of the body of a request", ge=1024)
    file_limit: int = option(10 * 2**20, "bytes of a file to translate; 0 = no files", ge=0)
    file_timeout: float = option(600.0, "seconds after which the translation of a file is given up (503)", gt=0)
    alternatives_limit: int = option(10, "alternatives of a translation that a request may ask for", ge=0, le=50)
    pivot: str = option("en", "code of the language to translate through if no model translates directly; '' = none")
    max_connections: int = advanced_option(4096, "open connections; above it requests are refused (503)", ge=1)
    header_timeout: float = advanced_option(10.0, "seconds that a client may take to send the head of a request", gt=0)
    body_timeout: float = advanced_option(
        30.0, "seconds that a client may take to send the body, or may read nothing", gt=0
    )
    drain: int = option(30, "seconds that requests in flight get to finish after SIGTERM", ge=0)
    cors_origin: str = advanced_option("", "origin of other web pages that may call the server, * = any; empty: none")

    def check(self) -> None:
        """Raise OptionError for a pivot that is no code."""
        self.require(not self.pivot or bool(re.fullmatch(LANGUAGE, self.pivot)), "pivot", "a code such as en, or ''")
