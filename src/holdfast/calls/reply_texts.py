"""Reads the texts of one whole response: an object, a dictionary, a `Reply`, a `Result` or a string.

All output items are read, because the first may be reasoning or a tool call. This module never
returns the text of a reply that was declined, blocked or cut, or that is an error.
"""

from __future__ import annotations

from holdfast.calls.call_result import CallResult
from holdfast.calls.http_responses import HttpReply, read_http_response
from holdfast.calls.object_fold import ObjectFold
from holdfast.calls.object_json import to_json_object
from holdfast.calls.run_results import unwrap_run_result
from holdfast.codecs.reply_checks import Evidence, error_for_reply
from holdfast.core.errors import (
    EmptyResponseError,
    HoldfastError,
    NoTextError,
    ResponseValidationError,
    UnexpectedTypeError,
)
from holdfast.core.messages import Reply, Text

_HTML = ("<!doctype html", "<html")


def read_texts(response: object, *, output_text_first: bool = False) -> tuple[str, ...]:
    """Return the texts of a response that are not blank; several texts are followed by all texts joined.

    Args:
        response: the result of the call.
        output_text_first: read the field `output_text` before the output items; otherwise it is
            read only if the items have no text.

    Raises:
        HoldfastError: the response has no text, or its text must not be used.

    >>> item = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    >>> read_texts({"output": [{"type": "reasoning", "summary": []}, item]})
    ('Hi',)
    """
    response = read_http_response(unwrap_run_result(response))
    if isinstance(response, str):
        if response.lstrip().lower().startswith(_HTML):
            # An SDK returns the page of a proxy like this.
            raise UnexpectedTypeError("response object", "HTML page")
        return _require_text((response,), None)
    if isinstance(response, CallResult):
        if response.error is not None:
            raise response.error
        return _require_text((response.text,), None)
    if isinstance(response, Reply):
        return _require_text(_reply_texts(response), error_for_reply(response, Evidence()))
    if not response:
        raise UnexpectedTypeError("response object", "None")
    fold = ObjectFold()
    fold.read_whole(response)
    assembled = fold.finish()
    error: HoldfastError | None = assembled.error
    if not fold.wire:
        error = UnexpectedTypeError("response object", type(response).__name__)
    value = None if isinstance(response, HttpReply) else to_json_object(response)
    field = (value or {}).get("output_text")
    output_text = (field,) if isinstance(field, str) and field.strip() else ()
    items = _reply_texts(assembled.reply)
    first, second = (output_text, items) if output_text_first else (items, output_text)
    return _require_text(first or second, error)


def _reply_texts(reply: Reply) -> tuple[str, ...]:
    pieces = [part.text for part in reply.parts if isinstance(part, Text)]
    texts = tuple(text for text in pieces if text.strip())
    return texts if len(texts) < 2 else (*texts, "".join(pieces))


def _require_text(texts: tuple[str, ...], error: HoldfastError | None) -> tuple[str, ...]:
    """Return the texts, or raise the error; an error about missing text does not count if there is text."""
    if error is not None and not isinstance(error, EmptyResponseError | ResponseValidationError):
        raise error
    if any(text.strip() for text in texts):
        return texts
    raise error or NoTextError("no text in response")
