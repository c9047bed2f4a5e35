"""Makes an output type from a JSON Schema. The schema goes to the provider as it is written.

The problems of an output go back to the model like those of any output type. A schema may come from a caller of a
service: it is compiled once, and compiling and checking end after a number of steps (`core.schema_checks`). Patterns
are matched by an engine that never goes back. This module must never fetch a reference from anywhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from threading import Lock
from typing import Any, Final, TypeAlias

import msgspec
from pydantic_core import (
    InitErrorDetails,
    PydanticCustomError,
    SchemaValidator,
    ValidationError,
    core_schema,
)
from pydantic_core import SchemaError as PatternError

from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.schema_checks.schema_compiler import compile_schema
from holdfast.core.schema_checks.schema_nodes import CompiledSchema, shorten
from holdfast.core.schema_checks.schema_places import SchemaError
from holdfast.core.schema_checks.step_budget import CHECK_STEPS, COMPILE_STEPS, StepBudget
from holdfast.runtime.output.pydantic_output import WrittenSchema

Refuse: TypeAlias = Callable[[str, str], ConfigurationError]
"""Makes the error for a problem and a fix."""

_MOST_CACHED_BYTES: Final = 32 * 1024 * 1024
_BYTES_OF_ONE = 20
"""About how many bytes of memory one byte of a schema takes when it is compiled."""
_BYTES_OF_A_STATE = 500
"""About how many bytes of memory a state of a pattern takes."""


def make_schema_type(wanted: JsonSchema, refuse: Refuse) -> type[WrittenSchema]:
    """Return the output type of a JSON Schema.

    Args:
        wanted: the schema.
        refuse: makes the error if the schema cannot be used.

    Raises:
        ConfigurationError: the schema cannot be used.
    """
    try:
        compiled = _cache.compile(wanted.schema)
    except SchemaError as error:
        raise refuse(error.problem, error.fix) from error

    class SchemaAnswer(WrittenSchema):
        json_schema = wanted.schema

        @classmethod
        def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
            return core_schema.with_info_after_validator_function(
                lambda value, info: _check_answer(compiled, value, info.context),
                core_schema.any_schema(),
            )

    SchemaAnswer.__name__ = wanted.name or "answer"
    return SchemaAnswer


def refuse_schema(problem: str, fix: str) -> ConfigurationError:
    """Return the error for a schema that was passed as `output=`."""
    return ConfigurationError("JsonSchema.schema", problem, fix=fix)


class SchemaCache:
    """The schemas that were compiled last, by a digest of their text, in a bounded amount of memory.

    A service compiles the schema of a request when it checks the request, when it starts the turn and when
    it reads the output of the turn.

    Args:
        most_bytes: about how many bytes of memory the schemas may take.
    """

    def __init__(self, most_bytes: int = _MOST_CACHED_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._known: OrderedDict[bytes, tuple[CompiledSchema, int]] = OrderedDict()
        self._lock = Lock()
        self.compiled = 0
        """How often a schema was compiled."""

    def compile(self, schema: Mapping[str, object]) -> CompiledSchema:
        """Return a schema as it was compiled, now or before. Raises SchemaError."""
        text = msgspec.json.encode(schema)
        digest = blake2b(text, digest_size=32).digest()
        with self._lock:
            found = self._known.get(digest)
            if found is not None:
                self._known.move_to_end(digest)
                return found[0]
        self.compiled += 1
        made = compile_schema(msgspec.json.decode(text), make_pattern, StepBudget(COMPILE_STEPS))
        size = 1000 + len(text) * _BYTES_OF_ONE + made.pattern_size * _BYTES_OF_A_STATE
        with self._lock:
            if digest not in self._known:
                self._known[digest] = (made, size)
                self._bytes += size
            while self._bytes > self._most_bytes:
                self._bytes -= self._known.popitem(last=False)[1][1]
        return made


_cache = SchemaCache()


def make_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a search for a pattern by an engine that never goes back. Raises ValueError."""
    try:
        compiled = SchemaValidator(
            core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
        )
    except PatternError as error:
        problem = "is not a 'regex' that can be matched in bounded time"
        fix = "leave out look-around and back-references"
        raise ValueError(f"{shorten(pattern)} {problem}: {fix}") from error

    def search(text: str) -> bool:
        try:
            compiled.validate_python(text)
        except ValidationError:
            return False
        return True

    return search


def _check_answer(schema: CompiledSchema, value: Any, budget: StepBudget | None) -> object:
    """Return the value. Raises ValidationError with what does not fit."""
    problems = [
        InitErrorDetails(
            type=PydanticCustomError("json_schema", "{problem}", {"problem": problem.text}),
            loc=problem.path,
            input=problem.value,
        )
        for problem in schema.find_problems(value, budget or StepBudget(CHECK_STEPS))
    ]
    if problems:
        raise ValidationError.from_exception_data("answer", problems)
    return value
