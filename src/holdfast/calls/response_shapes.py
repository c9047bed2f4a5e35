"""Response shapes of the user: how objects of an unknown library are read as responses or chunks.

A shape is a function that knows one kind of object and returns the same content in a form that this
room reads. Shapes hold for the whole process. This module must never call an SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import Protocol, TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError


class ResponseShape(Protocol):
    """Reads one kind of foreign object."""

    def __call__(self, response: object, /) -> Mapping[str, object] | None:
        """Return the object as a response or chunk of a known wire, or None for any other object."""
        ...


S = TypeVar("S", bound=ResponseShape)

_lock = Lock()
_shapes: list[ResponseShape] = []


def register_response_shape(shape: S) -> S:
    """Let every function of `holdfast.calls` read the objects that a shape knows; usable as a decorator.

    Shapes are asked before the built-in ones, the latest first. An exception of a shape counts as an
    exception of the call.

    Args:
        shape: returns a whole response or one chunk as a dictionary in the form of openai (chat or
            responses), anthropic or google-genai, and None for objects of other kinds.

    Raises:
        ConfigurationError: the shape is not a function.

    >>> from holdfast.calls import send_message
    >>> class Words:
    ...     def __init__(self, words):
    ...         self.words = words
    >>> @register_response_shape
    ... def read_words(response):
    ...     if not isinstance(response, Words):
    ...         return None
    ...     text = " ".join(response.words)
    ...     return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    >>> send_message(lambda: Words(["Hello", "Ana"])).text
    'Hello Ana'
    >>> unregister_response_shape(read_words)
    """
    given: object = shape
    check_value("shape", given, Callable)
    if isinstance(given, type):
        problem = f"is the class {given.__name__}"
        raise ConfigurationError("shape", problem, fix="Register a function that reads its objects")
    with _lock:
        _shapes[:] = [shape, *(one for one in _shapes if one is not shape)]
    return shape


def unregister_response_shape(shape: ResponseShape) -> None:
    """Forget a shape; nothing happens if it is not registered.

    Args:
        shape: the function that was registered.

    >>> unregister_response_shape(lambda response: None)
    """
    with _lock:
        _shapes[:] = [one for one in _shapes if one is not shape]


def convert_response(response: object) -> object:
    """Return what the first shape that knows the object makes of it, otherwise the object itself.

    Raises:
        ConfigurationError: a shape returned neither a dictionary nor None.
    """
    for shape in tuple(_shapes):
        converted: object = shape(response)
        if converted is None:
            continue
        if not isinstance(converted, Mapping):
            name = getattr(shape, "__name__", type(shape).__name__)
            problem = f"{name} returned {type(converted).__name__}"
            raise ConfigurationError("shape", problem, fix="Return a dictionary, or None")
        return converted
    return response
