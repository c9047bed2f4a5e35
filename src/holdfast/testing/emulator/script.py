"""The replies of the emulated model: a list, or a function of the request; and short forms of replies.

A reply is removed from the list only when it was delivered completely, so that a client that retries
after a fault gets the same reply. Calls of the provider's own tools and cited texts get the parts of the wire on which the
reply is sent. They look as those of the real provider, with signed contents that `holdfast` must send back unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import FinishReason, Opaque, Part, Reasoning, Reply, Text, ToolCall
from holdfast.testing.emulator.emulated_request import EmulatedRequest
from holdfast.testing.emulator.wires.history_parts import sign_text

_Object: TypeAlias = dict[str, object]

_ITEMS = {
    "web_search": "web_search_call",
    "code_execution": "code_interpreter_call",
    "file_search": "file_search_call",
}


class EmulatedHostedCall(Struct, frozen=True, kw_only=True):
    """A call of one of the provider's own tools, with its result; see `hosted_call`."""

    name: str
    arguments: Mapping[str, object]
    result: str = ""
    pages: tuple[str, ...] = ()
    error: str = ""


class EmulatedCitation(Struct, frozen=True, kw_only=True):
    """A text with the page that it cites; see `cited`."""

    text: str
    url: str
    title: str = ""


Hosted: TypeAlias = EmulatedHostedCall | EmulatedCitation


def hosted_call(
    name: str,
    arguments: Mapping[str, object] | None = None,
    *,
    result: str = "",
    pages: Sequence[str] = (),
    error: str = "",
) -> EmulatedHostedCall:
    """Make a call of a tool that the provider runs, with its result.

    Args:
        name: "web_search", "web_fetch", "code_execution", "file_search" or "tool_search".
        arguments: what the model asks for, such as `{"query": "Porto"}`.
        result: the output of code.
        pages: the addresses that a search found, or that were read; the names of tools for "tool_search".
        error: the error of a tool that failed.

    >>> hosted_call("web_search", {"query": "Porto"}, pages=["https://porto.pt"]).name
    'web_search'
    """
    return EmulatedHostedCall(
        name=name, arguments=arguments or {}, result=result, pages=tuple(pages), error=error
    )


def cited(text: str, url: str, title: str = "") -> EmulatedCitation:
    """Make a text that cites a page.

    Args:
        text: the text.
        url: the address of the page.
        title: its title.

    >>> cited("It is sunny.", "https://porto.pt").text
    'It is sunny.'
    """
    return EmulatedCitation(text=text, url=url, title=title or url)


def expand_hosted(parts: Sequence[Part | Hosted], wire: str, number: int) -> tuple[Part, ...]:
    """Return the parts of a reply, with the short forms in the form of a wire.

    Args:
        parts: the parts and short forms.
        wire: the wire of the request.
        number: the number of the request, which is part of the ids.

    Raises:
        ConfigurationError: the wire has no such tools, or not this one.
    """
    if not any(isinstance(part, Hosted) for part in parts):
        return tuple(part for part in parts if not isinstance(part, Hosted))
    if wire == "gemini":
        return _expand_gemini(parts)
    expanded: list[Part] = []
    for index, part in enumerate(parts):
        if not isinstance(part, Hosted):
            expanded.append(part)
        elif wire == "anthropic":
            expanded += _anthropic_parts(part, f"srvtoolu_emulated_{number}_{index}")
        elif wire == "openai_responses":
            expanded += _responses_parts(part, f"{number}_{index}")
        else:
            raise _refuse(wire, part)
    return tuple(expanded)


def _refuse(wire: str, part: Hosted) -> ConfigurationError:
    what = part.name if isinstance(part, EmulatedHostedCall) else "citations"
    return ConfigurationError("replies", f"the wire {wire} has no {what} of the provider")


def _anthropic_parts(part: Hosted, call_id: str) -> list[Part]:
    if isinstance(part, EmulatedCitation):
        note = {
            "type": "web_search_result_location",
            "url": part.url,
            "title": part.title,
            "cited_text": part.text,
            "encrypted_index": sign_text(part.url),
        }
        return [Text(part.text, {"wire": "anthropic", "citations": [note]})]
    name = "bash_code_execution" if part.name == "code_execution" else part.name
    content: object
    if part.error:
        content = {"type": f"{name}_tool_result_error", "error_code": part.error}
    elif part.name == "tool_search":
        found = [{"type": "tool_reference", "tool_name": page} for page in part.pages]
        content = {"type": "tool_search_tool_search_result", "tool_references": found}
    elif part.name == "web_search":
        content = [_search_result(page) for page in part.pages]
    elif part.name == "web_fetch":
        content = {"type": "web_fetch_result", "url": part.pages[0] if part.pages else ""}
    elif part.name == "code_execution":
        output = {"stdout": part.result, "stderr": "", "return_code": 0, "content": []}
        content = {"type": f"{name}_result", **output}
    else:
        raise _refuse("anthropic", part)
    called = "tool_search_tool_bm25" if part.name == "tool_search" else name
    arguments = dict(part.arguments)
    call = {"type": "server_tool_use", "id": call_id, "name": called, "input": arguments}
    result = {"type": f"{name}_tool_result", "tool_use_id": call_id, "content": content}
    return [Opaque("anthropic", call), Opaque("anthropic", result)]


def _search_result(page: str) -> _Object:
    return {
        "type": "web_search_result",
        "url": page,
        "title": page.partition("://")[2] or page,
        "encrypted_content": sign_text(page),
        "page_age": None,
    }


def _responses_parts(part: Hosted, number: str) -> list[Part]:
    if isinstance(part, EmulatedCitation):
        note = {
            "type": "url_citation",
            "start_index": 0,
            "end_index": len(part.text),
            "url": part.url,
            "title": part.title,
        }
        extra = {"wire": "openai_responses", "part": {"annotations": [note]}}
        return [Text(part.text, extra)]
    if part.name == "tool_search":
        return _tool_search_items(part, number)
    kind = _ITEMS.get(part.name)
    if kind is None:
        raise _refuse("openai_responses", part)
    item: _Object = {"type": kind, "id": f"{kind}_emulated_{number}"}
    item["status"] = "failed" if part.error else "completed"
    if part.name == "web_search":
        sources = [{"type": "url", "url": page} for page in part.pages]
        item["action"] = {"type": "search", **part.arguments, "sources": sources}
    elif part.name == "code_execution":
        outputs = [{"type": "logs", "logs": part.result}] if part.result else []
        item |= {"container_id": "cntr_emulated", **part.arguments, "outputs": outputs}
    else:
        results = [{"filename": page, "text": part.result} for page in part.pages]
        item |= {**part.arguments, "results": results}
    return [Opaque("openai_responses", item)]


def _tool_search_items(part: EmulatedHostedCall, number: str) -> list[Part]:
    """Return the call of a search for tools, and what it has loaded."""
    shared = {"execution": "server", "call_id": None, "status": "completed"}
    called = {"id": f"tsc_emulated_{number}", "arguments": dict(part.arguments)}
    tools = [{"type": "function", "name": page, "defer_loading": True} for page in part.pages]
    return [
        Opaque("openai_responses", {"type": "tool_search_call", **shared, **called}),
        Opaque(
            "openai_responses",
            {
                "type": "tool_search_output",
                **shared,
                "id": f"tso_emulated_{number}",
                "tools": tools,
            },
        ),
    ]


def _expand_gemini(parts: Sequence[Part | Hosted]) -> tuple[Part, ...]:
    """Return the parts; searches, pages and sources are in the metadata of the reply."""
    expanded: list[Part] = []
    queries: list[object] = []
    chunks: list[_Object] = []
    supports: list[_Object] = []
    pages: list[_Object] = []
    for part in parts:
        if isinstance(part, EmulatedCitation):
            before = sum(len(one.text.encode()) for one in expanded if isinstance(one, Text))
            segment = {"startIndex": before, "endIndex": before + len(part.text.encode())}
            supports.append({"segment": segment, "groundingChunkIndices": [len(chunks)]})
            chunks.append({"web": {"uri": part.url, "title": part.title}})
            expanded.append(Text(part.text))
        elif not isinstance(part, EmulatedHostedCall):
            expanded.append(part)
        elif part.name == "code_execution":
            expanded += _gemini_code(part)
        elif part.name == "web_search":
            queries += part.arguments.values()
            chunks += [{"web": {"uri": page, "title": page}} for page in part.pages]
        elif part.name == "web_fetch":
            status = f"URL_RETRIEVAL_STATUS_{'ERROR' if part.error else 'SUCCESS'}"
            pages += [{"retrievedUrl": page, "urlRetrievalStatus": status} for page in part.pages]
        else:
            raise _refuse("gemini", part)
    about: _Object = {}
    if queries or chunks:
        about["groundingMetadata"] = {
            "webSearchQueries": queries,
            "groundingChunks": chunks,
            "groundingSupports": supports,
        }
    if pages:
        about["urlContextMetadata"] = {"urlMetadata": pages}
    return (*expanded, Opaque("gemini.metadata", about)) if about else tuple(expanded)


def _gemini_code(part: EmulatedHostedCall) -> list[Part]:
    code = {"language": "PYTHON", **part.arguments}
    outcome = "OUTCOME_FAILED" if part.error else "OUTCOME_OK"
    output = {"outcome": outcome, "output": part.error or part.result}
    return [
        Opaque("gemini", {"executableCode": code}),
        Opaque("gemini", {"codeExecutionResult": output}),
    ]


ReplyLike: TypeAlias = Reply | str | Part | Hosted | Sequence[Part | Hosted | str]
"""A reply, or a short form of one: text, one part, or parts in order."""

Rule: TypeAlias = Callable[[EmulatedRequest], ReplyLike | Awaitable[ReplyLike]]
Replies: TypeAlias = Rule | Sequence[ReplyLike | Rule]


def call(name: str, arguments: dict[str, object] | None = None, *, id: str = "") -> ToolCall:  # noqa: A002
    """Make a tool call; without an id the emulator sets a unique one.

    >>> call("weather", {"city": "Porto"}).arguments
    '{"city":"Porto"}'
    """
    return ToolCall(id=id, name=name, arguments=msgspec.json.encode(arguments or {}).decode())


def thinking(text: str) -> Reasoning:
    """Make a reasoning part.

    >>> thinking("Porto is in Portugal.").text
    'Porto is in Portugal.'
    """
    return Reasoning(text)


def echo(request: EmulatedRequest) -> str:
    """Reply with the user's text; this is the default of `Emulator`.

    >>> echo(EmulatedRequest())
    'You said: '
    """
    return f"You said: {request.text}"


def as_reply(value: ReplyLike, number: int, wire: str = "") -> Reply:
    """Make a `Reply` from a short form, with an id for each tool call.

    Args:
        value: the reply or its short form.
        number: the number of the request, which is part of the ids.
        wire: the wire of the request, on which calls of the provider's own tools have their form.

    Raises:
        ConfigurationError: the value is not a reply, or the wire has no such part.
    """
    if isinstance(value, Reply):
        reply = value
    else:
        reply = Reply(parts=expand_hosted(_to_parts(value), wire, number))
    parts = tuple(
        msgspec.structs.replace(part, id=f"call_{number}_{index}")
        if isinstance(part, ToolCall) and not part.id
        else part
        for index, part in enumerate(reply.parts)
    )
    finish = reply.finish
    if finish is FinishReason.STOP and reply.calls:
        finish = FinishReason.TOOL_CALLS
    return msgspec.structs.replace(reply, parts=parts, finish=finish)


def _to_parts(
    value: str | Part | Hosted | Sequence[Part | Hosted | str],
) -> tuple[Part | Hosted, ...]:
    check_value("one of replies", value, ReplyLike)
    if isinstance(value, str | Struct):
        value = (value,)
    return tuple(Text(part) if isinstance(part, str) else part for part in value)


class Script:
    """Returns replies in order, each until it was delivered completely, or calls one function.

    Args:
        replies: a list of replies (and functions of the request), or one function.
    """

    def __init__(self, replies: Replies) -> None:
        self._rule = replies if callable(replies) else None
        self._remaining: list[ReplyLike | Rule] = [] if callable(replies) else list(replies)
        self._total = len(self._remaining)

    def next_turn(self) -> EmulatedTurn:
        """Return the next reply. Raises LookupError at the end of the list."""
        if self._rule is not None:
            return EmulatedTurn(self._rule, None)
        if not self._remaining:
            replies = "1 reply" if self._total == 1 else f"{self._total} replies"
            raise LookupError(f"the script has {replies}, and all were delivered")
        return EmulatedTurn(self._remaining.pop(0), self._remaining)


class EmulatedTurn:
    """One reply of a script."""

    __slots__ = ("_remaining", "_reply")

    def __init__(self, reply: ReplyLike | Rule, remaining: list[ReplyLike | Rule] | None) -> None:
        self._reply = reply
        self._remaining = remaining

    async def reply_to(self, request: EmulatedRequest) -> ReplyLike:
        """Return the reply to this request."""
        if not callable(self._reply):
            return self._reply
        reply = self._reply(request)
        return await reply if isinstance(reply, Awaitable) else reply

    def give_back(self) -> None:
        """Return an undelivered reply to the script, for the next request."""
        if self._remaining is not None:
            self._remaining.insert(0, self._reply)
            self._remaining = None
