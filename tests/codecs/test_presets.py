"""Provider presets: complete rows, addresses that are refused before anything is sent."""

import msgspec
import pytest

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.wire import to_path_segment
from holdfast.core.errors import ConfigurationError
from holdfast.models.presets import PRESETS, Preset, find_preset

EXPECTED = {
    "openai", "openai-responses", "azure", "openrouter", "groq", "mistral", "deepseek", "xai",
    "together", "ollama", "lmstudio", "llamacpp", "vllm", "sglang", "gemini", "vertex", "gemini-openai",
    "anthropic", "bedrock-openai", "bedrock-anthropic", "cerebras", "fireworks",
}  # fmt: skip


def test_every_promised_provider_has_a_row() -> None:
    assert set(PRESETS) >= EXPECTED


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_row_is_whole(preset: Preset) -> None:
    assert PRESETS[preset.name] is preset
    assert preset.base_url.startswith(("https://", "http://localhost:"))
    assert not preset.base_url.endswith("/")
    assert preset.models_hint
    assert preset.key_env or preset.base_url.startswith("http://localhost:")
    assert all(name == name.lower() for name, _ in preset.headers)
    assert not preset.path or preset.path.startswith("/")
    if not preset.placeholders:
        assert preset.resolve_base_url() == preset.base_url


def test_rows_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PRESETS["openai"].base_url = "https://evil.example"  # type: ignore[misc]
    with pytest.raises(TypeError):
        PRESETS["openai"] = PRESETS["groq"]  # type: ignore[index]


@pytest.mark.parametrize("name", ["OpenAI", " openai ", "openai"])
def test_find_forgives_spelling(name: str) -> None:
    assert find_preset(name).name == "openai"


def test_find_reads_an_underscore_as_a_dash() -> None:
    assert find_preset("openai_responses").name == "openai-responses"


@pytest.mark.parametrize(
    ("name", "near"),
    [("opnai", "openai"), ("antropic", "anthropic"), ("gemni", "gemini"), ("open", "openrouter")],
)
def test_an_unknown_name_is_answered_with_near_ones(name: str, near: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_preset(name)
    assert caught.value.argument == "provider"
    assert near in caught.value.fix


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("claude", "anthropic"),
        ("grok", "xai"),  # and not "groq", which is nearer as a word
        ("google-gla", "gemini"),
        ("google_vertex", "vertex"),
        ("gpt", "openai"),
    ],
)
def test_a_name_that_a_provider_has_elsewhere_is_answered_with_its_name_here(
    name: str, meant: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_preset(name)
    assert caught.value.fix.startswith(f"did you mean {meant}")
    assert meant in PRESETS


@pytest.mark.parametrize("name", ["", "zzzzz"])
def test_a_name_near_nothing_is_answered_with_all(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_preset(name)
    assert all(known in caught.value.fix for known in EXPECTED)


@pytest.mark.parametrize(
    ("name", "blanks"),
    [
        ("azure", ("resource",)),
        ("vertex", ("location", "project")),
        ("bedrock-openai", ("region",)),
        ("bedrock-anthropic", ("region",)),
    ],
)
def test_a_url_with_placeholders_must_be_filled_in(name: str, blanks: tuple[str, ...]) -> None:
    preset = find_preset(name)
    assert preset.placeholders == blanks
    with pytest.raises(ConfigurationError) as caught:
        preset.resolve_base_url()
    assert caught.value.argument == "base_url"
    assert all(blank in caught.value.problem for blank in blanks)
    assert preset.base_url in caught.value.fix
    with pytest.raises(ConfigurationError):
        preset.resolve_base_url(preset.base_url)


def test_the_users_url_is_used_without_its_last_slash() -> None:
    assert (
        find_preset("openai").resolve_base_url("https://proxy.example/v1/")
        == "https://proxy.example/v1"
    )


@pytest.mark.parametrize("url", ["proxy.example/v1", "ftp://x", "file:///etc/passwd", " https://x"])
def test_a_url_that_is_not_http_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError, match="http"):
        find_preset("openai").resolve_base_url(url)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("openai", ("authorization", "Bearer k")),
        ("azure", ("api-key", "k")),
        ("gemini", ("x-goog-api-key", "k")),
        ("anthropic", ("x-api-key", "k")),
    ],
)
def test_a_key_is_sent_as_the_provider_wants_it(name: str, header: tuple[str, str]) -> None:
    assert find_preset(name).auth_headers("k") == (header,)


def test_the_headers_of_a_wire_are_not_sent_twice() -> None:
    assert all(not preset.headers for preset in PRESETS.values())


def test_no_key_is_sent_where_there_is_none() -> None:
    assert find_preset("openai").auth_headers("") == ()
    assert find_preset("ollama").auth_headers("k") == ()
    assert find_preset("vllm").auth_headers("k") == (("authorization", "Bearer k"),)


def test_azure_has_the_deployment_in_its_path() -> None:
    path = find_preset("azure").path_for("/chat/completions", "my-gpt")
    assert path.startswith("/openai/deployments/my-gpt/chat/completions?api-version=")
    assert find_preset("groq").path_for("/chat/completions", "any thing") == "/chat/completions"


@pytest.mark.parametrize("model", ["a/../b", "a?b", "a#b", "a b", "", "/a", "a//b", "a%2fb", "a\n"])
def test_a_model_that_would_change_the_path_is_refused(model: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        to_path_segment(model)
    assert caught.value.argument == "model"


def test_the_profiles_of_the_presets() -> None:
    assert find_preset("ollama").profile.ends_without_finish
    assert not find_preset("mistral").profile.stream_usage
    assert find_preset("openai").profile.max_tokens_field == "max_completion_tokens"
    assert find_preset("openai").profile.system_role == "developer"
    assert find_preset("mistral").profile.call_id_length == 9
    assert find_preset("deepseek").profile.reasoning_field == "reasoning_content"
    assert find_preset("openrouter").profile.reasoning == "object"
    assert find_preset("xai").profile == EndpointProfile(output_dialect="xai", tool_dialect="xai")


def test_a_row_survives_json() -> None:
    for preset in PRESETS.values():
        assert msgspec.json.decode(msgspec.json.encode(preset), type=Preset) == preset
