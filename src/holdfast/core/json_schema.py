"""`JsonSchema`: an output type that is written as a JSON Schema, and not as a type of Python.

This module must never check a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.schema_checks.schema_limits import OUTPUT_LIMITS
from holdfast.core.schema_checks.schema_sense import read_schema

_WANTS_SOMETHING = frozenset(
    {"type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}
)


class JsonSchema(Struct, frozen=True, omit_defaults=True):
    """An output type as a JSON Schema: `agent.run(..., output=JsonSchema({...}))`.

    The output is a JSON value: a dictionary, a list, a text, a number, a boolean or None. The schema is
    saved with the turn, so `resume` does not need it again.

    Args:
        schema: the JSON Schema: at most 256 KiB of JSON, 20,000 values, 64 levels of nesting and 2,000
            references, which must be inside of it.
        name: the name of the output in requests; by default its title.
        description: the description of the output in requests.
        strict: let the provider enforce the schema where it can.

    Raises:
        ConfigurationError: the schema allows any value, is not a JSON Schema or is too large; the error
            names the place.

    >>> JsonSchema({"type": "object", "title": "Trip"}).name
    'Trip'
    """

    schema: Mapping[str, object]
    name: str = ""
    description: str = ""
    strict: bool = True

    def __post_init__(self) -> None:
        check_value("JsonSchema.schema", self.schema, Mapping)
        plain = read_schema("JsonSchema.schema", self.schema, OUTPUT_LIMITS)
        check_fields(self, "JsonSchema.")  # after the size, which bounds its time
        force_setattr(self, "schema", plain)
        if not self.name:
            force_setattr(self, "name", str(self.schema.get("title", "")))
        if not self.schema.keys() & _WANTS_SOMETHING:
            raise ConfigurationError(
                "JsonSchema.schema",
                "allows any answer",
                fix='Say what you want, such as "type": "object" with "properties"',
            )
