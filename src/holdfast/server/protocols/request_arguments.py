"""Reads the parts that the requests of OpenAI's APIs share: tools and output types of the caller.

A caller is not the author of the agent: it may add tools and ask for a form of the text, and may not
replace the choices of the author. This module must never start a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.hosting.bound_agents import AnyAgent, plan_of
from holdfast.server.api.request_reading import LONGEST_NEAR_NAME
from holdfast.server.protocols.content_parts import refuse

NotTaken: TypeAlias = Mapping[str, tuple[tuple[object, ...], str]]
"""Fields that are not taken: the values that have no effect, and why others are refused."""

MOST_CLIENT_TOOLS: Final = 128
"""How many tools a caller may add to a request."""

JSON_OBJECT = JsonSchema({"type": "object"}, name="object", strict=False)
"""The output type of a request for any JSON object."""


class TakenFields(Struct, frozen=True):
    """The fields of a request that have no effect here.

    Args:
        refused: those that would change the form of the answer, or whose run would be another one.
        dropped: those that are left out, and named in a header.
    """

    refused: NotTaken
    dropped: NotTaken

    def check(self, request: Struct, body: bytes, *, strict: bool) -> list[str]:
        """Return the names of the fields that are left out, also those that do not exist.

        Args:
            request: the request.
            body: its body.
            strict: whether these are refused, too.

        Raises:
            ProblemError: a field is refused.
        """
        _refuse_given(request, self.refused)
        if strict:
            _refuse_given(request, self.dropped)
        left_out = [name for name, _ in _list_given(request, self.dropped)]
        known = set(request.__struct_encode_fields__)
        unknown = [name for name in msgspec.json.decode(body, type=_Names) if name not in known]
        if strict and unknown:
            near = get_close_matches(unknown[0][:LONGEST_NEAR_NAME], known, 1)
            fix = f"Did you mean {near[0]}?" if near else "Leave it out"
            raise refuse(unknown[0], "is not a field", "body", fix=fix)
        return [*left_out, *unknown]


_Names: TypeAlias = dict[str, msgspec.Raw]


def _list_given(request: Struct, fields: NotTaken) -> Iterator[tuple[str, str]]:
    """Yield the fields that have an effect elsewhere, and why they have none here."""
    for field, (harmless, why) in fields.items():
        value = getattr(request, field)
        if value is not None and value not in harmless:
            yield field, why


def _refuse_given(request: Struct, fields: NotTaken) -> None:
    for field, why in _list_given(request, fields):
        raise refuse(field, why, "unsupported_parameter")


def make_client_tool(
    name: str, description: str | None, parameters: dict[str, Any] | None, field: str
) -> ClientTool:
    """Return a tool of the caller. Raises ProblemError that names the field."""
    try:
        return ClientTool(name, description or "", parameters or {})
    except ConfigurationError as error:
        part = error.argument.removeprefix("ClientTool")
        raise refuse(f"{field}{part}", error.problem, fix=error.fix) from error


def make_schema(
    schema: dict[str, Any], name: str, description: str | None, *, strict: bool | None
) -> JsonSchema:
    """Return the type of an output. Raises ConfigurationError."""
    return JsonSchema(schema, name, description or "", strict=bool(strict))


def check_tool_count(tools: Sequence[object], field: str) -> None:
    """Raise ProblemError if a request has too many tools."""
    if len(tools) > MOST_CLIENT_TOOLS:
        raise refuse(field, f"has {len(tools)} tools; at most {MOST_CLIENT_TOOLS} are allowed")


def check_names(tools: Sequence[ClientTool], field: str) -> None:
    """Raise ProblemError if two tools of the caller have the same name."""
    seen: set[str] = set()
    for at, tool in enumerate(tools):
        if tool.name in seen:
            raise refuse(f"{field}[{at}]", f"another tool is named {tool.name!r}, too")
        seen.add(tool.name)


@contextmanager
def named_as(fields: Mapping[str, str]) -> Iterator[None]:
    """Name arguments of a turn in errors as the request names them.

    Args:
        fields: the fields of the request, by the arguments of a turn.
    """
    try:
        yield
    except ConfigurationError as error:
        argument = error.argument
        field = fields.get(argument, argument.removeprefix("settings."))
        raise ConfigurationError(field, error.problem, fix=error.fix) from error


def check_output(agent: AnyAgent, output: JsonSchema | None, field: str) -> None:
    """Raise ProblemError if a request replaces the output type of an agent."""
    if output is not None and plan_of(agent).output is not None:
        raise refuse(field, "the agent has an output type of its own", "unsupported_value")


def digest_body(body: bytes) -> str:
    """Return a digest of the body of a request."""
    return blake2b(body, digest_size=16).hexdigest()
