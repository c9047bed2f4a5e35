"""A journal that saves a record when the test says so, and an agent with one tool on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast import Agent, MemoryJournal, Middleware, tool
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.core.messages import ToolCall
from holdfast.middleware.hook_contexts import BeforeTools
from holdfast.testing import ScriptedModel
from holdfast.testing.scripted import ScriptLine
from holdfast.tools.tool import ToolEffect

CALL = ToolCall("c", "pay", "{}")


class SlowJournal(MemoryJournal):
    """Saves nothing until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.on_the_way: list[tuple[list[str], Callable[[BaseException | None], None]]] = []
        self.slow = True

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self.slow:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def end(error: BaseException | None) -> None:
                if waiter.done():
                    return  # whoever waited was cancelled
                if error is not None:
                    waiter.set_exception(error)
                else:
                    waiter.set_result(None)

            keys = [one.key for one in (event, marker) if one is not None]
            self.on_the_way.append((keys, end))
            try:
                await waiter
            except asyncio.CancelledError:
                self.on_the_way = [one for one in self.on_the_way if one[1] is not end]
                raise
        await super().append(run, event, effect, marker=marker)

    @property
    def waiting(self) -> list[str]:
        """The keys of all appends that wait, in order."""
        return [key for keys, _ in self.on_the_way for key in keys]

    def fail(self, error: BaseException) -> None:
        """Let the first append that waits fail."""
        self.on_the_way.pop(0)[1](error)

    def let_go(self) -> None:
        """Save all, at once from now on."""
        self.slow = False
        while self.on_the_way:
            self.on_the_way.pop(0)[1](None)

    def save(self, *keys: str) -> None:
        """Save exactly these, which are the first append that waits."""
        assert self.on_the_way[0][0] == list(keys), self.waiting
        self.on_the_way.pop(0)[1](None)

    async def until(self, *keys: str) -> None:
        """Wait until exactly these are being saved, and nothing else can move."""
        for _ in range(200):
            await asyncio.sleep(0)
        assert self.waiting == list(keys)


class Bench:
    """An agent with two tools, on a slow journal, in a stream that is read."""

    def __init__(
        self,
        *script: ScriptLine,
        middleware: tuple[Middleware, ...] = (),
        effect: ToolEffect = "write",
        until: asyncio.Event | None = None,
    ) -> None:
        self.journal = SlowJournal()
        self.paid = self.looked = 0
        self.shown: list[str] = []
        self.model = ScriptedModel(*script)

        @tool(effect=effect)
        async def pay() -> str:
            """Pay."""
            self.paid += 1
            return "paid"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.looked += 1
            if until is not None:
                await until.wait()
            return "seen"

        tools = [pay, look]
        self.agent = Agent(self.model, tools=tools, journal=self.journal, middleware=middleware)

    @property
    def asked(self) -> int:
        return len(self.model.requests)

    def begin(self, said: str = "Pay.") -> asyncio.Task[str]:
        async def run() -> str:
            async with self.agent.stream(said, session="s") as stream:
                async for item in stream:
                    if isinstance(item, Event):  # type: ignore[misc,arg-type]
                        self.shown.append(item.key)
                return stream.result.text

        return asyncio.create_task(run())

    async def begun(self) -> asyncio.Task[str]:
        """The turn, up to where its tools begin."""
        task, journal = self.begin(), self.journal
        await journal.until("t1")
        journal.save("t1")
        await journal.until("t1.i0.model", "t1.i0.begun")
        journal.save("t1.i0.model", "t1.i0.begun")
        return task

    async def saved(self) -> list[str]:
        return [record.event.key for record in await self.journal.read("s")]


class BeforeToolsHook(Middleware):
    """Its agent saves a reply alone, since the hook sees it before the tools begin."""

    async def before_tools(self, context: BeforeTools) -> None:
        """Decides nothing."""
