import pytest

from adh.tools.hosted_tools import find_hosted_tools
from holdfast.errors import ConfigurationError


@pytest.mark.parametrize(
    ("provider", "names"),
    [
        ("gemini", ["web_search", "web_fetch"]),
        ("anthropic", ["web_search", "web_fetch"]),
        ("groq", []),
        ("ollama", []),
    ],
)
def test_search_is_there_only_where_the_provider_has_it(provider: str, names: list[str]) -> None:
    assert [hosted.name for hosted in find_hosted_tools(provider)] == names


def test_a_provider_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigurationError):
        find_hosted_tools("nobody")
