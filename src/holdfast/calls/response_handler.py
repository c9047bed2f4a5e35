"""One handler for what a vendor's SDK gives back, streamed or whole.

Chunks, events and whole responses of google-genai, openai (chat and responses) and anthropic, and
the dictionaries that they were made of, are read by the codecs of their wires. What is added here
is what a person sees meanwhile, and the texts at the end. This module must never claim that a tool
did something unless its result was seen, and never give cut, blocked or refused text as an answer.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from holdfast.calls.call_result import CallResult, ResultKind, kind_of_failure
from holdfast.calls.call_wording import (
    ANALYSIS_COMPLETE,
    TASK_COMPLETED,
    executed_text,
    failure_text,
)
from holdfast.calls.caught_error import ErrorCatcher, exception_text
from holdfast.calls.object_fold import ObjectFold
from holdfast.calls.sdk_errors import classify
from holdfast.calls.sdk_streams import aopen_stream, open_stream
from holdfast.calls.status_line import StatusCallback, StatusLine
from holdfast.calls.tool_activity import ToolActivity
from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.wire import Quirks
from holdfast.core.argument_checks import check_instance, check_optional_callable
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
    UnexpectedTypeError,
    UnterminatedError,
)
from holdfast.core.messages import FinishReason
from holdfast.core.redaction import redact

logger = logging.getLogger(__name__)


class ResponseChunk(Struct, kw_only=False):
    """What one chunk contains.

    Args:
        text: its text; thoughts are none.
        has_tool_call: whether it is about a call of a tool.
        tool_name: the tool; "unknown" when the model did not name it.
        metadata: `finish_reason`, and `reasoning`, when the chunk holds them.
    """

    text: str
    has_tool_call: bool
    tool_name: str | None = None
    metadata: dict[str, object] = {}


class ResponseHandler:
    """Reads one response; make a new one for each.

    Args:
        status_callback: gets a line of text for each thing that happens. It may fail.
        quirks: how this provider's form of its wire differs from the vendor's.

    Attributes:
        text_buffer: the pieces of text, in order.
        tool_activity: whether a tool was called.
        last_tool_name: the tool that was called last.
        chunk_count: chunks that held anything.

    >>> handler = ResponseHandler()
    >>> handler.process_chunk({"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]}).text
    'Hel'
    >>> last = {"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}
    >>> handler.process_chunk({"candidates": [last]}).metadata
    {'finish_reason': 'stop'}
    >>> handler.get_final_response()
    'Hello'
    """

    def __init__(
        self, status_callback: StatusCallback | None = None, *, quirks: Quirks | None = None
    ) -> None:
        check_optional_callable("status_callback", status_callback)
        check_instance("quirks", quirks, Quirks, optional=True)
        self.text_buffer: list[str] = []
        self.tool_activity = False
        self.last_tool_name: str | None = None
        self.chunk_count = 0
        self.status = StatusLine(status_callback)
        self._quirks = quirks
        self._fold = ObjectFold(quirks)
        self._tools = ToolActivity()
        self._has_begun = False
        self._is_whole = False
        self._assembled: AssembledReply | None = None

    @property
    def status_callback(self) -> StatusCallback | None:
        """Who is told what happens."""
        return self.status.callback

    def validate_response(self, response: object) -> None:
        """Check that a whole response can be used; this handler is not changed by it.

        Whether there is any text is asked later, by `get_final_response`.

        Raises:
            ResponseValidationError: it is no response, or lacks what its wire promises.
            EmptyResponseError: it has no candidates.
            ResponseError: its content was withheld, declined or cut away.
        """
        fold = ObjectFold(self._quirks)
        _read_whole_response(response, fold)

    def process_response(self, response: object) -> ResponseChunk:
        """Check a whole response and take it.

        Raises:
            ResponseError: as `validate_response`.
            ConfigurationError: this handler has handled a response.
        """
        self._begin_response()
        self._is_whole = True
        return self._take_deltas(_read_whole_response(response, self._fold))

    def process_chunk(self, chunk: object) -> ResponseChunk | None:
        """Take one chunk or event of a stream; None for one that holds nothing.

        Raises:
            ConfigurationError: this handler has handled a response.
            Exception: whatever the chunk raises when it is read; logged, and raised again.
        """
        if self._assembled is not None or self._is_whole:
            raise _used_error()
        if not chunk:
            return None
        self.chunk_count += 1
        try:
            result = self._take_deltas(self._fold.read_chunk(chunk))
        except Exception as error:
            logger.exception(
                "Chunk processing failed",
                extra={"chunk_num": self.chunk_count, "error": redact(exception_text(error))},
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
        """Take a whole stream and give the final response; the stream is closed in any case.

        Raises:
            ResponseError: as `get_final_response`.
            Exception: whatever the stream raises.
        """
        self._begin_response()
        with open_stream(stream) as chunks:
            for chunk in chunks:
                self.process_chunk(chunk)
        return self.get_final_response()

    async def ahandle(self, stream: object) -> str:
        """As `handle`, for a stream of an asynchronous client, awaited first when it must be."""
        self._begin_response()
        async with aopen_stream(stream) as chunks:
            async for chunk in chunks:
                self.process_chunk(chunk)
        return self.get_final_response()

    def get_final_response(self) -> str:
        """The answer: its text or, without any, a sentence about the tools. Ends the handler.

        Raises:
            EmptyResponseError: there is neither text nor a call of a tool.
            ToolFailedError: there is no text, and the last tool's result is an error.
            ResponseError: the reply is blocked, refused, cut or no reply; `.partial` has the rest.
        """
        error = self._judge_reply().error
        if error is not None and not self._means_no_text(error):
            raise error
        text = self._buffered_text()
        if text.strip():
            return text
        if self.tool_activity:
            return self._describe_tools()
        raise self._empty_error(error)

    def result(self, error: Exception | None = None) -> CallResult:
        """Everything about the outcome. Ends the handler.

        Args:
            error: what ended the call from outside, when anything did.
        """
        text = ""
        if error is None:
            with ErrorCatcher() as caught:
                text = self.get_final_response()
            error = caught.error
        reply = self._judge_reply().reply
        said = bool(reply.raw_finish) or reply.finish is not FinishReason.UNKNOWN
        finish = reply.finish if said else None
        known = reply if self._fold.wire else None
        if error is None:
            shown = bool(self.text_buffer)
            return CallResult(
                kind=ResultKind.TEXT if shown else ResultKind.TOOLS,
                user_message=text,
                text=text if shown else "",
                finish_reason=finish,
                tool_calls=reply.calls,
                usage=reply.usage,
                reply=known,
            )
        partial, info = self._buffered_text() or reply.text, classify(error)
        return CallResult(
            kind=kind_of_failure(error),
            user_message=failure_text(error, info, reply.raw_finish, partial),
            error=error,
            info=info,
            finish_reason=finish,
            partial_text=partial,
            usage=reply.usage,
            reply=known,
        )

    def _begin_response(self) -> None:
        if self._has_begun or self._assembled is not None or self.chunk_count:
            raise _used_error()
        self._has_begun = True

    def _take_deltas(self, deltas: list[Delta]) -> ResponseChunk:
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
                self._note_tool(name, chunk)
        return chunk

    def _note_tool(self, name: str, chunk: ResponseChunk) -> None:
        chunk.has_tool_call = self.tool_activity = True
        chunk.tool_name = self.last_tool_name = name
        self.status.show_tool(name)

    def _buffered_text(self) -> str:
        return "".join(self.text_buffer)

    def _judge_reply(self) -> AssembledReply:
        if self._assembled is None:
            self._take_deltas(self._fold.close())
            self._assembled = self._fold.finish()
        return self._assembled

    def _means_no_text(self, error: HoldfastError) -> bool:
        """Whether an error only says that there is no text, which a call of a tool makes good."""
        if isinstance(error, EmptyResponseError):
            return True
        nothing = not (self.text_buffer or self.tool_activity)
        return isinstance(error, UnterminatedError) and nothing

    def _describe_tools(self) -> str:
        name = self.last_tool_name or ""
        if failure := self._tools.find_failure(name):
            raise ToolFailedError(name, failure)
        if self._is_whole:
            return TASK_COMPLETED
        return executed_text(name) if self._tools.has_succeeded(name) else ANALYSIS_COMPLETE

    def _empty_error(self, error: HoldfastError | None) -> EmptyResponseError:
        known = error if isinstance(error, EmptyResponseError) else None
        if self._is_whole:
            return known or NoTextError("no text in response")
        reason = f"no text or tool activity after {self.chunk_count} chunks"
        if known is None:
            return NoTextError(reason)
        return type(known)(reason, info=known.info, partial=known.partial)


def _used_error() -> ConfigurationError:
    return ConfigurationError(
        "response_handler",
        "has handled a response already",
        fix="Make a new ResponseHandler for each response",
    )


def _read_whole_response(response: object, fold: ObjectFold) -> list[Delta]:
    """The deltas of a whole response that can be used."""
    if not response:
        raise UnexpectedTypeError("response object", "None")
    deltas = fold.read_whole(response)
    if not fold.wire:
        raise MissingAttributeError("candidates attribute", type(response).__name__)
    judged = fold.finish()
    error, reply = judged.error, judged.reply
    if error is None or isinstance(error, NoTextError | NoToolActivityError):
        return deltas
    if isinstance(error, ResponseValidationError) or not (reply.text.strip() or reply.calls):
        raise error
    return deltas
