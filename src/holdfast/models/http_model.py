"""Models, which reply to a `ModelRequest` over HTTP or in any other way.

A model makes one attempt and returns its outcome; it never sleeps, or raises for a failure of the
network or the provider. An attempt is one request, except that a server which refuses to stream is
asked again without streaming. API keys are in the headers of the endpoint, and never appear in a
`repr`, an error or a notice.
"""

from __future__ import annotations

from asyncio import CancelledError, timeout
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.output_mode import OutputMethod, choose_output_method
from holdfast.codecs.reply_meter import ReplyMeter, find_safe_size
from holdfast.codecs.retry_after import LimitHeaders, parse_exhausted_wait
from holdfast.codecs.stitching import StitchingDecoder, can_continue_reply, prefill_request
from holdfast.codecs.wire import Codec, Decoder, EncodedRequest, Failure
from holdfast.core.deltas import (
    CharactersReplaced,
    Delta,
    HostedToolFinished,
    HostedToolStarted,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.detached_errors import (
    DetachedError,
    clean_client_error,
    clean_info,
    clean_reply,
    detach_error,
)
from holdfast.core.errors import HoldfastError, TransportError, exception_for
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import AttemptAbandoned, AttemptStarted
from holdfast.core.reply_limits import ReplyLimits
from holdfast.core.secret_values import NO_SECRETS, SecretValues
from holdfast.models.addresses import join_address, show_address
from holdfast.models.presets import Preset
from holdfast.models.refusals import STREAM_REFUSALS, is_loading_model, is_stream_refusal
from holdfast.models.reply_carry import read_carry, with_continuable_reply
from holdfast.resilience.cache.decision import account_scope
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Outcome,
    failed_outcome,
    unsent_outcome,
)
from holdfast.transport.credentials import find_secrets
from holdfast.transport.port import HttpRequest, Response, Timeouts, Transport

_VISIBLE = frozenset(
    {
        TextDelta,
        ReasoningDelta,
        ToolCallDelta,
        RefusalDelta,
        CharactersReplaced,
        HostedToolStarted,
        HostedToolFinished,
    }
)
_LARGEST_ERROR_BODY = 256 * 1024
_DRAIN_SECONDS = 0.5
_LOADING_WAIT = 2.0
_DEFAULT_LIMITS = ReplyLimits()


class Model(Protocol):
    """Anything that replies to requests: an HTTP endpoint, or a script in a test.

    A model that knows a key may also have `secrets: SecretValues`; the agent removes them from errors.
    """

    @property
    def name(self) -> str:
        """The name in results, notices and logs: `provider:model` by default."""
        ...

    @property
    def model(self) -> str:
        """The model's name on the wire."""
        ...

    @property
    def account(self) -> str:
        """The account. Models of one account share the state of their circuit breaker and rate limiter."""
        ...

    def describe(self) -> Mapping[str, object]:
        """Return name and address of the model, without secrets."""
        ...

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Send the request once."""
        ...


def find_model_secrets(model: Model) -> SecretValues:
    """Return the secrets of a model; a model of another kind may have them as `secrets`."""
    secrets = getattr(model, "secrets", NO_SECRETS)
    return secrets if isinstance(secrets, SecretValues) else NO_SECRETS


_Pairs: TypeAlias = tuple[tuple[str, str], ...]
_CachedRequest: TypeAlias = tuple[tuple[str, str, _Pairs], str, _Pairs]
"""Model, path and headers of the last request, with the resulting URL and headers."""


class Endpoint:
    """The endpoint of a model: preset, base URL, and the headers with the API key.

    Args:
        preset: the provider's preset.
        base_url: the base URL.
        auth: the headers with the API key.
        headers: headers of the user, which are added or replace others; names in lower case.
    """

    __slots__ = (
        "_headers",
        "_last_request",
        "_secrets",
        "_user_headers",
        "base_url",
        "preset",
    )

    def __init__(
        self, preset: Preset, base_url: str, auth: _Pairs = (), headers: _Pairs = ()
    ) -> None:
        self.preset = preset
        self.base_url = base_url
        self._headers = (("content-type", "application/json"), *preset.headers, *auth)
        self._user_headers = headers
        self._last_request: _CachedRequest | None = None
        self._secrets: SecretValues | None = None

    def build_request(self, model: str, encoded: EncodedRequest) -> HttpRequest:
        """Build the HTTP request for one encoded request."""
        key = (model, encoded.path, encoded.headers)
        cached = self._last_request
        if cached is None or cached[0] != key:
            path = self.preset.path_for(encoded.path, model)
            # A dictionary, so that a header that the codec sets too is sent only once.
            headers = tuple(dict(self._headers + encoded.headers + self._user_headers).items())
            cached = self._last_request = (key, join_address(self.base_url, path), headers)
        return HttpRequest("POST", cached[1], cached[2], encoded.body)

    @property
    def account(self) -> str:
        """A hash of the base URL and the headers, which include the API key."""
        pairs = self._headers + self._user_headers
        return account_scope(self.base_url, *(value for _, value in pairs))

    @property
    def secrets(self) -> SecretValues:
        """The API key, the user's headers, and the password and the query of the base URL."""
        if self._secrets is None:
            self._secrets = find_secrets(self.base_url, self._headers + self._user_headers)
        return self._secrets

    def __repr__(self) -> str:
        return f"Endpoint({self.preset.name!r}, {show_address(self.base_url)!r})"


class HttpModel:
    """A model behind an HTTP endpoint.

    Args:
        model: the model's name on the wire.
        endpoint: the endpoint.
        codec: the codec of the wire.
        transport: sends the requests.
        timeouts: the limits of one attempt.
        name: the name in results, notices and logs; `provider:model` if empty.
        reply_limits: the limits of one reply.
    """

    __slots__ = (
        "_account",
        "_codec",
        "_endpoint",
        "_limit_headers",
        "_reply_limits",
        "_safe_size",
        "_timeouts",
        "_transport",
        "_whole_timeouts",
        "_wire",
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
        reply_limits: ReplyLimits = _DEFAULT_LIMITS,
    ) -> None:
        self.model = model
        self.name = name or f"{endpoint.preset.name}:{model}"
        self._endpoint = endpoint
        self._account = endpoint.account
        self._codec = codec
        # Read once, because a property costs more than an attribute.
        self._wire, self._limit_headers = codec.name, codec.limit_headers
        self._transport = transport
        self._timeouts = timeouts
        self._reply_limits = reply_limits
        self._safe_size = find_safe_size(reply_limits)
        self._whole_timeouts = timeouts.for_whole_response()

    @property
    def account(self) -> str:
        """The account: it is the same for the same base URL and API key."""
        return self._account

    @property
    def secrets(self) -> SecretValues:
        """The secrets of the endpoint, which are removed from every error."""
        return self._endpoint.secrets

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r}, {show_address(self._endpoint.base_url)!r})"

    def describe(self) -> Mapping[str, object]:
        """Return name, wire and address of the model, without secrets."""
        model = f"{self._endpoint.preset.name}:{self.model}"
        return {
            **({} if self.name == model else {"name": self.name}),
            "model": model,
            "wire": self._codec.name,
            "base_url": show_address(self._endpoint.base_url),
            "timeouts": self._timeouts,
        }

    def check_request(self, request: ModelRequest) -> None:
        """Raise ConfigurationError if the wire cannot express a request; nothing is sent."""
        self._codec.encode(request)

    def asking(self, request: ModelRequest) -> OutputMethod:
        """Choose how a typed output is requested from this model."""
        return choose_output_method(self._codec.name, self._endpoint.preset.quirks, request)

    def attempt(self, call: CallContext[ModelRequest]) -> Coroutine[object, object, Outcome[Reply]]:
        """Encode, send and decode a request; return one validated reply or a failure."""
        request, partial = call.payload, read_carry(call).reply_so_far
        if partial is not None:
            request = prefill_request(request, partial)
        if call.execution.publish is not None:
            started = AttemptStarted(call.key, call.attempt, self.name, partial is not None)
            call.execution.publish(started)
        stream = (request.stream or self._endpoint.preset.streams) and not (
            STREAM_REFUSALS.contains(self._account, self.model)
        )
        if request.stream is not stream:
            request = replace(request, stream=stream)
        return self._send_request(request, call, partial)

    async def _send_request(
        self, request: ModelRequest, call: CallContext[ModelRequest], partial: Reply | None
    ) -> Outcome[Reply]:
        assembler = Assembler(self._endpoint.preset.quirks, self._wire, partial)
        resumes_at: float | None = None
        outcome: Outcome[Reply] | DetachedError
        try:
            encoded = self._codec.encode(request)
            http = self._endpoint.build_request(self.model, encoded)
            timeouts = self._timeouts if request.stream else self._whole_timeouts
            async with self._transport.send(http, timeouts) as response:
                if not 200 <= response.status < 300:
                    outcome = await self._read_error(response, call)
                else:
                    resumes_at = _find_resume_time(response, self._limit_headers, call)
                    decoder = self._make_decoder(response, partial)
                    await self._read_response(response, decoder, assembler, call)
                    outcome = _assembled_outcome(assembler.finish())
        except HoldfastError as error:
            outcome = _broken_outcome(assembler, error)
        except CancelledError:
            if (partial or assembler.has_visible_parts) and call.execution.keep_partial is not None:
                call.execution.keep_partial(assembler.finish().reply)
            raise
        except Exception as error:  # noqa: BLE001  # REASON: a transport may be the user's code
            outcome = detach_error(error, self.secrets)
        if isinstance(outcome, DetachedError):
            raise outcome  # outside the `except`, because its context would be the original
        if isinstance(outcome, Failed):
            outcome = self._finish_failure(self._clean_failure(outcome), assembler, call)
            if request.stream and is_stream_refusal(outcome.info):
                return await self._send_without_stream(request, call, partial)
            return outcome
        return outcome if resumes_at is None else replace(outcome, resumes_at=resumes_at)

    async def _send_without_stream(
        self, request: ModelRequest, call: CallContext[ModelRequest], partial: Reply | None
    ) -> Outcome[Reply]:
        """Send a request again that may have been refused because it asked for a stream."""
        outcome = await self._send_request(replace(request, stream=False), call, partial)
        if isinstance(outcome, Done):
            STREAM_REFUSALS.remember(self._account, self.model)
        return outcome

    def _clean_failure(self, outcome: Failed) -> Failed:
        """Remove the secrets of the endpoint from a failure; a provider may repeat them in its errors."""
        secrets = self.secrets
        if isinstance(outcome.error, HoldfastError):
            clean_client_error(outcome.error, secrets)
        return replace(outcome, info=clean_info(outcome.info, secrets))

    def _finish_failure(
        self, outcome: Failed, assembler: Assembler, call: CallContext[ModelRequest]
    ) -> Failed:
        """Add the partial reply that another attempt can continue; otherwise announce that its text is void."""
        carry = read_carry(call)
        if carry.may_continue and (carry.reply_so_far or assembler.has_visible_parts):
            partial = clean_reply(assembler.finish().reply, self.secrets)
            if isinstance(outcome.error, HoldfastError) and outcome.error.partial is None:
                outcome.error.partial = partial
            can_continue = can_continue_reply(partial, outcome.info.category)
            if can_continue and self._codec.can_continue(call.payload):
                return with_continuable_reply(call, outcome, partial)
        # For a continued reply, the carry emits this notice.
        if assembler.has_visible_parts and carry.reply_so_far is None:
            call.execution.emit(AttemptAbandoned(call.key, call.attempt, outcome.info.to_public()))
        return outcome

    async def _read_response(
        self,
        response: Response,
        decoder: Decoder,
        assembler: Assembler,
        call: CallContext[ModelRequest],
    ) -> None:
        execution, ready = call.execution, call.execution.ready
        slow_to_begin = self._timeouts.first_content is not None
        meter = ReplyMeter(self._reply_limits, self._safe_size, assembler)
        try:
            # Looked at before each piece: somebody may begin to read in the middle of a reply.
            while data := await response.read(gather=not execution.has_live_reader()):
                meter.note_bytes(len(data))
                if not (deltas := decoder.feed(data)):
                    continue
                _take_deltas(deltas, assembler, execution)
                # A server that is slow to begin may send the role of its reply at once.
                if not slow_to_begin or assembler.has_visible_parts:
                    response.note_content()
                if ready is not None:
                    await ready()
                if assembler.ended:
                    await _drain_response(response)
                    break
        except CancelledError:
            # What has arrived and was not read belongs to the partial reply too.
            assembler.feed_all(decoder.feed(response.read_arrived()))
            raise
        except TransportError:
            # A body that breaks off after the proof that it is complete counts as ended.
            if not assembler.is_complete:
                raise
        _take_deltas(decoder.close(), assembler, execution)
        meter.check_end()

    def _make_decoder(self, response: Response, partial: Reply | None) -> Decoder:
        preset = self._endpoint.preset
        decoder = self._codec.make_decoder(response.headers.get("content-type", ""), preset.name)
        if partial is None:
            return decoder
        return StitchingDecoder(
            decoder, partial.text, echoes=preset.quirks.prefill == "prefix_echo"
        )

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
        if is_loading_model(info):
            # The request was not begun, so it is no attempt: it waits like a call that a breaker rejects.
            info = replace(info, retry_after=info.retry_after or _LOADING_WAIT)
            return unsent_outcome(exception_for(info))
        return Failed(exception_for(info), info)


def _find_resume_time(
    response: Response, limits: LimitHeaders, call: CallContext[ModelRequest]
) -> float | None:
    """Return when the endpoint accepts another call, if its headers tell that this call used up a limit."""
    clock = call.execution.clock
    wait = parse_exhausted_wait(response.headers, limits, now=clock.now())
    return None if wait is None else clock.monotonic() + wait


def _take_deltas(deltas: list[Delta], assembler: Assembler, execution: ExecutionContext) -> None:
    """Add deltas to the reply, and publish those that users see."""
    assembler.feed_all(deltas)
    if (publish := execution.publish) is None:
        return
    for delta in deltas if execution.has_live_reader() else join_texts(deltas):
        if type(delta) in _VISIBLE:
            publish(delta)  # type: ignore[arg-type]  # _VISIBLE holds the union's deltas


def join_texts(deltas: list[Delta]) -> list[Delta]:
    """Join adjacent texts of the same part, for a listener that does not read them as they arrive.

    >>> join_texts([TextDelta("Hel"), TextDelta("lo"), TextDelta("!", 1)])
    [TextDelta(text='Hello', index=0), TextDelta(text='!', index=1)]
    """
    joined: list[Delta] = []
    pieces: list[str] = []
    for at, delta in enumerate(deltas):
        if type(delta) is not TextDelta:
            joined.append(delta)
            continue
        pieces.append(delta.text)
        following = deltas[at + 1] if at + 1 < len(deltas) else None
        if type(following) is not TextDelta or following.index != delta.index:
            joined.append(TextDelta("".join(pieces), delta.index))
            pieces.clear()
    return joined


async def _drain_response(response: Response) -> None:
    """Wait briefly for the end of the body after a complete reply, so that the connection can be reused.

    The wait is short because some servers leave the stream open.
    """
    with suppress(TimeoutError, HoldfastError):
        async with timeout(_DRAIN_SECONDS):
            while await response.read():
                pass


def _broken_outcome(assembler: Assembler, error: HoldfastError) -> Outcome[Reply]:
    """Return the outcome of a broken exchange: a complete reply if its end marker came, else a failure."""
    if isinstance(error, TransportError) and assembler.ended:
        assembled = assembler.finish()
        if assembled.error is None:
            return Done(assembled.reply)
    if assembler.has_visible_parts and error.partial is None:
        error.partial = assembler.finish().reply
    return failed_outcome(error)


def _assembled_outcome(assembled: AssembledReply) -> Outcome[Reply]:
    if assembled.error is None:
        return Done(assembled.reply)
    return failed_outcome(assembled.error)
