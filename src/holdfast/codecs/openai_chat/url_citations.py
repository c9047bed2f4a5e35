"""Reads the sources that a reply of Chat Completions cites, from the annotations of its text.

Source: OpenAI's reference of chat completions (`url_citation`), and OpenRouter's page on web search.
This module never raises on any annotation.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.codecs.citation import Citation, first_string, objects_in, position_in
from holdfast.core.messages import Message, Text


def read_citations(message: Message) -> Iterator[Citation]:
    """Return the sources in the annotations of the texts."""
    start = 0
    for part in message.parts:
        if not isinstance(part, Text):
            continue
        length = len(part.text)
        for note in objects_in((part.extra or {}).get("annotations")):
            cited = note.get("url_citation")
            if isinstance(cited, dict):
                yield Citation(
                    url=first_string(cited, "url"),
                    title=first_string(cited, "title"),
                    cited_text=first_string(cited, "content"),
                    start=start + position_in(cited.get("start_index"), length, 0),
                    end=start + position_in(cited.get("end_index"), length, length),
                )
        start += length
