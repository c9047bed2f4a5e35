"""Chooses how a typed output is requested from a wire, a provider and a model, and requests it by a tool.

The provider's defaults are in its `EndpointProfile` and the models' in the rows here. A mode whose schema the
provider refuses is not chosen. A mode that the user sets takes precedence over all of this.

The output tool never runs. Its call is replaced by a text, so that history, journal and the output
parser work the same in every mode. If the model also calls tools of the user, the output call is
dropped: it was made before their results were known, and the model calls it again later. This
module never interprets the output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codecs.endpoint_profile import EndpointProfile, find_endpoint_dialects
from holdfast.codecs.reply_checks import truncated_error
from holdfast.codecs.request_body import to_json
from holdfast.codecs.schemas.request_schemas import (
    describe_native,
    find_native_problem,
    find_tool_problem,
)
from holdfast.core.batch import find_duplicate_calls
from holdfast.core.errors import TruncatedError
from holdfast.core.messages import (
    FinishReason,
    Media,
    Part,
    Reasoning,
    Reply,
    ReplyKind,
    Text,
    ToolCall,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema

Mode: TypeAlias = Literal["native", "tool", "prompt"]


_JSON_ONLY: Final = "Answer with nothing but JSON that fits this JSON Schema:\n"


class OutputMethod(Struct, frozen=True):
    """How the output is requested.

    Args:
        mode: the mode.
        can_force: whether the model can be forced to call a tool.
        reason: why it is this mode, in words; "" if the user chose it.
    """

    mode: Mode
    can_force: bool = True
    reason: str = ""


class _ModelRow(Struct, frozen=True):
    """The modes of some models on some wires: without tools of the user, and with them."""

    wires: tuple[str, ...]
    models: re.Pattern[str]
    alone: Mode
    with_tools: Mode


_OPENAI: Final = ("openai_chat", "openai_responses")

# Before Gemini 3, a request has either a schema or tools, on every wire.
_BEFORE_GEMINI_3: Final = re.compile(r"gemini-(?:[12]\b|pro\b|ultra\b)")

_ROWS: Final = (
    # Older than structured outputs: the field is rejected or takes no schema.
    _ModelRow(
        _OPENAI, re.compile(r"\bgpt-3\.5|\bgpt-4(?:$|-(?:\d|32k|turbo|vision))"), "tool", "tool"
    ),
    _ModelRow(("gemini", "openai_chat"), _BEFORE_GEMINI_3, "native", "tool"),
    _ModelRow(
        ("anthropic",),
        re.compile(r"claude-(?:[a-z]+-)?(?:4[-.][1-9]\b|[5-9])"),
        "native",
        "native",
    ),
    # Older Claude models, and models of other vendors on this wire.
    _ModelRow(("anthropic",), re.compile(r""), "tool", "tool"),
)


def choose_output_method(
    wire: str, profile: EndpointProfile, request: ModelRequest
) -> OutputMethod:
    """Choose how to request the output that `request.output` describes.

    Args:
        wire: the codec's name.
        profile: the provider's profile.
        request: the request, with the user's tools only.
    """
    output = request.output
    can_force = bool(profile.forces_tools) and not _is_thinking(wire, request.settings)
    if output is None:
        return OutputMethod("prompt", can_force)
    if output.mode != "auto":
        return OutputMethod(output.mode, can_force)
    mode, reason = _find_usual_mode(wire, profile, request)
    dialects = find_endpoint_dialects(wire, profile)
    if mode == "native":
        if not output.strict and dialects.loose_outputs is None:
            return OutputMethod(
                "tool", can_force, "strict=False, and the provider enforces a schema"
            )
        problem = find_native_problem(request, dialects)
        reason = problem or describe_native(output, request.model, dialects)
        mode = "tool" if problem else "native"
    if mode == "tool" and (problem := find_tool_problem(output.tools, dialects)):
        mode, reason = "prompt", problem
    return OutputMethod(mode, can_force, reason)


def _find_usual_mode(
    wire: str, profile: EndpointProfile, request: ModelRequest
) -> tuple[Mode, str]:
    """Return the best mode of the provider and the model, and where it comes from."""
    alone, with_tools, source = profile.output_mode, profile.output_mode_with_tools, "provider"
    for row in _ROWS:
        if wire in row.wires and row.models.search(request.model):
            of_model = (
                row.alone if alone == "native" else alone,
                row.with_tools if with_tools == "native" else with_tools,
            )
            source = "provider" if of_model == (alone, with_tools) else "model"
            alone, with_tools = of_model
            break
    if request.hosted_tools and _BEFORE_GEMINI_3.search(request.model):
        reason = "before Gemini 3, tools of the provider allow neither a schema nor functions"
        return "prompt", reason
    beside = " beside tools" if request.tools and alone != with_tools else ""
    return (with_tools if request.tools else alone), f"the best mode of this {source}{beside}"


def _is_thinking(wire: str, settings: ModelSettings) -> bool:
    """Whether thinking is on. Anthropic's wire then rejects a forced tool."""
    if wire != "anthropic":
        return False
    return bool(settings.reasoning_tokens) or settings.reasoning_effort not in (None, "none")


def format_schema_instruction(schema: Mapping[str, object]) -> str:
    r"""Return the schema as an instruction, for outputs that have no field of the wire.

    Raises:
        ConfigurationError: JSON cannot express the schema.

    >>> format_schema_instruction({"type": "null"})
    'Answer with nothing but JSON that fits this JSON Schema:\n{"type":"null"}'
    """
    to_json("output.schema", schema)
    return _JSON_ONLY + json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def offer_output_tools(request: ModelRequest, method: OutputMethod) -> ModelRequest:
    """Add the output tools to a request; the model must call one if the user has no tools."""
    output = request.output
    if output is None:
        return request
    settings = request.settings
    tools = request.tools if settings.tool_choice != "none" else ()
    if not tools:
        only = output.tools[0].name if len(output.tools) == 1 else "required"
        choice = only if method.can_force else None
        settings = msgspec.structs.replace(settings, tool_choice=choice)
    return msgspec.structs.replace(
        request, tools=(*tools, *output.tools), settings=settings, output=None
    )


def replace_output_call(reply: Reply, output: OutputSchema) -> Reply:
    """Replace the call of an output tool by a text.

    >>> from holdfast.core.model_request import ToolSpec
    >>> wanted = OutputSchema("Trip", {}, tools=(ToolSpec("final_answer", "", {}),))
    >>> replace_output_call(Reply((ToolCall("1", "final_answer", '{"days": 3}'),)), wanted).text
    '{"days": 3}'
    """
    names = {tool.name: at for at, tool in enumerate(output.tools)}
    output_calls = [call for call in reply.calls if call.name in names]
    if not output_calls:
        return reply
    if len(output_calls) < len(reply.calls):
        parts: tuple[Part, ...] = tuple(part for part in reply.parts if part not in output_calls)
        return msgspec.structs.replace(reply, parts=parts)
    duplicates = find_duplicate_calls(output_calls)
    texts = dict.fromkeys(
        _output_text(call, names[call.name], output)
        for at, call in enumerate(output_calls)
        if at not in duplicates
    )
    others = [other for part in reply.parts if (other := _part_beside_output(part)) is not None]
    parts = (*others, Text("\n".join(texts)))
    kind = reply.kind if reply.kind is not ReplyKind.MALFORMED_CALL else ReplyKind.COMPLETE
    finish = FinishReason.STOP if reply.finish is FinishReason.TOOL_CALLS else reply.finish
    return msgspec.structs.replace(reply, parts=parts, kind=kind, finish=finish)


def _output_text(call: ToolCall, at: int, output: OutputSchema) -> str:
    arguments = call.arguments.strip() or "{}"
    if not output.tags:
        return arguments
    return f'{{"{output.tags[at]}":{arguments}}}'


def _part_beside_output(part: Part) -> Part | None:
    """Return the part as it stays beside the output; texts and signatures go with the call."""
    if isinstance(part, Reasoning):
        return Reasoning(part.text) if part.text else None
    return part if isinstance(part, Media) else None


def truncation_error(reply: Reply) -> TruncatedError | None:
    """Return the error of a reply whose output was cut; the part that came may still parse."""
    if reply.kind is not ReplyKind.TRUNCATED or reply.calls:
        return None
    return truncated_error(reply)
