"""The `@tool` decorator and the class `Tool`: a function that the model may call.

A tool is still callable like its function. Its schema is compiled when it is declared, or by the
registry if a type in its signature is not defined yet. `tools.invoke` runs tools for a model.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import opcode
import re
from collections.abc import Callable, Mapping
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Generic, Literal, TypedDict, TypeVar, Unpack, cast, overload

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value, unwrap_partial
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.model_request import ToolSpec
from holdfast.tools.write_checks import AnyCheck, Check

if TYPE_CHECKING:
    from typing import Concatenate

    from typing_extensions import ParamSpec
    from typing_extensions import TypeVar as DefaultTypeVar

    from holdfast.tools.tool_schema import Signature

    P = ParamSpec("P", default=...)
    R = DefaultTypeVar("R", default=object)
    Rest = ParamSpec("Rest")
else:
    # Defaults of type variables are for type checkers; Python has them from 3.13.
    from typing import ParamSpec

    P = ParamSpec("P")
    R = TypeVar("R")

S = TypeVar("S")

ToolEffect = Literal["read", "idempotent", "write"]
"""The effect of a tool: it changes nothing, running it twice is like running it once, or it is a write."""

Kind = Literal["coroutine", "async_generator", "sync"]
Binds = Literal["no", "instance", "class"]

NAME_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""The tool names that every provider accepts."""


class _CompiledSignature:
    """The compiled signature of a tool, which all its bound copies share."""

    __slots__ = ("signature", "spec")

    def __init__(self) -> None:
        self.signature: Signature | None = None
        self.spec: ToolSpec | None = None


class Tool(Generic[P, R]):
    """A function that the model may call; created by `@tool` or `as_tool`, immutable and callable.

    Attributes:
        function: the function.
        name: the name that the model sees.
        effect: the effect of running it twice; None if undeclared.
        timeout: seconds for one attempt; None for the agent's `tool_timeout`.
        result_limit: the maximum number of characters of a result; None for the default.
        waits: whether the function waits for something in the event loop; also when that is not known.
        ends_itself: whether the function ends by itself when it is cancelled, however long that
            takes, as an agent does that has to save its end.
        offered: whether models see the tool and may call it; otherwise only code may, by `CallTools`.
        strict: whether providers enforce the schema of its arguments; see `tool`.
        gives_output: whether its return value is the output of a turn.
        check: looks whether a call in doubt took effect; None if nothing can.
        server: the MCP server that offers the tool; empty for a tool of this program.
        digest: changes with the description and the schema of the tool at its server.
    """

    function: Callable[P, R]
    name: str
    effect: ToolEffect | None
    timeout: float | None
    result_limit: int | None
    kind: Kind
    waits: bool
    binds: Binds
    ends_itself: bool
    offered: bool
    strict: bool | None
    gives_output: bool = False
    check: Check | None = None
    server: str
    digest: str
    _description: str | None
    _compiled: _CompiledSignature

    def __init__(self, function: Callable[P, R], settings: ToolOptions) -> None:
        binds = _find_binding(function)
        if isinstance(function, classmethod | staticmethod):
            function = function.__func__
        name = settings.name if settings.name is not None else _own_name(function)
        self.__dict__.update(
            function=function,
            name=_check_name(name),
            effect=settings.effect,
            timeout=settings.timeout,
            result_limit=settings.result_limit,
            offered=settings.offered,
            strict=settings.strict,
            check=settings.make_check(),
            kind=_function_kind(function),
            waits=_may_wait(function),
            binds=binds,
            ends_itself=getattr(function, "ends_itself", False),
            server="",
            digest="",
            _description=settings.description,
            _compiled=_CompiledSignature(),
            __name__=getattr(function, "__name__", name),
            __qualname__=getattr(function, "__qualname__", name),
            __module__=getattr(function, "__module__", None),
            __doc__=getattr(function, "__doc__", None),
            __wrapped__=function,
        )

    @staticmethod
    def from_schema(
        name: str,
        description: str,
        schema: Mapping[str, object],
        call: Callable[..., S],
        **keywords: Unpack[SchemaToolKeywords],
    ) -> Tool[..., S]:
        """Return a tool of a JSON Schema and a function, such as for a table, a form or another program.

        Each call is validated by the schema before the function gets it, and refused in the words of any
        other tool. Nothing is converted: "3" is not 3. A property that is left out has its default.

        Args:
            name: the name for the model.
            description: the description for the model.
            schema: the JSON Schema of an object: at most 256 KiB of JSON, 20,000 values, 64 levels of
                nesting and 2,000 references, which must be inside of it.
            call: a function, sync or async, that takes the arguments as one dictionary, since their names
                may be none of Python; a parameter with the annotation `ToolContext` gets the context.
            keywords: those of `tool`, without the name and the description.

        Raises:
            ConfigurationError: the schema is none, or a pattern in it cannot be matched in bounded time;
                providers do not accept the name; the function takes something else. The error names the
                place.

        >>> table = {"type": "object", "properties": {"order-id": {"type": "integer"}}}
        >>> find = Tool.from_schema("find", "Find an order.", table, lambda given: given["order-id"])
        >>> find.name, find({"order-id": 7})
        ('find', 7)
        """
        for keyword in keywords:
            if keyword not in SchemaToolKeywords.__annotations__:
                raise TypeError(f"from_schema() got an unexpected keyword argument {keyword!r}")
        check_value("tool.description", description, str)
        settings = ToolOptions(name=name, description=description, **keywords)
        _check_name(name)
        _check_function(call)
        # Imported here because pydantic is slow to import.
        from holdfast.tools.schema_signature import compile_schema_signature

        signature = compile_schema_signature(name, schema, call)
        return make_tool_with_signature(call, settings, signature)

    @property
    def is_async(self) -> bool:
        """Whether the tool runs in the event loop; otherwise it runs in a thread."""
        return self.kind != "sync"

    @property
    def signature(self) -> Signature:
        """The compiled signature. Raises ConfigurationError with the name of an invalid argument."""
        compiled = self._compiled
        if compiled.signature is None:
            # Imported here because pydantic is slow to import.
            from holdfast.tools.tool_schema import compile_signature

            compiled.signature = compile_signature(
                self.function, self.name, skip_first=self.binds != "no"
            )
        return compiled.signature

    def compile_now_if_possible(self) -> None:
        """Compile the signature where the tool is declared, so that the traceback of an error points there.

        If a type is not defined yet, the registry compiles it later. Raises ConfigurationError for
        every other problem.
        """
        from holdfast.tools.annotations import UndefinedNameError

        with contextlib.suppress(UndefinedNameError):
            _ = self.signature

    @property
    def spec(self) -> ToolSpec:
        """The specification for providers; always the same object. Raises the errors of `signature`."""
        compiled = self._compiled
        if compiled.spec is None:
            compiled.spec = ToolSpec(
                self.name, self.description, self.signature.schema, self.strict
            )
        return compiled.spec

    @property
    def description(self) -> str:
        """The description for the model: as declared, or the docstring without its sections."""
        return self.signature.description if self._description is None else self._description

    def replace(self, *, name: str | None = None, description: str | None = None) -> Tool[P, R]:
        """Return a copy of the tool with another name or another description for the model.

        Args:
            name: the new name; None keeps the present one.
            description: the new description; None keeps the present one.

        Raises:
            ConfigurationError: providers do not accept the name.

        >>> def read(path: str) -> str:
        ...     return path
        >>> as_tool(read).replace(name="fs_read").name
        'fs_read'
        """
        changes = ToolOptions(name=name, description=description)
        compiled = _CompiledSignature()
        compiled.signature = self._compiled.signature
        copy: Tool[P, R] = Tool.__new__(Tool)
        copy.__dict__.update(self.__dict__, _compiled=compiled)
        if changes.name is not None:
            copy.__dict__["name"] = _check_name(changes.name)
        if changes.description is not None:
            copy.__dict__["_description"] = changes.description
        return copy

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, without validation."""
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Tool[P, R]: ...
    @overload
    def __get__(
        self: Tool[Concatenate[S, Rest], R], instance: S, owner: type | None = None
    ) -> Tool[Rest, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        owner_or_instance = owner if self.binds == "class" else instance
        if owner_or_instance is None or self.binds == "no":
            return self
        function = MethodType(self.function, owner_or_instance)
        bound: Tool[..., R] = Tool.__new__(Tool)
        bound.__dict__.update(self.__dict__, function=function, binds="no", __wrapped__=function)
        return bound

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tool is immutable: create another with tool(function, {name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Tool is immutable: {name!r} cannot be deleted")

    def __repr__(self) -> str:
        fields = [repr(self.name)]
        if self.effect is not None:
            fields.append(f"effect={self.effect!r}")
        if self.timeout is not None:
            fields.append(f"timeout={self.timeout}")
        if not self.offered:
            fields.append("offered=False")
        if self.strict is not None:
            fields.append(f"strict={self.strict}")
        if self.check is not None:
            fields.append("check=...")
        return f"Tool({', '.join(fields)})"


_SEND = opcode.opmap.get("SEND")
"""The instruction of every `await`, `async for` and `async with`."""


class ToolOptions(Struct, frozen=True, kw_only=True):
    """The keywords of `@tool`, checked."""

    name: str | None = None
    description: str | None = None
    effect: ToolEffect | None = None
    timeout: PositiveFloat | None = None
    result_limit: PositiveInt | None = None
    offered: bool = True
    strict: bool | None = None
    check: AnyCheck | None = None

    def __post_init__(self) -> None:
        check_fields(self, "tool.")
        if self.check is not None and self.effect != "write":
            problem = f'is for a tool with effect="write", and this one has {self.effect!r}'
            raise ConfigurationError("tool.check", problem, fix="Nothing else is ever in doubt")

    def make_check(self) -> Check | None:
        """Return the check with its settings; None if there is none."""
        return self.check if isinstance(self.check, Check | None) else Check(self.check)


class SchemaToolKeywords(TypedDict, total=False):
    """The keywords of `Tool.from_schema`, as they are passed."""

    effect: ToolEffect | None
    timeout: float | None
    result_limit: int | None
    offered: bool
    strict: bool | None
    check: AnyCheck | None


class ToolKeywords(SchemaToolKeywords, total=False):
    """The keywords of `@tool`, as they are passed."""

    name: str | None
    description: str | None


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(**keywords: Unpack[ToolKeywords]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    **keywords: Unpack[ToolKeywords],
) -> object:
    """Turn a function into a tool that the model may call; it can still be called directly.

    Args:
        function: a sync or async function, a method, a callable object or a `functools.partial`.
        name: the name for the model; the function's name by default.
        description: the description for the model; the docstring by default.
        effect: "read" (changes nothing), "idempotent" (running it twice is like once) or "write". A
            write with an unknown outcome is never repeated silently.
        timeout: seconds for one attempt; None for the agent's `tool_timeout`.
        result_limit: the maximum number of characters of a result that the model sees.
        offered: whether models may call it. False for a tool that only code calls, by `CallTools`: no
            request names it, and a model that calls it reads that there is no such tool.
        strict: whether the provider enforces the schema of the arguments while the model writes them.
            True converts the schema for it, and the arguments back; the agent cannot be made if the
            provider has no form for it. None is strict on OpenAI and Gemini if they take the schema
            unchanged, and nowhere else. False never is.
        check: a function that looks whether a write took effect, when nobody knows it: it gets a
            `DoubtfulCall` and returns `Happened(result)`, `NotHappened()` or `Unknown(why)`. `Check` has its
            settings. A tool with a check needs a time limit, its own or the agent's.

    Raises:
        ConfigurationError: an argument has no annotation, or a type that JSON cannot express; a check of a
            tool that is no write.

    >>> @tool(effect="read", timeout=10)
    ... def weather(city: str, days: int = 1) -> str:
    ...     'The weather in a city.'
    ...     return f"{city}: sun for {days} days"
    >>> weather("Porto")
    'Porto: sun for 1 days'
    >>> weather.name, weather.description, weather.spec.schema["required"]
    ('weather', 'The weather in a city.', ['city'])
    """
    for name in keywords:
        if name not in ToolOptions.__struct_fields__:
            raise TypeError(f"tool() got an unexpected keyword argument {name!r}")
    settings = ToolOptions(**keywords)
    if function is not None:
        return _make_tool(function, settings)
    return functools.partial(_make_tool, settings=settings)


def as_tool(function: Callable[P, R] | Tool[P, R]) -> Tool[P, R]:
    """Return a tool unchanged, and turn a plain function into a tool with default settings.

    >>> def add(a: int, b: int) -> int:
    ...     return a + b
    >>> as_tool(add).name
    'add'
    """
    if isinstance(function, Tool):
        return function
    # From Python 3.13 on, a classmethod around a Tool is a bound method whose function is the Tool.
    if isinstance(function, MethodType) and isinstance(function.__func__, Tool):
        return cast("Tool[P, R]", function.__func__.__get__(function.__self__))
    return _make_tool(function, ToolOptions())


def copy_as_output_function(function: Tool) -> Tool:
    """Return a copy whose return value is the output of a turn. By default its effect is a write."""
    copied: Tool = Tool.__new__(Tool)
    effect = function.effect or "write"
    copied.__dict__.update(function.__dict__, effect=effect, gives_output=True)
    return copied


def copy_as_foreign(function: Tool, server: str, digest: str) -> Tool:
    """Return a copy that says which server offers the tool.

    Args:
        function: the tool.
        server: the name of the server.
        digest: changes with the tool's description and schema there.
    """
    copied: Tool = Tool.__new__(Tool)
    copied.__dict__.update(function.__dict__, server=server, digest=digest)
    return copied


def copy_as_deferred(function: Tool, group: str) -> Tool:
    """Return a copy that the model sees only when the provider's own search has found it.

    Args:
        function: the tool.
        group: the name of the toolset that it is of.
    """
    compiled = _CompiledSignature()
    compiled.signature = function.signature
    compiled.spec = msgspec.structs.replace(function.spec, deferred_group=group)
    copied: Tool = Tool.__new__(Tool)
    copied.__dict__.update(function.__dict__, _compiled=compiled)
    return copied


def _make_tool(function: Callable[P, R], settings: ToolOptions) -> Tool[P, R]:
    if isinstance(function, Tool):
        function = function.function
    _check_function(function)
    new_tool = Tool(function, settings)
    new_tool.compile_now_if_possible()
    return new_tool


def make_tool_with_signature(
    function: Callable[P, R], settings: ToolOptions, signature: Signature
) -> Tool[P, R]:
    """Return a tool whose arguments are not those of its function."""
    compiled = _CompiledSignature()
    compiled.signature = signature
    new_tool = Tool(function, settings)
    new_tool.__dict__.update(_compiled=compiled, binds="no")
    return new_tool


def _check_function(function: object) -> None:
    """Reject classes, which are callable but not meant here; a classmethod object is allowed."""
    if isinstance(function, type):
        kind = f"the class {function.__name__}"
    elif callable(function) or isinstance(function, classmethod):
        return
    else:
        kind = type(function).__name__
    raise ConfigurationError(
        "tool",
        f"must be a function, got {kind}",
        fix="Pass a function, a method or an object with __call__",
    )


def _own_name(function: object) -> str:
    """Return the function's name; for a partial that of its function, for an object that of its class."""
    function = unwrap_partial(function)
    return str(getattr(function, "__name__", type(function).__name__))


def _check_name(name: str) -> str:
    if NAME_PATTERN.fullmatch(name):
        return name
    problem = (
        "a lambda has no name"
        if name == "<lambda>"
        else f"providers reject {name!r}: 1 to 64 letters, digits, '_' and '-' are allowed"
    )
    raise ConfigurationError("tool.name", problem, fix="Name it with tool(name=...)")


def _find_binding(function: object) -> Binds:
    """Return which first argument the function still needs, as in a class body: `self`, `cls` or none."""
    if isinstance(function, classmethod):
        return "class"
    if not inspect.isfunction(function):
        return "no"
    outer = function.__qualname__.rpartition(".")[0]
    code = function.__code__
    if not outer or outer.endswith("<locals>") or not code.co_argcount:
        return "no"
    first = code.co_varnames[0]
    lacks = first in {"self", "cls"} or first not in function.__annotations__
    return "instance" if lacks else "no"


def _function_kind(function: object) -> Kind:
    function = unwrap_partial(function)
    candidates = [function]
    if not inspect.isroutine(function):
        candidates.append(type(function).__call__)
    for candidate in candidates:
        if inspect.iscoroutinefunction(candidate):
            return "coroutine"
        if inspect.isasyncgenfunction(candidate):
            return "async_generator"
    return "sync"


def _may_wait(function: object) -> bool:
    """Whether a call of a function may wait for something: True unless its code has no `await` or the like."""
    function = unwrap_partial(function)
    called = function if inspect.isroutine(function) else type(function).__call__
    code = getattr(called, "__code__", None)
    if not (isinstance(code, CodeType) and code.co_flags & inspect.CO_COROUTINE):
        return True
    return _SEND is None or _SEND in code.co_code[::2]
