"""The profile of an endpoint: how its form of a wire differs from the vendor's documentation.

A preset has the profile that is known of its provider, and a program, an agent file or the command line
changes fields of it, as a mapping of field names and values. A field that no encoder or decoder reads has no
place here, and this module must never know a provider's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypedDict, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.schemas.dialects import DIALECTS
from holdfast.codecs.schemas.request_schemas import EndpointDialects, find_dialects
from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import NonNegativeInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.model_request import ModelSettings
from holdfast.core.redaction import quote_setting

ThinkingTag: TypeAlias = Literal[
    "<think>", "<thinking>", "<reasoning>", "[THINK]",
    "</think>", "</thinking>", "</reasoning>", "[/THINK]",
]  # fmt: skip
"""A tag in which a model thinks; a closing tag if replies begin inside of it."""

TextCallForm: TypeAlias = Literal["", "hermes", "llama3_json", "mistral", "qwen3_coder"]
"""The form of tool calls in the text of a reply, by the name of vLLM's parser; "" for none."""


class EndpointProfile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one endpoint's form of a wire differs from the vendor's documentation.

    Args:
        ends_without_finish: a stream that ends with content and no finish reason is complete, with or
            without the end marker. Of any other provider, such a stream was cut.
        ends_without_marker: a stream with a finish reason and no end marker is complete, unless content
            follows the reason or a call has incomplete arguments.
        max_tokens_field: the name of the output limit in the request body.
        system_role: the role of instructions; "user" puts them at the beginning of the first user
            message, for servers and chat templates without a role for them.
        stream_usage: ask for usage in the stream by `stream_options`.
        parallel_calls: what is sent in `parallel_tool_calls` beside tools if the user sets nothing:
            true ("allow"), false ("forbid"), or no such field (""). A server that refuses the field
            gets none instead of "allow", and "forbid" is never left out.
        images: the pictures that a request may have: "any"; only those with their bytes, not by an
            address ("inline"); or none at all ("none").
        videos: a request may have videos.
        reasoning_field: the message field in which reasoning is sent back ("reasoning_content",
            "reasoning", or "content" for blocks inside the content); "" sends no reasoning back.
        reasoning_required: each message of the assistant must have the reasoning field; one without
            reasoning, such as one of another model, has an empty text in it.
        state_fields: vendor fields of messages and calls that are sent back unchanged.
        reasoning: how the effort of thinking is sent: in `reasoning_effort` ("effort"); with a budget
            in one object, `reasoning` ("object"); or beside an object `thinking` that turns it on
            and off ("thinking").
        thinking_tags: the tags in which the text of a reply may begin with thinking: "<think>",
            "<thinking>", "<reasoning>" or "[THINK]". A closing tag, such as "</think>", says that
            replies begin inside of it, because the chat template has written the opening tag. A
            reply with reasoning in a field of its own is not searched for tags.
        text_calls: the form of the tool calls that come as text, by the name of vLLM's parser:
            "hermes", "llama3_json", "mistral" or "qwen3_coder"; "" if there are none.
        repeats_arguments: the pieces of a call's arguments repeat earlier ones, and are dropped as
            they arrive. Otherwise a repetition is dropped at the end of the reply, if it is proved.
        cache: how caching is requested: by OpenAI's fields `prompt_cache_key` and
            `prompt_cache_retention` ("key"), by Anthropic's field `cache_control` ("control"), or
            not at all, since the server caches by itself or never ("").
        response_format: how a typed output is requested: "json_schema", or "json_object" with the
            schema in the instructions.
        seed_field: the name of the seed in the request body.
        alternating_roles: user and assistant messages must alternate, also after results of tools.
        call_id_length: the exact number of letters and digits in ids of tool calls; 0 for any.
        media_in_results: a tool result may hold images; otherwise they follow in a user message.
        audio_by_id: audio that the model spoke is sent back by its id; otherwise its transcript is.
        output_mode: how a typed output is requested if the user has no tools: by the wire's own
            field, by a tool, or by an instruction.
        output_mode_with_tools: the same if the user has tools.
        forces_tools: how the model is forced to call one tool: by its name ("named"); by "required"
            beside this tool alone, for servers of Chat Completions that refuse or ignore a name
            ("required"); or not at all ("").
        prefill: how a reply that broke off is continued: its beginning is sent as the last assistant
            message ("last_message"), marked by `prefix: true` ("prefix", or "prefix_echo" if the
            provider repeats the beginning) or by `continue_final_message` on the request
            ("final_message"); "" if the provider does not support it.
        output_dialect: the name of the dialect of JSON Schema for typed outputs, of
            `codecs.schemas.dialects`; it is that of the server's grammars, such as "llama_cpp" or
            "llguidance". "" is the dialect of the wire's vendor.
        tool_dialect: the same for tools.
        strict_models: the models whose provider enforces the schema of an output, as a regular
            expression.
        strict_tools: a tool is strict if the dialect takes its schema unchanged.
        tool_search: the provider searches deferred tools itself, for models that can call its search.

    Raises:
        ConfigurationError: a value is not allowed; the error names the field, and lists what is.

    >>> EndpointProfile(system_role="sytem")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: profile.system_role: must be "system", "developer" or "user"; got 'sytem'
    """

    ends_without_finish: bool = False
    ends_without_marker: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer", "user"] = "system"
    stream_usage: bool = True
    parallel_calls: Literal["", "allow", "forbid"] = ""
    images: Literal["any", "inline", "none"] = "any"
    videos: bool = True
    reasoning_field: Literal["", "reasoning_content", "reasoning", "content"] = ""
    reasoning_required: bool = False
    state_fields: tuple[str, ...] = ("extra_content",)
    reasoning: Literal["effort", "object", "thinking"] = "effort"
    thinking_tags: tuple[ThinkingTag, ...] = ()
    text_calls: TextCallForm = ""
    repeats_arguments: bool = False
    cache: Literal["", "key", "control"] = ""
    response_format: Literal["json_schema", "json_object"] = "json_schema"
    seed_field: Literal["seed", "random_seed"] = "seed"
    alternating_roles: bool = False
    call_id_length: NonNegativeInt = 0
    media_in_results: bool = False
    audio_by_id: bool = False
    output_mode: Literal["native", "tool", "prompt"] = "native"
    output_mode_with_tools: Literal["native", "tool", "prompt"] = "native"
    forces_tools: Literal["named", "required", ""] = "named"
    prefill: Literal["", "last_message", "prefix", "prefix_echo", "final_message"] = ""
    output_dialect: str = ""
    tool_dialect: str = ""
    strict_models: str = ""
    strict_tools: bool = False
    tool_search: bool = False

    def __post_init__(self) -> None:
        _check_forms("text_calls", self.text_calls, _TEXT_CALLS)
        _check_forms("thinking_tags", self.thinking_tags, _TAGS)
        check_fields(self, "profile.")
        _check_dialect("output_dialect", self.output_dialect)
        _check_dialect("tool_dialect", self.tool_dialect)
        if self.strict_models:
            _check_pattern("strict_models", self.strict_models)

    @property
    def has_habits(self) -> bool:
        """Whether replies of this endpoint are written in a way of its own."""
        return bool(self.thinking_tags or self.text_calls or self.repeats_arguments)

    def change_fields(self, changes: Mapping[str, object], wire: str = "") -> EndpointProfile:
        """Return the profile with other values of some fields, which may come from a file.

        Args:
            changes: the values by the names of the fields; a list stands for a tuple.
            wire: the codec's name; a field that it does not read is then refused.

        Raises:
            ConfigurationError: a field is unknown (the error names the nearest), has no effect on
                this wire, or has a value that is not allowed.

        >>> EndpointProfile().change_fields({"system_rol": "developer"})
        Traceback (most recent call last):
        ...
        holdfast.core.errors.ConfigurationError: profile.system_rol: is not a field of a profile. \
Did you mean system_role?
        """
        for name in changes:
            _check_name(name, wire)
        values = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in changes.items()
        }
        return replace(self, **values) if values else self

    def list_changes(self, base: EndpointProfile | None = None) -> dict[str, object]:
        """Return the fields that differ from another profile, in values that TOML and JSON have.

        Args:
            base: the other profile; without one, the default of each field.

        `base.change_fields(profile.list_changes(base))` is the profile again.

        >>> EndpointProfile(stream_usage=False, state_fields=("a",)).list_changes()
        {'stream_usage': False, 'state_fields': ['a']}
        """
        other = base or EndpointProfile()
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value != getattr(other, name)
        }


class ProfileChanges(TypedDict, total=False):
    """Other values for fields of a preset's profile, for `ModelAt(profile=...)`; see `EndpointProfile`.

    `like` names another provider of the same wire, whose profile is changed instead.
    """

    like: str
    ends_without_finish: bool
    ends_without_marker: bool
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"]
    system_role: Literal["system", "developer", "user"]
    stream_usage: bool
    parallel_calls: Literal["", "allow", "forbid"]
    images: Literal["any", "inline", "none"]
    videos: bool
    reasoning_field: Literal["", "reasoning_content", "reasoning", "content"]
    reasoning_required: bool
    state_fields: Sequence[str]
    reasoning: Literal["effort", "object", "thinking"]
    thinking_tags: Sequence[ThinkingTag]
    text_calls: TextCallForm
    repeats_arguments: bool
    cache: Literal["", "key", "control"]
    response_format: Literal["json_schema", "json_object"]
    seed_field: Literal["seed", "random_seed"]
    alternating_roles: bool
    call_id_length: int
    media_in_results: bool
    audio_by_id: bool
    output_mode: Literal["native", "tool", "prompt"]
    output_mode_with_tools: Literal["native", "tool", "prompt"]
    forces_tools: Literal["named", "required", ""]
    prefill: Literal["", "last_message", "prefix", "prefix_echo", "final_message"]
    output_dialect: str
    tool_dialect: str
    strict_models: str
    strict_tools: bool
    tool_search: bool


_EVERY_WIRE: Final = frozenset(
    {
        "ends_without_finish", "ends_without_marker", "forces_tools", "output_dialect", "output_mode",
        "output_mode_with_tools", "strict_models", "strict_tools", "tool_dialect",
    }
)  # fmt: skip
_OF_WIRES: Final = {
    "openai_chat": frozenset(EndpointProfile.__struct_fields__) - {"tool_search"},
    "openai_responses": _EVERY_WIRE | {"parallel_calls", "system_role", "tool_search"},
    "anthropic": _EVERY_WIRE | {"prefill", "tool_search"},
    "gemini": _EVERY_WIRE,
}
"""The fields that each wire reads."""


def reads_field(wire: str, field: str) -> bool:
    """Whether a field of a profile has an effect on a wire.

    >>> reads_field("gemini", "stream_usage")
    False
    """
    return field in _OF_WIRES.get(wire, EndpointProfile.__struct_fields__)


def find_endpoint_dialects(wire: str, profile: EndpointProfile) -> EndpointDialects:
    """Return the dialects of an endpoint with this profile."""
    return find_dialects(
        wire,
        profile.output_dialect,
        profile.tool_dialect,
        strict_models=profile.strict_models,
        strict_by_default=profile.strict_tools,
    )


_PARALLEL: Final = {"": None, "allow": True, "forbid": False}


def choose_parallel_calls(settings: ModelSettings, profile: EndpointProfile) -> bool | None:
    """Return what is sent in `parallel_tool_calls` beside tools; None for no such field.

    >>> choose_parallel_calls(ModelSettings(), EndpointProfile(parallel_calls="forbid"))
    False
    """
    given = settings.parallel_tool_calls
    return _PARALLEL[profile.parallel_calls] if given is None else given


def _check_name(name: str, wire: str) -> None:
    known = EndpointProfile.__struct_fields__
    if name not in known:
        from difflib import get_close_matches  # only for a mistake

        near = get_close_matches(name, known, 1)
        fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(known)}"
        raise ConfigurationError(f"profile.{name[:60]}", "is not a field of a profile", fix=fix)
    if wire and not reads_field(wire, name):
        raise ConfigurationError(
            f"profile.{name}", f"has no effect on the wire {wire}", fix="Leave it out"
        )


_TAGS: Final = get_args(ThinkingTag)
_TEXT_CALLS: Final = get_args(TextCallForm)


def _check_forms(field: str, given: object, known: Sequence[str]) -> None:
    """Name the known form that is nearest to an unknown one."""
    for form in given if isinstance(given, tuple) else (given,):
        if not isinstance(form, str) or form in known:
            continue
        from difflib import get_close_matches  # only for a mistake

        names = [name for name in known if name]
        near = get_close_matches(form, names, 1, 0.4)
        fix = f"Did you mean {near[0]}?" if near else f"Known are {', '.join(names)}"
        raise ConfigurationError(
            f"profile.{field}", f"{quote_setting(form)} is not a known form", fix=fix
        )


def _check_dialect(field: str, name: str) -> None:
    if name and name not in DIALECTS:
        raise ConfigurationError(
            f"profile.{field}",
            f"{quote_setting(name)} is not a dialect",
            fix=f"Known are {', '.join(DIALECTS)}",
        )


def _check_pattern(field: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(
            f"profile.{field}", f"is not a regular expression: {error}"
        ) from None
