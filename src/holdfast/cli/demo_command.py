"""`holdfast demo [FOLDER]`: an agent does real work over real HTTP while its provider fails.

The provider is the emulator on loopback, so the demo needs no key and no network. The answer is
compared with a count made without the agent.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.run_printer import shorten
from holdfast.cli.times import format_count
from holdfast.core.errors import ConfigurationError, ErrorCategory

if TYPE_CHECKING:
    from holdfast.cli.demo_folder import FolderCounts
    from holdfast.cli.demo_report import Timeline
    from holdfast.runtime.result import Result


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the argument for the folder."""
    sub.add_argument(
        "folder", nargs="?", default=".", help="the folder to ask about; default: current folder"
    )


def main(args: argparse.Namespace) -> int:
    """Run the demo; return 0 if the answer is right and the invented password did not leak."""
    import asyncio

    folder = Path(args.folder)
    if not folder.is_dir():
        raise ConfigurationError(
            "folder", f"{args.folder!r} is not a folder", fix="Name an existing folder"
        )
    return asyncio.run(_run_demo(folder.resolve()))


async def _run_demo(folder: Path) -> int:
    from holdfast.agent import Agent
    from holdfast.cli.demo_folder import count_folder, folder_tools
    from holdfast.cli.demo_report import Timeline
    from holdfast.cli.demo_script import QUESTION, WORD, choose_reply
    from holdfast.resilience.retry.options import RetryOptions
    from holdfast.testing.emulator import Emulator

    before = count_folder(folder, WORD)
    print(f"An agent looks at {shorten(str(folder), 60)}.")
    print("Its provider is an emulator on this machine that fails by script.\n")
    print(f"? {QUESTION}\n".replace("\n", "\n  ", 1))
    timeline = Timeline()
    async with Emulator(choose_reply, faults=timeline.choose_fault) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="demo",
            tools=folder_tools(folder),
            retry=RetryOptions(retry_delay=0.2, max_retries_by_category={ErrorCategory.UNKNOWN: 1}),
        )
        async with agent.stream(QUESTION) as run:
            async for item in run:
                timeline.print_item(item)
        result = run.result
    _print_summary(timeline, result)
    is_right = _check_answer(result.output, before, folder)
    return 0 if is_right and not _report_leak(timeline) else 1


def _print_summary(timeline: Timeline, result: Result[str]) -> None:
    from holdfast.cli.demo_report import format_table

    print(f"\n{format_table(timeline.build_rows())}\n")
    print(
        f"{format_count(timeline.requests, 'request')} for {result.iterations} model replies, "
        f"{result.usage.total} tokens by the emulator's count, {timeline.elapsed_seconds():.2f} s"
    )


def _check_answer(answer: str, before: FolderCounts, folder: Path) -> bool:
    from holdfast.cli.demo_folder import count_folder, text_files
    from holdfast.cli.demo_script import WORD, format_conclusion

    after = count_folder(folder, WORD)
    if not text_files(folder).complete:
        print(
            f"The folder has more: only the first {format_count(before.files, 'text file')} were read."
        )
    is_right = answer in (format_conclusion(before), format_conclusion(after))
    if is_right:
        print("The answer is right: a count without the agent gives the same result.")
    elif before != after:
        print("The answer cannot be checked: the folder changed during the run.")
    else:
        print("The answer is WRONG: a count without the agent gives another result.")
    return is_right


def _report_leak(timeline: Timeline) -> bool:
    if timeline.leaked:
        print("The tool's password WAS SENT to the provider or shown.")
    elif timeline.secret_was_raised:
        print("The tool's password was neither sent to the provider nor shown.")
    return timeline.leaked
