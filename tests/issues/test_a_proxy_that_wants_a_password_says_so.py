"""Status 407 names the proxy and not the key of the provider; a blank proxy variable is none."""

import pytest

from holdfast import Agent
from holdfast.errors import ErrorCategory, TransportError
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import HttpStatus
from holdfast.transport.proxies import find_proxy


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("configured", [True, False])
async def test_a_plain_request_that_a_proxy_refuses_names_the_proxy(
    monkeypatch: pytest.MonkeyPatch, configured: bool
) -> None:
    page = HttpStatus(407, body="<html>Proxy Authentication Required</html>")
    async with Emulator(faults=lambda _: page) as proxy:
        if configured:
            monkeypatch.setenv("http_proxy", proxy.origin)
        base_url = "http://provider.test/v1" if configured else proxy.base_url
        agent = Agent("openai:m", base_url=base_url, api_key="k", clock=FakeClock())
        with pytest.raises(TransportError) as caught:
            await agent.run("go")
        assert len(proxy.requests) == 1
        named = f"the proxy {proxy.origin.removeprefix('http://')}"
    assert (named if configured else "a proxy on the way") in caught.value.info.safe
    assert "user and a password" in caught.value.info.safe
    assert caught.value.info.category is ErrorCategory.CLIENT_ERROR


@pytest.mark.parametrize("blank", ["", " ", "\t"])
def test_a_blank_proxy_variable_is_none(monkeypatch: pytest.MonkeyPatch, blank: str) -> None:
    monkeypatch.setenv("https_proxy", blank)
    assert find_proxy("https", "provider.test") is None
    monkeypatch.setenv("all_proxy", " http://proxy:1 ")
    assert str(find_proxy("https", "provider.test")) == "http://proxy:1"
