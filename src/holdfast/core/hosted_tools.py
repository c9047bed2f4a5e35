"""Tools that the provider runs itself, such as web search, as a request names them.

An agent takes them in `tools=`, beside its functions. A provider has its own names and options for
each; the codec of its wire translates them, or raises ConfigurationError for settings that the wire cannot
express. This module must never describe a tool that runs in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import force_setattr

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import NonEmptyText, PositiveInt
from holdfast.core.errors import ConfigurationError

SizeLevel = Literal["low", "medium", "high"]


class UserLocation(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the user is, approximately, so that a search finds places nearby.

    Args:
        city: such as "Porto".
        region: such as "Norte".
        country: the code of two letters, such as "PT".
        timezone: such as "Europe/Lisbon".

    Raises:
        ConfigurationError: an argument is wrong.

    >>> UserLocation(city="Porto", country="PT").city
    'Porto'
    """

    city: NonEmptyText | None = None
    region: NonEmptyText | None = None
    country: NonEmptyText | None = None
    timezone: NonEmptyText | None = None

    def __post_init__(self) -> None:
        check_fields(self, "UserLocation.")


class WebSearch(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="web_search"):
    """The provider searches the web: OpenAI Responses, Anthropic and Gemini.

    Args:
        max_uses: the largest number of searches in one reply; Anthropic.
        allowed_domains: search only these domains; OpenAI and Anthropic.
        blocked_domains: never search these domains; Anthropic.
        user_location: where the user is; OpenAI and Anthropic.
        search_context_size: how much of the results the model reads; OpenAI.
        extra: fields that are added to the wire's entry unchanged.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> WebSearch(allowed_domains=("python.org",)).name
    'web_search'
    """

    name: ClassVar[str] = "web_search"

    max_uses: PositiveInt | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    user_location: UserLocation | None = None
    search_context_size: SizeLevel | None = None
    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "WebSearch.")
        _freeze_lists(self)
        _check_domains(self)


class WebFetch(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="web_fetch"):
    """The provider reads the web pages whose addresses are in the conversation: Anthropic and Gemini.

    Args:
        max_uses: the largest number of pages in one reply; Anthropic.
        allowed_domains: read only pages of these domains; Anthropic.
        blocked_domains: never read pages of these domains; Anthropic.
        max_content_tokens: the largest number of tokens of one page; Anthropic.
        citations: whether the model cites the pages; Anthropic.
        extra: fields that are added to the wire's entry unchanged.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> WebFetch(max_uses=3).name
    'web_fetch'
    """

    name: ClassVar[str] = "web_fetch"

    max_uses: PositiveInt | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    max_content_tokens: PositiveInt | None = None
    citations: bool | None = None
    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "WebFetch.")
        _freeze_lists(self)
        _check_domains(self)


class CodeExecution(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="code_execution"):
    """The provider runs code that the model writes, in a sandbox: OpenAI Responses, Anthropic and Gemini.

    Args:
        extra: fields that are added to the wire's entry unchanged, such as OpenAI's `container`.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> CodeExecution().name
    'code_execution'
    """

    name: ClassVar[str] = "code_execution"

    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "CodeExecution.")


class FileSearch(Struct, frozen=True, kw_only=True, omit_defaults=True, tag="file_search"):
    """The provider searches files that you uploaded to it: OpenAI Responses and Gemini.

    Args:
        stores: the ids of OpenAI's vector stores, or the names of Gemini's file search stores.
        max_results: the largest number of passages.
        extra: fields that are added to the wire's entry unchanged.

    Raises:
        ConfigurationError: an argument is wrong, or there is no store.

    >>> FileSearch(stores=("vs_1",)).name
    'file_search'
    """

    name: ClassVar[str] = "file_search"

    stores: Sequence[NonEmptyText]
    max_results: PositiveInt | None = None
    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "FileSearch.")
        _freeze_lists(self)
        if not self.stores:
            raise ConfigurationError(
                "FileSearch.stores", "is empty", fix="name at least one store of your files"
            )


class ImageGeneration(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image_generation"
):
    """The provider draws images, which are `Media` parts of the reply: OpenAI Responses.

    Args:
        size: such as "1024x1024".
        quality: how carefully it is drawn.
        output_format: the format of the image.
        extra: fields that are added to the wire's entry unchanged.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> ImageGeneration(size="1024x1024").name
    'image_generation'
    """

    name: ClassVar[str] = "image_generation"

    size: NonEmptyText | None = None
    quality: SizeLevel | None = None
    output_format: Literal["png", "jpeg", "webp"] | None = None
    extra: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "ImageGeneration.")


HostedTool: TypeAlias = WebSearch | WebFetch | CodeExecution | FileSearch | ImageGeneration
"""A tool that the provider runs."""


def split_hosted_tools(
    tools: Iterable[object],
) -> tuple[tuple[object, ...], tuple[HostedTool, ...]]:
    """Return the functions of this process, and the tools that the provider runs.

    Raises:
        ConfigurationError: a tool is given twice, or its class instead of the tool.

    >>> functions, hosted = split_hosted_tools([print, WebSearch()])
    >>> functions, [tool.name for tool in hosted]
    ((<built-in function print>,), ['web_search'])
    """
    check_value("tools", tools, Iterable[object])
    functions: list[object] = []
    hosted: dict[str, HostedTool] = {}
    for tool in tools:
        if isinstance(tool, type) and issubclass(tool, HostedTool):
            name = tool.__name__
            raise ConfigurationError("tools", f"{name} is a class", fix=f"Write {name}()")
        if not isinstance(tool, HostedTool):
            functions.append(tool)
        elif tool.name in hosted:
            raise ConfigurationError(
                "tools", f"two of them are {type(tool).__name__}", fix="give one with all options"
            )
        else:
            hosted[tool.name] = tool
    return tuple(functions), tuple(hosted.values())


def check_hosted_options(tool: HostedTool, wire: str, supported: frozenset[str]) -> None:
    """Raise ConfigurationError if an option is set that the wire does not have.

    Args:
        tool: the tool.
        wire: the wire's name, for the message.
        supported: the options that the wire has, besides `extra`.

    >>> check_hosted_options(WebSearch(max_uses=2), "Gemini", frozenset())
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: WebSearch.max_uses: the Gemini wire has no such option. leave it unset, or write the wire's own field into extra
    """
    for option in tool.__struct_fields__:
        if option == "extra" or option in supported:
            continue
        if getattr(tool, option) not in (None, ()):
            raise ConfigurationError(
                f"{type(tool).__name__}.{option}",
                f"the {wire} wire has no such option",
                fix="leave it unset, or write the wire's own field into extra",
            )


def missing_hosted_tool(tool: HostedTool, wire: str) -> ConfigurationError:
    """Return the error for a tool that a wire does not have."""
    return ConfigurationError(
        "tools",
        f"the {wire} wire has no {type(tool).__name__} that the provider runs",
        fix=f"use a model of {_PROVIDERS[tool.name]}, or a function of yours",
    )


_PROVIDERS = {
    "web_search": "openai-responses, anthropic or gemini",
    "web_fetch": "anthropic or gemini",
    "code_execution": "openai-responses, anthropic or gemini",
    "file_search": "openai-responses or gemini",
    "image_generation": "openai-responses",
}


def _freeze_lists(tool: HostedTool) -> None:
    """Replace lists by tuples, since the caller could change a list later."""
    for option in tool.__struct_fields__:
        value = getattr(tool, option)
        if isinstance(value, list):
            force_setattr(tool, option, tuple(value))


def _check_domains(tool: WebSearch | WebFetch) -> None:
    kind = type(tool).__name__
    for field in ("allowed_domains", "blocked_domains"):
        for domain in getattr(tool, field):
            if "://" in domain or not domain.strip():
                raise ConfigurationError(
                    f"{kind}.{field}",
                    f"{domain[:80]!r} is not a domain",
                    fix="write it without the scheme, such as 'python.org'",
                )
    if tool.allowed_domains and tool.blocked_domains:
        raise ConfigurationError(
            f"{kind}.blocked_domains", "excludes allowed_domains", fix="set one of the two"
        )
