"""What a model is asked, in neutral form: the input of every `codecs.<wire>.encode`.

This module must never hold a key or an address: those belong to the endpoint, not to the question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import check_count
from holdfast.core.messages import Message


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, object]


OutputMode = Literal["auto", "native", "tool", "prompt"]
"""How the shape of an answer is asked for: by the wire's own field, by a tool whose call is the
answer, or in words; "auto" takes what fits the model."""


class OutputSchema(Struct, frozen=True):
    """The wanted shape of the final answer, as a JSON Schema.

    Args:
        name: how the wires call it.
        schema: the shape.
        strict: let a wire force it where it can.
        mode: how it is asked for; "auto" leaves that to the wire.
        tools: the tools whose call is the answer, one for each alternative.
        tags: the names of the alternatives, in the order of `tools`; empty when there is one.
        envelope: the shape of an object that holds the answer, where that is no object itself.
    """

    name: str
    schema: Mapping[str, object]
    strict: bool = True
    mode: OutputMode = "auto"
    tools: tuple[ToolSpec, ...] = ()
    tags: tuple[str, ...] = ()
    envelope: Mapping[str, object] | None = None


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high"]


class ModelSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the model replies. None uses the provider's default.

    Args:
        max_tokens: maximum of output tokens.
        temperature: 0 to 2 in most wires.
        top_p: nucleus sampling, 0 to 1.
        stop: texts at which the model stops.
        seed: seed for the provider's random numbers, where the wire has one.
        tool_choice: "auto", "none", "required", or the name of one tool.
        parallel_tool_calls: whether one reply may hold several calls.
        reasoning_effort: how much to think, where the wire has a name for it.
        reasoning_tokens: a budget for thinking, where the wire takes a number.
        cache: ask the provider to cache the unchanged beginning, where it does so on request.
        extra: fields for the request body, sent unchanged.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    reasoning_tokens: int | None = None
    cache: bool = False
    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_count("settings.max_tokens", self.max_tokens, at_least=1)
        check_count("settings.reasoning_tokens", self.reasoning_tokens, at_least=0)
        check_fields(self, "settings.", *_PLAIN)
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigurationError(
                    f"settings.{name}", f"must be a number, got {type(value).__name__}"
                )
            if not math.isfinite(value) or value < 0:
                raise ConfigurationError(
                    f"settings.{name}", f"must be a finite number from 0, got {value}"
                )


_PLAIN = (
    "stop",
    "seed",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "cache",
    "extra",
)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One question to a model: instructions, history, tools and settings.

    `messages` is a `core.transcript.Transcript` when the history is a run's own, so that a codec
    can keep its encoded prefix; any other sequence is encoded as it is. `prefill` is the beginning
    of the reply, for a wire that can go on from it; empty almost always.
    """

    model: str
    messages: Sequence[Message]
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSchema | None = None
    settings: ModelSettings = ModelSettings()
    stream: bool = True
    prefill: str = ""
