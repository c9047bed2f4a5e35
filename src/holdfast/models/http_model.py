"""Models: what answers a `ModelRequest`, over HTTP or any other way.

A model makes exactly one attempt and says what came of it as a value; it must never retry, sleep,
or raise for a failure of the outside world. Keys stay in the headers of the endpoint and never
show in a `repr`, an error or a notice.
"""

from __future__ import annotations

from asyncio import CancelledError, timeout
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.output_mode import OutputMethod, choose_output_method
from holdfast.codecs.retry_after import LimitHeaders, parse_exhausted_wait
from holdfast.codecs.stitching import StitchingDecoder, can_continue_reply, prefill_request
from holdfast.codecs.wire import Codec, Decoder, EncodedRequest, Failure
from holdfast.core.deltas import Delta, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import HoldfastError, TransportError, exception_for
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, Notice
from holdfast.core.redaction import redact
from holdfast.models.presets import Preset
from holdfast.models.reply_carry import read_carry, with_continuable_reply
from holdfast.resilience.cache.decision import account_scope
from holdfast.resilience.pipeline import CallContext, Done, Failed, Outcome, failed_outcome
from holdfast.transport.port import HttpRequest, Response, Timeouts, Transport

_SHOWN = frozenset({TextDelta, ReasoningDelta, ToolCallDelta, RefusalDelta})
_LARGEST_ERROR_BODY = 256 * 1024
_RUN_OUT_SECONDS = 0.5


class Model(Protocol):
    """Anything that answers: an endpoint, or a script in a test."""

    @property
    def name(self) -> str:
        """What results, notices and logs call it: `provider:model`, unless it was given another."""
        ...

    @property
    def model(self) -> str:
        """The model's name on its wire."""
        ...

    @property
    def account(self) -> str:
        """Names whose answers these are; models of one account share their health."""
        ...

    def describe(self) -> Mapping[str, object]:
        """What it is and where it is, without any secret."""
        ...

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Ask once."""
        ...


_Pairs: TypeAlias = tuple[tuple[str, str], ...]
_Known: TypeAlias = tuple[tuple[str, str, _Pairs], str, _Pairs]
"""What was asked for last, and the address and the headers of it."""


class Endpoint:
    """Where a model is reached: the preset, the address, and the headers with the key.

    Args:
        preset: of the provider.
        base_url: the address.
        auth: the headers with the key.
        headers: what the user wants besides, or in place of others; names in lower case.
    """

    __slots__ = ("_headers", "_last_request", "_user_headers", "base_url", "preset")

    def __init__(
        self, preset: Preset, base_url: str, auth: _Pairs = (), headers: _Pairs = ()
    ) -> None:
        self.preset = preset
        self.base_url = base_url
        self._headers = (("content-type", "application/json"), *preset.headers, *auth)
        self._user_headers = headers
        self._last_request: _Known | None = None

    def build_request(self, model: str, encoded: EncodedRequest) -> HttpRequest:
        """The HTTP request for one encoded question."""
        asked = (model, encoded.path, encoded.headers)
        known = self._last_request
        if known is None or known[0] != asked:
            path = self.preset.path_for(encoded.path, model).lstrip("/")
            # A header that the codec sets too must go out once.
            headers = tuple(dict(self._headers + encoded.headers + self._user_headers).items())
            known = self._last_request = (asked, f"{self.base_url}/{path}", headers)
        return HttpRequest("POST", known[1], known[2], encoded.body)

    @property
    def account(self) -> str:
        """Names the address and the key, and shows neither."""
        pairs = self._headers + self._user_headers
        return account_scope(self.base_url, *(value for _, value in pairs))

    def __repr__(self) -> str:
        return f"Endpoint({self.preset.name!r}, {redact(self.base_url)!r})"


class HttpModel:
    """A model behind an HTTP endpoint that speaks one of the wires.

    Args:
        model: its name on its wire.
        endpoint: where it is reached.
        codec: of the wire.
        transport: sends.
        timeouts: of one attempt.
        name: what results, notices and logs call it; `provider:model` when empty.
    """

    __slots__ = (
        "_codec",
        "_endpoint",
        "_timeouts",
        "_transport",
        "_whole_timeouts",
        "model",
        "name",
    )

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        codec: Codec,
        transport: Transport,
        timeouts: Timeouts,
        *,
        name: str = "",
    ) -> None:
        self.model = model
        self.name = name or f"{endpoint.preset.name}:{model}"
        self._endpoint = endpoint
        self._codec = codec
        self._transport = transport
        self._timeouts = timeouts
        self._whole_timeouts = timeouts.for_whole_response()

    @property
    def account(self) -> str:
        """Whose answers these are: the same for the same address and key."""
        return self._endpoint.account

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r}, {redact(self._endpoint.base_url)!r})"

    def describe(self) -> Mapping[str, object]:
        """What it is and where it is; with the name that it was given, if any."""
        model = f"{self._endpoint.preset.name}:{self.model}"
        return {
            **({} if self.name == model else {"name": self.name}),
            "model": model,
            "wire": self._codec.name,
            "base_url": redact(self._endpoint.base_url),
            "timeouts": self._timeouts,
        }

    def asking(self, request: ModelRequest) -> OutputMethod:
        """How this model is asked for an answer of a type."""
        return choose_output_method(self._codec.name, self._endpoint.preset.quirks, request)

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Encode, send, decode, assemble: one validated reply, or what went wrong."""
        request, kept = call.payload, read_carry(call).reply_so_far
        if kept is not None:
            request = prefill_request(request, kept)
        assembler = Assembler(self._endpoint.preset.quirks, self._codec.name, kept)
        resumes_at: float | None = None
        if call.execution.publish is not None:
            began = AttemptStarted(call.key, call.attempt, self.name, kept is not None)
            call.execution.publish(began)
        try:
            encoded = self._codec.encode(request)
            http = self._endpoint.build_request(self.model, encoded)
            timeouts = self._timeouts if request.stream else self._whole_timeouts
            async with self._transport.send(http, timeouts) as response:
                if not 200 <= response.status < 300:
                    outcome: Outcome[Reply] = await self._read_error(response, call)
                else:
                    resumes_at = _find_resume_time(response, self._codec.limit_headers, call)
                    await self._read_response(response, assembler, call)
                    outcome = _assembled_outcome(assembler.finish())
        except HoldfastError as error:
            outcome = _broken_outcome(assembler, error)
        except CancelledError:
            if (kept or assembler.has_visible_parts) and call.execution.keep_partial is not None:
                call.execution.keep_partial(assembler.finish().reply)
            raise
        if isinstance(outcome, Failed):
            return self._finish_failure(outcome, assembler, call)
        return outcome if resumes_at is None else replace(outcome, resumes_at=resumes_at)

    def _finish_failure(
        self, outcome: Failed, assembler: Assembler, call: CallContext[ModelRequest]
    ) -> Failed:
        """With what another attempt can continue; otherwise what was shown must be forgotten."""
        carry = read_carry(call)
        if carry.may_continue and (carry.reply_so_far or assembler.has_visible_parts):
            partial = assembler.finish().reply
            if isinstance(outcome.error, HoldfastError) and outcome.error.partial is None:
                outcome.error.partial = partial
            goes_on = can_continue_reply(partial, outcome.info.category)
            if goes_on and self._codec.can_continue(call.payload):
                return with_continuable_reply(call, outcome, partial)
        # Text that was carried here is declared abandoned by the carry.
        if assembler.has_visible_parts and carry.reply_so_far is None:
            call.execution.emit(AttemptAbandoned(call.key, call.attempt, outcome.info.to_public()))
        return outcome

    async def _read_response(
        self, response: Response, assembler: Assembler, call: CallContext[ModelRequest]
    ) -> None:
        decoder = self._make_decoder(response, call)
        feed, publish, ready = assembler.feed, call.execution.publish, call.execution.ready
        try:
            while data := await response.read():
                if not (deltas := decoder.feed(data)):
                    continue
                response.note_content()
                _feed_deltas(deltas, feed, publish)
                if ready is not None:
                    await ready()
                if assembler.ended:
                    await _drain_response(response)
                    break
        except TransportError:
            # What broke off after its proof of completeness has ended all the same.
            if not assembler.is_complete:
                raise
        _feed_deltas(decoder.close(), feed, publish)

    def _make_decoder(self, response: Response, call: CallContext[ModelRequest]) -> Decoder:
        preset = self._endpoint.preset
        decoder = self._codec.make_decoder(response.headers.get("content-type", ""), preset.name)
        kept = read_carry(call).reply_so_far
        if kept is None:
            return decoder
        return StitchingDecoder(decoder, kept.text, echoes=preset.quirks.prefill == "prefix_echo")

    async def _read_error(self, response: Response, call: CallContext[ModelRequest]) -> Failed:
        body = bytearray()
        while len(body) < _LARGEST_ERROR_BODY and (data := await response.read()):
            body += data
        info = self._codec.classify(
            Failure(
                provider=self._endpoint.preset.name,
                status=response.status,
                headers=response.headers,
                body=bytes(body),
                now=call.execution.clock.now(),
            )
        )
        return Failed(exception_for(info), info)


def _find_resume_time(
    response: Response, limits: LimitHeaders, call: CallContext[ModelRequest]
) -> float | None:
    """When the endpoint takes another call, if its headers say that this one was the last."""
    clock = call.execution.clock
    wait = parse_exhausted_wait(response.headers, limits, now=clock.now())
    return None if wait is None else clock.monotonic() + wait


def _feed_deltas(
    deltas: list[Delta], feed: Callable[[Delta], None], publish: Callable[[Notice], None] | None
) -> None:
    """Fold the deltas of one read, and show those that a reader may see."""
    for delta in deltas:
        feed(delta)
        if publish is not None and type(delta) in _SHOWN:
            publish(delta)  # type: ignore[arg-type]  # _SHOWN is the union's deltas


async def _drain_response(response: Response) -> None:
    """The reply is whole: wait a moment for the end of the body, so that the connection can be kept.

    Some servers leave the stream open, and nobody should wait for those.
    """
    with suppress(TimeoutError, HoldfastError):
        async with timeout(_RUN_OUT_SECONDS):
            while await response.read():
                pass


def _broken_outcome(assembler: Assembler, error: HoldfastError) -> Outcome[Reply]:
    """What a broken exchange left: a whole reply if its end marker had come, else a failure."""
    if assembler.ended and (assembled := assembler.finish()).error is None:
        return Done(assembled.reply)
    if assembler.has_visible_parts and error.partial is None:
        error.partial = assembler.finish().reply
    return failed_outcome(error)


def _assembled_outcome(assembled: AssembledReply) -> Outcome[Reply]:
    if assembled.error is None:
        return Done(assembled.reply)
    return failed_outcome(assembled.error)
