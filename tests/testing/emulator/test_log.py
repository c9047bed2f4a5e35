"""The log holds no secrets, and says by whose rules a request was refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, HoldfastError, ModelSettings
from holdfast.testing import Emulator
from holdfast.testing.emulator.faults import DropAfter
from holdfast.testing.emulator.serving import LoggedRequest, mask_headers, mask_path

KEY = st.text(st.characters(categories=["L", "N"]), min_size=12, max_size=40)


@given(KEY, st.sampled_from(["authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"]))
def test_secret_headers(key: str, name: str) -> None:
    masked = mask_headers({name: f"Bearer {key}", "accept": "*/*"})
    assert masked == {name: "[masked]", "accept": "*/*"}


@given(KEY, st.sampled_from(["key", "api_key", "api-key", "KEY", "token", "access_token"]))
def test_secret_queries(key: str, name: str) -> None:
    path = mask_path(f"/v1/models?alt=sse&{name}={key}&b=1")
    assert key not in path
    assert path.endswith("&b=1")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models?alt=sse", "/keys?monkey=1"])
def test_what_is_not_secret_stays(path: str) -> None:
    assert mask_path(path) == path


def test_a_line_for_a_terminal() -> None:
    entry = LoggedRequest(
        number=3,
        method="POST",
        path="/v1/chat/completions",
        headers={},
        body=None,
        connection=1,
        received=0.0,
        faults=(DropAfter(2),),
        client_gone=True,
        problem="no reply left",
    )
    assert entry.format_line() == (
        "#3 POST /v1/chat/completions no response; faults: DropAfter; the client closed the connection; "
        "no reply left"
    )


def test_the_log_names_the_provider_by_whose_rules_a_request_is_refused() -> None:
    with Emulator(["Hi."]) as emulator:
        agent = Agent("deepseek:deepseek-chat", base_url=emulator.base_url, api_key="k")
        settings = ModelSettings(reasoning_effort="high")
        with pytest.raises(HoldfastError):
            agent.run_sync("Hello?", settings=settings)
        (refused,) = emulator.requests
    assert refused.problem.endswith("(by the rules of 'openai'; choose others with dress=)")
    with Emulator(["Hi."], dress="deepseek") as emulator:
        agent = Agent("deepseek:deepseek-chat", base_url=emulator.base_url, api_key="k")
        assert agent.run_sync("Hello?", settings=settings).output == "Hi."
