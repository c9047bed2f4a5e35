"""An answer that is given by the call of a tool: how the tool is offered, and the call read as text.

The tool is nobody's to run. The reply that calls it is turned into one whose text is the answer, so
that history, journal and parse ladder are the same whichever way was asked. A call beside calls of
the user's tools is left out: it was made before their results were known, and the model answers
again when it has them. This module must never look into an answer.
"""

from __future__ import annotations

import msgspec

from holdfast.codecs.output_mode import OutputMethod
from holdfast.core.errors import ErrorCategory, ErrorInfo, TruncatedError
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
    """The request with the tools that give the answer; the only choice where there is no other."""
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
    """The reply with an answer in place of the call that gives it.

    >>> from holdfast.core.model_request import ToolSpec
    >>> wanted = OutputSchema("Trip", {}, tools=(ToolSpec("final_answer", "", {}),))
    >>> replace_output_call(Reply((ToolCall("1", "final_answer", '{"days": 3}'),)), wanted).text
    '{"days": 3}'
    """
    names = {tool.name: at for at, tool in enumerate(output.tools)}
    answers = [call for call in reply.calls if call.name in names]
    if not answers:
        return reply
    if len(answers) < len(reply.calls):
        parts: tuple[Part, ...] = tuple(part for part in reply.parts if part not in answers)
        return msgspec.structs.replace(reply, parts=parts)
    texts = dict.fromkeys(_output_text(call, names[call.name], output) for call in answers)
    beside = [kept for part in reply.parts if (kept := _part_beside_output(part)) is not None]
    parts = (*beside, Text("\n".join(texts)))
    kind = reply.kind if reply.kind is not ReplyKind.MALFORMED_CALL else ReplyKind.COMPLETE
    finish = FinishReason.STOP if reply.finish is FinishReason.TOOL_CALLS else reply.finish
    return msgspec.structs.replace(reply, parts=parts, kind=kind, finish=finish)


def _output_text(call: ToolCall, at: int, output: OutputSchema) -> str:
    arguments = call.arguments.strip() or "{}"
    if not output.tags:
        return arguments
    return f'{{"{output.tags[at]}":{arguments}}}'


def _part_beside_output(part: Part) -> Part | None:
    """What may stand beside an answer: words and state that belong to the call go with it."""
    if isinstance(part, Reasoning):
        return Reasoning(part.text) if part.text else None
    return part if isinstance(part, Media) else None


def truncation_error(reply: Reply) -> TruncatedError | None:
    """The error of a reply whose answer was cut, which looks as if it could be read."""
    if reply.kind is not ReplyKind.TRUNCATED or reply.calls:
        return None
    spent = f" after {reply.usage.output} tokens" if reply.usage.output else ""
    said = f"The reply was cut at the output limit{spent}"
    info = ErrorInfo(category=ErrorCategory.TRUNCATED, safe=said, code="truncated")
    return TruncatedError(said, info=info, partial=reply)
