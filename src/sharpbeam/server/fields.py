"""Fields of a request, declared once: they are read, checked and described by their model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from sharpbeam.errors import InputError
from sharpbeam.server.refusals import bad_request
from sharpbeam.text.glossary import Glossary

if TYPE_CHECKING:
    from typing_extensions import Self

Texts = str | list[str]
Terms = dict[str, str | list[str]]
NOUNS = {str: "a text", int: "a number", bool: "true or false", Texts: "a text, or a list of texts"}
NOUNS[Terms] = "an object of terms and their translations"
MOST_TERMS = 1000  # of a glossary
KINDS = ("application/json", "application/x-www-form-urlencoded")


class RequestFields(BaseModel):
    """The fields of a request; names that a model lacks are ignored."""

    api_key: str = Field("", description="a key of the server, where it needs one; a header may have it too")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """The fields by name, as the body has them; raises Refused. An empty one is a missing one, except texts."""
        values = {}
        for name, value in fields.items():
            field = cls.model_fields.get(name)
            if field is not None and value not in (None, []) and (value != "" or field.annotation == Texts):
                values[name] = value
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
        name = str(fault["loc"][0])
        if fault["type"] == "missing":
            raise bad_request(f"Invalid request: missing {name} parameter")
        if fault["type"] == "literal_error":
            raise bad_request(f"{str(fault['input'])[:40]} {name} is not supported")
        noun = NOUNS[cls.model_fields[name].annotation]
        raise bad_request(f"Invalid request: {name} parameter is not {noun}")

    @classmethod
    def description(cls, summary: str) -> dict[str, Any]:
        """The entry in OpenAPI of an endpoint that takes these fields as JSON or as a form."""
        content = {kind: {"schema": cls.model_json_schema()} for kind in KINDS}
        return {"summary": summary, "requestBody": {"required": True, "content": content}}


def texts_of(value: Texts) -> list[str]:
    """A field of texts as a list."""
    return [value] if isinstance(value, str) else value


def glossary_of(terms: Terms) -> Glossary | None:
    """The glossary of a field; None without terms. Raises Refused."""
    if len(terms) > MOST_TERMS:
        raise bad_request(f"Invalid request: glossary has {len(terms)} terms; at most {MOST_TERMS}")
    try:
        return Glossary.of(terms)
    except InputError as error:
        raise bad_request(f"Invalid request: {error}") from None
