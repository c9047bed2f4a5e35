"""A batch: one turn for each item of a list or of a generator, some of them at once.

With a journal, each item has a request key. So a batch that was killed continues where it stopped:
items that are done are read, interrupted ones continue, and failed ones are tried again. Items are
taken from the source only when there is a place for them. A progress bar, or a function of the user,
shows how far it is. This module must never perform an effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
    Sized,
)
from contextlib import aclosing
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypedDict, cast

import msgspec
from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeInt, PositiveInt
from holdfast.core.cost import Cost, CostSum
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, HoldfastError
from holdfast.core.import_part import install_command
from holdfast.core.limits import Limits
from holdfast.core.messages import Usage
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal
from holdfast.runtime.engine import Engine, copy_on_journal
from holdfast.runtime.result import Result
from holdfast.runtime.sessions.session_pool import resolve_journal
from holdfast.runtime.turn_state.turn_input import ContinuedTurn, Prompt, to_message

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

ItemT = TypeVar("ItemT")
T = TypeVar("T", default=str)


@dataclass(frozen=True)
class BatchItem(Generic[ItemT, T]):
    """The outcome of one item: its result or its error.

    Args:
        index: the position of the item, from 0.
        item: the item.
        result: the result of its turn; None when it failed.
        error: why it failed; None when it did not.
        attempts: how often it was tried in this process.
        usage: the tokens of all tries; for a result from the journal those of its turn.
        cost: their cost, if the agent has prices; None without.
    """

    index: int
    item: ItemT
    result: Result[T] | None = None
    error: Exception | None = None
    attempts: int = 1
    usage: Usage = field(default_factory=Usage)
    cost: Cost | None = None

    @property
    def output(self) -> T:
        """The output. Raises the error of an item that failed."""
        if self.result is None:
            raise self.error or ValueError("the item has no result")
        return self.result.output


@dataclass(frozen=True)
class BatchProgress:
    """How far a batch is.

    Args:
        done: items that have ended, with those that failed.
        failed: items that failed.
        total: the number of all items; None while it is not known.
        usage: the tokens so far.
    """

    done: int = 0
    failed: int = 0
    total: int | None = None
    usage: Usage = field(default_factory=Usage)

    def add_item(self, usage: Usage, *, has_failed: bool) -> BatchProgress:
        """Return the progress after another item has ended."""
        failed = self.failed + has_failed
        return BatchProgress(self.done + 1, failed, self.total, self.usage + usage)


@dataclass(frozen=True)
class BatchResult(Generic[ItemT, T]):
    """The outcomes of all items that were started, in the order of the items.

    Args:
        items: the outcomes.
        usage: the tokens of all items.
        cost: their cost, if the agent has prices; None without.
        seconds: how long the batch ran in this process.
        ended_by: "tokens" when no other item was started because of that limit, otherwise "".
    """

    items: tuple[BatchItem[ItemT, T], ...]
    usage: Usage
    cost: Cost | None
    seconds: float
    ended_by: str = ""

    @property
    def outputs(self) -> list[T | None]:
        """The outputs, in order; None for an item that failed."""
        return [one.result.output if one.result is not None else None for one in self.items]

    @property
    def failures(self) -> tuple[BatchItem[ItemT, T], ...]:
        """The items that failed, in order."""
        return tuple(one for one in self.items if one.error is not None)

    def __str__(self) -> str:
        failed = len(self.failures)
        cost = f", cost {self.cost}" if self.cost is not None else ""
        ended = f", ended by the limit of {self.ended_by}" if self.ended_by else ""
        return (
            f"{len(self.items)} items: {len(self.items) - failed} done, {failed} failed, "
            f"{self.usage.total:,} tokens{cost}, {self.seconds:.1f} s{ended}"
        )


OnItemError: TypeAlias = Literal["continue", "stop"]
"""Whether a batch continues with the others when an item has failed, or ends."""

RunOnce: TypeAlias = Callable[[], Awaitable[Result[T]]]
"""Runs the turn of an item, or continues it."""

_LONGEST_WAIT = 30.0

ShowProgress: TypeAlias = Callable[[BatchProgress], object]
"""A function that is called after each item. It must be fast."""


class BatchOptions(TypedDict, Generic[ItemT], total=False):
    """The further keywords of `Agent.map`; its docstring describes them."""

    name: str
    key: Callable[[ItemT], str]
    retries: int
    limits: Limits | None
    tokens: int | None
    progress: bool | ShowProgress


@dataclass(frozen=True)
class BatchPlan(Generic[ItemT]):
    """The arguments of a batch, checked.

    Args:
        prompt: returns the prompt of an item; None if the items are prompts.
        parallel: how many items are in progress at once.
        journal: the journal of this batch; None for that of the agent.
        on_error: whether the batch continues when an item has failed.
        deps: as for `Agent.run`.
        options: the other keywords.
    """

    prompt: Callable[[ItemT], Prompt] | None
    parallel: int
    journal: Journal | str | None
    on_error: OnItemError
    deps: object
    options: BatchOptions[ItemT]

    def __post_init__(self) -> None:
        check_value("parallel", self.parallel, PositiveInt)
        check_value("on_error", self.on_error, OnItemError)
        given = self.options
        known = BatchOptions.__annotations__
        for name in given:
            if name not in known:
                fix = f"The further keywords are {', '.join(known)}"
                raise ConfigurationError(name, "is not a keyword of map", fix=fix)
        check_value("name", given.get("name", "batch"), str)
        check_value("retries", given.get("retries", 0), NonNegativeInt)
        check_value("tokens", given.get("tokens"), PositiveInt | None)

    @property
    def is_saved(self) -> bool:
        """Whether each item has a request key in the journal."""
        return self.journal is not None or "name" in self.options or "key" in self.options

    def get_prompt(self, item: ItemT) -> Prompt:
        """Return the prompt of an item."""
        return cast("Prompt", item) if self.prompt is None else self.prompt(item)

    def make_key(self, index: int, item: ItemT, prompt: Prompt) -> str:
        """Return the key of an item in the batch: its own key, or its position and its prompt."""
        own = self.options.get("key")
        if own is None:
            data = msgspec.json.encode(to_message(prompt))
            identity = f"{index}.{blake2b(data, digest_size=8).hexdigest()}"
        else:
            identity = own(item)
            check_value("key", identity, str)
        return f"{self.options.get('name', 'batch')}/{identity}"


class BatchRun(Generic[ItemT, T]):
    """A batch, as `Agent.map` returns it. Await it for the `BatchResult`, or iterate over it.

    `async for` yields each `BatchItem` as soon as it has ended, and keeps none of them. A batch runs
    once. Leaving the loop, or cancelling it, cancels the turns in progress.

    Args:
        items: the items.
        engine: runs the turns.
        plan: the arguments of the batch.
    """

    def __init__(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        engine: Engine[T],
        plan: BatchPlan[ItemT],
    ) -> None:
        journal = resolve_journal(plan.journal)
        self._engine = engine if journal is None else copy_on_journal(engine, journal)
        if plan.is_saved:
            self._engine.require_journal("save the batch in")
        engine.plan.check_deps(plan.deps)
        self._plan = plan
        self._source: _ItemSource[ItemT] = _ItemSource(items)
        self._display = choose_display(plan.options.get("progress", False))
        self._ended_by = ""
        self.progress = BatchProgress(total=len(items) if isinstance(items, Sized) else None)
        """How far the batch is."""

    def __await__(self) -> Generator[object, None, BatchResult[ItemT, T]]:
        return self._collect().__await__()

    def __aiter__(self) -> AsyncIterator[BatchItem[ItemT, T]]:
        return self._iterate()

    def run_sync(self) -> BatchResult[ItemT, T]:
        """Run the batch from synchronous code, and return its result."""
        from holdfast.runtime.sync_bridge import run_blocking

        return run_blocking(self._collect())

    async def _collect(self) -> BatchResult[ItemT, T]:
        clock = self._engine.plan.clock
        began = clock.monotonic()
        async with aclosing(self._iterate()) as outcomes:
            found = [outcome async for outcome in outcomes]
        found.sort(key=lambda outcome: outcome.index)
        usage, costs = self.progress.usage, CostSum()
        for outcome in found:
            costs.add(outcome.cost, has_used=outcome.usage.total > 0)
        return BatchResult(
            items=tuple(found),
            usage=usage,
            cost=costs.cost,
            seconds=clock.monotonic() - began,
            ended_by=self._ended_by,
        )

    async def _iterate(self) -> AsyncGenerator[BatchItem[ItemT, T], None]:
        """Yield the outcomes as they come. The items wait for a reader that is slow."""
        self._source.open()
        ended: asyncio.Queue[BatchItem[ItemT, T] | Exception | None] = asyncio.Queue(1)
        workers = [asyncio.create_task(self._work(ended)) for _ in range(self._plan.parallel)]
        left = len(workers)
        try:
            while left:
                outcome = await ended.get()
                if outcome is None:
                    left -= 1
                    continue
                if isinstance(outcome, Exception):
                    raise outcome
                self._display.show(self.progress)
                yield outcome
                if outcome.error is not None and self._plan.on_error == "stop":
                    raise outcome.error
        finally:
            self._display.close()
            await _cancel_tasks(workers)

    async def _work(self, ended: asyncio.Queue[BatchItem[ItemT, T] | Exception | None]) -> None:
        """Run one item after another. An error of the source ends the batch."""
        try:
            while not self._is_over_limit():
                taken = await self._source.take()
                if taken is None:
                    break
                outcome = await self._run_item(*taken)
                self.progress = self.progress.add_item(
                    outcome.usage, has_failed=outcome.error is not None
                )
                await ended.put(outcome)
        except Exception as error:  # noqa: BLE001  # REASON: the source is the user's code
            await ended.put(error)
        await ended.put(None)

    def _is_over_limit(self) -> bool:
        most = self._plan.options.get("tokens")
        if most is None or self.progress.usage.total < most:
            return False
        self._ended_by = "tokens"
        return True

    async def _run_item(self, index: int, item: ItemT) -> BatchItem[ItemT, T]:
        """Run the turn of one item, with its retries."""
        retries, usage, attempts = self._plan.options.get("retries", 0), Usage(), 0
        costs = CostSum()
        try:
            run_once = self._prepare_item(index, item)
        except Exception as error:  # noqa: BLE001  # REASON: functions of an item are the user's code
            return BatchItem(index, item, error=error, attempts=0)
        while True:
            attempts += 1
            result, failure = await _run_once(run_once)
            ended = result if result is not None else getattr(failure, "result", None)
            if ended is not None:
                usage = usage + ended.usage
                costs.add(ended.cost, has_used=ended.usage.total > 0)
            if failure is None or attempts > retries or not _may_pass(failure):
                return BatchItem(
                    index,
                    item,
                    result=result,
                    error=failure,
                    attempts=attempts,
                    usage=usage,
                    cost=costs.cost,
                )
            await self._engine.plan.clock.sleep(min(2.0 ** (attempts - 1), _LONGEST_WAIT))

    def _prepare_item(self, index: int, item: ItemT) -> RunOnce[T]:
        """Return the function that runs the turn of an item, or continues the one in the journal."""
        plan, engine, request = self._plan, self._engine, None
        prompt = plan.get_prompt(item)
        if plan.is_saved:
            request = f"{engine.plan.name}/{plan.make_key(index, item, prompt)}"
        elif plan.options.get("retries", 0):
            # A retry continues where the turn has failed, so it must be saved somewhere.
            engine, request = copy_on_journal(engine, MemoryJournal()), "item"
        turn = engine.make_turn(
            prompt,
            None,
            {"limits": plan.options.get("limits"), "deps": plan.deps, "request": request},
        )

        async def run_once() -> Result[T]:
            known = None
            if request is not None:
                known = await engine.require_journal("find the item in").find_request(request)
            return await (
                engine.run(turn)
                if known is None
                else engine.resume(ContinuedTurn(run_id=known[0], deps=plan.deps))
            )

        return run_once


class _ItemSource(Generic[ItemT]):
    """The items of a batch, which several tasks take one at a time.

    Raises:
        ConfigurationError: the items cannot be iterated over, or are one text.
    """

    def __init__(self, items: object) -> None:
        if isinstance(items, str | bytes) or not isinstance(items, Iterable | AsyncIterable):
            problem = f"must be a list or a generator of items, got {type(items).__name__}"
            raise ConfigurationError("items", problem, fix="Write agent.map([...])")
        self._items: Iterable[ItemT] | AsyncIterable[ItemT] = items
        self._lock = asyncio.Lock()
        self._next_index = 0
        self._iterator: AsyncIterator[ItemT] | None = None

    def open(self) -> None:
        """Begin with the first item. Raises ConfigurationError the second time."""
        if self._iterator is not None:
            problem = "were taken already: a batch runs once"
            raise ConfigurationError("items", problem, fix="Call agent.map again")
        items = self._items
        self._iterator = aiter(items) if isinstance(items, AsyncIterable) else _each(items)

    async def take(self) -> tuple[int, ItemT] | None:
        """Return the position of the next item and the item; None after the last one."""
        if self._iterator is None:
            return None
        async with self._lock:
            try:
                item = await anext(self._iterator)
            except StopAsyncIteration:
                return None
            index, self._next_index = self._next_index, self._next_index + 1
            return index, item


async def _each(items: Iterable[ItemT]) -> AsyncIterator[ItemT]:
    for item in items:
        yield item


async def _run_once(run_once: RunOnce[T]) -> tuple[Result[T] | None, Exception | None]:
    """Return the result or the error of one try. Propagates a cancellation of this task."""
    try:
        return await run_once(), None
    except Exception as error:  # noqa: BLE001  # REASON: each item has its own outcome
        return None, error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        safe = "The turn was cancelled from within."
        info = ErrorInfo(category=ErrorCategory.CANCELLED, safe=safe, code="cancelled")
        failure = HoldfastError(safe, info=info)
        failure.__cause__ = error
        return None, failure


def _may_pass(error: Exception) -> bool:
    return isinstance(error, HoldfastError) and error.info.category.is_retryable


async def _cancel_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel the tasks and wait until their turns are closed."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def choose_display(given: bool | ShowProgress) -> _FunctionDisplay | _BarDisplay:
    """Return the display for the argument `progress`.

    Raises:
        ConfigurationError: it is neither a bool nor a function, or the bar is not installed.
    """
    if callable(given):
        return _FunctionDisplay(given)
    check_value("progress", given, bool)
    return _BarDisplay() if given else _FunctionDisplay(None)


class _FunctionDisplay:
    """Calls a function, or nothing."""

    def __init__(self, function: ShowProgress | None) -> None:
        self._function = function

    def show(self, progress: BatchProgress) -> None:
        """Call the function. Its error ends the batch."""
        if self._function is not None:
            self._function(progress)

    def close(self) -> None:
        """Do nothing."""


class _BarDisplay:
    """A progress bar in a terminal or a notebook; the first item makes it visible."""

    def __init__(self) -> None:
        try:
            from rich.progress import Progress
        except ImportError as error:
            fix = install_command("progress")
            raise ConfigurationError("progress", "needs the package rich", fix=fix) from error
        self._make = Progress
        self._bar: tuple[Progress, TaskID] | None = None

    def show(self, progress: BatchProgress) -> None:
        """Draw the bar."""
        if self._bar is None:
            bar = self._make()
            bar.start()
            self._bar = (bar, bar.add_task("", total=progress.total))
        bar, task = self._bar
        words = f"{progress.done - progress.failed} done, {progress.failed} failed, {progress.usage.total:,} tokens"
        bar.update(task, completed=progress.done, total=progress.total, description=words)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar[0].stop()
