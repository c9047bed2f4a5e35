"""From what a user writes to a model that can be asked."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.transport.raw import Client, RawServer

from holdfast import Agent, ConfigurationError, ModelAt, Timeouts
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.compat import AgentBuilder
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest, ToolSpec
from holdfast.models.http_model import HttpModel
from holdfast.models.presets import PRESETS, Preset
from holdfast.models.resolve import load_codec, resolve_model
from holdfast.testing import ScriptedModel
from holdfast.transport.http import HttpTransport

KEY = "sk-key-of-somebody"


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_has_its_codec(preset: Preset) -> None:
    assert load_codec(preset.wire, preset.profile).name == preset.wire


def test_a_place_has_an_address_a_key_and_a_name_of_its_own() -> None:
    at = ModelAt("openai:gpt-5.2", base_url="http://eu/v1/", api_key=KEY, name="eu")
    model = resolve_model(at, HttpTransport, Timeouts(total=5))
    assert (model.name, model.model) == ("eu", "gpt-5.2")
    shown = dict(model.describe())
    assert shown.pop("timeouts") == Timeouts(total=5)
    own, other = PRESETS["openai"].profile, EndpointProfile(cache="key")
    assert shown.pop("profile") == other.list_changes(own)
    assert shown == {
        "name": "eu",
        "model": "openai:gpt-5.2",
        "wire": "openai_chat",
        "base_url": "http://eu/v1",
    }
    own = resolve_model(ModelAt("ollama:a", timeouts=Timeouts(total=7)), HttpTransport)
    assert own.describe()["timeouts"] == Timeouts(total=7)
    assert "name" not in own.describe()


def test_places_of_one_model_do_not_share_their_health() -> None:
    places = [
        ModelAt("openai:a", base_url="http://eu", api_key=KEY),
        ModelAt("openai:a", base_url="http://us", api_key=KEY),
        ModelAt("openai:a", base_url="http://eu", api_key="another"),
        ModelAt("openai:a", base_url="http://eu", api_key=KEY, headers={"organization": "1"}),
    ]
    accounts = [resolve_model(place, HttpTransport).account for place in places]
    assert len(set(accounts)) == len(places)
    assert resolve_model(places[0], HttpTransport).account == accounts[0]


def test_no_key_is_shown() -> None:
    at = ModelAt("openai:a", api_key=KEY, headers={"X-Key": KEY}, name="b")
    assert repr(at) == "ModelAt('openai:a', name='b', headers=['x-key'])"
    assert KEY not in repr(Agent(ScriptedModel(), fallback=[at])) + repr(
        resolve_model(at, HttpTransport)
    )
    assert KEY not in str(resolve_model(at, HttpTransport).describe())
    assert pickle.loads(pickle.dumps(at)) == at


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ModelAt(5), "model: must be a text, got int"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", base_url=5), "base_url: must be a text or None, got int"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", api_key=b"k"), "api_key: must be a text or None, got bytes"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", timeouts=5), "timeouts: must be Timeouts or None, got int"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", profile="vllm"), "profile: must be a mapping or None, got str"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", name=None), "name: must be a text, got NoneType"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", headers="x"), "headers: must be a mapping, got str"),  # type: ignore[arg-type]
        (lambda: ModelAt("a:b", headers={"": "x"}), "headers: '' is not a header name"),
        (lambda: ModelAt("a:b", headers={"x y": "x"}), "headers: 'x y' is not a header name"),
        (lambda: ModelAt("a:b", headers={"x": 1}), "headers['x']: must be a text, got int"),  # type: ignore[dict-item]
        (
            lambda: ModelAt("a:b", headers={"x": f"{KEY}\r\nhost: evil"}),
            "headers['x']: has characters that are not allowed in a header",
        ),
        (
            lambda: ModelAt("a:b", headers={"Content-Type": "text/plain"}),
            "headers['Content-Type']: is set by Holdfast itself. Leave it out",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(make: Callable[[], ModelAt], says: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert str(raised.value) == says
    assert KEY not in repr(raised.value)


OWN = PRESETS["openai"].profile
OTHER = EndpointProfile(cache="key")


@pytest.mark.parametrize(
    ("model", "base_url", "changes", "wanted"),
    [
        ("openai:a", None, {}, OWN),
        ("openai:a", "https://api.openai.com/v1", {}, OWN),
        ("openai:a", "https://EU.api.openai.com/v1", {}, OWN),
        ("openai:a", "https://api.openai.com.evil.example/v1", {}, OTHER),
        ("openai:a", "https://gateway.example/api.openai.com/v1", {}, OTHER),
        ("openai:a", "http://eu", {"strict_tools": True}, replace(OTHER, strict_tools=True)),
        ("openai:a", "http://eu", {"like": "OpenAI"}, OWN),
        (
            "openai:a",
            "http://eu",
            {"like": "xai", "images": "none"},
            replace(PRESETS["xai"].profile, images="none"),
        ),
        ("openai-responses:a", None, {}, PRESETS["openai-responses"].profile),
        ("openai-responses:a", "http://eu", {}, EndpointProfile()),
        ("groq:a", "http://eu", {}, PRESETS["groq"].profile),
        ("vllm:a", "http://eu", {"prefill": ""}, replace(PRESETS["vllm"].profile, prefill="")),
    ],
)
def test_the_profile_is_that_of_the_server_at_the_address(
    model: str, base_url: str | None, changes: Any, wanted: EndpointProfile
) -> None:
    at = ModelAt(model, base_url=base_url, api_key=KEY, profile=changes)
    of_agent = Agent(model, base_url=base_url, api_key=KEY, profile=changes)
    difference = wanted.list_changes(PRESETS[model.partition(":")[0]].profile)
    for found in (resolve_model(at, HttpTransport), of_agent._engine.plan.model):
        assert isinstance(found, HttpModel)
        assert found._endpoint.profile == found._codec.profile == wanted  # type: ignore[attr-defined]
        assert found.describe().get("profile", {}) == difference
    assert hash(at) == hash(ModelAt(model, base_url=base_url, api_key=KEY))
    assert pickle.loads(pickle.dumps(at)) == at


@pytest.mark.parametrize(
    ("model", "changes", "problem"),
    [
        ("openai:a", {"system_rol": "system"}, "profile.system_rol: is not a field of a profile. "),
        (
            "openai:a",
            {"system_role": "sytem"},
            'profile.system_role: must be "system", "developer" or "user"',
        ),
        ("gemini:a", {"system_role": "system"}, "profile.system_role: has no effect on the wire"),
        ("openai:a", {"like": "vlm"}, "profile.like: unknown provider 'vlm'. did you mean vllm"),
        ("openai:a", {"like": "gemini"}, "profile.like: gemini has another wire. Of this wire are"),
        ("openai:a", {"like": 5}, "profile.like: must be a text, got int"),
    ],
)
def test_a_wrong_profile_is_refused_by_the_name_of_its_field(
    model: str, changes: Any, problem: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent(model, api_key=KEY, profile=changes)
    assert str(raised.value).startswith(problem)
    place = ModelAt(model, api_key=KEY, profile=changes)
    with pytest.raises(ConfigurationError, match=re.escape(f"fallback[0].{raised.value.argument}")):
        Agent(ScriptedModel(), fallback=[place])


def test_a_profile_beside_a_place_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="profile: has no effect on a ModelAt object"):
        Agent(ModelAt("ollama:a"), profile={"images": "none"})
    with pytest.raises(ConfigurationError, match="profile: must be a mapping of fields, got str"):
        Agent("ollama:a", profile="vllm")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fallback", "argument", "problem", "fix"),
    [
        (
            ModelAt("groq:a"),
            "fallback[0]",
            "GROQ_API_KEY is not set, and groq needs a key",
            "export GROQ_API_KEY=... or pass api_key=",
        ),
        (
            ModelAt("groq:a", api_key=" "),
            "fallback[0].api_key",
            "is empty",
            "Pass the key, or leave it out",
        ),
        (
            ModelAt("groq"),
            "fallback[0].model",
            "'groq' does not name a provider and a model",
            'Write "provider:model", for example "openai:gpt-5.2" or "ollama:llama3.2"',
        ),
    ],
)
def test_a_fallback_that_cannot_be_says_what_to_write(
    monkeypatch: pytest.MonkeyPatch, fallback: ModelAt, argument: str, problem: str, fix: str
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    with pytest.raises(ConfigurationError) as raised:
        Agent(ScriptedModel(), fallback=[fallback])
    error = raised.value
    assert (error.argument, error.problem, error.fix) == (argument, problem, fix)


def test_two_places_of_one_model_need_names() -> None:
    with pytest.raises(ConfigurationError, match="Give each a name of its own"):
        Agent(ModelAt("ollama:a"), fallback=[ModelAt("ollama:a", base_url="http://other")])


def test_headers_that_carry_the_key_need_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PRESETS["openai"].key_env + PRESETS["anthropic"].key_env:
        monkeypatch.delenv(name, raising=False)
    resolve_model(ModelAt("openai:a", headers={"Authorization": "Basic a"}), HttpTransport)
    resolve_model(ModelAt("anthropic:a", headers={"x-api-key": "a"}), HttpTransport)
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        resolve_model(ModelAt("anthropic:a", headers={"x-other": "a"}), HttpTransport)


def test_an_address_beside_a_place_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="api_key: has no effect on a ModelAt object"):
        Agent(ModelAt("ollama:a"), api_key=KEY)


def test_a_builder_takes_places() -> None:
    place = ModelAt("ollama:a", name="mine")
    agent = AgentBuilder(model=place, fallback=[ModelAt("ollama:a"), "ollama:b"]).build()
    assert "mine" in str(agent.describe())


# Keys in an address, a header or another setting are not shown.

KEY_ADDRESS = "8f7a6b5c4d3e2f1a9b8c7d6e"
REPLY = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()


async def test_the_path_stands_before_the_query() -> None:
    heads: list[bytes] = []

    async def serve(client: Client) -> None:
        heads.append(await client.request())
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(REPLY)}\r\n\r\n".encode()
        await client.send(head + REPLY)

    server = RawServer(serve)
    await server.start()
    address = f"http://127.0.0.1:{server.port}/v1/?key={KEY_ADDRESS}&api-version=3"
    agent = Agent("ollama:a", base_url=address)
    assert (await agent.run("hello")).output == "hi"
    await server.stop()
    assert heads[0].startswith(
        f"POST /v1/chat/completions?key={KEY_ADDRESS}&api-version=3 ".encode()
    )
    assert "/v1?key=[redacted]&api-version=3" in agent.describe()
    assert KEY_ADDRESS not in repr(ModelAt("ollama:a", base_url=address))


@pytest.mark.parametrize(
    "address",
    [
        f"https://host/v1#{KEY_ADDRESS}",
        f"https://bob:a/{KEY_ADDRESS}@host/v1",
        f"https:/bob:{KEY_ADDRESS}@host/v1",
        f"HTTPS://bob:{KEY_ADDRESS}@host/v1",
        f" https://bob:{KEY_ADDRESS}@host/v1",
        f"{KEY_ADDRESS}://host/v1",
        f"{KEY_ADDRESS}",
        f"bob:{KEY_ADDRESS}@host",
        f"//:{KEY_ADDRESS}@host",
        f"redis://:{KEY_ADDRESS}@host",
    ],
)
def test_an_address_that_is_refused_is_not_repeated(address: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("ollama:a", base_url=address)
    assert raised.value.argument == "base_url"
    assert KEY_ADDRESS not in str(raised.value)
    assert KEY_ADDRESS not in repr(ModelAt("ollama:a", base_url=address))


@pytest.mark.parametrize(
    "user",
    [
        f":{KEY_ADDRESS}",
        f"{KEY_ADDRESS}",
        f"bob:x@{KEY_ADDRESS}",
        f"bob:{KEY_ADDRESS}:x",
        f"{KEY_ADDRESS}:",
    ],
)
def test_an_address_with_a_password_is_shown_without_it(user: str) -> None:
    agent = Agent("ollama:a", base_url=f"https://{user}@host/v1")
    assert KEY_ADDRESS not in agent.describe()
    assert "https://[redacted]@host/v1" in agent.describe()


@pytest.mark.parametrize(
    "model",
    [KEY_ADDRESS, f"{KEY_ADDRESS}:x", f"sk-{KEY_ADDRESS}", "3b9e1c52-7f4d-4a86-b0c1-9d2e8f7a6b5c"],
)
def test_a_key_in_the_place_of_a_model_is_not_repeated(model: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent(model)
    assert model.removesuffix(":x") not in str(raised.value)


def test_a_key_in_the_place_of_a_header_name_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError) as raised:
        ModelAt("ollama:a", headers={KEY_ADDRESS: "x\ny"})
    assert KEY_ADDRESS not in str(raised.value)
    shown = repr(ModelAt("ollama:a", headers={KEY_ADDRESS: "x"}))
    assert KEY_ADDRESS not in shown


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://bob:a@{KEY_ADDRESS}@host/db",
        f"postgresql://bob:12/{KEY_ADDRESS}@host/db",
        f"postgresql:bob:{KEY_ADDRESS}@host/db",
        f"{KEY_ADDRESS}:bob@host",
        f"{KEY_ADDRESS}://host",
        f"sqlite:///talk.db?key={KEY_ADDRESS}",
    ],
)
def test_the_address_of_a_journal_is_not_repeated(address: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("ollama:a", journal=address)
    error: BaseException | None = raised.value
    while error is not None:
        assert KEY_ADDRESS not in f"{error} {error.args}"
        error = error.__context__


@pytest.mark.parametrize("name", ["on_wait", "on_busy", "fallback", "timeouts", "transport"])
def test_a_key_in_the_place_of_another_setting_is_not_repeated(name: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("openai:a", api_key="x", **{name: KEY_ADDRESS})  # type: ignore[arg-type]
    assert raised.value.argument == name
    assert KEY_ADDRESS not in str(raised.value)


KEY_GATEWAY = "8f7a6b5c4d3e2f1a"
ADDRESS = f"https://bob:{KEY_GATEWAY}@gateway.example/v1"


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (f"X-Gateway: {KEY_GATEWAY}", "'X-Gateway' with a value"),
        (f"Authorization:Bearer {KEY_GATEWAY}", "'Authorization' with a value"),
        (f"Bearer {KEY_GATEWAY}", "a text of 23 characters that may be a key"),
    ],
)
def test_the_error_of_a_header_does_not_show_its_key(header: str, shown: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ModelAt("openai:a", headers={header: ""})
    assert str(raised.value) == f"headers: {shown} is not a header name"


def test_the_description_of_a_model_does_not_show_a_key() -> None:
    place = ModelAt("ollama:a", base_url=ADDRESS)
    model = resolve_model(place, HttpTransport)
    agent = Agent("ollama:a", base_url=ADDRESS)
    for shown in (repr(place), repr(model), str(model.describe()), repr(agent), agent.describe()):
        assert KEY_GATEWAY not in shown
    assert "https://[redacted]@gateway.example/v1" in agent.describe()


def test_the_error_of_an_address_does_not_show_its_password() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Agent("openai:a", api_key="k", base_url=f"wss://bob:{KEY_GATEWAY}@gateway.example/v1")
    assert KEY_GATEWAY not in str(raised.value)


# The error for a fallback names the fallback, and a fix that works for it.


def refused(fallback: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        Agent("openai:first", api_key="made-up", fallback=[ScriptedModel(), fallback])
    return str(raised.value)


def test_a_fallback_without_a_key_names_itself_and_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert refused("anthropic:claude-sonnet-4-5") == (
        "fallback[1]: ANTHROPIC_API_KEY is not set, and anthropic needs a key. "
        "Write ModelAt('anthropic:claude-sonnet-4-5', api_key=...), or export ANTHROPIC_API_KEY=..."
    )


def test_an_address_that_a_fallback_cannot_have_is_not_asked_for() -> None:
    assert refused("azure:my-deployment") == (
        "fallback[1]: azure needs a URL with resource filled in. "
        "Write ModelAt('azure:my-deployment', base_url=...)"
    )


def test_an_unknown_provider_of_a_fallback_is_named() -> None:
    assert refused("opanai:gpt-5.2").startswith("fallback[1]: unknown provider 'opanai'. did you")


@pytest.mark.parametrize(
    ("base_url", "is_strict"),
    [
        ("", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://gateway.example/v1", False),
        ("https://notapi.openai.com.example/v1", False),
    ],
)
def test_tools_are_strict_unasked_at_the_servers_of_the_vendor_alone(
    base_url: str, is_strict: bool
) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    model = resolve_model(
        ModelAt("openai:gpt-5.2", base_url=base_url or None, api_key="k"), HttpTransport
    )
    assert isinstance(model, HttpModel)
    request = ModelRequest(
        model="gpt-5.2", messages=[user("Hi.")], tools=(ToolSpec("look", "Look.", schema),)
    )
    (tool,) = json.loads(model._codec.encode(request).body)["tools"]
    assert tool["function"].get("strict", False) is is_strict
