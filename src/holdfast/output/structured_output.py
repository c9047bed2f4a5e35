"""`StructuredOutput`: the type of the output, and how it is requested and checked.

A plain type as `output=` is the same with every default. This module must never choose the step
after a check: it provides the check, and `runtime.output_check` runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from dataclasses import replace as dataclass_replace
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypedDict,
    Unpack,
    overload,
)

import msgspec
from msgspec import Struct
from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import ConfigurationError, OutputError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.limits import Limits
from holdfast.core.messages import FinishReason, Reply, ToolResult
from holdfast.core.model_request import OutputMode, OutputSchema
from holdfast.core.output import OutputType, ParseResult, Valid
from holdfast.core.output_parser import parse_output
from holdfast.core.schema_checks.schema_limits import CHECK_STEPS, StepBudget

if TYPE_CHECKING:
    from holdfast.tools.tool import Tool

T = TypeVar("T")
U = TypeVar("U")
D_co = TypeVar("D_co", covariant=True, default=object)

Validator = Callable[..., Any]
"""A function that takes the output, or the output and an `OutputContext`; it may be async."""

OutputKind: TypeAlias = type[T] | Callable[..., Awaitable[T]] | Callable[..., T]
"""A type of an output, or a function that is called with the output and returns the final one."""

_SHOWN: Final = ("lenient", "attempts", "tokens", "seconds", "raw_on_failure")


class _OutputOptions(TypedDict, total=False):
    """The settings of `StructuredOutput` that do not affect its type parameter."""

    mode: OutputMode
    name: str
    description: str
    strict: bool
    lenient: bool
    attempts: int | None
    tokens: int | None
    seconds: float | None
    validators: Sequence[Validator]


class OutputContext(Struct, Generic[D_co], frozen=True, kw_only=True):
    """The facts for an output validator about the output that it checks.

    Args:
        run_id: the run id.
        key: the key of the check, such as `t1.i0.output`.
        session: the session, if the turn has one.
        deps: the object that was passed to `run`.
        text: the text from which the output was parsed.
        failures: how many earlier outputs of this turn did not fit.
    """

    run_id: str
    key: str
    session: str | None
    deps: D_co
    text: str
    failures: int


@dataclass(frozen=True)
class StructuredOutput(Generic[T]):
    """The type of the output, and how it is requested, parsed and validated.

    Args:
        kind: the type, or a list of types of which the output has one. A function in place of a type
            is called with the output as its arguments, and returns the output of the turn.
        mode: how the model is asked: "native" with the provider's field for a schema, "tool" with a
            tool, "prompt" with the instructions; "auto" chooses the mode that fits the model best.
        name: the name of the output in requests; if empty, the name of the type.
        description: the description of the output in requests.
        strict: let the provider enforce the schema where it can.
        lenient: also correct small mistakes, such as a superfluous comma; `parsed_by` is then
            "repaired".
        attempts: the maximum number of outputs; the default is `Limits.output_repairs` + 1.
        tokens: maximum tokens for corrections; after them, no other correction starts.
        seconds: maximum seconds for corrections; after them, no other correction starts.
        validators: functions that receive an output of the right type, in order, and may raise
            `OutputRejected`. They may run again after a crash, so they must not have side effects.
            In place of an output function, they receive its call, a `ToolCall`.
        raw_on_failure: if no output fits, return the last text; `parsed_by` is then "raw".

    Raises:
        ConfigurationError: an argument is invalid; the error names it.

    >>> StructuredOutput(int, mode="tool", attempts=3).mode
    'tool'
    """

    kind: object
    _: KW_ONLY
    mode: OutputMode = "auto"
    name: str = ""
    description: str = ""
    strict: bool = True
    lenient: bool = False
    attempts: PositiveInt | None = None
    tokens: PositiveInt | None = None
    seconds: PositiveFloat | None = None
    validators: Sequence[Validator] = ()
    raw_on_failure: bool = False

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: StructuredOutput[T],
            kind: type[T] | Sequence[type[T]],
            *,
            raw_on_failure: Literal[False] = ...,
            **rest: Unpack[_OutputOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StructuredOutput[T],
            kind: Callable[..., Coroutine[Any, Any, T]],
            *,
            raw_on_failure: Literal[False] = ...,
            **rest: Unpack[_OutputOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StructuredOutput[T],
            kind: Callable[..., T],
            *,
            raw_on_failure: Literal[False] = ...,
            **rest: Unpack[_OutputOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StructuredOutput[U | str],
            kind: type[U] | Sequence[type[U]],
            *,
            raw_on_failure: Literal[True],
            **rest: Unpack[_OutputOptions],
        ) -> None: ...
        @overload
        def __init__(
            self: StructuredOutput[T],
            kind: object,
            *,
            raw_on_failure: bool = ...,
            **rest: Unpack[_OutputOptions],
        ) -> None: ...
        def __init__(self, kind: object, **rest: Any) -> None: ...

    def __post_init__(self) -> None:
        check_fields(self, "output.")
        for at, validator in enumerate(self.validators):
            _takes_context(f"output.validators[{at}]", validator)


WantedOutput: TypeAlias = OutputKind[U] | Sequence[OutputKind[U]] | StructuredOutput[U] | JsonSchema
"""The values of `output=` for an output of the type `U`."""


class Output:
    """A compiled `StructuredOutput`: the type with its parser, its validators and its limits.

    Args:
        options: the settings.
        kind: the schema and the check of the type.
        functions: the output functions, by name.
    """

    __slots__ = ("_functions", "_kind", "_options", "schema", "validators")

    def __init__(
        self, options: StructuredOutput[Any], kind: OutputType, functions: Mapping[str, Tool]
    ) -> None:
        self._options = options
        self._kind = kind
        self._functions = functions
        self.schema: OutputSchema = msgspec.structs.replace(kind.schema, mode=options.mode)
        self.validators = tuple(
            (validator, _takes_context("output.validators", validator))
            for validator in options.validators
        )

    def with_validators(self, validators: Sequence[Validator]) -> Output:
        """Return the same type with more validators, which run after its own.

        Raises:
            ConfigurationError: a validator does not take an answer.
        """
        together = (*self._options.validators, *validators)
        options = dataclass_replace(self._options, validators=together)
        return Output(options, self._kind, self._functions)

    @property
    def takes_raw(self) -> bool:
        """Whether the last text is returned when no output fits."""
        return self._options.raw_on_failure

    @property
    def functions(self) -> tuple[Tool, ...]:
        """The output functions, which are called with the output as their arguments."""
        return tuple(self._functions.values())

    def read_function_value(self, result: ToolResult) -> object:
        """Return the value of an output function that ran in another process.

        Raises:
            OutputError: the value cannot be read, or the agent has no such function any more.
        """
        from holdfast.output.output_functions import read_return_value  # needs pydantic

        function = self._functions.get(result.name)
        if function is None:
            raise OutputError(f"This agent has no output function '{result.name}' any more")
        return read_return_value(function, result)

    def check(self, json_text: str) -> ParseResult:
        """Validate one JSON text."""
        return self._kind.check(json_text, StepBudget(CHECK_STEPS))

    def parse_reply(self, reply: Reply, now: float | None = None) -> ParseResult:
        """Parse the text of a reply, with each parser in turn.

        Args:
            reply: the reply.
            now: the time in seconds since 1970, for messages about dates.
        """
        # A reply without a finish reason may be truncated, and its end must not be invented.
        ended = reply.finish is not FinishReason.UNKNOWN
        lenient = self._options.lenient and ended
        return parse_output(reply.text, self._kind, lenient=lenient, now=now)

    def get_value(self, reply: Reply, known: ParseResult | None) -> object:
        """Return the value of an output that was accepted, in this process or an earlier one.

        Args:
            reply: the reply.
            known: the result of parsing it, if it was parsed already.

        Raises:
            OutputError: the output does not fit, because the type was changed since.
        """
        parsed = known or self.parse_reply(reply)
        if isinstance(parsed, Valid):
            return parsed.value
        raise OutputError(
            "The answer had the wanted type when it was given, and does not have the one that this "
            "agent wants: the type was changed since",
            raw=reply.text,
            problems=parsed.problems,
        )

    def cap_limits(self, limits: Limits) -> Limits:
        """Return the limits of a turn, with those that this output sets itself."""
        given = self._options
        caps = {
            "output_repairs": None if given.attempts is None else given.attempts - 1,
            "output_repair_tokens": given.tokens,
            "output_repair_seconds": given.seconds,
        }
        set_here = {name: value for name, value in caps.items() if value is not None}
        return msgspec.structs.replace(limits, **set_here) if set_here else limits

    def describe(self) -> str:
        """Describe the type and the settings that are not defaults, for people."""
        given = self._options
        shown = [self.schema.name, f"mode={given.mode}"]
        for field in fields(given):
            value = getattr(given, field.name)
            if field.name in _SHOWN and value != field.default:
                shown.append(f"{field.name}={value!r}")
        if self.validators:
            shown.append(f"validators={len(self.validators)}")
        return ", ".join(shown)


def compile_output(output: object) -> Output:
    """Compile the argument `output=`.

    Raises:
        ConfigurationError: the type has no JSON schema.
    """
    from holdfast.output.pydantic_output import pydantic_output  # pydantic is heavy

    wanted = _read_wanted(output)
    kind = pydantic_output(
        wanted.kind, name=wanted.name, description=wanted.description, strict=wanted.strict
    )
    return Output(wanted, kind, kind.functions)


def _read_wanted(output: object) -> StructuredOutput[Any]:
    if isinstance(output, StructuredOutput):
        return output
    if not isinstance(output, JsonSchema):
        return StructuredOutput(output)
    from holdfast.output.schema_output import (
        make_schema_type,
        refuse_schema,
    )  # loads pydantic

    return StructuredOutput(
        make_schema_type(output, refuse_schema),
        name=output.name,
        description=output.description,
        strict=output.strict,
    )


def _takes_context(argument: str, validator: Validator) -> bool:
    """Whether a validator also takes an `OutputContext`. Raises ConfigurationError."""
    try:
        signature = inspect.signature(validator)
    except (TypeError, ValueError):
        return False
    for arguments, with_context in (((None,), False), ((None, None), True)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return with_context
    raise ConfigurationError(
        argument, "must take the answer, or the answer and an OutputContext, and nothing else"
    )
