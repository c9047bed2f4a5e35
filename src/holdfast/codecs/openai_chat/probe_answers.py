"""Reads the answer of an endpoint of Chat Completions to a probe: taken, refused, or unknown, and what it showed.

It reads what decoders pass over, such as the end marker of a stream. A page of a proxy, a body that broke off and
an error of the server are unknown: they say nothing about the request. This module never raises for any bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import ThinkingTag
from holdfast.codecs.error_body import read_error_body, to_single_line
from holdfast.codecs.sse import SseDecoder
from holdfast.codecs.wire import Failure
from holdfast.core.redaction import redact

PROBE_LIMIT: Final = 16
"""The limit of the reply, in tokens, of the question whether a limit has an effect."""

_TOO_LONG: Final = 8 * PROBE_LIMIT
"""Characters of a reply that no limit of `PROBE_LIMIT` tokens allows."""


class EndpointAnswer(Struct, frozen=True, kw_only=True):
    """What came back, without the endpoint's secrets.

    Args:
        status: the HTTP status; None if no response came.
        headers: names in lower case.
        body: what arrived of the body.
        problem: why the response did not come, or not whole; "" if it did.
    """

    status: int | None = None
    headers: Mapping[str, str] = {}
    body: bytes = b""
    problem: str = ""


class AnswerReading(Struct, frozen=True, kw_only=True):
    """An answer as it was understood.

    Args:
        verdict: whether the request was answered, refused, or neither.
        words: what the server said, in short.
        text: the text of the reply, without thinking in tags.
        calls: how many pieces of tool calls it has.
        finish: its finish reason.
        marker: whether the stream had its end marker.
        tokens: the tokens of the reply, if it reported them.
        reasoning: the field in which reasoning stands.
        tag: the tag with which the text begins, or the closing one if it begins inside of thinking.
        streamed: whether it is an event stream.
        failure: the error response.
    """

    verdict: Literal["taken", "refused", "unknown"]
    words: str
    text: str = ""
    calls: int = 0
    finish: str = ""
    marker: bool = False
    tokens: int | None = None
    reasoning: str = ""
    tag: ThinkingTag | None = None
    streamed: bool = False
    failure: Failure | None = None


def read_answer(answer: EndpointAnswer) -> AnswerReading:
    """Return what an answer says about its request.

    >>> read_answer(EndpointAnswer(status=503, body=b"busy")).verdict
    'unknown'
    """
    if answer.problem:
        return AnswerReading(verdict="unknown", words=redact(answer.problem))
    status = answer.status or 0
    if not 200 <= status < 300:
        return _read_failure(answer, status)
    text = answer.body.decode("utf-8", "replace").strip()
    is_stream = "event-stream" in answer.headers.get("content-type", "") or text.startswith("data:")
    chunks = list(_read_events(answer.body) if is_stream else _read_json(answer.body))
    error = next((one for one in chunks if one.get("error")), None)
    if error is not None:
        inner = read_error_body(Failure(status=200, body=msgspec.json.encode(error)))
        return _read_failure(replace(answer, body=msgspec.json.encode(error)), inner.status or 200)
    choices = [choice for one in chunks for choice in _read_choices(one)]
    if not choices:
        what = "an HTML page" if text.startswith("<") else "no reply of Chat Completions"
        return AnswerReading(verdict="unknown", words=f"status {status} with {what}")
    return _read_reply(chunks, choices, is_stream=is_stream, ends=b"[DONE]" in answer.body)


_WORDED: Final = re.compile(
    r"\brole|jinja|template|not supported|unsupported|does not support|requires|must be|unknown",
    re.IGNORECASE,
)


def _read_failure(answer: EndpointAnswer, status: int) -> AnswerReading:
    failure = Failure(status=status, headers=answer.headers, body=answer.body)
    said = read_error_body(failure).message or to_single_line(
        answer.body.decode("utf-8", "replace")
    )
    message = redact(said)[:300]
    words = f"status {status}: {message}" if message else f"status {status}"
    is_page = answer.body.lstrip().startswith(b"<")
    # llama.cpp sends 500 for what it does not support, so the words decide; a page comes from a proxy.
    is_refusal = status in (400, 422) or (status in (500, 501) and _WORDED.search(message))
    verdict: Literal["refused", "unknown"] = "refused" if is_refusal and not is_page else "unknown"
    return AnswerReading(verdict=verdict, words=words, failure=failure)


def _read_json(body: bytes) -> Iterator[dict[str, Any]]:
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return
    if isinstance(value, dict):
        yield value


def _read_events(body: bytes) -> Iterator[dict[str, Any]]:
    decoder = SseDecoder()
    for _, data in [*decoder.feed(body), *decoder.close()]:
        yield from _read_json(data)


def _read_choices(chunk: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict):
            yield choice


def _read_reply(
    chunks: Iterable[Mapping[str, Any]],
    choices: Iterable[Mapping[str, Any]],
    *,
    is_stream: bool,
    ends: bool,
) -> AnswerReading:
    texts: list[str] = []
    calls, finish, reasoning = 0, "", ""
    for choice in choices:
        message = choice.get("delta" if is_stream else "message")
        message = message if isinstance(message, dict) else {}
        if isinstance(content := message.get("content"), str):
            texts.append(content)
        listed = message.get("tool_calls")
        calls += len(listed) if isinstance(listed, list) else 0
        finish = str(choice.get("finish_reason") or finish)
        reasoning = next(
            (n for n in ("reasoning_content", "reasoning") if message.get(n)), reasoning
        )
    tag, text = _split_thinking("".join(texts))
    usages = [one["usage"] for one in chunks if isinstance(one.get("usage"), dict)]
    tokens = usages[-1].get("completion_tokens") if usages else None
    return AnswerReading(
        verdict="taken",
        words="answered",
        text=text,
        tag=None if reasoning else tag,
        calls=calls,
        finish=finish,
        marker=ends,
        tokens=tokens if isinstance(tokens, int) else None,
        reasoning=reasoning,
        streamed=is_stream,
    )


_OPENED: Final = re.compile(r"\s*(<think>|<thinking>|<reasoning>|\[THINK\])")
_CLOSED: Final = re.compile(r"</think>|</thinking>|</reasoning>|\[/THINK\]")


def _split_thinking(text: str) -> tuple[ThinkingTag | None, str]:
    """Return the tag of the thinking with which a text begins, and the text after it.

    >>> _split_thinking("<think>Hm.</think>Hi."), _split_thinking("Hm.</think>Hi."), _split_thinking("Hi.")
    (('<think>', 'Hi.'), ('</think>', 'Hi.'), (None, 'Hi.'))
    """
    opened, closed = _OPENED.match(text), _CLOSED.search(text)
    if opened is None and closed is None:
        return None, text
    tag = opened[1] if opened is not None else closed[0] if closed is not None else ""
    rest = text[closed.end() :].lstrip() if closed is not None else ""
    return cast("ThinkingTag", tag), rest


def was_cut(reading: AnswerReading) -> bool:
    """Whether a reply ended at the limit of its tokens."""
    return reading.finish == "length"


def is_over_limit(reading: AnswerReading) -> bool:
    """Whether a reply is longer than its limit allows."""
    if reading.finish == "length":
        return False
    if reading.tokens is not None and reading.tokens > 2 * PROBE_LIMIT:
        return True
    return len(reading.text) > _TOO_LONG


def describe_reply(reading: AnswerReading) -> str:
    """Describe a reply in a few words.

    >>> describe_reply(AnswerReading(verdict="taken", words="", text="Hi", finish="stop", tokens=1))
    '2 characters, finish reason stop, 1 token'
    """
    parts = [f"{len(reading.text)} characters"]
    parts += [f"{reading.calls} tool calls"] if reading.calls else []
    parts += [f"finish reason {reading.finish}" if reading.finish else "no finish reason"]
    if reading.tokens is not None:
        parts.append(f"{reading.tokens} token{'s' if reading.tokens != 1 else ''}")
    if reading.streamed and not reading.marker:
        parts.append("no [DONE]")
    return ", ".join(parts)
