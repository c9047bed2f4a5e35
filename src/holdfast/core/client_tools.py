"""Tools that the caller of a turn runs: their descriptions, the question for a result, the result.

A call of such a tool is a question of the run, and its answer is what the caller's tool returned. So
the call is saved, waits as long as it takes and continues in any process. This module must never run
a tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import Answer, Question
from holdfast.core.schema_checks.schema_limits import TOOL_LIMITS, check_schema_size

CLIENT_TIMEOUT = 3600.0
"""Seconds that a call waits for its result."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ClientTool(Struct, frozen=True, omit_defaults=True):
    """A tool that the caller of a turn runs, such as a function of a browser page.

    The model calls it like any other tool. The call asks a `ClientToolQuestion`, and the answer is its
    result. Pass it in `tools=`; it is saved with the turn, so `resume` does not need it again.

    Args:
        name: the name that the model sees.
        description: what it does, for the model.
        parameters: the JSON Schema of its arguments, an object; by default there are none. It has at
            most 64 KiB of JSON, 2,000 values, 64 levels of nesting and 500 references.

    Raises:
        ConfigurationError: providers do not accept the name, or the schema is not that of an object or
            is too large.

    >>> ClientTool("get_location", "Where the user is.").parameters["type"]
    'object'
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = {}

    def __post_init__(self) -> None:
        check_fields(self, "ClientTool.")
        if not self.parameters:
            force_setattr(self, "parameters", {"type": "object", "properties": {}})
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                "ClientTool.name",
                f"providers reject {self.name!r}: 1 to 64 letters, digits, '_' and '-' are allowed",
                fix="Rename it",
            )
        if self.parameters.get("type") != "object":
            raise ConfigurationError(
                "ClientTool.parameters",
                "is not the JSON Schema of an object",
                fix='Write {"type": "object", "properties": {...}}',
            )
        plain = check_schema_size("ClientTool.parameters", self.parameters, TOOL_LIMITS)
        _check_names(plain)
        force_setattr(self, "parameters", plain)


def _check_names(schema: Mapping[str, object]) -> None:
    """Raise ConfigurationError if the names of the arguments cannot be read."""
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise ConfigurationError(
            "ClientTool.parameters", "has a 'required' that is not a list of names"
        )
    if not isinstance(schema.get("properties", {}), dict):
        raise ConfigurationError("ClientTool.parameters", "has 'properties' that are not an object")


class ClientToolResult(Struct, frozen=True, omit_defaults=True):
    """What the caller's tool returned.

    Args:
        text: the result as the model reads it.
        is_error: whether the tool failed; the text says why.
    """

    text: str
    is_error: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "ClientToolResult.")


class ClientToolQuestion(Question[ClientToolResult], frozen=True, kw_only=True):
    """What does this tool of the caller return for these arguments?

    Args:
        tool: the name of the tool.
        arguments: the arguments, by name.
        call_id: the provider's id of the call; it may be empty or repeated.

    >>> ClientToolQuestion(tool="get_location", key="k").give("Porto").value
    ClientToolResult(text='Porto', is_error=False)
    """

    default_timeout: ClassVar[float] = CLIENT_TIMEOUT

    tool: str
    arguments: Mapping[str, object] = {}
    call_id: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def give(self, text: str, *, is_error: bool = False, by: str = "") -> Answer[ClientToolResult]:
        """Answer with a result: the text for the model, whether the tool failed, who gives it."""
        return self.answer(ClientToolResult(text, is_error), by=by)
