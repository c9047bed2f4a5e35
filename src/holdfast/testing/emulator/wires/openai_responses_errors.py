"""OpenAI's error responses on the Responses wire: status, headers and body, as data.

Most are those of Chat Completions; this module has the ones with other texts.
"""

from __future__ import annotations

from holdfast.testing.emulator.faults import ErrorKind
from holdfast.testing.emulator.wires.emulator_wire import EmulatedError
from holdfast.testing.emulator.wires.openai_chat_errors import ERRORS as CHAT


def make_error(
    status: int, message: str, code: str | None, param: str | None = None
) -> EmulatedError:
    """Make an error response with this message."""
    kind = "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return EmulatedError(status, body)


ERRORS: dict[ErrorKind, EmulatedError] = {
    **CHAT,
    "context_length": make_error(
        400,
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again.",
        "context_length_exceeded",
        "input",
    ),
    "model_not_found": make_error(
        400, "The requested model 'emulated-missing' does not exist.", "model_not_found", "model"
    ),
    "content_filtered": make_error(
        400,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy. Please "
        "try again with a different prompt: "
        "https://platform.openai.com/docs/guides/reasoning#advice-on-prompting",
        "invalid_prompt",
    ),
    "invalid_request": make_error(
        400,
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3 "
        "instead.",
        "decimal_above_max_value",
        "temperature",
    ),
}
