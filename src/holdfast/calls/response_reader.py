"""How responses are read: the shapes of the user, the profile of the endpoint, and the tools that were offered.

A shape is a function that knows one kind of object and returns the same content in a form that this
room reads. A reader is immutable, and holds for the calls that it is passed to. The result of a Holdfast run is read
like the response of an SDK; one that did not complete has no answer, so the text of a guard or of a limit is never
returned. This module must never call an SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.calls.object_json import own_values, to_json_object, to_json_value
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.argument_checks import check_fields, check_not_async, check_value
from holdfast.core.errors import ConfigurationError, ResponseError
from holdfast.core.events import Status


class ResponseShape(Protocol):
    """Reads one kind of foreign object."""

    def __call__(self, response: object, /) -> Mapping[str, object] | None:
        """Return the object as a response or chunk of a known wire, or None for any other object."""
        ...


class ResponseReader(Struct, frozen=True, kw_only=True):
    """How responses are read; one reader serves any number of calls and threads.

    Args:
        shapes: functions for the objects of libraries that Holdfast does not know. Each returns a whole
            response or one chunk as a dictionary in the form of openai (chat or responses), anthropic or
            google-genai, and None for objects of other kinds. They are asked in this order, before the
            built-in forms. An exception of a shape counts as an exception of the call.
        profile: how this endpoint's form of its wire differs from the vendor's.
        tools: the names of the tools that you offered; a call of any other tool is then an error.

    Raises:
        ConfigurationError: a shape is not a function.

    >>> from holdfast.calls import send_message
    >>> class Words:
    ...     def __init__(self, words):
    ...         self.words = words
    >>> def read_words(response):
    ...     if not isinstance(response, Words):
    ...         return None
    ...     text = " ".join(response.words)
    ...     return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    >>> reader = ResponseReader(shapes=[read_words])
    >>> send_message(lambda: Words(["Hello", "Ana"]), reader=reader).text
    'Hello Ana'
    """

    shapes: Sequence[ResponseShape] = ()
    profile: EndpointProfile = EndpointProfile()
    tools: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "reader.")
        for number, shape in enumerate(self.shapes):
            _check_shape(f"reader.shapes[{number}]", shape)
        force_setattr(self, "shapes", tuple(self.shapes))  # a list could change later
        if self.tools is not None:
            force_setattr(self, "tools", tuple(self.tools))


DEFAULT_READER = ResponseReader()
"""Knows the forms of the vendors' SDKs and of HTTP clients."""


def _check_shape(field: str, shape: object) -> None:
    check_value(field, shape, Callable)
    check_not_async(field, shape)
    if isinstance(shape, type):
        problem = f"is the class {shape.__name__}"
        raise ConfigurationError(field, problem, fix="Pass a function that reads its objects")


def convert_response(response: object, reader: ResponseReader = DEFAULT_READER) -> object:
    """Return the reading of the first shape that knows the object, otherwise the object itself.

    Raises:
        ConfigurationError: a shape returned neither a dictionary nor None.
    """
    for shape in reader.shapes:
        converted: object = shape(response)
        if converted is None:
            continue
        if not isinstance(converted, Mapping):
            name = getattr(shape, "__name__", type(shape).__name__)
            problem = f"{name} returned {type(converted).__name__}"
            raise ConfigurationError("shape", problem, fix="Return a dictionary, or None")
        return converted
    return response


def is_converse_reply(value: object) -> bool:
    """Whether this is a whole reply that boto3's `converse` returned.

    >>> is_converse_reply({"ResponseMetadata": {}, "stopReason": "end_turn", "output": {}})
    True
    """
    return isinstance(value, dict) and "stopReason" in value and "ResponseMetadata" in value


def find_event_stream(value: object) -> object:
    """Return the stream of events that a response of boto3 holds, and any other object unchanged.

    >>> find_event_stream({"ResponseMetadata": {}, "stream": [1]}), find_event_stream([2])
    ([1], [2])
    """
    if isinstance(value, Mapping) and "ResponseMetadata" in value and "stream" in value:
        return value["stream"]
    return value


_REPLIES = frozenset(
    {
        ("openai", "ChatCompletion"),
        ("openai", "Response"),
        ("anthropic", "Message"),
        ("anthropic", "BetaMessage"),
        ("google", "GenerateContentResponse"),
        ("litellm", "ModelResponse"),
        ("litellm", "ResponsesAPIResponse"),
        ("groq", "ChatCompletion"),
        ("mistralai", "ChatCompletionResponse"),
    }
)
"""Package and class of the whole replies of SDKs. Other classes of these packages are no replies to a prompt."""
_PACKAGES = frozenset(package for package, _ in _REPLIES)
_PENDING = ("queued", "in_progress")


def is_known_reply(value: object, reader: ResponseReader = DEFAULT_READER) -> bool:
    """Whether a value is certainly the whole reply of a model: an SDK's object, or one that a shape knows.

    An object of an SDK that stands for a reply which is not finished, in the background mode of openai, is none.

    >>> is_known_reply({"choices": []}), is_known_reply("Hi"), is_known_reply(None)
    (False, False, False)
    """
    package = type(value).__module__.partition(".")[0]
    if package in _PACKAGES:
        names = {(package, kind.__name__) for kind in type(value).__mro__}
        if not _REPLIES.isdisjoint(names):
            return own_values(value).get("status") not in _PENDING
    if is_converse_reply(value):
        return True
    return bool(reader.shapes) and convert_response(value, reader) is not value


def unwrap_run_result(response: object, reader: ResponseReader = DEFAULT_READER) -> object:
    """Return the result of a run as a chat completion, and any other object unchanged.

    An object that one of the reader's shapes knows is read by that shape first.

    Raises:
        ResponseError: the run did not complete.

    >>> unwrap_run_result({"choices": []})
    {'choices': []}
    """
    response = convert_response(response, reader)
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
