"""The instructions of an agent: texts, and functions that give a text for each turn.

The functions are called once for each new turn, before its hooks. Their text is saved with the turn,
so a turn that is resumed or tried again has the same instructions. This module must never call a
model, and must never save anything.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct

from holdfast.core.argument_checks import check_value, unwrap_partial
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.redaction import redact
from holdfast.middleware.hook_contexts import InstructionsContext
from holdfast.middleware.hooks import HOOK_TIMEOUT

D = TypeVar("D")

InstructionsText: TypeAlias = str | Awaitable[str | None] | None
InstructionsFunction: TypeAlias = (
    Callable[[], InstructionsText] | Callable[[InstructionsContext[D]], InstructionsText]
)
"""Returns a part of the instructions, or None for none; sync or async, with or without a context."""

Instructions: TypeAlias = str | InstructionsFunction[D] | Sequence[str | InstructionsFunction[D]]
"""A text, a function, or a list of these, whose texts are joined by blank lines."""

_LONGEST_SENTENCE = 300
# A sentence ends before a space and a new beginning, so "e.g. this" and "3.5" are inside of one.
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^a-z\s])|(?<=[\u3002\uff01\uff1f])")

_Item: TypeAlias = str | Callable[..., InstructionsText]
_Items: TypeAlias = Sequence[_Item]
_Given: TypeAlias = _Item | _Items


class AgentInstructions(Struct, frozen=True):
    """Compiled instructions.

    Args:
        parts: texts, and functions with whether they take a context.
        fixed: the whole text if no part is a function, otherwise None.
    """

    parts: tuple[str | tuple[InstructionsFunction[Any], bool], ...]
    fixed: str | None

    async def write_text(self, context: InstructionsContext) -> str:
        """Call the functions in order, and return the instructions of one turn.

        Raises:
            MiddlewareError: a function raised, took too long or returned something else than a text.
        """
        texts = [
            part if isinstance(part, str) else await _call_function(*part, context)
            for part in self.parts
        ]
        return _join_texts(texts)

    def add_text(self, text: str) -> AgentInstructions:
        """Return instructions that end with another text."""
        fixed = None if self.fixed is None else _join_texts((self.fixed, text))
        return AgentInstructions((*self.parts, text), fixed)

    def find_first_sentence(self) -> str:
        """Return the first sentence of the texts, without headings; "" when there is none."""
        texts = (part for part in self.parts if isinstance(part, str))
        lines = (line.strip() for text in texts for line in text.split("\n\n"))
        for paragraph in lines:
            kept = (line for line in paragraph.splitlines() if not line.startswith("#"))
            words = " ".join(" ".join(kept).split())
            if words:
                return cut_sentence(_SENTENCE.split(words, maxsplit=1)[0])
        return ""


def cut_sentence(sentence: str) -> str:
    """Return a sentence of at most 300 characters, cut between words.

    >>> cut_sentence("You plan trips."), len(cut_sentence("word " * 100)) <= 300
    ('You plan trips.', True)
    """
    if len(sentence) <= _LONGEST_SENTENCE:
        return sentence
    cut = sentence[: _LONGEST_SENTENCE - 4]
    return f"{cut.rpartition(' ')[0] or cut} ..."


def compile_instructions(given: object) -> AgentInstructions:
    """Check and compile the argument `instructions=`. Raises ConfigurationError."""
    check_value("instructions", given, _Given)
    if isinstance(given, str):
        return AgentInstructions((given,), given)
    if callable(given):
        return AgentInstructions((_compile_part("instructions", given),), None)
    parts = tuple(
        _compile_part(f"instructions[{at}]", part) for at, part in enumerate(cast("_Items", given))
    )
    texts = [part for part in parts if isinstance(part, str)]
    return AgentInstructions(parts, _join_texts(texts) if len(texts) == len(parts) else None)


def _join_texts(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _compile_part(argument: str, part: _Item) -> str | tuple[InstructionsFunction[Any], bool]:
    if isinstance(part, str):
        return part
    return part, _takes_context(argument, part)


def _takes_context(argument: str, function: Callable[..., object]) -> bool:
    """Whether a function takes an `InstructionsContext`. Raises ConfigurationError."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    for arguments in ((), (None,)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise ConfigurationError(
        argument,
        f"{_name_function(function)}{signature} cannot be called with one InstructionsContext",
        fix="Read other values from `context.deps`",
    )


async def _call_function(
    function: InstructionsFunction[Any], takes_context: bool, context: InstructionsContext
) -> str:
    """Return the text of one function, or raise MiddlewareError with its name."""
    from holdfast.calls.guard import run_callable  # only for functions

    name = _name_function(function)
    call = partial(cast("Callable[..., object]", function), *([context] if takes_context else []))
    limit = asyncio.timeout(HOOK_TIMEOUT)
    try:
        async with limit:
            text = await run_callable(call, name)
    except Exception as error:  # REASON: the functions are the user's code
        kind = type(error).__name__
        problem = f"raised {kind}"
        if limit.expired():
            problem = f"did not end within {HOOK_TIMEOUT:g} s"
        private = redact(f"{kind}: {error}")
        raise MiddlewareError("instructions", name, problem, private=private) from error
    if text is not None and not isinstance(text, str):
        problem = f"returned {type(text).__name__}; it must return a text or None"
        raise MiddlewareError("instructions", name, problem)
    return text or ""


def _name_function(function: object) -> str:
    function = unwrap_partial(function)
    return str(getattr(function, "__name__", type(function).__name__))
