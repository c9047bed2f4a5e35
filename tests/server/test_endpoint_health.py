"""The health of endpoints, as the service tells it."""

from __future__ import annotations

from starlette.testclient import TestClient

from holdfast import Agent
from holdfast.resilience import BreakerOptions, CircuitBreaker, LimiterOptions, RateLimiter
from holdfast.resilience.budget.retry_budget import RetryBudget
from holdfast.resilience.endpoint_states import EndpointState, EndpointStates
from holdfast.server import create_app
from holdfast.server.api.agent_routes import view_endpoint
from holdfast.testing import Emulator


def test_what_is_known_of_an_endpoint_is_told_together() -> None:
    states = EndpointStates()
    breaker = states.breaker_for("openai:a", BreakerOptions(), "one account")
    limiter = states.limiter_for("openai:a", LimiterOptions(), "one account")
    states.breaker_for("openai:a", BreakerOptions(), "another account")
    first, second = states.all_endpoints()
    assert (first.endpoint, second.endpoint) == ("openai:a", "openai:a")
    both = {first.breaker, second.breaker}
    assert breaker in both
    assert {first.limiter, second.limiter} == {limiter, None}


def test_a_breaker_that_is_open_says_for_how_long() -> None:
    breaker = CircuitBreaker("openai:a")
    breaker.isolate()
    view = view_endpoint(
        EndpointState("openai:a", breaker, RateLimiter("openai:a"), RetryBudget()), now=0.0
    )
    assert view.breaker is not None
    assert (view.breaker.state, view.breaker.seconds) == ("isolated", None)
    assert view.limiter is not None
    assert (view.limiter.running, view.limiter.waiting) == (0, 0)
    assert view.budget is not None
    assert view.budget.retries > 0


def test_the_api_lists_the_endpoints_that_were_called() -> None:
    with Emulator(["Hello."]) as provider:
        agent = Agent("openai:told-in-health", base_url=provider.base_url, api_key="any")
        with TestClient(
            create_app(agent), base_url="http://localhost", client=("127.0.0.1", 1)
        ) as client:
            body = {"agent": "agent", "message": "Hi.", "wait": 10}
            assert client.post("/api/v1/turns", json=body).status_code == 200
            listed = client.get("/api/v1/endpoints").json()
    (mine,) = [one for one in listed if "told-in-health" in one["target"]]
    assert mine["breaker"]["state"] == "closed"
    assert mine["breaker"]["failures"] == 0
