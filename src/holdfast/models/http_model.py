"""Models, which reply to a `ModelRequest` over HTTP or in any other way.

A model makes one attempt and returns its outcome; it never sleeps, or raises for a failure of the
network or the provider. An attempt is one request, except that a server which refuses the form of a
request is asked again in the next form of the same meaning, at most four times: another role of
instructions, another name of the output limit, or without streaming (see `codecs.refused_forms`). Some
servers stream no reply at all, and some not to every account or of every model. They say so by a client
error that names `stream`, and the same request without it succeeds. What succeeded is remembered in
`models.refusals`. API keys are in the headers of the endpoint, and never appear in a `repr`, an error or a
notice.
"""

from __future__ import annotations

from asyncio import CancelledError, timeout
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Protocol, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.codecs.assemble import AssembledReply, Assembler, ReplyMeter, find_safe_size
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.output_mode import OutputMethod, choose_output_method
from holdfast.codecs.refused_forms import FormChange, FormField, SentForm, find_next_form
from holdfast.codecs.retry_after import LimitHeaders, parse_exhausted_wait
from holdfast.codecs.schemas.rewriting import RewritingDecoder
from holdfast.codecs.stitching import StitchingDecoder, can_continue_reply, prefill_request
from holdfast.codecs.wire import Codec, EncodedRequest, Failure, WireCodec
from holdfast.core.deltas import (
    CharactersReplaced,
    Decoder,
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
from holdfast.core.errors import ErrorInfo, HoldfastError, TransportError, exception_for
from holdfast.core.hosted_tools import HostedTool
from holdfast.core.limits import ReplyLimits
from holdfast.core.messages import Reasoning, Reply, Text, ToolCall
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.notices import (
    AttemptAbandoned,
    AttemptStarted,
    ReplyReplaced,
    RequestFormChanged,
)
from holdfast.core.secret_values import NO_SECRETS, SecretValues
from holdfast.models.presets import Preset, join_address, show_address
from holdfast.models.refusals import (
    REFUSALS,
    Learnt,
    Subject,
    describe_learnt,
    is_loading_model,
    is_stream_refusal,
)
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
        profile: how this server's form of the wire differs; by default the profile of the preset.
    """

    __slots__ = (
        "_headers",
        "_last_request",
        "_secrets",
        "_user_headers",
        "base_url",
        "preset",
        "profile",
    )

    def __init__(
        self,
        preset: Preset,
        base_url: str,
        auth: _Pairs = (),
        headers: _Pairs = (),
        profile: EndpointProfile | None = None,
    ) -> None:
        self.preset = preset
        self.profile = profile or preset.profile
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
    def priced_as(self) -> tuple[str, bool]:
        """The preset, and whether its provider is at the address, so that its prices are right."""
        return self.preset.name, self.preset.is_own_address(self.base_url)

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


class _RequestForm(Struct, frozen=True):
    """How requests are written for an endpoint.

    Args:
        codec: encodes by the profile of the endpoint and by what was learnt.
        profile: that profile; None if it cannot be changed, since the codec is the user's.
        streams: whether a reply may be streamed.
        learnt: the refusals that it takes into account.
        tried: the changes of this attempt that led to it, in their order.
    """

    codec: Codec
    profile: EndpointProfile | None
    streams: bool = True
    learnt: Learnt = MappingProxyType({})
    tried: tuple[FormChange, ...] = ()

    def change(self, change: FormChange) -> _RequestForm:
        """Return the form that follows."""
        tried = (*self.tried, change)
        if change.field == "stream":
            return replace(self, streams=bool(change.after), tried=tried)
        if self.profile is None or not isinstance(self.codec, WireCodec):
            return replace(self, tried=tried)
        profile = change.apply(self.profile)
        return replace(self, codec=type(self.codec)(profile), profile=profile, tried=tried)


_MOST_CHANGES = 4


class _OutputChoice(Struct, frozen=True):
    """How the output of a request is requested, and all that decided it."""

    model: str
    output: OutputSchema | None
    tools: tuple[ToolSpec, ...]
    hosted_tools: tuple[HostedTool, ...]
    settings: ModelSettings
    method: OutputMethod

    def fits_request(self, request: ModelRequest) -> bool:
        """Whether another request gets the same choice."""
        return (
            self.output is request.output
            and self.tools is request.tools
            and self.settings is request.settings
            and self.hosted_tools is request.hosted_tools
            and self.model == request.model
        )


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
        "_form",
        "_last_choice",
        "_limit_headers",
        "_reply_limits",
        "_safe_size",
        "_timeouts",
        "_transport",
        "_whole_timeouts",
        "_wire",
        "has_tool_search",
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
        self._form = _RequestForm(codec, codec.profile if isinstance(codec, WireCodec) else None)
        # The same for each iteration of a turn.
        self._last_choice: _OutputChoice | None = None
        # Whether the provider searches deferred tools itself.
        self.has_tool_search = isinstance(codec, WireCodec) and codec.has_tool_search(model)
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
    def priced_as(self) -> tuple[str, bool]:
        """The preset, and whether its provider is at the address, so that its prices are right."""
        preset = self._endpoint.preset
        return preset.name, preset.is_own_address(self._endpoint.base_url)

    @property
    def default_max_tokens(self) -> int | None:
        """The limit of a reply that the wire sends if the user sets none; None if it sends none."""
        return self._codec.default_max_tokens if isinstance(self._codec, WireCodec) else None

    @property
    def secrets(self) -> SecretValues:
        """The secrets of the endpoint, which are removed from every error."""
        return self._endpoint.secrets

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r}, {show_address(self._endpoint.base_url)!r})"

    def describe(self) -> Mapping[str, object]:
        """Return name, wire and address of the model, its differences from the preset, and what was learnt."""
        model = f"{self._endpoint.preset.name}:{self.model}"
        changes = self._endpoint.profile.list_changes(self._endpoint.preset.profile)
        learnt = describe_learnt(REFUSALS.find(self._account, self.model))
        return {
            **({} if self.name == model else {"name": self.name}),
            "model": model,
            "wire": self._codec.name,
            "base_url": show_address(self._endpoint.base_url),
            "timeouts": self._timeouts,
            **({"profile": changes} if changes else {}),
            **({"learnt": learnt} if learnt else {}),
        }

    def check_request(self, request: ModelRequest) -> None:
        """Raise ConfigurationError if the wire cannot express a request; nothing is sent."""
        self._codec.encode(request)

    def asking(self, request: ModelRequest) -> OutputMethod:
        """Choose how a typed output is requested from this model."""
        last = self._last_choice
        if last is not None and last.fits_request(request):
            return last.method
        method = choose_output_method(self._codec.name, self._endpoint.profile, request)
        self._last_choice = _OutputChoice(
            model=request.model,
            output=request.output,
            tools=request.tools,
            hosted_tools=request.hosted_tools,
            settings=request.settings,
            method=method,
        )
        return method

    def attempt(self, call: CallContext[ModelRequest]) -> Coroutine[object, object, Outcome[Reply]]:
        """Encode, send and decode a request; return one validated reply or a failure."""
        request, partial = call.payload, read_carry(call).reply_so_far
        if partial is not None:
            request = prefill_request(request, partial)
        if call.execution.publish is not None:
            started = AttemptStarted(call.key, call.attempt, self.name, partial is not None)
            call.execution.publish(started)
        form = self._form
        if (learnt := REFUSALS.find(self._account, self.model)) is not form.learnt:
            form = self._adopt_learnt(learnt)
        stream = (request.stream or self._endpoint.preset.streams) and form.streams
        if request.stream is not stream:
            request = replace(request, stream=stream)
        return self._send_request(request, call, partial, form)

    def _adopt_learnt(self, learnt: Learnt) -> _RequestForm:
        """Write requests by what this or another model object learnt of the endpoint."""
        form = _RequestForm(self._codec, self._form.profile and self._endpoint.profile)
        for field in get_args(FormField):
            if (after := learnt.get((field,))) is not None:
                form = form.change(FormChange(field, "", after))
        self._form = replace(form, learnt=learnt, tried=())
        return self._form

    async def _send_request(
        self,
        request: ModelRequest,
        call: CallContext[ModelRequest],
        partial: Reply | None,
        form: _RequestForm,
    ) -> Outcome[Reply]:
        assembler = Assembler(self._endpoint.profile, self._wire, partial)
        resumes_at: float | None = None
        outcome: Outcome[Reply] | DetachedError
        refusal: Failure | None = None
        body = b""
        try:
            encoded = form.codec.encode(request)
            body = encoded.body
            http = self._endpoint.build_request(self.model, encoded)
            timeouts = self._timeouts if request.stream else self._whole_timeouts
            async with self._transport.send(http, timeouts) as response:
                if not 200 <= response.status < 300:
                    refusal = await self._read_error(response, call)
                    outcome = self._classify_error(refusal)
                else:
                    resumes_at = _find_resume_time(response, self._limit_headers, call)
                    decoder = self._make_decoder(response, request, encoded, assembler, partial)
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
            change = _find_change(outcome.info, refusal, request, form, body)
            if change is None:
                return outcome
            request = self._change_request(request, change, outcome.info, call)
            return await self._send_request(request, call, partial, form.change(change))
        if assembler.has_dropped or form.tried:
            self._note_success(outcome.value, assembler, form, call)
        return outcome if resumes_at is None else replace(outcome, resumes_at=resumes_at)

    def _note_success(
        self,
        reply: Reply,
        assembler: Assembler,
        form: _RequestForm,
        call: CallContext[ModelRequest],
    ) -> None:
        """Publish a reply again whose calls were corrected, and remember the form that succeeded."""
        if assembler.has_dropped:
            _publish_corrected(reply, call)
        if form.tried:
            forms: dict[Subject, str] = {(change.field,): change.after for change in form.tried}
            REFUSALS.learn(self._account, self.model, forms)

    def _change_request(
        self,
        request: ModelRequest,
        change: FormChange,
        info: ErrorInfo,
        call: CallContext[ModelRequest],
    ) -> ModelRequest:
        """Announce that the form of a request changes, and return the request that follows."""
        changed = RequestFormChanged(
            key=call.key,
            attempt=call.attempt,
            target=self.name,
            field=change.field,
            before=change.before,
            after=change.after,
            error=info.to_public(),
        )
        call.execution.emit(changed)
        return replace(request, stream=bool(change.after)) if change.field == "stream" else request

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
            # The bytes that have arrived and were not read belong to the partial reply too.
            assembler.feed_all(decoder.feed(response.read_arrived()))
            raise
        except TransportError:
            # A body that breaks off after the proof that it is complete counts as ended.
            if not assembler.is_complete:
                raise
        _take_deltas(decoder.close(), assembler, execution)
        meter.check_end()

    def _make_decoder(
        self,
        response: Response,
        request: ModelRequest,
        encoded: EncodedRequest,
        assembler: Assembler,
        partial: Reply | None,
    ) -> Decoder:
        decoder: Decoder = self._codec.make_decoder(
            response.headers.get("content-type", ""), self._endpoint.preset.name, request
        )
        if encoded.rewritings is not None:
            decoder = RewritingDecoder(decoder, encoded.rewritings)
            assembler.rewritten_tools = encoded.rewritings.tools
        if partial is None:
            return decoder
        return StitchingDecoder(
            decoder, partial.text, echoes=self._endpoint.profile.prefill == "prefix_echo"
        )

    async def _read_error(self, response: Response, call: CallContext[ModelRequest]) -> Failure:
        body = bytearray()
        while len(body) < _LARGEST_ERROR_BODY and (data := await response.read()):
            body += data
        return Failure(
            provider=self._endpoint.preset.name,
            status=response.status,
            headers=response.headers,
            body=bytes(body),
            now=call.execution.clock.now(),
        )

    def _classify_error(self, failure: Failure) -> Failed:
        info = self._codec.classify(failure)
        if is_loading_model(info):
            # The request was not begun, so it is no attempt: it waits like a call that a breaker rejects.
            info = replace(info, retry_after=info.retry_after or _LOADING_WAIT)
            return unsent_outcome(exception_for(info))
        return Failed(exception_for(info), info)


def _find_change(
    info: ErrorInfo,
    refusal: Failure | None,
    request: ModelRequest,
    form: _RequestForm,
    body: bytes,
) -> FormChange | None:
    """Return the next form of a request that was refused; None if its form was not the reason."""
    # An error inside of a reply that had begun refuses nothing.
    if refusal is None or len(form.tried) >= _MOST_CHANGES:
        return None
    if form.profile is not None:
        sent = SentForm(request, body, form.codec.name, form.profile, form.tried)
        change = find_next_form(refusal, sent)
        if change is not None:
            return change
    if any(one.field == "stream" for one in form.tried) or not is_stream_refusal(info, body):
        return None
    if request.stream:
        return FormChange("stream", "stream", "")
    # What was learnt has become wrong: the server wants streams now.
    return None if form.streams else FormChange("stream", "whole reply", "stream")


def _find_resume_time(
    response: Response, limits: LimitHeaders, call: CallContext[ModelRequest]
) -> float | None:
    """Return when the endpoint accepts another call, if its headers say that this call used up a limit."""
    clock = call.execution.clock
    wait = parse_exhausted_wait(response.headers, limits, now=clock.now())
    return None if wait is None else clock.monotonic() + wait


def _take_deltas(deltas: list[Delta], assembler: Assembler, execution: ExecutionContext) -> None:
    """Add deltas to the reply, and publish those that users see."""
    assembler.feed_all(deltas)
    if (publish := execution.publish) is None:
        return
    is_live = execution.has_live_reader()
    if is_live and execution.note_content is not None and assembler.has_visible_parts:
        execution.note_content()
    for delta in deltas if is_live else join_texts(deltas):
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


def _publish_corrected(reply: Reply, call: CallContext[ModelRequest]) -> None:
    """Announce that the streamed arguments repeated, and publish the reply without the repetitions."""
    publish = call.execution.publish
    if publish is None:
        return
    publish(ReplyReplaced(call.key))
    calls = 0
    for part in reply.parts:
        if isinstance(part, Text):
            publish(TextDelta(part.text))
        elif isinstance(part, Reasoning):
            publish(ReasoningDelta(part.text))
        elif isinstance(part, ToolCall):
            publish(ToolCallDelta(calls, part.id, part.name, part.arguments))
            calls += 1
