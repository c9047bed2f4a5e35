"""The wanted type of an answer, by pydantic: its schema, and the check of a JSON text.

Loaded only when an agent has an output type. It must never let a validator's exception text
through unredacted, nor coerce what is not JSON.
"""

from __future__ import annotations

import re
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from holdfast.core.errors import ConfigurationError
from holdfast.core.output import Invalid, Parsed, Valid
from holdfast.core.redaction import redact
from holdfast.core.request import OutputSchema

_LONGEST_INPUT = 80


class PydanticOutput:
    """`core.output.OutputType` for anything that pydantic understands."""

    __slots__ = ("_adapter", "schema")

    def __init__(self, adapter: TypeAdapter[Any], schema: OutputSchema) -> None:
        self._adapter = adapter
        self.schema = schema

    def check(self, json_text: str) -> Parsed:
        """Validate one JSON text against the type."""
        try:
            return Valid(self._adapter.validate_json(json_text))
        except ValidationError as error:
            return Invalid(
                tuple(_problem(dict(entry)) for entry in error.errors(include_url=False))
            )


def _problem(entry: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in entry["loc"]) or "the answer"
    wrote = repr(entry["input"])
    if len(wrote) > _LONGEST_INPUT:
        wrote = wrote[:_LONGEST_INPUT] + "..."
    shown = "" if entry["type"] in ("missing", "json_invalid") else f" (you wrote {wrote})"
    return redact(f"{path}: {entry['msg']}{shown}")


def pydantic_output(output: object) -> PydanticOutput:
    """The checked form of `output=`. Raises ConfigurationError if no schema can be made of it."""
    fix = "Use str, a pydantic model, a dataclass, a TypedDict, or a list or union of these"
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("Any", output))
        schema = adapter.json_schema()
    except (PydanticUserError, TypeError, NameError, SyntaxError) as error:
        raise ConfigurationError(
            "output", f"no JSON Schema can be made of {output!r}: {error}", fix=fix
        ) from error
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", getattr(output, "__name__", "answer"))[:64] or "answer"
    return PydanticOutput(adapter, OutputSchema(name, schema))
