"""What the providers that a page names answer while its examples run: emulators on loopback.

The pages name real models. The gate leads each provider to an emulator, and sets a made-up key.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import msgspec

from holdfast.journal import url
from holdfast.models import presets
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    call,
    cited,
    hosted_call,
)

_REAL = presets.PRESETS


def _answer_about_porto(request: EmulatedRequest) -> object:
    if "Where is Porto?" in request.text:
        return "Porto is in Portugal."
    if "What is the weather" in request.text and not request.tool_results:
        return [call("weather", {"city": "Porto"})]
    return "It is 18 degrees and clear in Porto."


def _overloaded_once() -> Callable[[EmulatedRequest], Fault | None]:
    faults: list[Fault] = [ErrorResponse("overloaded", {"retry-after-ms": "1"})]
    return lambda request: faults.pop() if faults and "Where is Porto?" in request.text else None


def _invoices() -> Emulator:
    """Reads invoices but one, and refuses the first request about another."""
    refused = ["#42 "]

    def read(request: EmulatedRequest) -> str:
        number = str(request.body).split("#")[1].split()[0]
        return "illegible" if number == "13" else json.dumps({"number": number, "euros": 20})

    def refuse(request: EmulatedRequest) -> Fault | None:
        if not any(number in request.text for number in refused):
            return None
        refused.clear()
        return ErrorResponse("bad_key")

    return Emulator(read, faults=refuse)


def _sdk_calls() -> Emulator:
    routine = '{"agent_final_response": "Porto is in Portugal.", "routine_number": 2}'
    overloaded = ErrorResponse("overloaded", {"retry-after-ms": "1"})

    def reply(request: EmulatedRequest) -> str:
        if "Describe Porto" in request.text:
            is_second = "does not have the required form" in request.text
            return json.dumps({"name": "Porto"} | ({"country": "Portugal"} if is_second else {}))
        return routine if "JSON" in request.text else "Porto is in Portugal."

    return Emulator(
        reply,
        faults=[overloaded, None, None, None, None, None, ErrorResponse("bad_key")],
    )


def _shop() -> Emulator:
    def serve(request: EmulatedRequest) -> object:
        asked, answer = _SHOP[request.text]
        return answer if request.tool_results else [asked]

    return Emulator(serve)


_SHOP = {
    "What did I order?": (call("list_orders", {}), "A lamp and a chair."),
    "Cancel order 9.": (call("cancel_order", {"number": 9}), "You have no order 9."),
    "How many letters are there?": (call("count_letters", {}), "One letter."),
}


def _support() -> Emulator:
    paying = ["I ask for your 10 euros.", call("refund", {"order": "A1", "euros": 10})]
    return Emulator([paying, "Done."], faults=[DropAfter(3)])


def _refunds() -> Emulator:
    """Asks for a refund in each conversation; its first reply breaks off."""

    def reply(request: EmulatedRequest) -> object:
        if request.tool_results:
            return "Done."
        return ["I ask for your 10 euros.", call("refund", {"order": "A1", "euros": 10})]

    return Emulator(reply, faults=[DropAfter(3)])


def _newspaper() -> Emulator:
    article = "Publish 'The bridge': It opened in 1886. It has had a tram since 1926."
    facts = "It opened in 1886. It has had a tram since 1926."
    replies: dict[str, list[object]] = {
        "gpt-5.2": [
            [call("researcher", {"task": "Facts about the bridge, for a short article."})],
            [call("publisher", {"task": article})],
            "The article is published.",
        ],
        "gpt-5-mini": [[call("search_archive", {"words": "bridge"})], facts],
        "gpt-5-nano": [
            [call("publish", {"title": "The bridge", "text": facts})],
            "It is published.",
        ],
    }

    def reply(request: EmulatedRequest) -> object:
        if request.text == "Publish 'The bridge': It opened in 1886.":
            own = {"gpt-5.2": [*replies["gpt-5.2"][1:2], "I may not publish."]}
            return {**replies, **own}[request.model][request.iteration]
        return replies[request.model][request.iteration]

    return Emulator(reply)


def _compared() -> Emulator:
    """Answers the same to two libraries, and is overloaded once for each of them."""
    late = {"Is it late?", "Is it early?"}

    def reply(request: EmulatedRequest) -> object:
        if "How much money" in request.text:
            asked, answer = call("find_balance", {"customer": "Ana"}), "Ana has 20 euros."
        elif "Delete a.txt." in request.text:
            asked, answer = call("delete_file", {"path": "a.txt"}), "a.txt is deleted."
        elif "Ana pays" in request.text:
            invoice = {"customer": "Ana", "euros": 20}
            return [call(request.tools[0].name, invoice)] if request.tools else json.dumps(invoice)
        else:
            return "No." if "Is it" in request.text else "Once upon a time."
        return answer if request.tool_results else [asked]

    def refuse_once(request: EmulatedRequest) -> Fault | None:
        if request.text not in late:
            return None
        late.remove(request.text)
        return ErrorResponse("overloaded", {"retry-after-ms": "1"})

    return Emulator(reply, faults=refuse_once)


def _hello() -> Emulator:
    return Emulator(lambda _: "Hello.")


def _searched() -> Emulator:
    found = hosted_call(
        "web_search", {"query": "bridges of Porto"}, pages=["https://porto.pt/bridges"]
    )
    bridges = cited(
        "six bridges over the Douro", "https://porto.pt/bridges", "The bridges of Porto"
    )
    return Emulator([[found, "Porto has ", bridges, "."]])


def _found_tools() -> Emulator:
    query = {"query": "cancel delivery branch3"}
    found = hosted_call("tool_search", query, pages=["branch3_cancel_shipment"])
    return Emulator(
        [[found, call("branch3_cancel_shipment", {"id": 7})], "The delivery is cancelled."]
    )


def _served_shop() -> Emulator:
    def reply(request: EmulatedRequest) -> object:
        if "near me" in request.text:
            return "The shop in Porto is." if request.tool_results else [call("locate", {})]
        if "order A1" in request.text and not request.tool_results:
            return [call("find_order", {"order": "A1"})]
        return "It was sent yesterday." if "order A1" in request.text else "You are welcome."

    return Emulator(reply)


def _people() -> Emulator:
    """Answers with the object that is asked for; a first answer to one question is wrong."""

    def reply(request: EmulatedRequest) -> object:
        john: dict[str, object] = {"name": "John", "age": 25}
        if "5 or 25" in str(request.body) and "does not have" not in request.text:
            john["age"] = 5
        elif "Porto" in request.text:
            john["addresses"] = [{"street": "Rua A 1", "city": "Porto", "country": "Portugal"}]
        elif "iPhone" in request.text:
            john = {"name": "iPhone 15 Pro", "price": 999, "in_stock": True}
        elif "Nothing" in request.text:
            john = {"name": "nobody"}
        return call(request.tools[0].name, john) if request.tools else json.dumps(john)

    return Emulator(reply)


STAND_INS: Mapping[str, Mapping[str, Callable[[], Emulator]]] = {
    "README.md": {"openai": lambda: Emulator(_answer_about_porto, faults=_overloaded_once())},
    "docs/tutorial.md": {"anthropic": lambda: Emulator(["It is in Portugal."])},
    "docs/how-to/choose-a-model.md": {"openai": _hello, "anthropic": _hello, "gemini": _hello},
    "docs/how-to/come-from-instructor.md": {"openai": _people, "anthropic": _people},
    "docs/how-to/come-from-pydantic-ai.md": {"openai": _compared},
    "docs/how-to/connect-a-front-end.md": {"openai": _refunds},
    "docs/how-to/deploy.md": {"openai": _hello},
    "docs/how-to/keys-and-access.md": {"openai": _hello},
    "docs/how-to/pass-a-database-to-tools.md": {"openai": _shop},
    "docs/how-to/queue-turns.md": {"openai": _hello},
    "docs/how-to/run-a-batch.md": {"openai": _invoices},
    "docs/how-to/run-many-workers.md": {"openai": _hello},
    "docs/how-to/serve-with-fastapi.md": {"openai": _support},
    "docs/how-to/speak-openais-protocols.md": {"openai": _served_shop},
    "docs/how-to/survive-a-crash.md": {"openai": _hello},
    "docs/how-to/use-several-agents.md": {"openai": _newspaper},
    "docs/how-to/use-many-tools.md": {"anthropic": _found_tools},
    "docs/how-to/use-provider-tools.md": {
        "anthropic": _searched,
        "openai-responses": _searched,
        "gemini": _searched,
    },
    "docs/how-to/use-the-pieces-around-an-sdk-call.md": {"openai": _sdk_calls},
}
"""By page and provider."""


@contextmanager
def answer_for(page: str) -> Iterator[None]:
    """Let the providers that a page names answer, and close its journals at its end."""
    with ExitStack() as started:
        for provider, make_emulator in STAND_INS.get(page, {}).items():
            started.enter_context(_answer(provider, make_emulator()))
        yield
        for journal in list(url._open.values()):
            journal.close()


@contextmanager
def _answer(provider: str, stand_in: Emulator) -> Iterator[None]:
    preset = _REAL[provider]
    with stand_in as emulator:
        base_url = emulator.base_url_for(preset.wire)
        presets.PRESETS = {
            **presets.PRESETS,
            provider: msgspec.structs.replace(preset, base_url=base_url),
        }
        settings = dict.fromkeys(preset.key_env, "made-up")
        # The vendor's own SDK reads its address from the environment.
        settings[f"{provider.upper()}_BASE_URL"] = base_url
        with patch.dict(os.environ, settings):
            yield
    presets.PRESETS = _REAL
