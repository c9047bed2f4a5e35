"""Runs the safety checks of a call at the same time, each for at most 5 seconds.

A check that fails, crashes, is late or is unknown blocks the call. This module must never show the text of
an exception: it may hold a value of the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from adh.checks.check_context import CHECK_SECONDS, CheckContext
from adh.checks.check_outcome import CheckOutcome
from adh.checks.daemon_thread import call_in_thread
from adh.checks.dangerous_commands import find_danger
from adh.checks.file_checks import (
    check_disk_space,
    check_permission,
    check_size_limit,
    save_backups,
)
from adh.checks.protected_places import find_protected
from adh.checks.sensitive_data import find_sensitive_kinds, list_texts
from adh.checks.url_check import check_urls
from adh.rules.facts import CallFacts

BlockingCheck: TypeAlias = Callable[[CallFacts, CheckContext], str]
"""Returns what is wrong, as a sentence; empty if nothing is. It runs in a thread of its own."""
WaitingCheck: TypeAlias = Callable[[CallFacts, CheckContext], Awaitable[str]]
"""As `BlockingCheck`, for what waits for the network."""


def check_sensitive_data(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return which argument holds what kind of secret; empty if none does."""
    for name, text in list_texts(facts.arguments):
        kinds = find_sensitive_kinds(text)
        if kinds:
            return f"The argument {name!r} holds {' and '.join(kinds)}."
    return ""


def check_commands(facts: CallFacts, context: CheckContext) -> str:
    """Return why the command line is dangerous; empty if it is not known to be."""
    if facts.unparsed:
        return "The command line could not be parsed."
    return find_danger(facts.commands, context.home)


def check_places(facts: CallFacts, context: CheckContext) -> str:
    """Return which place the call must not touch; empty if there is none."""
    return find_protected(facts, context.home, context.own_folders)


def check_typed_name(facts: CallFacts, context: CheckContext) -> str:  # noqa: ARG001  # REASON: as every check
    """Return that the typed name is wrong; empty if it is right, or if it will be asked for."""
    if context.preview or (context.must_type and context.typed == context.must_type):
        return ""
    return f"The name {context.must_type!r} was not typed."


BLOCKING_CHECKS: Mapping[str, BlockingCheck] = {
    "backup": save_backups,
    "disk_space": check_disk_space,
    "permission": check_permission,
    "size_limit": check_size_limit,
    "sensitive_data": check_sensitive_data,
    "command_validator": check_commands,
    "sandbox": check_places,
    "confirmation_double": check_typed_name,
}
WAITING_CHECKS: Mapping[str, WaitingCheck] = {"url_validator": check_urls}
CHECK_NAMES = frozenset({*BLOCKING_CHECKS, *WAITING_CHECKS})


async def run_checks(
    names: Sequence[str], facts: CallFacts, context: CheckContext
) -> tuple[CheckOutcome, ...]:
    """Run checks at the same time, and return their outcomes in the order of the names.

    The copy of `backup` is made only when all other checks have passed.

    Args:
        names: the names of the checks; a repeated one runs once.
        facts: the call.
        context: what the checks know beside it.
    """
    wanted = tuple(dict.fromkeys(names))
    first = [name for name in wanted if name != "backup"]
    outcomes = dict(
        zip(
            first,
            await asyncio.gather(*(_run_check(name, facts, context) for name in first)),
            strict=True,
        )
    )
    if "backup" in wanted:
        if all(outcome.passed for outcome in outcomes.values()):
            outcomes["backup"] = await _run_check("backup", facts, context)
        else:
            outcomes["backup"] = CheckOutcome("backup", passed=True, detail="Not needed yet.")
    return tuple(outcomes[name] for name in wanted)


async def _run_check(name: str, facts: CallFacts, context: CheckContext) -> CheckOutcome:
    work = _begin_check(name, facts, context)
    if work is None:
        return CheckOutcome(name, passed=False, detail=f"There is no check {name!r}.")
    check = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(context.wait(CHECK_SECONDS))
    try:
        await asyncio.wait({check, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not check.done():
            late = f"{name} took longer than {CHECK_SECONDS:.0f} seconds."
            return CheckOutcome(name, passed=False, detail=late)
        problem = check.result()
    except Exception as error:  # noqa: BLE001  # REASON: a crash of a check blocks the call
        crashed = f"{name} could not be checked ({type(error).__name__})."
        return CheckOutcome(name, passed=False, detail=crashed)
    finally:
        await _end_tasks(check, timer)
    return CheckOutcome(
        name, passed=not problem, detail=problem or _explain_pass(name, facts, context)
    )


def _begin_check(name: str, facts: CallFacts, context: CheckContext) -> Awaitable[str] | None:
    if name in WAITING_CHECKS:
        return WAITING_CHECKS[name](facts, context)
    if name in BLOCKING_CHECKS:
        return call_in_thread(partial(BLOCKING_CHECKS[name], facts, context))
    return None


def _explain_pass(name: str, facts: CallFacts, context: CheckContext) -> str:
    """Return what the person must know of a check that passed."""
    if name == "sandbox" and "executes_process" in facts.effects:
        return context.confinement.explanation
    return ""


async def _end_tasks(*tasks: asyncio.Future[str] | asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
