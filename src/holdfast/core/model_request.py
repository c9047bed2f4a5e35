"""A request to a model in neutral form: the input of every `codecs.<wire>.encode`.

It must never hold an API key or an address: those belong to the endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import (
    NonEmptyText,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    between,
)
from holdfast.core.hosted_tools import HostedTool
from holdfast.core.messages import Message


class ToolSpec(Struct, frozen=True, weakref=True):
    """A tool as the model sees it.

    Args:
        name: the name.
        description: the description.
        schema: the JSON Schema of the arguments.
        strict: whether the provider is to enforce the schema: True converts it as needed, False never
            does, and None does if the provider takes it unchanged.
        deferred_group: the group of a tool that the model sees only when the provider's own search has
            found it; None for a tool that it sees from the beginning.
    """

    name: str
    description: str
    schema: Mapping[str, object]
    strict: bool | None = None
    deferred_group: str | None = None


OutputMode = Literal["auto", "native", "tool", "prompt"]
"""How the type of an output is requested: by the wire's own field ("native"), by a tool whose call is
the output ("tool"), or in words ("prompt"); "auto" takes the way that fits the model."""


class OutputSchema(Struct, frozen=True, weakref=True):
    """The type of the output, as a JSON Schema.

    Args:
        name: the name that is sent to the provider.
        schema: the JSON Schema.
        strict: whether the provider enforces it where it can.
        mode: how it is requested; "auto" leaves that to the wire.
        tools: the tools whose call is the output, one for each alternative.
        tags: the names of the alternatives, in the order of `tools`; empty when there is only one.
        envelope: the schema of an object that wraps the output, when the output is not an object.
    """

    name: str
    schema: Mapping[str, object]
    strict: bool = True
    mode: OutputMode = "auto"
    tools: tuple[ToolSpec, ...] = ()
    tags: tuple[str, ...] = ()
    envelope: Mapping[str, object] | None = None


ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
"""How much a reasoning model thinks before it answers."""

CacheTime = Literal["5m", "1h", "24h"]
"""How long a provider keeps a cached prefix at least."""


Verbosity: TypeAlias = Literal["low", "medium", "high"]
"""How long an answer is to be."""

Penalty: TypeAlias = Annotated[float, between(-2, 2)]
"""How much a model is kept from repeating tokens."""


class ModelSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the model answers. None leaves the provider's default.

    Args:
        max_tokens: the largest number of output tokens.
        temperature: 0 to 2 on most wires.
        top_p: nucleus sampling, 0 to 1.
        stop: texts at which the model stops.
        seed: the seed of sampling, on wires that take one.
        top_k: of how many of the likeliest tokens the model chooses; a wire without it ignores it.
        frequency_penalty: from -2 to 2, against tokens that were written often; ignored like `top_k`.
        presence_penalty: from -2 to 2, against tokens that were written before; ignored like `top_k`.
        verbosity: how long the answer is to be; ignored like `top_k`.
        tool_choice: "auto", "none", "required", or the name of one tool.
        parallel_tool_calls: whether one reply may hold several calls.
        reasoning_effort: how much the model reasons, on wires that name levels.
        reasoning_tokens: the budget of reasoning in tokens, on wires that take a number.
        reasoning_summary: whether the reply shows the reasoning, or a summary of it.
        cache: request caching of the constant prefix, from providers that do not cache by default;
            "5m", "1h" or "24h" also says how long it is kept at least.
        cache_key: on OpenAI's wires, a key that leads equal prefixes to one cache; on Gemini, the
            name of a cached content.
        extra: fields that are added to the request body unchanged.
    """

    max_tokens: PositiveInt | None = None
    temperature: NonNegativeFloat | None = None
    top_p: NonNegativeFloat | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    top_k: PositiveInt | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    verbosity: Verbosity | None = None
    tool_choice: str | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    reasoning_tokens: NonNegativeInt | None = None
    reasoning_summary: bool | None = None
    cache: bool | CacheTime = False
    cache_key: NonEmptyText | None = None
    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "settings.")


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One request to a model: instructions, history, tools and settings.

    `tools` are the functions of this process, `hosted_tools` the tools that the provider runs.

    `messages` is a `core.transcript.Transcript` when it is the history of a run, so that a codec can
    reuse the encoded prefix; any other sequence is encoded each time. `prefill` is the beginning of
    the reply, for a wire that can continue from it; it is nearly always empty.
    """

    model: str
    messages: Sequence[Message]
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    hosted_tools: tuple[HostedTool, ...] = ()
    output: OutputSchema | None = None
    settings: ModelSettings = ModelSettings()
    stream: bool = True
    prefill: str = ""
