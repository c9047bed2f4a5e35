"""Handles the response of a vendor's SDK, streamed or whole.

The codecs read chunks, events and whole responses of google-genai, openai (chat and responses) and
anthropic, and the dictionaries that they were made from. This module adds the status lines and the
final texts for a person. It never claims that a tool succeeded without its result, and never returns
cut, blocked or refused text as an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec import Struct

from holdfast.calls.call_result import CallResult, ResultKind, kind_of_failure
from holdfast.calls.call_wording import (
    ANALYSIS_COMPLETE,
    TASK_COMPLETED,
    StatusCallback,
    StatusLine,
    executed_text,
    failure_text,
)
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import redact_exception
from holdfast.calls.http_responses import read_http_response
from holdfast.calls.object_fold import ObjectFold
from holdfast.calls.opened_streams import open_stream, run_now
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader, unwrap_run_result
from holdfast.calls.sdk_errors import classify
from holdfast.calls.tool_activity import ToolActivity
from holdfast.codecs.assemble import AssembledReply
from holdfast.core.argument_checks import check_arguments, check_not_async
from holdfast.core.deltas import Delta, ReasoningDelta, ReplyFinished, TextDelta
from holdfast.core.errors import (
    ConfigurationError,
    EmptyResponseError,
    HoldfastError,
    MissingAttributeError,
    NoTextError,
    NoToolActivityError,
    ResponseValidationError,
    ToolFailedError,
    ToolNotFoundError,
    UnexpectedTypeError,
    UnterminatedError,
)
from holdfast.core.messages import FinishReason, Reply

logger = logging.getLogger(__name__)


class ResponseChunk(Struct, kw_only=False):
    """The content of one chunk.

    Args:
        text: its text, without reasoning.
        has_tool_call: whether the chunk belongs to a tool call.
        tool_name: the tool; "unknown" if the model did not name it.
        metadata: `finish_reason` and `reasoning`, if the chunk holds them.
    """

    text: str
    has_tool_call: bool
    tool_name: str | None = None
    metadata: dict[str, object] = {}


class ResponseHandler:
    """Handles one response; create a new handler for each.

    Args:
        status_callback: called with each status line; its exceptions are logged.
        reader: how the response is read: shapes of yours, the profile of the endpoint, the tools that you offered.

    Attributes:
        text_buffer: the pieces of text of the last model turn, in order.
        tool_activity: whether a tool was called.
        last_tool_name: the tool that was called last.
        chunk_count: the number of chunks that were not empty.

    >>> handler = ResponseHandler()
    >>> handler.process_chunk({"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}).text
    'Hel'
    >>> last = {"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}
    >>> handler.process_chunk({"candidates": [last]}).metadata
    {'finish_reason': 'stop'}
    >>> handler.get_final_response()
    'Hello'
    """

    @check_arguments
    def __init__(
        self,
        status_callback: StatusCallback | None = None,
        *,
        reader: ResponseReader = DEFAULT_READER,
    ) -> None:
        self.text_buffer: list[str] = []
        self.tool_activity = False
        self.last_tool_name: str | None = None
        self.chunk_count = 0
        check_not_async("status_callback", status_callback)
        self.status = StatusLine(status_callback)
        self._reader = reader
        self._fold = ObjectFold(reader)
        self._tools = ToolActivity()
        self._has_begun = False
        self._is_whole = False
        self._assembled: AssembledReply | None = None
        self._delta_reader: Callable[[list[Delta]], object] | None = None

    def pass_deltas(self, delta_reader: Callable[[list[Delta]], object]) -> None:
        """Pass the content of the response to a function too, piece by piece."""
        self._delta_reader = delta_reader

    @property
    def status_callback(self) -> StatusCallback | None:
        """The callback for status lines."""
        return self.status.callback

    def validate_response(self, response: object) -> None:
        """Check that a whole response can be used; the handler stays unchanged.

        A missing text is reported later, by `get_final_response`.

        Raises:
            ResponseValidationError: it is not a response, or it lacks a required field.
            EmptyResponseError: it has no candidates.
            ResponseError: its content was withheld, declined or cut.
        """
        _read_whole_response(response, ObjectFold(self._reader), self._reader)

    def process_response(self, response: object) -> ResponseChunk:
        """Check and read a whole response.

        Raises:
            ResponseError: as `validate_response`.
            ConfigurationError: this handler has handled a response.
        """
        self._begin_response()
        self._is_whole = True
        return self._take_deltas(_read_whole_response(response, self._fold, self._reader))

    def process_chunk(self, chunk: object) -> ResponseChunk | None:
        """Read one chunk or event of a stream; return None for an empty one.

        Raises:
            ConfigurationError: this handler has handled a response.
            Exception: reading the chunk failed; the exception is logged and raised again.
        """
        if self._assembled is not None or self._is_whole:
            raise _used_error()
        if not chunk:
            return None
        self.chunk_count += 1
        turns = self._fold.turns
        try:
            deltas = self._fold.read_chunk(chunk)
            if self._fold.turns != turns:
                self._begin_turn()
            result = self._take_deltas(deltas)
        except Exception as error:
            # The text of the exception itself may hold secrets, so a redacted one is logged.
            text = redact_exception(error)
            shown = RuntimeError(f"{type(error).__name__}: {text}")
            logger.error(
                "Chunk processing failed",
                extra={"chunk_num": self.chunk_count, "error": text},
                exc_info=(RuntimeError, shown, error.__traceback__),
            )
            raise
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug(
                "Processed chunk",
                extra={
                    "chunk_num": self.chunk_count,
                    "has_text": bool(result.text),
                    "has_tool_call": result.has_tool_call,
                },
            )
        return result

    def handle(self, stream: object) -> str:
        """Read a whole stream and return the final response; the stream is always closed.

        Raises:
            ResponseError: as `get_final_response`.
            Exception: the stream raised it.
        """
        return run_now(self._handle(stream, blocking=True))

    async def ahandle(self, stream: object) -> str:
        """Like `handle`, for the stream of an asynchronous client, which may be awaitable."""
        return await self._handle(stream, blocking=False)

    async def _handle(self, stream: object, *, blocking: bool) -> str:
        self._begin_response()
        async with open_stream(stream, blocking=blocking) as chunks:
            async for chunk in chunks:
                self.process_chunk(chunk)
        return self.get_final_response()

    def get_final_response(self) -> str:
        """Return the text of the answer or, without text, a sentence about the tools. Ends the handler.

        Raises:
            EmptyResponseError: there is neither text nor a tool call.
            ToolFailedError: there is no text, and the last tool's result is an error.
            ToolNotFoundError: the reply calls a tool that is not one of the reader's `tools`.
            ResponseError: the reply is blocked, refused, cut or invalid; `.partial` holds the part that arrived.
        """
        error = self._judge_reply().error
        if error is not None and not self._means_no_text(error):
            raise error
        self._check_calls()
        text = self._buffered_text()
        if text.strip():
            return text
        if self.tool_activity:
            return self._describe_tools()
        raise self._empty_error(error)

    def result(self, error: Exception | None = None) -> CallResult:
        """Return the result of the call. Ends the handler.

        Args:
            error: an exception outside of the handler that ended the call.
        """
        text = ""
        if error is None:
            with ErrorCatcher() as caught:
                text = self.get_final_response()
            error = caught.error
        reply = self._judge_reply().reply
        has_finish = bool(reply.raw_finish) or reply.finish is not FinishReason.UNKNOWN
        finish = reply.finish if has_finish else None
        known_reply = reply if self._fold.wire else None
        if error is None:
            has_text = bool(self.text_buffer)
            return CallResult(
                kind=ResultKind.TEXT if has_text else ResultKind.TOOLS,
                user_message=text,
                text=text if has_text else "",
                finish_reason=finish,
                tool_calls=reply.calls,
                usage=reply.usage,
                reply=known_reply,
            )
        partial = self._buffered_text() or reply.text or _partial_text(error)
        info = classify(error)
        return CallResult(
            kind=kind_of_failure(error),
            user_message=failure_text(error, info, reply.raw_finish, partial),
            error=error,
            info=info,
            finish_reason=finish,
            partial_text=partial,
            usage=reply.usage,
            reply=known_reply,
        )

    def _begin_response(self) -> None:
        if self._has_begun or self._assembled is not None or self.chunk_count:
            raise _used_error()
        self._has_begun = True

    def _begin_turn(self) -> None:
        """Forget the text before the tools that the SDK ran: the answer is that of the last turn."""
        self._tools.begin_turn()
        if not self._fold.continues_text:
            self.text_buffer.clear()

    def _take_deltas(self, deltas: list[Delta]) -> ResponseChunk:
        if self._delta_reader is not None:
            self._delta_reader(deltas)
        chunk = ResponseChunk("", has_tool_call=False)
        for delta in deltas:
            if type(delta) is TextDelta:
                if delta.text:
                    chunk.text += delta.text
                    self.text_buffer.append(delta.text)
                    self.status.show_text(delta.text)
            elif isinstance(delta, ReplyFinished):
                chunk.metadata["finish_reason"] = delta.reason.value
            elif isinstance(delta, ReasoningDelta):
                if delta.text:
                    before = chunk.metadata.get("reasoning", "")
                    chunk.metadata["reasoning"] = f"{before}{delta.text}"
            elif (name := self._tools.read_delta(delta)) is not None:
                self._record_tool(name, chunk)
        return chunk

    def _record_tool(self, name: str, chunk: ResponseChunk) -> None:
        chunk.has_tool_call = self.tool_activity = True
        chunk.tool_name = self.last_tool_name = name
        self.status.show_tool(name)

    def _check_calls(self) -> None:
        tools = self._reader.tools
        if tools is None:
            return
        for call in self._judge_reply().reply.calls:
            if call.name not in tools:
                names = ", ".join(tools) or "none"
                problem = f"there is no such function. The functions are: {names}."
                raise ToolNotFoundError(call.name or "unknown", problem)

    def _buffered_text(self) -> str:
        return "".join(self.text_buffer)

    def _judge_reply(self) -> AssembledReply:
        if self._assembled is None:
            self._take_deltas(self._fold.close())
            self._assembled = self._fold.finish()
        return self._assembled

    def _means_no_text(self, error: HoldfastError) -> bool:
        """Whether an error only reports missing text, which tool calls can replace."""
        if isinstance(error, EmptyResponseError):
            return True
        is_empty = not (self.text_buffer or self.tool_activity)
        return isinstance(error, UnterminatedError) and is_empty

    def _describe_tools(self) -> str:
        name = self.last_tool_name or ""
        if failure := self._tools.find_failure(name):
            raise ToolFailedError(name, failure)
        if self._is_whole:
            return TASK_COMPLETED
        return executed_text(name) if self._tools.has_succeeded(name) else ANALYSIS_COMPLETE

    def _empty_error(self, error: HoldfastError | None) -> EmptyResponseError:
        empty_error = error if isinstance(error, EmptyResponseError) else None
        if self._is_whole:
            return empty_error or NoTextError("no text in response")
        reason = f"no text or tool activity after {self.chunk_count} chunks"
        if empty_error is None:
            return NoTextError(reason)
        return type(empty_error)(reason, info=empty_error.info, partial=empty_error.partial)


def find_passing_failure(reply: object, reader: ResponseReader) -> Exception | None:
    """Return the error of a whole reply if another attempt may have an answer, otherwise None.

    >>> find_passing_failure({"choices": []}, DEFAULT_READER)
    NoCandidatesError('Empty response: no candidates in response')
    >>> cut = {"choices": [{"message": {"content": "Hal"}, "finish_reason": "length"}]}
    >>> find_passing_failure(cut, DEFAULT_READER) is None
    True
    """
    handler = ResponseHandler(reader=reader)
    with ErrorCatcher() as caught:
        handler.process_response(reply)
    result = handler.result(caught.error)
    if result.category is None or result.kind is ResultKind.TOOL_FAILED:
        return None
    return result.error if result.category.is_retryable else None


def _partial_text(error: Exception) -> str:
    """Return the text that an error of another call holds."""
    partial = getattr(error, "partial", None)
    return partial.text if isinstance(partial, Reply) else ""


def _used_error() -> ConfigurationError:
    return ConfigurationError(
        "response_handler",
        "has already handled a response",
        fix="Create a new ResponseHandler for each response",
    )


def _read_whole_response(response: object, fold: ObjectFold, reader: ResponseReader) -> list[Delta]:
    """Return the deltas of a whole response, or raise if it cannot be used."""
    response = read_http_response(unwrap_run_result(response, reader))
    if not response:
        raise UnexpectedTypeError("response object", "None")
    deltas = fold.read_whole(response)
    if not fold.wire:
        raise MissingAttributeError("candidates attribute", type(response).__name__)
    assembled = fold.finish()
    error, reply = assembled.error, assembled.reply
    if error is None or isinstance(error, NoTextError | NoToolActivityError):
        return deltas
    if isinstance(error, ResponseValidationError) or not (reply.text.strip() or reply.calls):
        raise error
    return deltas
