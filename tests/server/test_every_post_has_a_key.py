"""An idempotency key names one request of every POST: repeated it is answered, with another body refused."""

from __future__ import annotations

import msgspec
from tests.server.every_route import Caller, list_trials, make_protected_app
from tests.server.serving import Answer, serve

OF_PERSONS = {"POST /console/sign-in", "POST /console/sign-out"}
"""Routes that a browser calls for a person; to repeat them is harmless."""

NOT_SERVED = {"POST /v1/responses/compact", "POST /v1/conversations/{conversation}/items"}
"""Routes that only say what to call instead."""


def encode(body: object) -> str:
    """Return a body as text."""
    return msgspec.json.encode(body).decode()


def is_refusal(answer: Answer) -> bool:
    """Whether an answer is the refusal of a key that had another body."""
    text = answer.body  # OpenAI says 400
    return answer.status in (400, 422) and b"idempotency_key" in text


async def test_a_key_names_one_request_of_every_post() -> None:
    app = make_protected_app()
    performed, routes = set(), set()
    async with serve(app) as base:
        caller = await Caller.make(app, base, "alpha", "admin")
        found = await caller.build_world("ALPHA")
        for number, (route, trial) in enumerate(list_trials(app)):
            if not route.startswith("POST") or route in OF_PERSONS | NOT_SERVED:
                continue
            routes.add(route)
            key = {"Idempotency-Key": f"k{number}"}
            first = await caller.send("POST", trial, found, **key)
            if first.status >= 300:
                continue
            performed.add(route)
            again = await caller.send("POST", trial, found, **key)
            assert again.status < 300, (route, again)
            text = trial.body if isinstance(trial.body, str) else encode(trial.body)
            longer = msgspec.structs.replace(trial, body=f"{text}\n")
            other = await caller.send("POST", longer, found, **key)
            assert is_refusal(other), (route, first, other)
        await caller.close()
    assert routes == performed
