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

from holdfast.codecs.answer_mode import Asking, asking
from holdfast.codecs.assemble import Assembled, Assembler
from holdfast.codecs.continued import Seam, can_go_on, continuing
from holdfast.codecs.hints import LimitHeaders, spent_wait
from holdfast.codecs.presets import Preset
from holdfast.codecs.wire import Codec, Decoder, Encoded, Failure
from holdfast.core.deltas import Delta, ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import HoldfastError, TransportError, exception_for
from holdfast.core.messages import Reply
from holdfast.core.notices import AttemptAbandoned, AttemptStarted, Notice
from holdfast.core.redaction import redact
from holdfast.core.request import ModelRequest
from holdfast.resilience.cache import scope_of
from holdfast.resilience.pipeline import Call, Done, Failed, Outcome, failed
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

    async def attempt(self, call: Call[ModelRequest]) -> Outcome[Reply]:
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

    __slots__ = ("_given", "_headers", "_known", "base_url", "preset")

    def __init__(
        self, preset: Preset, base_url: str, auth: _Pairs = (), headers: _Pairs = ()
    ) -> None:
        self.preset = preset
        self.base_url = base_url
        self._headers = (("content-type", "application/json"), *preset.headers, *auth)
        self._given = headers
        self._known: _Known | None = None

    def request(self, model: str, encoded: Encoded) -> HttpRequest:
        """The HTTP request for one encoded question."""
        asked = (model, encoded.path, encoded.headers)
        known = self._known
        if known is None or known[0] != asked:
            path = self.preset.path_for(encoded.path, model).lstrip("/")
            # A header that the codec sets too must go out once.
            headers = tuple(dict(self._headers + encoded.headers + self._given).items())
            known = self._known = (asked, f"{self.base_url}/{path}", headers)
        return HttpRequest("POST", known[1], known[2], encoded.body)

    @property
    def account(self) -> str:
        """Names the address and the key, and shows neither."""
        pairs = self._headers + self._given
        return scope_of(self.base_url, *(value for _, value in pairs))

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

    __slots__ = ("_codec", "_endpoint", "_timeouts", "_transport", "_whole", "model", "name")

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
        self._whole = timeouts.whole()

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

    def asking(self, request: ModelRequest) -> Asking:
        """How this model is asked for an answer of a type."""
        return asking(self._codec.name, self._endpoint.preset.quirks, request)

    async def attempt(self, call: Call[ModelRequest]) -> Outcome[Reply]:
        """Encode, send, decode, assemble: one validated reply, or what went wrong."""
        request, kept = call.payload, call.kept
        if kept is not None:
            request = continuing(request, kept)
        assembler = Assembler(self._endpoint.preset.quirks, self._codec.name, kept)
        resumes_at: float | None = None
        if call.env.publish is not None:
            began = AttemptStarted(call.key, call.attempt, self.name, kept is not None)
            call.env.publish(began)
        try:
            encoded = self._codec.encode(request)
            http = self._endpoint.request(self.model, encoded)
            timeouts = self._timeouts if request.stream else self._whole
            async with self._transport.send(http, timeouts) as response:
                if not 200 <= response.status < 300:
                    outcome: Outcome[Reply] = await self._refused(response, call)
                else:
                    resumes_at = _resumes_at(response, self._codec.limits, call)
                    await self._read(response, assembler, call)
                    outcome = _judged(assembler.finish())
        except HoldfastError as error:
            outcome = _cut(assembler, error)
        except CancelledError:
            if (kept or assembler.visible) and call.env.keep_partial is not None:
                call.env.keep_partial(assembler.finish().reply)
            raise
        if isinstance(outcome, Failed):
            return self._failed(outcome, assembler, call)
        return outcome if resumes_at is None else replace(outcome, resumes_at=resumes_at)

    def _failed(self, outcome: Failed, assembler: Assembler, call: Call[ModelRequest]) -> Failed:
        """With what another attempt can continue; otherwise what was shown must be forgotten."""
        if call.continues and (call.kept or assembler.visible):
            partial = assembler.finish().reply
            if isinstance(outcome.error, HoldfastError) and outcome.error.partial is None:
                outcome.error.partial = partial
            goes_on = can_go_on(partial, outcome.info.category)
            if goes_on and self._codec.continues(call.payload):
                return replace(outcome, kept=partial)
        if assembler.visible and call.kept is None:  # else whoever kept it says so
            call.env.tell(AttemptAbandoned(call.key, call.attempt, outcome.info.public()))
        return outcome

    async def _read(
        self, response: Response, assembler: Assembler, call: Call[ModelRequest]
    ) -> None:
        decoder = self._decoder(response, call)
        feed, publish, ready = assembler.feed, call.env.publish, call.env.ready
        try:
            while data := await response.read():
                if not (deltas := decoder.feed(data)):
                    continue
                response.content_seen()
                _take(deltas, feed, publish)
                if ready is not None:
                    await ready()
                if assembler.ended:
                    await _run_out(response)
                    break
        except TransportError:
            # What broke off after its proof of completeness has ended all the same.
            if not assembler.proven:
                raise
        _take(decoder.close(), feed, publish)

    def _decoder(self, response: Response, call: Call[ModelRequest]) -> Decoder:
        preset = self._endpoint.preset
        decoder = self._codec.decoder(response.headers.get("content-type", ""), preset.name)
        if call.kept is None:
            return decoder
        return Seam(decoder, call.kept.text, echoes=preset.quirks.prefill == "prefix_echo")

    async def _refused(self, response: Response, call: Call[ModelRequest]) -> Failed:
        body = bytearray()
        while len(body) < _LARGEST_ERROR_BODY and (data := await response.read()):
            body += data
        info = self._codec.classify(
            Failure(
                provider=self._endpoint.preset.name,
                status=response.status,
                headers=response.headers,
                body=bytes(body),
                now=call.env.clock.now(),
            )
        )
        return Failed(exception_for(info), info)


def _resumes_at(response: Response, limits: LimitHeaders, call: Call[ModelRequest]) -> float | None:
    """When the endpoint takes another call, if its headers say that this one was the last."""
    clock = call.env.clock
    wait = spent_wait(response.headers, limits, now=clock.now())
    return None if wait is None else clock.monotonic() + wait


def _take(
    deltas: list[Delta], feed: Callable[[Delta], None], publish: Callable[[Notice], None] | None
) -> None:
    """Fold the deltas of one read, and show those that a reader may see."""
    for delta in deltas:
        feed(delta)
        if publish is not None and type(delta) in _SHOWN:
            publish(delta)  # type: ignore[arg-type]  # _SHOWN is the union's deltas


async def _run_out(response: Response) -> None:
    """The reply is whole: wait a moment for the end of the body, so that the connection can be kept.

    Some servers leave the stream open, and nobody should wait for those.
    """
    with suppress(TimeoutError, HoldfastError):
        async with timeout(_RUN_OUT_SECONDS):
            while await response.read():
                pass


def _cut(assembler: Assembler, error: HoldfastError) -> Outcome[Reply]:
    """What a broken exchange left: a whole reply if its end marker had come, else a failure."""
    if assembler.ended and (assembled := assembler.finish()).error is None:
        return Done(assembled.reply)
    if assembler.visible and error.partial is None:
        error.partial = assembler.finish().reply
    return failed(error)


def _judged(assembled: Assembled) -> Outcome[Reply]:
    if assembled.error is None:
        return Done(assembled.reply)
    return failed(assembled.error)
