"""Reads the result of a Holdfast run like the response of an SDK.

A run that did not complete has no answer: the text of a guard or of a limit is never returned.
"""

from __future__ import annotations

import json

from holdfast.calls.object_json import to_json_object, to_json_value
from holdfast.calls.response_shapes import convert_response
from holdfast.core.errors import ResponseError
from holdfast.core.events import Status


def unwrap_run_result(response: object) -> object:
    """Return the result of a run as a chat completion, and any other object unchanged.

    An object of a registered response shape is read by that shape first.

    Raises:
        ResponseError: the run did not complete.

    >>> unwrap_run_result({"choices": []})
    {'choices': []}
    """
    response = convert_response(response)
    status = getattr(type(response), "status", None) and getattr(response, "status", None)
    if not isinstance(status, Status):
        return response
    text = getattr(response, "text", None)
    if status is not Status.COMPLETED:
        raise ResponseError(f"The run has no answer: its status is {status.value}")
    output = getattr(response, "output", None)
    if not text and output is not None:
        dumped = to_json_object(output)
        text = json.dumps(to_json_value(output) if dumped is None else dumped)
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
