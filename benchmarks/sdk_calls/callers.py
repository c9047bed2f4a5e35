"""The callers: `python -m benchmarks.sdk_calls.callers WAY`, which reads a line for each call and writes one.

Those of others run in an environment of their own, `benchmarks/sdk_peers`. Each is written as its README shows it, with
three attempts where it takes a number. This module must import nothing of Holdfast but in the caller of Holdfast.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import openai
from pydantic import BaseModel

QUESTION = "Who is Ana?"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]
TIMEOUT = 1.0
_ATTEMPTS = 3


class Person(BaseModel):
    """What the model is asked for."""

    name: str
    age: int


Ask = Callable[[str], Any]
Ways = tuple[Ask, Ask]
"""A call that returns a typed answer, and one that returns the text of a stream; both take the base URL."""


def make_client(url: str, **options: Any) -> Any:
    """Return OpenAI's client."""
    return openai.OpenAI(base_url=url, api_key="any", timeout=TIMEOUT, **options)


def ask_sdk(url: str, **options: Any) -> object:
    """Ask with the SDK's own helper for types."""
    create = make_client(url, **options).chat.completions.parse
    response = create(model="gpt-5.2", messages=MESSAGES, response_format=Person)
    return response.choices[0].message.parsed


def stream_sdk(url: str, **options: Any) -> object:
    """Read a stream to its end."""
    create = make_client(url, **options).chat.completions.create
    chunks = create(model="gpt-5.2", messages=MESSAGES, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def use_sdk() -> Ways:
    """The SDK alone: it repeats a request twice."""
    return ask_sdk, stream_sdk


def use_tenacity() -> Ways:
    """Tenacity around the SDK, whose own retries are off."""
    from tenacity import retry, stop_after_attempt, wait_exponential  # noqa: PLC0415

    again = retry(stop=stop_after_attempt(_ATTEMPTS), wait=wait_exponential())
    return again(partial(ask_sdk, max_retries=0)), again(partial(stream_sdk, max_retries=0))


def use_stamina() -> Ways:
    """Stamina around the SDK, whose own retries are off."""
    import stamina  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    again = stamina.retry(on=openai.APIError, attempts=_ATTEMPTS)

    def ask(url: str) -> object:
        return ask_sdk(url, max_retries=0)

    def stream(url: str) -> object:
        return stream_sdk(url, max_retries=0)

    return again(ask), again(stream)


def use_instructor() -> Ways:
    """Instructor, which makes the client itself."""
    import instructor  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    def make(url: str) -> Any:
        options = {"base_url": url, "api_key": "any", "timeout": TIMEOUT}
        return instructor.from_provider("openai/gpt-5.2", **options).chat.completions

    def ask(url: str) -> object:
        return make(url).create(response_model=Person, messages=MESSAGES, max_retries=_ATTEMPTS)

    def stream(url: str) -> object:
        grown = make(url).create(
            response_model=instructor.Partial[Person], messages=MESSAGES, stream=True
        )
        return list(grown)[-1]

    return ask, stream


def use_holdfast() -> Ways:
    """Holdfast around the SDK, whose own retries are off."""
    from holdfast.calls import (  # noqa: PLC0415
        resilient,
        send_message,
        send_message_streaming,
    )

    def ask(url: str) -> object:
        create = make_client(url, max_retries=0).chat.completions.create
        call = partial(send_message, partial(create, model="gpt-5.2"), output=Person)
        return resilient(call)(QUESTION).require_output()

    def stream(url: str) -> object:
        create = make_client(url, max_retries=0).chat.completions.create
        call = partial(create, model="gpt-5.2", messages=MESSAGES, stream=True)
        result = resilient(partial(send_message_streaming, call))()
        return result.text

    return ask, stream


WAYS: dict[str, Callable[[], Ways]] = {
    "the SDK alone": use_sdk,
    "tenacity": use_tenacity,
    "stamina": use_stamina,
    "instructor": use_instructor,
    "Holdfast": use_holdfast,
}


def tell_outcome(ask: Ask, url: str) -> dict[str, object]:
    """Make a call, and return what its caller was told."""
    try:
        answer = ask(url)
    except Exception as error:  # noqa: BLE001  # REASON: each library has its own
        return {"error": type(error).__name__, "is_sdk_error": isinstance(error, openai.APIError)}
    if isinstance(answer, BaseModel):
        answer = answer.model_dump()
    return {"answer": answer}


def main() -> None:
    """Make one call for each line."""
    ask, stream = WAYS[sys.argv[1]]()
    for line in sys.stdin:
        given = json.loads(line)
        told = tell_outcome(stream if given["is_stream"] else ask, given["url"])
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
