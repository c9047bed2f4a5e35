"""From what a user writes to a model that can be asked."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from holdfast import Agent, ConfigurationError, ModelAt, Timeouts
from holdfast.compat import AgentBuilder
from holdfast.models.presets import PRESETS, Preset
from holdfast.models.resolve import _load_codec, resolve_model
from holdfast.testing import ScriptedModel
from holdfast.transport.http import HttpTransport

KEY = "sk-key-of-somebody"


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_has_its_codec(preset: Preset) -> None:
    assert _load_codec(preset.wire, preset.quirks).name == preset.wire


def test_a_place_has_an_address_a_key_and_a_name_of_its_own() -> None:
    at = ModelAt("openai:gpt-5.2", base_url="http://eu/v1/", api_key=KEY, name="eu")
    model = resolve_model(at, HttpTransport, Timeouts(total=5))
    assert (model.name, model.model) == ("eu", "gpt-5.2")
    shown = dict(model.describe())
    assert shown.pop("timeouts") == Timeouts(total=5)
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
