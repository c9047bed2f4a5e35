"""Web search and URL context, which a provider runs itself. They are there only where the provider has them.

This module must never imitate one.
"""

from __future__ import annotations

from holdfast.models import HostedTool, WebFetch, WebSearch, find_preset

_SEARCHING = frozenset({"openai_responses", "anthropic", "gemini"})
_FETCHING = frozenset({"anthropic", "gemini"})


def find_hosted_tools(provider: str) -> tuple[HostedTool, ...]:
    """Return the tools that a provider runs itself.

    Args:
        provider: its name, such as "gemini".

    Raises:
        ConfigurationError: there is no such provider.

    >>> [hosted.name for hosted in find_hosted_tools("gemini")], find_hosted_tools("groq")
    (['web_search', 'web_fetch'], ())
    """
    wire = find_preset(provider).wire
    found: list[HostedTool] = []
    if wire in _SEARCHING:
        found.append(WebSearch())
    if wire in _FETCHING:
        found.append(WebFetch())
    return tuple(found)
