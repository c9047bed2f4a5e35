"""`holdfast demo [FOLDER]`: an agent does real work over real HTTP while its provider misbehaves.

The provider is the emulator on loopback, so no key and no network are needed. The answer is
checked against a plain count; the demo must never claim a success that it did not check.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from holdfast.agent import Agent
from holdfast.cli.demo_brain import FAULTS, QUESTION, WORD, answer
from holdfast.cli.demo_folder import Counted, count, folder_tools
from holdfast.cli.show import Show, describe
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import Message
from holdfast.core.notices import AttemptStarted
from holdfast.resilience.handling import ErrorHandling
from holdfast.runtime.notices import Item
from holdfast.runtime.result import Result
from holdfast.testing.emulator import EmulatedRequest, Emulator
from holdfast.testing.emulator.faults import FaultEntry


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """The folder to ask about."""
    sub.add_argument("folder", nargs="?", default=".", help="the folder to ask about")


def main(given: argparse.Namespace) -> int:
    """Run the demo; 0 when the answer is right."""
    folder = Path(given.folder)
    if not folder.is_dir():
        raise ConfigurationError("folder", f"{given.folder!r} is no folder")
    return asyncio.run(_demo(folder, count(folder.resolve(), WORD)))


class _Timeline:
    """Prints what happens with the seconds since the beginning, and remembers what to sum up."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._show = Show(sys.stdout, sys.stdout, live=True)
        self.requests: dict[int, float] = {}
        self.attempts = 0

    def seconds(self) -> float:
        return time.monotonic() - self._begin

    def line(self, text: str) -> None:
        self._show.end()
        print(f"{self.seconds():6.2f}s {text}", flush=True)

    def faults(self, request: EmulatedRequest) -> FaultEntry:
        """The fault script: what goes wrong with this request, said aloud."""
        self.requests[request.number] = self.seconds()
        fault, about = FAULTS.get(request.number, (None, ""))
        if fault is not None:
            self.line(f"⚡ the provider misbehaves: {about}")
        return fault

    def item(self, item: Item) -> None:
        if isinstance(item, AttemptStarted):
            self.attempts += 1
        if (line := describe(item)) is not None:
            self.line(line.strip())
        else:
            self._show.item(item)

    def cost(self, number: int) -> float:
        """Seconds from a spoilt request to the next one."""
        following = self.requests.get(number + 1, self.seconds())
        return following - self.requests.get(number, following)


async def _demo(folder: Path, truth: Counted) -> int:
    timeline = _Timeline()
    async with Emulator(answer, faults=timeline.faults) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="demo",
            tools=folder_tools(folder),
            error_handling=ErrorHandling(
                retry_delay=0.2, max_retries_by_category={ErrorCategory.UNKNOWN: 1}
            ),
        )
        print(f"? {QUESTION}\n")
        async with agent.stream(QUESTION) as run:
            async for item in run:
                timeline.item(item)
        result = run.result
    right = _is_right(result.output, truth)
    _summary(timeline, result, right)
    return 0 if right else 1


def _is_right(answer_text: str, truth: Counted) -> bool:
    facts = (
        f"{truth.files} text files with {truth.lines} lines",
        f"{truth.longest} with {truth.longest_lines} lines",
        f"{truth.mentions} lines say",
    )
    return all(fact in answer_text for fact in facts) or truth.files == 0


def _summary(timeline: _Timeline, result: Result[str], right: bool) -> None:
    print(f"\n{'fault':<34}what it cost")
    for number, (_fault, about) in FAULTS.items():
        print(f"{about:<34}{timeline.cost(number):.2f} s and another request")
    print(f"{'a tool raises with a password':<34}{_told(result.messages)}")
    print(
        f"\n{timeline.attempts} attempts for {result.iterations} model calls, "
        f"{result.usage.total} tokens, {timeline.seconds():.2f} s"
    )
    verdict = "right: a plain count says the same" if right else "WRONG: a plain count differs"
    print(f"The answer is {verdict}.")


def _told(messages: tuple[Message, ...]) -> str:
    """Evidence that the secret went nowhere: what the whole conversation holds of it."""
    leaked = "hunter2" in "".join(str(message) for message in messages)
    return (
        "the password is in the conversation!"
        if leaked
        else "one retry; the model was told that it failed"
    )
