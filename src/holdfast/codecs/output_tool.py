"""Typed output through a tool: offers the output tool, and turns its call into text.

The output tool never runs. Its call is replaced by a text, so that history, journal and the output
parser work the same in every mode. If the model also calls tools of the user, the output call is
dropped: it was made before their results were known, and the model calls it again later. This
module never interprets the output.
"""

from __future__ import annotations

import msgspec

from holdfast.codecs.output_mode import OutputMethod
from holdfast.codecs.reply_checks import truncated_error
from holdfast.core.duplicate_calls import find_duplicate_calls
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
from holdfast.core.model_request import ModelRequest, OutputSchema


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
