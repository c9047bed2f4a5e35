"""Which way of asking for the shape of an answer fits a wire, a provider and a model, as data.

A provider's habit is in its `Quirks`, a model's in the rows here, and what a user says goes before
both. This module must never send or change anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.codecs.wire import Quirks
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema

Mode: TypeAlias = Literal["native", "tool", "prompt"]


class OutputMethod(Struct, frozen=True):
    """How the shape of an answer is asked for, and whether a tool can be made the only choice."""

    mode: Mode
    can_force: bool = True


class _ModelRow(Struct, frozen=True):
    """What models of such names do on such a wire, without tools of the user and with them."""

    wires: tuple[str, ...]
    models: re.Pattern[str]
    alone: Mode
    with_tools: Mode


_MOST_OPTIONAL: Final = 24
"""Of Anthropic's grammar, over all objects of a schema."""

_OPENAI: Final = ("openai_chat", "openai_responses")

_ROWS: Final = (
    # From before structured outputs: the field is refused, or takes no schema.
    _ModelRow(
        _OPENAI, re.compile(r"\bgpt-3\.5|\bgpt-4(?:$|-(?:\d|32k|turbo|vision))"), "tool", "tool"
    ),
    # Before Gemini 3 a schema and functions exclude each other, through any wire.
    _ModelRow(
        ("gemini", "openai_chat"), re.compile(r"gemini-(?:[12]\b|pro\b|ultra\b)"), "native", "tool"
    ),
    _ModelRow(
        ("anthropic",),
        re.compile(r"claude-(?:[a-z]+-)?(?:4[-.][1-9]\b|[5-9])"),
        "native",
        "native",
    ),
    # Older Claudes, and other models behind this wire.
    _ModelRow(("anthropic",), re.compile(r""), "tool", "tool"),
)


def choose_output_method(wire: str, quirks: Quirks, request: ModelRequest) -> OutputMethod:
    """How to ask for the shape of an answer that `request.output` describes.

    Args:
        wire: the codec's name.
        quirks: of the provider.
        request: with the tools of the user only.
    """
    output = request.output
    can_force = quirks.forces_tools and not _is_thinking(wire, request.settings)
    if output is None:
        return OutputMethod("prompt", can_force)
    if output.mode != "auto":
        return OutputMethod(output.mode, can_force)
    if wire == "anthropic" and not _fits_grammar(output):
        return OutputMethod("tool", can_force)
    alone, with_tools = quirks.output_mode, quirks.output_mode_with_tools
    for row in _ROWS:
        if wire in row.wires and row.models.search(request.model):
            alone = row.alone if alone == "native" else alone
            with_tools = row.with_tools if with_tools == "native" else with_tools
            break
    return OutputMethod(with_tools if request.tools else alone, can_force)


def _is_thinking(wire: str, settings: ModelSettings) -> bool:
    """Whether the model thinks first, so that this wire refuses to force a tool."""
    if wire != "anthropic":
        return False
    return bool(settings.reasoning_tokens) or settings.reasoning_effort not in (None, "none")


def _fits_grammar(output: OutputSchema) -> bool:
    """Whether Anthropic's grammar can hold the schema: no recursion, no free keys, few optional ones."""
    parts = output.schema.get("$defs")
    named = parts if isinstance(parts, Mapping) else {}
    optional = 0
    for schema in _iter_schemas(output.schema):
        if schema.get("additionalProperties") not in (None, False):
            return False
        optional += _count_optional(schema)
    return optional <= _MOST_OPTIONAL and not any(
        _refers_to(name, name, named, set()) for name in named
    )


def _count_optional(schema: Mapping[str, object]) -> int:
    """How many properties of an object may be left out."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return 0
    return len(set(properties).difference(required if isinstance(required, list | tuple) else ()))


def _iter_schemas(schema: object) -> Iterator[Mapping[str, object]]:
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            waiting.extend(one)


def _refers_to(wanted: str, name: str, parts: Mapping[str, object], seen: set[str]) -> bool:
    """Whether a named part of a schema refers to another, through any number of others."""
    for schema in _iter_schemas(parts.get(name)):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            continue
        inner = reference.removeprefix("#/$defs/")
        if inner == wanted:
            return True
        if inner not in seen:
            seen.add(inner)
            if _refers_to(wanted, inner, parts, seen):
                return True
    return False
