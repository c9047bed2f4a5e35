"""JSON Schemas of callers, compiled once, for arguments and outputs; and the problems of values that do not fit.

A schema may come from a caller of a service: it is compiled once, and compiling and checking end after a number of
steps (`core.schema_checks`). Patterns are matched by an engine that never goes back. This module must never fetch a
reference from anywhere.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from threading import Lock
from typing import Final, LiteralString

import msgspec
from pydantic_core import SchemaError as PatternError
from pydantic_core import SchemaValidator, ValidationError, core_schema

from holdfast.core.error_words import (
    CHOICE_PROBLEM,
    EXTRA_PROBLEM,
    FIXED_PROBLEM,
    MISSING_PROBLEM,
)
from holdfast.core.schema_checks.schema_compiler import compile_schema
from holdfast.core.schema_checks.schema_limits import COMPILE_STEPS, StepBudget
from holdfast.core.schema_checks.schema_nodes import CompiledSchema, ProblemKind, shorten

ERROR_TYPES: Final[Mapping[ProblemKind, LiteralString]] = {
    "fixed": FIXED_PROBLEM,
    "choice": CHOICE_PROBLEM,
    "missing": MISSING_PROBLEM,
    "extra": EXTRA_PROBLEM,
}
"""The problems of a value as types of pydantic's errors, whose words `core.problem_wording` knows."""
_MOST_CACHED_BYTES: Final = 32 * 1024 * 1024
_BYTES_OF_ONE = 20
"""About how many bytes of memory one byte of a schema takes when it is compiled."""
_BYTES_OF_A_STATE = 500
"""About how many bytes of memory a state of a pattern takes."""


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

    def compile(
        self, schema: Mapping[str, object], *, skip_patterns: bool = False
    ) -> CompiledSchema:
        """Return a schema as it was compiled, now or before.

        Args:
            schema: the schema, of plain JSON data.
            skip_patterns: leave out patterns that the engine cannot match, and do not refuse them.

        Raises:
            SchemaError: the schema is wrong, or takes too many steps.
        """
        text = msgspec.json.encode(schema)
        digest = blake2b(text, digest_size=32, key=b"skip" * skip_patterns).digest()
        with self._lock:
            found = self._known.get(digest)
            if found is not None:
                self._known.move_to_end(digest)
                return found[0]
        self.compiled += 1
        made = compile_schema(
            msgspec.json.decode(text),
            make_pattern,
            StepBudget(COMPILE_STEPS),
            skip_patterns=skip_patterns,
        )
        size = 1000 + len(text) * _BYTES_OF_ONE + made.pattern_size * _BYTES_OF_A_STATE
        with self._lock:
            if digest not in self._known:
                self._known[digest] = (made, size)
                self._bytes += size
            while self._bytes > self._most_bytes:
                self._bytes -= self._known.popitem(last=False)[1][1]
        return made


SCHEMAS: Final = SchemaCache()
"""The compiled schemas of this process."""
