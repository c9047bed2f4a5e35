"""A model that does what a request says, as far as the endpoint understood it: for tests of probes."""

from __future__ import annotations

from holdfast.core.messages import FinishReason, Reply, Text
from holdfast.testing.emulator import EmulatedRequest, call
from holdfast.testing.emulator.script import ReplyLike

NUMBERS = " ".join(map(str, range(1, 201)))


def obey(request: EmulatedRequest) -> ReplyLike:
    """Call a tool that is forced, write an object that is asked for, and keep to the limit."""
    if request.tools and request.body.get("tool_choice") is not None:
        return call(request.tools[0].name, {"city": "Lisbon"})
    if request.body.get("response_format") is not None:
        return '{"city": "Lisbon"}'
    text = NUMBERS if "numbers" in request.text else "Hello."
    most = 4 * request.max_tokens if request.max_tokens is not None else len(text)
    if len(text) <= most:
        return text
    return Reply((Text(text[:most]),), finish=FinishReason.LENGTH)
