"""Checks arguments and options against their declared types, and names a wrong one at once.

A type checker finds these mistakes earlier, but there is none for a file, an environment variable or
a notebook. The annotation of a parameter or a field is the whole declaration, such as
`PositiveInt | None` or `Literal["a", "b"]`. Rules across several arguments stay beside the code that
has them. Wrong keywords and attributes are answered with the right ones. This module must never change a value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from inspect import Parameter
from typing import Any, TypeVar, cast, get_type_hints

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.type_checks import TypeCheck, compile_check

F = TypeVar("F", bound=Callable[..., Any])
Init = TypeVar("Init", bound=Callable[..., None])

_cached_check = functools.cache(compile_check)


def check_value(argument: str, value: object, expected: object) -> None:
    """Raise ConfigurationError unless `value` has the type `expected`.

    >>> check_value("seed", "x", int | None)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: seed: must be a whole number or None, got str
    """
    _cached_check(expected).check(argument, value)


def check_not_async(argument: str, function: object) -> None:
    """Check that a function of the user is not async, since its caller does not await it.

    Raises:
        ConfigurationError: it is async; without this check it would never run.

    >>> async def judge(value): ...
    >>> check_not_async("judge", judge)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: judge: is async, and would never be awaited. Write `def`
    """
    if is_async(function):
        raise ConfigurationError(
            argument, "is async, and would never be awaited", fix="Write `def`"
        )


def is_async(function: object) -> bool:
    """Whether a call returns a coroutine: of a coroutine function, or of an object with an async `__call__`.

    >>> async def wait(): ...
    >>> is_async(functools.partial(wait)), is_async(print)
    (True, False)
    """
    function = unwrap_partial(function)
    called = getattr(type(function), "__call__", None)  # noqa: B004  # REASON: its kind matters
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def unwrap_partial(function: object) -> object:
    """Return the function inside of any number of `functools.partial`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def check_fields(record: object, prefix: str = "") -> None:
    """Raise ConfigurationError unless the fields of a struct or a dataclass have their types.

    A field that has its default value is not checked.

    Args:
        record: the record; its `__post_init__` calls this function.
        prefix: precedes the field's name in the message.
    """
    kind: Callable[..., object] = type(record)
    for name, default, check in _compile_parameters(kind).checks:
        value = getattr(record, name)
        if value is not default and not check.accepts_whole(value):
            check.check(f"{prefix}{name}", value)


def check_arguments(function: F) -> F:
    """Decorate a function or an `__init__`, so that each call checks its arguments first.

    >>> @check_arguments
    ... def wait(seconds: float) -> None: ...
    >>> wait("long")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: seconds: must be a number, got str
    """

    @functools.wraps(function)
    def call_checked(*args: object, **kwargs: object) -> object:
        _check_call(_compile_parameters(function), args, kwargs)
        return function(*args, **kwargs)

    return cast("F", call_checked)


class _Parameters(Struct, frozen=True):
    """The parameters of a callable.

    Args:
        positional: the names of those that a call may give by position.
        rest: the name of the one that takes all further arguments, if there is one.
        checks: the name, the default and the check of each that declares a type.
    """

    positional: tuple[str, ...]
    rest: str | None
    checks: tuple[tuple[str, object, TypeCheck], ...]


def _check_call(
    parameters: _Parameters, args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    # A call that does not fit the signature raises a TypeError of its own after the checks.
    given = {**dict(zip(parameters.positional, args, strict=False)), **kwargs}
    if parameters.rest is not None:
        given[parameters.rest] = args[len(parameters.positional) :]
    for name, default, check in parameters.checks:
        value = given.get(name, default)
        if value is not default and not check.accepts_whole(value):
            check.check(name, value)


@functools.cache
def _compile_parameters(target: Callable[..., object]) -> _Parameters:
    hints = get_type_hints(target, include_extras=True)
    parameters = inspect.signature(target).parameters.values()
    return _Parameters(
        tuple(one.name for one in parameters if one.kind in _POSITIONAL),
        next((one.name for one in parameters if one.kind is Parameter.VAR_POSITIONAL), None),
        tuple(
            (one.name, one.default, compile_check(_declared_type(one, hints[one.name])))
            for one in parameters
            if one.name in hints and one.kind is not Parameter.VAR_KEYWORD
        ),
    )


_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def _declared_type(parameter: Parameter, hint: Any) -> object:
    return tuple[hint, ...] if parameter.kind is Parameter.VAR_POSITIONAL else hint


def name_wrong_keywords(
    explain: Callable[[Collection[str], Collection[str]], None],
) -> Callable[[Init], Init]:
    """Decorate an `__init__`, so that a wrong keyword raises ConfigurationError.

    Args:
        explain: called with the names of a wrong call and the known names; raises the error.
    """

    def decorate(init: Init) -> Init:
        @functools.wraps(init)
        def check_and_init(self: object, *args: object, **keywords: object) -> None:
            known = {*(init.__kwdefaults__ or {}), "model"}
            if not keywords.keys() <= known:
                explain(keywords, known)
            init(self, *args, **keywords)

        return cast("Init", check_and_init)

    return decorate


_OTHER_ATTRIBUTES = {
    "Agent": {
        "arun": "await agent.run(...)",
        "astream": "agent.stream(...)",
        "invoke": "agent.run_sync(...)",
        "ainvoke": "await agent.run(...)",
        "iter": "agent.stream(...)",
        "output_validator": "output=StructuredOutput(..., validators=[...])",
        "override": "agent.run(..., model=...), or another Agent",
        "run_async": "await agent.run(...)",
        "run_stream": "agent.stream(...)",
        "run_streamed": "agent.stream(...)",
        "run_stream_sync": "agent.stream(...)",
        "stream_async": "agent.stream(...)",
        "system_prompt": "Agent(..., instructions=...), which also takes a function",
        "tool": "@tool from holdfast, and Agent(..., tools=[...])",
        "tool_plain": "@tool from holdfast, and Agent(..., tools=[...])",
        "to_cli": "holdfast chat",
        "to_web": "holdfast serve",
    },
    "Result": {
        "all_messages": "result.messages",
        "content": "result.text",
        "data": "result.output",
        "final_output": "result.output",
        "message": "result.messages[-1]",
        "new_messages": "result.messages",
        "response": "result.text",
        "structured_output": "result.output",
        "to_input_list": "result.history",
        "value": "result.output",
    },
}
"""The name to write instead of an attribute that other libraries have, by the class."""


def explain_attribute(kind: str, name: str) -> str:
    """Return the message of the AttributeError for an attribute that a class does not have.

    Args:
        kind: the name of the class.
        name: the name of the attribute.

    >>> explain_attribute("Result", "data")
    "'Result' has no attribute 'data'. Write result.output"
    """
    written = _OTHER_ATTRIBUTES[kind].get(name)
    return f"{kind!r} has no attribute {name!r}" + (f". Write {written}" if written else "")
