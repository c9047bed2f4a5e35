"""An endpoint that refuses a role or a field of its profile is asked in the next form, which is remembered."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from holdfast import Agent, ModelAt, ModelSettings, ProviderError, RetryOptions, tool
from holdfast.core.messages import assistant, user
from holdfast.errors import HoldfastError
from holdfast.event_log import DisplayFold, NoticeShown
from holdfast.events import AttemptStarted, RequestFormChanged, RetryScheduled
from holdfast.models import ProfileChanges
from holdfast.models.refusals import REFUSALS, STREAM, Refusals
from holdfast.testing import FakeClock
from holdfast.testing.emulator import EmulatedRequest, Emulator, HttpStatus, call
from holdfast.testing.emulator.faults import Delay, ErrorEvent, Fault

NEW: ProfileChanges = {
    "system_role": "developer",
    "max_tokens_field": "max_completion_tokens",
    "parallel_calls": "allow",
}


@tool(effect="read")
def look(city: str) -> str:
    """Look."""
    return city


def agent_at(provider: Emulator, profile: ProfileChanges | None = None, **more: Any) -> Agent[str]:
    given: dict[str, Any] = {
        "instructions": "Be brief.",
        "settings": ModelSettings(max_tokens=9),
        "tools": [look],
        "clock": FakeClock(),
        "retry": RetryOptions(max_retries=2),
        **more,
    }
    model = given.pop("model", "openai:m")
    base_url = provider.base_url
    return Agent(model, base_url=base_url, api_key="k", profile=profile, **given)


def refuse(*words: str) -> Any:
    """Refuse each request that has one of these words outside of its texts, in the words of OpenAI."""

    def find_fault(request: EmulatedRequest) -> Fault | None:
        roles = [one.get("role") for one in _messages(request.body)]
        for word in words:
            if word in roles:
                return HttpStatus(400, body={"error": {"message": f"invalid role '{word}'"}})
            if word in request.body:
                text = f"Unknown parameter: '{word}'."
                return HttpStatus(422, body={"error": {"message": text, "param": word}})
        return None

    return find_fault


def _messages(body: Mapping[str, object]) -> Iterable[dict[str, object]]:
    given = body["messages"]
    assert isinstance(given, list)
    return given


def forms(provider: Emulator) -> list[str]:
    """What each request said, in the words in which servers differ."""
    found = []
    for entry in provider.requests:
        body = entry.body
        assert isinstance(body, dict)
        role = body["messages"][0]["role"]
        names = ("max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls")
        found.append(" ".join([role, *(name for name in names if name in body)]))
    return found


@pytest.mark.parametrize(
    ("profile", "refused", "wanted"),
    [
        (None, ("max_tokens",), "system max_completion_tokens stream_options"),
        (None, ("system",), "user max_tokens stream_options"),
        (None, ("stream_options",), "system max_tokens"),
        (NEW, ("developer",), "system max_completion_tokens stream_options parallel_tool_calls"),
        (
            NEW,
            ("developer", "system"),
            "user max_completion_tokens stream_options parallel_tool_calls",
        ),
        (
            NEW,
            ("developer", "max_completion_tokens", "parallel_tool_calls"),
            "system max_tokens stream_options",
        ),
        (
            NEW,
            ("developer", "max_completion_tokens", "stream_options", "parallel_tool_calls"),
            "system max_tokens",
        ),
    ],
)
async def test_each_refusal_is_answered_once_and_remembered(
    profile: ProfileChanges | None, refused: tuple[str, ...], wanted: str
) -> None:
    async with Emulator(faults=refuse(*refused), strict=False) as provider:
        agent = agent_at(provider, profile)
        async with agent.stream("one") as run:
            items = [item async for item in run]
        assert "one" in run.result.output
        changes = [item for item in items if isinstance(item, RequestFormChanged)]
        assert [one.before for one in changes] == list(refused)
        assert all(one.error.status in (400, 422) and not one.error.private for one in changes)
        assert sum(isinstance(item, AttemptStarted) for item in items) == 1
        assert not any(isinstance(item, RetryScheduled) for item in items)
        fold = DisplayFold("s")
        shown = [one for item in items for one in fold.feed_run(item)]
        notices = [one for one in shown if isinstance(one, NoticeShown)]
        assert [one.fields["after"] for one in notices] == [one.after for one in changes]
        # Another agent of the process knows it at once, and says so.
        other = agent_at(provider, profile)
        assert "two" in (await other.run("two")).output
        assert "learnt: " in other.describe()
        assert forms(provider)[len(refused) :] == [wanted, wanted]


async def test_openai_behind_a_proxy_gets_the_newer_limit() -> None:
    # The emulator refuses as OpenAI does, and thinks of gpt-5.2 as a model that reasons.
    async with Emulator() as provider:
        agent = agent_at(provider, model="openai:gpt-5.2")
        assert "max_completion_tokens" not in agent.describe()
        for text in ("one", "two"):
            assert (await agent.run(text)).output == f"You said: {text}"
        assert [entry.status for entry in provider.requests] == [400, 200, 200]
        assert "learnt: max_tokens_field=max_completion_tokens" in agent.describe()


async def test_a_server_that_refuses_both_forms_is_asked_once_for_each() -> None:
    refused = ("max_tokens", "max_completion_tokens")
    async with Emulator(faults=refuse(*refused), strict=False) as provider:
        agent = agent_at(provider)
        for turn in (1, 2):
            with pytest.raises(ProviderError, match="max_completion_tokens") as caught:
                await agent.run("go")
            assert caught.value.info.status == 422
            assert len(provider.requests) == 2 * turn
        assert "learnt" not in agent.describe()


async def test_four_forms_follow_at_most() -> None:
    refused = (
        "developer",
        "system",
        "max_completion_tokens",
        "stream_options",
        "parallel_tool_calls",
    )
    async with Emulator(faults=refuse(*refused), strict=False) as provider:
        with pytest.raises(ProviderError, match="parallel_tool_calls"):
            await agent_at(provider, NEW).run("go")
        assert len(provider.requests) == 5


async def test_the_last_error_is_the_one_that_is_told() -> None:
    faults = [
        HttpStatus(400, body={"error": {"message": "invalid role 'system'"}}),
        HttpStatus(401, body={"error": {"message": "bad key"}}),
    ]
    async with Emulator(faults=faults, strict=False) as provider:
        agent = agent_at(provider)
        with pytest.raises(HoldfastError) as caught:
            await agent.run("go")
        assert caught.value.info.status == 401
        # Nothing succeeded, so nothing is known.
        assert "learnt" not in agent.describe()
        assert "go" in (await agent.run("go")).output
        assert [form.split()[0] for form in forms(provider)] == ["system", "user", "system"]


async def test_what_the_user_set_is_never_left_out() -> None:
    async with Emulator(
        faults=refuse("parallel_tool_calls", "temperature"), strict=False
    ) as provider:
        for settings in (ModelSettings(parallel_tool_calls=True), ModelSettings(temperature=1)):
            with pytest.raises(ProviderError, match="Unknown parameter"):
                await agent_at(provider, settings=settings, retry=RetryOptions(max_retries=0)).run(
                    "go"
                )
        assert len(provider.requests) == 2


async def test_one_call_at_a_time_is_never_left_out() -> None:
    # Without the field the model would call in parallel.
    forbidding: ProfileChanges = {"parallel_calls": "forbid"}
    async with Emulator(faults=refuse("parallel_tool_calls"), strict=False) as provider:
        with pytest.raises(ProviderError, match="parallel_tool_calls"):
            await agent_at(provider, forbidding).run("go")
        assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"<html><title>400 Bad Request</title>Unknown parameter: 'max_tokens'</html>",
        b"",
        {
            "error": {
                "message": "Bad content: \"Unknown parameter: 'max_tokens'\"",
                "param": "messages",
            }
        },
    ],
)
async def test_a_page_of_a_proxy_and_a_quoted_text_teach_nothing(body: object) -> None:
    async with Emulator(faults=[HttpStatus(400, body=body)], strict=False) as provider:
        with pytest.raises(HoldfastError):
            await agent_at(provider).run("What is \"Unknown parameter: 'max_tokens'\"?")
        assert len(provider.requests) == 1


@pytest.mark.parametrize("after", [0, 2])
async def test_a_refusal_inside_a_stream_is_no_refusal_of_the_request(after: int) -> None:
    body = {
        "error": {"message": "Unknown parameter: 'max_tokens'", "param": "max_tokens", "code": 400}
    }
    error = ErrorEvent(after, body=body)
    async with Emulator(["One two three four."], faults=[error] * 9, strict=False) as provider:
        items: list[object] = []
        observers = [lambda seen: items.append(seen.item)]
        agent = agent_at(provider, retry=RetryOptions(max_retries=0), observers=observers)
        with pytest.raises(HoldfastError):
            await agent.run("go")
        assert any(isinstance(item, AttemptStarted) for item in items)
        assert not any(isinstance(item, RequestFormChanged) for item in items)
        assert set(forms(provider)) == {"system max_tokens stream_options"}


@pytest.mark.parametrize("after", [0, 2])
async def test_an_error_inside_a_stream_teaches_nothing_about_streams(after: int) -> None:
    body = {"error": {"message": "the stream was interrupted", "code": 400}}
    faults = [ErrorEvent(after, body=body)]
    async with Emulator(["One two three four."], faults=faults, strict=False) as provider:
        agent = agent_at(provider, retry=RetryOptions(max_retries=0))
        with pytest.raises(HoldfastError):
            await agent.run("go")
        assert len(provider.requests) == 1
        assert "learnt" not in agent.describe()


async def test_an_error_that_quotes_the_users_stream_teaches_nothing() -> None:
    body = {"error": {"message": "Blocked: 'what is a stream of time?'"}}
    async with Emulator(faults=[HttpStatus(400, body=body)], strict=False) as provider:
        agent = agent_at(provider)
        with pytest.raises(ProviderError):
            await agent.run("what is a stream of time?")
        assert len(provider.requests) == 1
        assert "learnt" not in agent.describe()


async def test_a_cancelled_second_request_teaches_nothing() -> None:
    began = asyncio.Event()

    def find_fault(request: EmulatedRequest) -> Any:
        if "max_tokens" in request.body:
            return refuse("max_tokens")(request)
        began.set()
        return Delay(60.0)

    async with Emulator(faults=find_fault, strict=False) as provider:
        agent = agent_at(provider)
        turn = asyncio.create_task(agent.run("go"))
        await asyncio.wait_for(began.wait(), 60)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert "learnt" not in agent.describe()


async def test_calls_that_learn_at_once_learn_the_same() -> None:
    refused = ("developer", "max_completion_tokens")
    async with Emulator(faults=refuse(*refused), strict=False) as provider:
        agent = agent_at(provider, NEW)
        results = await asyncio.gather(*(agent.run(f"{at}") for at in range(4)))
        assert all(str(at) in result.output for at, result in enumerate(results))
        assert len(provider.requests) <= 12
        before = len(provider.requests)
        await agent.run("last")
        assert len(provider.requests) == before + 1
        assert "learnt: system_role=system, max_tokens_field=max_tokens" in agent.describe()


async def test_a_learnt_form_that_is_refused_later_is_answered_too() -> None:
    refused = ["max_tokens"]

    def find_fault(request: EmulatedRequest) -> Any:
        return refuse(*refused)(request)

    async with Emulator(faults=find_fault, strict=False) as provider:
        agent = agent_at(provider)
        await agent.run("one")
        refused[:] = ["max_completion_tokens"]
        await agent.run("two")
        await agent.run("three")
        assert [form.split()[1] for form in forms(provider)] == [
            *("max_tokens", "max_completion_tokens", "max_completion_tokens"),
            *("max_tokens", "max_tokens"),
        ]


async def test_a_fallback_learns_its_own_forms_and_the_first_model_keeps_its_own() -> None:
    def of_the_first(request: EmulatedRequest) -> Fault | None:
        return refuse("max_tokens")(request) or (HttpStatus(503) if is_down else None)

    is_down = True
    async with (
        Emulator(faults=of_the_first, strict=False) as first,
        Emulator(faults=refuse("system"), strict=False) as second,
    ):
        other = ModelAt("openai:m", base_url=second.base_url, api_key="k", name="other")
        agent = agent_at(first, fallback=[other], retry=RetryOptions(max_retries=0))
        async with agent.stream("one") as run:
            items = [item async for item in run]
        assert "one" in run.result.output
        changes = [item for item in items if isinstance(item, RequestFormChanged)]
        assert [(one.target, one.before, one.after) for one in changes] == [
            ("openai:m", "max_tokens", "max_completion_tokens"),
            ("other", "system", "user"),
        ]
        # The first one never answered in its next form, so nothing is known of it.
        assert "learnt" not in agent.describe()
        assert "learnt: system_role=user" in agent_at(second).describe()
        is_down = False
        await agent.run("two")
        await agent.run("three")
        assert forms(first) == [
            *("system max_tokens stream_options", "system max_completion_tokens stream_options")
            * 2,
            "system max_completion_tokens stream_options",
        ]
        assert forms(second) == [
            "system max_tokens stream_options",
            "user max_tokens stream_options",
        ]


async def test_an_attempt_that_fails_in_its_next_form_begins_again_in_the_first_one() -> None:
    answers = iter([HttpStatus(503), None])

    def find_fault(request: EmulatedRequest) -> Fault | None:
        return refuse("max_tokens")(request) or next(answers, None)

    async with Emulator(faults=find_fault, strict=False) as provider:
        agent = agent_at(provider, retry=RetryOptions(max_retries=1))
        await agent.run("one")
        assert [entry.status for entry in provider.requests] == [422, 503, 422, 200]
        await agent.run("two")
        assert provider.requests[-1].status == 200
        assert len(provider.requests) == 5


PROGRAM = """
import asyncio, sys
from holdfast import Agent, ModelSettings, RetryOptions, tool

@tool(effect="write")
def book(city: str) -> str:
    "Book."
    with open(sys.argv[3], "a") as file:
        file.write(city)
    return "booked"

agent = Agent("openai:m", base_url=sys.argv[1], api_key="k", tools=[book], instructions="Be brief.",
              settings=ModelSettings(max_tokens=9), journal="sqlite:///" + sys.argv[2],
              retry=RetryOptions(max_retries=0))
asyncio.run(agent.recover() if sys.argv[4:] else agent.run("Book."))
"""


@pytest.mark.slow  # kills processes
@pytest.mark.parametrize("killed_at", [2, 3])
def test_after_a_kill_a_form_is_learnt_again_and_no_tool_runs_twice(
    tmp_path: Path, killed_at: int
) -> None:
    """Killed while the second form is asked for the first time, or for the result of the tool."""
    processes: list[subprocess.Popen[bytes]] = []

    def find_fault(request: EmulatedRequest) -> Fault | None:
        if len(provider.requests) == killed_at and len(processes) == 1:
            processes[0].send_signal(signal.SIGKILL)
            return Delay(60.0)
        return refuse("max_tokens")(request)

    def reply(request: EmulatedRequest) -> Any:
        return "Done." if request.messages[-1].role == "tool" else call("book", {"city": "Porto"})

    program, booked = tmp_path / "program.py", tmp_path / "booked.txt"
    program.write_text(PROGRAM)
    with Emulator(reply, faults=find_fault, strict=False) as provider:
        command = [sys.executable, program, provider.base_url, tmp_path / "runs.db", booked]
        for more in ([], ["again"]):
            processes.append(subprocess.Popen([*command, *more]))
            processes[-1].wait(60)
        assert [one.returncode for one in processes] == [-signal.SIGKILL, 0]
        sent = ["new" if "max_completion_tokens" in form else "old" for form in forms(provider)]
    # The second process knows nothing: it is refused once, and then knows.
    rest = ["old", "new"] if killed_at == 3 else ["old", "new", "new"]
    assert sent == [*["old", "new", "new"][:killed_at], *rest]
    assert booked.read_text() == "Porto"


async def test_a_server_without_a_role_for_instructions_gets_them_in_the_first_message() -> None:
    async with Emulator(faults=refuse("system"), strict=False) as provider:
        agent = agent_at(provider, tools=[])
        history = [user("One?"), assistant("One."), user("Two?")]
        await agent.run("Three?", history=history)
        body = provider.requests[-1].body
        assert isinstance(body, dict)
        assert [(one["role"], one["content"]) for one in body["messages"]] == [
            ("user", "Be brief.\n\nOne?"),
            ("assistant", "One."),
            ("user", "Two?\n\nThree?"),
        ]


async def test_a_refused_stream_is_told_and_shown() -> None:
    def find_fault(request: EmulatedRequest) -> Fault | None:
        text = "Your organization must be verified to stream this model."
        error = HttpStatus(400, body={"error": {"message": text, "param": "stream"}})
        return error if request.stream else None

    async with Emulator(faults=find_fault) as provider:
        agent = agent_at(provider)
        async with agent.stream("go") as run:
            changes = [item async for item in run if isinstance(item, RequestFormChanged)]
        assert [(one.field, one.after) for one in changes] == [("stream", "")]
        assert "learnt: no stream" in agent.describe()


@pytest.mark.parametrize(
    "text", ["Where can I stream it?", "streaming", "Say 'cannot stream this'"]
)
async def test_a_quoted_text_about_streams_is_no_refusal_to_stream(text: str) -> None:
    body = {"error": {"message": f"The input was flagged: {text!r}"}}
    async with Emulator(faults=[HttpStatus(400, body=body)]) as provider:
        with pytest.raises(HoldfastError):
            await agent_at(provider).run(text)
        assert len(provider.requests) == 1


async def test_a_server_that_wants_streams_again_gets_them() -> None:
    wants_streams: list[bool | None] = [False]

    def find_fault(request: EmulatedRequest) -> Fault | None:
        error = HttpStatus(400, body={"error": {"message": "stream has a wrong value"}})
        return error if request.stream is not wants_streams[0] else None

    async with Emulator(faults=find_fault, strict=False) as provider:
        agent = agent_at(provider)
        await agent.run("one")
        assert "learnt: no stream" in agent.describe()
        wants_streams[0] = True
        await agent.run("two")
        await agent.run("three")
        assert "learnt: stream" in agent.describe()
        streamed = ["'stream': True" in str(entry.body) for entry in provider.requests]
        assert streamed == [True, False, False, True, True]
        # Each is tried once: a server that wants neither is asked twice.
        wants_streams[0] = None
        with pytest.raises(ProviderError):
            await agent.run("four")
        assert len(provider.requests) == 7


def test_the_memory_is_bounded_and_forgets_the_oldest() -> None:
    refusals = Refusals(most=2)
    for model in ("a", "b", "a", "c"):
        refusals.learn("account", model, {STREAM: ""})
    assert [bool(refusals.find("account", model)) for model in "abc"] == [True, False, True]
    for at in range(300):
        refusals.learn("account", "a", {("output_mode", "native", str(at)): "tool"})
    known = refusals.find("account", "a")
    assert len(known) == 256
    assert ("output_mode", "native", "299") in known
    assert refusals.find("account", "a") is known
    assert not REFUSALS.find("no account", "a")


def test_threads_lose_nothing() -> None:
    refusals = Refusals()

    def learn(name: str) -> None:
        for at in range(20):
            refusals.learn("account", "m", {(name, str(at)): "x"})

    threads = [Thread(target=learn, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals.find("account", "m")) == 80
