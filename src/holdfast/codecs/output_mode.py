"""Chooses how a typed output is requested from a wire, a provider and a model.

The provider's defaults are in its `Quirks` and the models' in the rows here. A mode that the user
sets takes precedence over both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.codecs.wire import Quirks
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema

Mode: TypeAlias = Literal["native", "tool", "prompt"]


class OutputMethod(Struct, frozen=True):
    """How the output is requested, and whether the model can be forced to call a tool."""

    mode: Mode
    can_force: bool = True


class _ModelRow(Struct, frozen=True):
    """The modes of some models on some wires: without tools of the user, and with them."""

    wires: tuple[str, ...]
    models: re.Pattern[str]
    alone: Mode
    with_tools: Mode


_MOST_OPTIONAL: Final = 24
"""Anthropic's limit for optional properties, over all objects of a schema."""

_OPENAI: Final = ("openai_chat", "openai_responses")

# Before Gemini 3, a request has either a schema or tools, on every wire.
_BEFORE_GEMINI_3: Final = re.compile(r"gemini-(?:[12]\b|pro\b|ultra\b)")

_ROWS: Final = (
    # Older than structured outputs: the field is rejected or takes no schema.
    _ModelRow(
        _OPENAI, re.compile(r"\bgpt-3\.5|\bgpt-4(?:$|-(?:\d|32k|turbo|vision))"), "tool", "tool"
    ),
    _ModelRow(("gemini", "openai_chat"), _BEFORE_GEMINI_3, "native", "tool"),
    _ModelRow(
        ("anthropic",),
        re.compile(r"claude-(?:[a-z]+-)?(?:4[-.][1-9]\b|[5-9])"),
        "native",
        "native",
    ),
    # Older Claude models, and models of other vendors on this wire.
    _ModelRow(("anthropic",), re.compile(r""), "tool", "tool"),
)


def choose_output_method(wire: str, quirks: Quirks, request: ModelRequest) -> OutputMethod:
    """Choose how to request the output that `request.output` describes.

    Args:
        wire: the codec's name.
        quirks: the provider's quirks.
        request: the request, with the user's tools only.
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
    if request.hosted_tools and _BEFORE_GEMINI_3.search(request.model):
        # These models have neither a schema nor functions beside the tools of the provider.
        return OutputMethod("prompt", can_force)
    return OutputMethod(with_tools if request.tools else alone, can_force)


def _is_thinking(wire: str, settings: ModelSettings) -> bool:
    """Whether thinking is on. Anthropic's wire then rejects a forced tool."""
    if wire != "anthropic":
        return False
    return bool(settings.reasoning_tokens) or settings.reasoning_effort not in (None, "none")


def _fits_grammar(output: OutputSchema) -> bool:
    """Whether Anthropic's grammar accepts the schema: no recursion, no free keys, few optional keys."""
    parts = output.schema.get("$defs")
    named = parts if isinstance(parts, Mapping) else {}
    optional = 0
    for schema in _iter_schemas(output.schema):
        if schema.get("additionalProperties") not in (None, False):
            return False
        optional += _count_optional(schema)
    return optional <= _MOST_OPTIONAL and not _is_recursive(named)


def _count_optional(schema: Mapping[str, object]) -> int:
    """Return the number of optional properties of an object."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return 0
    return len(set(properties).difference(required if isinstance(required, list | tuple) else ()))


def _iter_schemas(schema: object) -> Iterator[Mapping[str, object]]:
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)


def _is_recursive(parts: Mapping[str, object]) -> bool:
    """Whether a part of `$defs` refers to itself, directly or through others."""
    graph = {name: _find_references(part) & parts.keys() for name, part in parts.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def _find_references(part: object) -> set[str]:
    """Return the names of the parts of `$defs` that a part refers to."""
    references = (schema.get("$ref") for schema in _iter_schemas(part))
    return {name.removeprefix("#/$defs/") for name in references if isinstance(name, str)}
