"""`Agent.map`: order, limits, failures, cancellation, and batches that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Agent,
    HoldfastError,
    MemoryJournal,
    RetryOptions,
    SqliteJournal,
    StructuredOutput,
    ToolCall,
    tool,
)
from holdfast.batches import BatchItem, BatchProgress, BatchResult
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.errors import ConfigurationError, ProviderError
from holdfast.models import Prices
from holdfast.testing import FakeClock, ScriptedModel


class Answers:
    """A model that answers each prompt, and counts what is in progress."""

    def __init__(self, answer: Any = str.upper, seconds: float = 0.0) -> None:
        self.prompts: list[str] = []
        self.now = self.most = 0
        self._answer = answer
        self._seconds = seconds

    async def __call__(self, request: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        prompt = next(one.text for one in request.messages if one.role == "user")
        self.prompts.append(prompt)
        try:
            await asyncio.sleep(self._seconds)
            return self._answer(prompt)
        finally:
            self.now -= 1

    def agent(self, times: int = 1000, **keywords: Any) -> Agent[Any, Any]:
        return Agent(ScriptedModel(*[self] * times), **keywords)


PRICES = Prices({"*": {"input": "100000", "output": "100000"}})


def refuse(prompt: str, bad: str = "b", category: ErrorCategory = ErrorCategory.AUTH_ERROR) -> Any:
    if prompt == bad:
        return ProviderError("no", info=ErrorInfo(category=category, safe="no"))
    return prompt.upper()


async def test_the_outcomes_are_in_the_order_of_the_items() -> None:
    def slow_first(prompt: str) -> str:
        return prompt.upper()

    answers = Answers(slow_first, seconds=0.01)
    result = await answers.agent().map(list("abcdef"), parallel=3)
    assert isinstance(result, BatchResult)
    assert result.outputs == list("ABCDEF")
    assert [one.index for one in result.items] == list(range(6))
    assert answers.most == 3
    assert (result.failures, result.usage.total, result.cost) == ((), 90, None)
    assert str(result).startswith("6 items: 6 done, 0 failed, 90 tokens, ")


async def test_items_become_prompts_by_a_function() -> None:
    answers = Answers()
    items = [{"text": "a"}, {"text": "b"}]
    result = await answers.agent().map(items, prompt=lambda item: item["text"])
    assert result.outputs == ["A", "B"]
    assert result.items[1].item == {"text": "b"}


async def test_one_item_that_fails_stops_no_other() -> None:
    result = await Answers(refuse).agent(prices=PRICES).map(list("abc"))
    assert result.outputs == ["A", None, "C"]
    (failed,) = result.failures
    assert (failed.index, failed.item) == (1, "b")
    with pytest.raises(ProviderError, match="no"):
        _ = failed.output
    assert (str(result.cost), len(result.items)) == ("3 USD", 3)


async def test_all_items_fail() -> None:
    result = await Answers(lambda prompt: refuse(prompt, prompt)).agent().map(list("abc"))
    assert result.outputs == [None] * 3
    assert len(result.failures) == 3


async def test_no_items() -> None:
    result = await Answers().agent().map([])
    assert (result.items, result.usage.total) == ((), 0)


async def test_a_function_of_an_item_that_raises_is_the_failure_of_that_item() -> None:
    result = await Answers().agent().map([1, 0], prompt=lambda item: f"{1 // item}")
    assert result.outputs == ["1", None]
    assert isinstance(result.items[1].error, ZeroDivisionError)


async def test_an_item_that_is_no_prompt_fails_with_the_reason() -> None:
    bad: Any = ["a", 5]
    result = await Answers().agent().map(bad)
    assert "prompt" in str(result.items[1].error)


async def test_stop_raises_the_first_error_and_closes_the_turns_in_progress() -> None:
    answers = Answers(refuse, seconds=0.01)
    with pytest.raises(ProviderError, match="no"):
        await answers.agent().map(list("b" + "a" * 50), parallel=4, on_error="stop")
    assert answers.now == 0
    assert len(answers.prompts) < 12


async def test_retries_are_for_failures_that_may_pass() -> None:
    tries: list[str] = []

    def sometimes(prompt: str) -> Any:
        tries.append(prompt)
        if prompt == "key":
            return refuse("b")
        return refuse("b", category=ErrorCategory.UNKNOWN) if len(tries) < 3 else "done"

    agent = Answers(sometimes).agent(clock=FakeClock(), retry=RetryOptions(max_retries=0))
    result = await agent.map(["flaky", "key"], retries=2, parallel=1)
    assert (result.outputs, tries) == (["done", None], ["flaky", "flaky", "flaky", "key"])
    assert [one.attempts for one in result.items] == [3, 1]


async def test_a_retry_does_not_run_finished_tools_again() -> None:
    paid: list[int] = []

    @tool(effect="write")
    def pay(amount: int) -> str:
        paid.append(amount)
        return "paid"

    replies: list[Any] = [
        ToolCall("1", "pay", '{"amount": 5}'),
        refuse("b", category=ErrorCategory.UNKNOWN),
        "done",
    ]
    agent = Agent(ScriptedModel(*replies), tools=[pay], clock=FakeClock())
    result = await agent.map(["go"], retries=1)
    assert (result.outputs, paid) == (["done"], [5])


async def test_no_item_starts_after_the_limit_of_tokens() -> None:
    answers = Answers()
    result = await answers.agent().map(list("abcdefgh"), parallel=1, tokens=40)
    assert (result.outputs, result.ended_by) == (["A", "B", "C"], "tokens")
    assert "ended by the limit of tokens" in str(result)


class TestSources:
    async def test_an_async_generator_is_taken_as_items_can_begin(self) -> None:
        taken: list[int] = []

        async def numbers() -> AsyncIterator[str]:
            for number in range(1000):
                taken.append(number)
                yield str(number)

        seen = 0
        async for _ in Answers().agent().map(numbers(), parallel=2):
            seen += 1
            assert len(taken) <= seen + 4
            if seen == 10:
                break
        assert len(taken) < 20

    @pytest.mark.slow  # takes half a second or more
    async def test_memory_does_not_grow_with_the_items(self) -> None:
        def documents() -> Iterator[str]:
            for number in range(400):
                yield f"{number} " + "x" * 20_000

        def short(_: str) -> str:
            return "ok"

        tracemalloc.start()
        try:
            answers = Answers(short)
            agent = Agent(Constant())
            done = 0
            async for outcome in agent.map(documents(), parallel=4):
                done += outcome.error is None
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (done, answers.prompts) == (400, [])
        assert peak < 4_000_000  # the texts alone have 8 MB

    async def test_a_source_that_raises_ends_the_batch(self) -> None:
        def broken() -> Iterator[str]:
            yield "a"
            raise OSError("the file is gone")

        answers = Answers(seconds=0.01)
        with pytest.raises(OSError, match="the file is gone"):
            await answers.agent().map(broken())
        assert answers.now == 0

    @pytest.mark.parametrize("items", ["abc", 5, None])
    def test_what_is_no_list_is_refused(self, items: Any) -> None:
        with pytest.raises(ConfigurationError, match="items: must be a list or a generator"):
            Answers().agent().map(items)

    async def test_a_batch_runs_once(self) -> None:
        batch = Answers().agent().map(["a"])
        await batch
        with pytest.raises(ConfigurationError, match="runs once"):
            await batch


class Constant:
    """A model that keeps nothing."""

    name = model = "constant"
    account = "constant"

    def describe(self) -> dict[str, object]:
        return {}

    async def attempt(self, call: Any) -> Any:
        from holdfast.core.messages import Reply, Text
        from holdfast.resilience.pipeline import Done

        return Done(Reply((Text("ok"),)))


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"parallel": 0}, "parallel"),
        ({"on_error": "ignore"}, "on_error"),
        ({"retries": -1}, "retries"),
        ({"tokens": 0}, "tokens"),
        ({"name": "n"}, "journal: there is none to save the batch"),
        ({"journal": 5}, "journal: must be"),
        ({"progress": "yes"}, "progress"),
        ({"retry": 3}, "retry: is not a keyword of map.*retries"),
    ],
)
def test_wrong_arguments_are_named_at_once(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Answers().agent().map(["a"], **keywords)


class TestJournals:
    async def test_the_same_batch_asks_only_for_what_is_missing(self) -> None:
        journal, answers = MemoryJournal(), Answers(refuse)
        first = await answers.agent().map(list("abc"), journal=journal)
        assert first.outputs == ["A", None, "C"]
        again = Answers()
        second = await again.agent().map(list("abcd"), journal=journal)
        assert (second.outputs, sorted(again.prompts)) == (list("ABCD"), ["b", "d"])
        # An item with other words is another item, and so is the same one in another batch.
        await again.agent().map(["x", "b"], journal=journal)
        await again.agent().map(["a"], journal=journal, name="other")
        assert sorted(again.prompts) == ["a", "b", "d", "x"]

    async def test_a_key_of_the_user_identifies_an_item(self) -> None:
        journal, answers = MemoryJournal(), Answers()
        agent = answers.agent(journal=journal)
        await agent.map(["one", "two"], key=lambda item: item[:1], name="n")
        result = await agent.map(["tea", "oil", "six"], key=lambda item: item[:1], name="n")
        assert result.outputs == ["TWO", "ONE", "SIX"]

    async def test_two_batches_at_once_run_each_item_once(self) -> None:
        journal, answers = MemoryJournal(), Answers(seconds=0.005)
        agent = answers.agent()
        items = [str(number) for number in range(20)]
        both = await asyncio.gather(
            *(asyncio.ensure_future(collect(agent, items, journal)) for _ in range(2))
        )
        assert both == [items, items]
        assert sorted(answers.prompts) == sorted(items)

    async def test_an_output_function_is_called_once_for_each_item(self) -> None:
        booked: list[str] = []

        def book(room: str) -> str:
            booked.append(room)
            return f"{room} booked"

        journal = MemoryJournal()
        answers = Answers(lambda prompt: json.dumps({"room": prompt}))
        agent = answers.agent(output=StructuredOutput(book), journal=journal)
        for _ in range(2):
            result = await agent.map(["red", "blue"], name="rooms", parallel=1)
            assert result.outputs == ["red booked", "blue booked"]
        assert booked == ["red", "blue"]


async def collect(agent: Agent[Any, Any], items: list[str], journal: Any) -> list[Any]:
    return (await agent.map(items, journal=journal, parallel=4)).outputs


class TestCancellation:
    async def test_a_cancelled_batch_closes_its_turns_and_continues_later(self) -> None:
        journal, answers = MemoryJournal(), Answers(seconds=0.02)
        task = asyncio.ensure_future(collect(answers.agent(), list("abcdefgh"), journal))
        while len(answers.prompts) < 6:  # four at once, so some are done
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert answers.now == 0
        again = Answers()
        assert await collect(again.agent(), list("abcdefgh"), journal) == list("ABCDEFGH")
        assert 0 < len(again.prompts) < 8

    async def test_leaving_the_loop_cancels_what_is_in_progress(self) -> None:
        answers = Answers(lambda prompt: prompt, seconds=0.01)
        batch = answers.agent().map([str(number) for number in range(50)], parallel=5)
        async for outcome in batch:
            assert isinstance(outcome, BatchItem)
            break
        for _ in range(20):
            await asyncio.sleep(0.002)
        assert answers.now == 0
        assert len(answers.prompts) < 15


class TestProgress:
    async def test_a_function_sees_each_item(self) -> None:
        seen: list[BatchProgress] = []
        await Answers(refuse).agent().map(list("abc"), progress=seen.append, parallel=1)
        assert [(one.done, one.failed, one.total) for one in seen] == [
            (1, 0, 3),
            (2, 1, 3),
            (3, 1, 3),
        ]

    async def test_a_bar_is_drawn(self, capsys: pytest.CaptureFixture[str]) -> None:
        await Answers(refuse).agent().map(list("abc"), progress=True)
        assert "2 done, 1 failed, 30 tokens" in " ".join(capsys.readouterr().out.split())

    async def test_without_rich_the_error_names_the_extra(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "rich.progress", None)
        with pytest.raises(ConfigurationError, match=r"\[progress\]"):
            Answers().agent().map(["a"], progress=True)


def test_a_batch_runs_from_synchronous_code() -> None:
    assert Answers().agent().map(list("ab")).run_sync().outputs == ["A", "B"]


PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdfast import Agent
from holdfast.models import Prices
from holdfast.testing import ScriptedModel

log = Path(sys.argv[2])

async def answer(request):
    prompt = request.messages[0].text
    await asyncio.sleep(0.02)
    with log.open("a") as file:
        file.write(prompt + "\\n")
    return prompt.upper()

async def main():
    agent = Agent(ScriptedModel(*[answer] * 200), name="reader")
    items = [f"item {number}" for number in range(60)]
    result = await agent.map(items, journal="sqlite:///" + sys.argv[1], parallel=3)
    print(len([one for one in result.outputs if one]), result.failures)

asyncio.run(main())
"""


@pytest.mark.slow  # kills a process
def test_a_killed_batch_continues_where_it_stopped(tmp_path: Path) -> None:
    program, log = tmp_path / "program.py", tmp_path / "asked.txt"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(tmp_path / "batch.db"), str(log)]
    log.write_text("")
    for target in (10, 25):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while len(log.read_text().splitlines()) < target and process.poll() is None:
                os.sched_yield()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["60", "()"]
    asked = log.read_text().splitlines()
    assert len(set(asked)) == 60
    assert len(asked) <= 60 + 2 * 3 * 2  # at most the items in progress are asked for again
    journal = SqliteJournal(str(tmp_path / "batch.db"))
    try:
        assert len(asyncio.run(journal.runs())) == 60
    finally:
        journal.close()


async def test_a_cancellation_inside_a_turn_is_the_failure_of_its_item() -> None:
    def cancel(prompt: str) -> str:
        task = asyncio.current_task()
        if prompt == "b":
            raise asyncio.CancelledError
        assert task is not None
        return prompt

    result = await Answers(cancel).agent().map(list("abc"))
    assert result.outputs == ["a", None, "c"]
    assert isinstance(result.items[1].error, HoldfastError)
