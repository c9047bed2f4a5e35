"""Tools that the caller of a turn runs: their descriptions, the question for a result, the result.

A call of such a tool is a question of the run, and its answer is the result of the caller's tool. So
the call is saved, waits as long as it takes and continues in any process. This module must never run
a tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import Answer, Question
from holdfast.core.schema_checks.schema_limits import TOOL_LIMITS
from holdfast.core.schema_checks.schema_sense import read_schema

CLIENT_TIMEOUT = 3600.0
"""Seconds that a call waits for its result."""

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ClientTool(Struct, frozen=True, omit_defaults=True):
    """A tool that the caller of a turn runs, such as a function of a browser page.

    The model calls it like any other tool. A call whose arguments do not fit the schema goes back to the
    model. Any other asks a `ClientToolQuestion`, and the answer is its result. Pass it in `tools=`; it is
    saved with the turn, so `resume` does not need it again.

    Args:
        name: the name that the model sees.
        description: its description, for the model.
        parameters: the JSON Schema of its arguments, an object; by default there are none. It has at
            most 64 KiB of JSON, 2,000 values, 64 levels of nesting and 500 references. Formats, and
            patterns with look-around or back-references, are left to your tool.
        strict: whether the provider enforces the schema; see `tool`.

    Raises:
        ConfigurationError: providers do not accept the name, or the schema is not that of an object, is
            not a JSON Schema or is too large; the error names the place.

    >>> ClientTool("get_location", "Where the user is.").parameters["type"]
    'object'
    """

    name: str
    description: str = ""
    parameters: Mapping[str, object] = {}
    strict: bool | None = None

    def __post_init__(self) -> None:
        check_value("ClientTool.parameters", self.parameters, Mapping)
        given = self.parameters or {"type": "object", "properties": {}}
        plain = read_schema("ClientTool.parameters", given, TOOL_LIMITS)
        check_fields(self, "ClientTool.")  # after the size, which bounds its time
        force_setattr(self, "parameters", plain)
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                "ClientTool.name",
                f"providers reject {self.name!r}: 1 to 64 letters, digits, '_' and '-' are allowed",
                fix="Rename it",
            )
        if plain.get("type") != "object":
            raise ConfigurationError(
                "ClientTool.parameters",
                "is not the JSON Schema of an object",
                fix='Write {"type": "object", "properties": {...}}',
            )


class ClientToolResult(Struct, frozen=True, omit_defaults=True):
    """The result of the caller's tool.

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
