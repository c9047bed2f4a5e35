"""Makes the chunks for the work of the provider and of nested agents: tools of the provider, sources, preliminary outputs.

This module is pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from holdfast.codecs.citation import Citation
from holdfast.event_log.display.display_items import (
    AgentTextShown,
    HostedCallShown,
    SourcesShown,
    parse_arguments,
)
from holdfast.server.protocols.content_parts import guess_file_type

Chunk: TypeAlias = dict[str, object]
"""One chunk of a UI message stream, as JSON values."""

_GROWTH = 1.25
"""How much longer a preliminary output is than the one before: all of them cost a few times the last."""


def format_hosted(item: HostedCallShown) -> Iterator[Chunk]:
    """Yield the chunks of a call that the provider runs."""
    call, hosted = {"toolCallId": item.call}, item.hosted
    described = {**call, "toolName": hosted.name, "dynamic": True, "providerExecuted": True}
    if not hosted.arguments and not hosted.finished:
        yield {"type": "tool-input-start", **described}
        return
    value = parse_arguments(hosted.arguments)
    given = hosted.arguments if value is None else value
    yield {"type": "tool-input-available", **described, "input": given}
    if hosted.finished and hosted.is_error:
        yield {"type": "tool-output-error", **call, "errorText": hosted.result or "It failed."}
    elif hosted.finished:
        yield {"type": "tool-output-available", **call, "output": hosted.result}


def format_sources(item: SourcesShown) -> Iterator[Chunk]:
    """Yield the chunks of the sources that a text cites, each of them once."""
    told: set[str] = set()
    for source in item.sources:
        place = source.url or source.title
        if place and place not in told:
            yield _format_source(source, f"{item.step}.source.{len(told)}")
            told.add(place)


def _format_source(source: Citation, name: str) -> Chunk:
    if source.url:
        title = {"title": source.title} if source.title else {}
        return {"type": "source-url", "sourceId": name, "url": source.url, **title}
    media_type = guess_file_type(source.title)
    return {
        "type": "source-document",
        "sourceId": name,
        "mediaType": media_type,
        "title": source.title,
    }


class AgentOutputs:
    """The preliminary outputs of tools that are agents: the text that the agent writes."""

    __slots__ = ("_lengths", "_texts")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._lengths: dict[str, int] = {}  # of the text that was sent

    def feed(self, item: AgentTextShown) -> Iterator[Chunk]:
        """Yield the text so far, once it is much longer than the sent text, or begins again."""
        if len(item.agents) > 1:
            return  # a message has no place for the text of an agent of an agent
        if not item.offset:
            self._texts[item.call], self._lengths[item.call] = [], 0
        texts = self._texts.setdefault(item.call, [])  # the call may be shown after its beginning
        texts.append(item.text)
        length = item.offset + len(item.text)
        if length > self._lengths.get(item.call, 0) * _GROWTH or not item.offset:
            self._lengths[item.call] = length
            chunk: Chunk = {"type": "tool-output-available", "toolCallId": item.call}
            yield {**chunk, "output": "".join(texts), "preliminary": True}
