"""The tools that the provider ran, as a reply shows them: its calls, their results, and citations.

The blocks of these calls stay in the history as `Opaque` parts, so that their wire gets them back
unchanged. The functions here read them in neutral form. They never raise on any block, and never
change a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.anthropic import hosted as anthropic
from holdfast.codecs.citation import Citation, first_string, objects_in, position_in
from holdfast.codecs.gemini import hosted as gemini
from holdfast.codecs.gemini.vocabulary import METADATA
from holdfast.codecs.openai_responses import hosted as openai_responses
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted
from holdfast.core.messages import Message, Opaque, Part, Text


class HostedCall(Struct, frozen=True, kw_only=True):
    """A call of a tool that the provider ran.

    Args:
        name: the tool: "web_search", "web_fetch", "code_execution", "file_search",
            "image_generation", or the provider's own name of another tool.
        arguments: the arguments of the model, as JSON text; "" if the provider does not send them.
        result: the result, as text: the addresses of pages, the output of code.
        is_error: the tool failed; `result` says why.
        finished: the reply holds the result.
        id: the provider's id of the call, or "".
        start: the number of characters of `message.text` before the call.
    """

    name: str
    arguments: str = ""
    result: str = ""
    is_error: bool = False
    finished: bool = False
    id: str = ""
    start: int = 0


_READ: tuple[Callable[[Part], list[HostedToolStarted | HostedToolFinished]], ...] = (
    anthropic.read_part,
    openai_responses.read_part,
    gemini.read_part,
)


def find_hosted_calls(messages: Message | Iterable[Message]) -> tuple[HostedCall, ...]:
    """Return the calls of tools that the provider ran, in their order.

    Args:
        messages: one message, or several, such as `result.messages`. A result may be in a later
            message than its call.

    >>> from holdfast.core.messages import assistant, Opaque
    >>> ran = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "Porto"}}
    >>> [(one.name, one.arguments) for one in find_hosted_calls(assistant(Opaque("openai_responses", ran)))]
    [('web_search', '{"query":"Porto"}')]
    """
    calls: list[HostedCall] = []
    for message in [messages] if isinstance(messages, Message) else messages:
        first, start = len(calls), 0
        for part in message.parts:
            notices = read_hosted_part(part)
            if isinstance(part, Opaque) and part.wire == METADATA:
                # Some models also send these calls in parts of their own.
                shown = {call.name for call in calls[first:]}
                notices = [one for one in notices if one.name not in shown]
            for notice in notices:
                _add_notice(calls, notice, first, start)
            start += len(part.text) if isinstance(part, Text) else 0
    return tuple(calls)


def read_hosted_part(part: Part) -> list[HostedToolStarted | HostedToolFinished]:
    """Return the part's notices of the provider's tools: the begin of a call, its result, or both."""
    return [notice for read in _READ for notice in read(part)]


def find_citations(message: Message) -> tuple[Citation, ...]:
    """Return the sources that the text of a message cites, in their order.

    Args:
        message: a reply, such as `result.messages[-1]`.

    >>> from holdfast.core.messages import Message, Text
    >>> note = {"type": "web_search_result_location", "url": "https://porto.pt", "title": "Porto"}
    >>> find_citations(Message("assistant", (Text("Sunny.", {"wire": "anthropic", "citations": [note]}),)))[0].url
    'https://porto.pt'
    """
    return (
        *anthropic.read_citations(message),
        *openai_responses.read_citations(message),
        *_read_url_citations(message),
        *gemini.read_citations(message),
    )


def _read_url_citations(message: Message) -> Iterator[Citation]:
    """Return the sources that a reply of Chat Completions cites, from the annotations of its texts.

    Source: OpenAI's reference of chat completions (`url_citation`), and OpenRouter's page on web search.
    """
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


def _add_notice(
    calls: list[HostedCall],
    notice: HostedToolStarted | HostedToolFinished,
    first: int,
    start: int,
) -> None:
    """Begin a call, or finish the open one that the result belongs to.

    Args:
        calls: the calls so far.
        notice: the notice of a part.
        first: the index of the first call of its message.
        start: the number of characters of text before the part.
    """
    if isinstance(notice, HostedToolStarted):
        calls.append(
            HostedCall(name=notice.name, arguments=notice.arguments, id=notice.id, start=start)
        )
        return
    at = next(
        (
            at
            for at, call in enumerate(calls)
            if not call.finished
            and (call.id == notice.id if notice.id else at >= first and call.name == notice.name)
        ),
        None,
    )
    if at is None:
        at = len(calls)
        calls.append(HostedCall(name=notice.name, id=notice.id, start=start))
    calls[at] = replace(
        calls[at],
        arguments=calls[at].arguments or notice.arguments,
        result=notice.result,
        is_error=notice.is_error,
        finished=True,
    )
