"""Sends the questions of a probe to an endpoint, and returns what it found out.

A probe makes at most eight small calls, one after the other, and repeats none. This module must never show an
API key, and never sends the key of a provider to an address of somebody else.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.codecs.openai_chat.probe_answers import EndpointAnswer
from holdfast.codecs.openai_chat.probing import EndpointQuestion, ProbeResult, probe_steps
from holdfast.codecs.wire import EncodedRequest
from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ConfigurationError, TransportError
from holdfast.core.secret_values import SecretValues
from holdfast.models.http_model import Endpoint
from holdfast.models.presets import find_preset, show_address
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Timeouts, Transport

PROBE_TIMEOUTS: Final = Timeouts(connect=10.0, first_byte=60.0, between_chunks=30.0, total=120.0)
"""The limits of one question. A local server may have to load its model first."""

_LARGEST_BODY: Final = 1024 * 1024


@check_arguments
async def probe_endpoint(
    base_url: str,
    model: str = "",
    *,
    provider: str = "openai",
    api_key: str = "",
    headers: Mapping[str, str] = {},
    timeouts: Timeouts = PROBE_TIMEOUTS,
) -> ProbeResult:
    """Ask a server of Chat Completions what it takes and refuses, and return its profile.

    At most eight small requests are sent, one of which lists the models if none is given. What could not be
    asked, such as after a wrong key or a rate limit, is unknown and changes nothing in the profile.

    Args:
        base_url: the address, such as "http://localhost:8000/v1".
        model: the model to ask; "" for the first that the server lists.
        provider: whose profile the endpoint begins with: the name of a preset of this wire.
        api_key: the key; no key of the environment is sent.
        headers: more headers of each request.
        timeouts: the limits of one question.

    Raises:
        ConfigurationError: an argument is invalid, the provider has another wire, or no model is given
            and the server lists none.

    >>> import asyncio
    >>> from holdfast.testing import Emulator
    >>> with Emulator(dress="snowflake") as server:
    ...     result = asyncio.run(probe_endpoint(server.base_url, "m"))
    >>> result.find("stream_usage").answer
    'yes'
    """
    preset = find_preset(provider)
    if preset.wire != "openai_chat":
        raise ConfigurationError("provider", f"{preset.name} has another wire", fix="Use openai")
    address = preset.resolve_base_url(base_url)
    named = tuple((name.lower(), value) for name, value in headers.items())
    endpoint = Endpoint(preset, address, preset.auth_headers(api_key.strip()), named)
    transport = HttpTransport()
    caller = _EndpointCaller(endpoint, transport, timeouts)
    calls = 0
    try:
        if not model:
            model, calls = await caller.find_model(), 1
        steps = probe_steps(model, preset.profile_at(address), calls)
        result = await _answer_steps(steps, caller, model)
    finally:
        await transport.aclose()
    return _clean_result(replace(result, base_url=show_address(address)), endpoint.secrets)


async def _answer_steps(
    steps: Generator[EndpointQuestion, EndpointAnswer, ProbeResult],
    caller: _EndpointCaller,
    model: str,
) -> ProbeResult:
    """Send each question, and give its answer back."""
    answer: EndpointAnswer | None = None
    while True:
        try:
            question = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            result: ProbeResult = end.value
            return result
        answer = await caller.send(model, question.encoded)


class _EndpointCaller:
    """Sends single requests to an endpoint."""

    def __init__(self, endpoint: Endpoint, transport: Transport, timeouts: Timeouts) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._timeouts = timeouts

    async def send(self, model: str, encoded: EncodedRequest) -> EndpointAnswer:
        """Send a model call."""
        return await self._exchange(self._endpoint.build_request(model, encoded))

    async def find_model(self) -> str:
        """Return the first model that the server lists.

        Raises:
            ConfigurationError: it lists none.
        """
        request = self._endpoint.build_request("", EncodedRequest("models", b""))
        answer = await self._exchange(replace(request, method="GET"))
        name = _read_first_model(answer.body)
        if not name:
            seen = answer.problem or f"the answer has status {answer.status}"
            seen = self._endpoint.secrets.remove_from(seen)
            problem = f"is not given, and the server lists no models: {seen}"
            raise ConfigurationError("model", problem, fix="Pass the name of a model")
        return name

    async def _exchange(self, request: HttpRequest) -> EndpointAnswer:
        body = bytearray()
        status: int | None = None
        headers: Mapping[str, str] = {}
        problem = ""
        try:
            async with self._transport.send(request, self._timeouts) as response:
                status, headers = response.status, dict(response.headers)
                while data := await response.read():
                    body += data
                    response.note_content()
                    if len(body) > _LARGEST_BODY:
                        problem = "the answer is too large"
                        break
        except TransportError as error:
            problem = str(error)
        return EndpointAnswer(status=status, headers=headers, body=bytes(body), problem=problem)


def _read_first_model(body: bytes) -> str:
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return ""
    listed = value.get("data") if isinstance(value, dict) else None
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and isinstance(name := one.get("id"), str) and name:
            return name
    return ""


def _clean_result(result: ProbeResult, secrets: SecretValues) -> ProbeResult:
    """Remove the secrets of the endpoint from the words of the server, which may repeat them."""
    clean = secrets.remove_from
    return replace(
        result,
        model=clean(result.model),
        findings=tuple(replace(one, words=clean(one.words)) for one in result.findings),
        calls=tuple(replace(one, showed=clean(one.showed)) for one in result.calls),
        notes=tuple(map(clean, result.notes)),
    )
