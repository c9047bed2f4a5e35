"""Makes the question about a judged call, and says whether an approval still holds for the call as it is now.

It must never show more freedom than the call has: a check that fails is shown as failed.
"""

from __future__ import annotations

import os
from functools import partial

import msgspec

from adh.approval.call_history import GivenAnswer
from adh.approval.file_preview import FilePreview, preview_change
from adh.approval.judged_calls import JudgedCall
from adh.approval.question import ApprovalQuestion
from adh.approval.setup import ApprovalSetup
from adh.checks.check_context import MOST_BYTES, CheckContext, CheckOutcome
from adh.checks.daemon_thread import call_in_thread
from adh.checks.protected_places import list_uses
from adh.checks.run_checks import run_checks
from adh.rules.levels import Level, Risk
from adh.storage.content_digest import digest_bytes
from holdfast.middleware import escape_invisible

_MOST_SHOWN = 50
"""The most paths and commands that a question lists."""


async def make_question(
    judged: JudgedCall, agent: str, setup: ApprovalSetup
) -> tuple[ApprovalQuestion, FilePreview]:
    """Return the question about a call, and the change that it shows.

    Args:
        judged: the call.
        agent: who asks.
        setup: the parts that the approval works with.
    """
    facts, decision = judged.facts, judged.decision
    preview = await call_in_thread(partial(preview_change, facts))
    must_type = find_name_to_type(judged)
    checks = await check_call(judged, setup, preview=True)
    at_risk = decision.risk >= Risk.HIGH
    question = ApprovalQuestion(
        tool=facts.tool,
        arguments=facts.arguments,
        level=decision.level.word,
        risk=decision.risk.word,
        rule=judged.rule_text,
        reason=escape_invisible(decision.reason),
        agent=agent,
        folder=escape_invisible(facts.folder),
        commands=_list_commands(judged),
        paths=_bound([escape_invisible(f"{use.access} {use.path}") for use in list_uses(facts)]),
        diff=preview.diff,
        base=_digest_base(preview),
        shown=digest_arguments(judged),
        checks=tuple(_escape_outcome(outcome) for outcome in checks),
        restrictions=decision.restrictions,
        may_remember=not at_risk and not must_type,
        may_edit=decision.level is Level.MANUAL,
        inline=decision.risk <= Risk.LOW and not must_type,
        must_type=must_type,
    )
    return question, preview


def still_holds(answered: ApprovalQuestion, now: ApprovalQuestion) -> bool:
    """Whether the approval of one question is the approval of the call as it is now.

    It does not hold if the call is now judged more strictly, if a file of it has changed, or if a check
    fails that did not fail. Of a call whose arguments the person did not edit, everything that was shown
    must be the same. Edited arguments hold only where the question allowed editing.

    Args:
        answered: the question that was answered.
        now: the question that would be asked now.
    """
    if Level.parse(now.level) > Level.parse(answered.level):
        return False
    if Risk.parse(now.risk) > Risk.parse(answered.risk):
        return False
    if (now.base, now.must_type) != (answered.base, answered.must_type):
        return False
    if not _failures(now) <= _failures(answered):
        return False
    if now.shown != answered.shown:
        return answered.may_edit
    fields = ("tool", "folder", "commands", "paths", "diff")
    return all(getattr(now, name) == getattr(answered, name) for name in fields)


async def check_call(
    judged: JudgedCall,
    setup: ApprovalSetup,
    *,
    preview: bool = False,
    answer: GivenAnswer | None = None,
) -> tuple[CheckOutcome, ...]:
    """Run the safety checks of a judged call.

    Args:
        judged: the call.
        setup: the parts that the approval works with.
        preview: whether the checks must change nothing.
        answer: the answer of a person, with the name that they typed.
    """
    decision = judged.decision
    names = decision.checks
    if decision.max_bytes is not None:
        names = (*names, "size_limit")
    context = CheckContext(
        home=judged.facts.home,
        own_folders=tuple(map(os.path.realpath, setup.own_folders)),
        save_backup=setup.save_backup,
        must_type=judged.must_type or find_name_to_type(judged),
        typed=answer.typed if answer is not None else "",
        confinement=setup.confinement,
        preview=preview,
        private_hosts=judged.private_hosts,
        most_bytes=MOST_BYTES if decision.max_bytes is None else decision.max_bytes,
        resolve_host=setup.resolve_host,
        wait=setup.wait,
    )
    return await run_checks(names, judged.facts, context)


def find_name_to_type(judged: JudgedCall) -> str:
    """Return the name that the person must type: of the file, else of the program, else of the tool."""
    if "confirmation_double" not in judged.decision.checks:
        return ""
    facts = judged.facts
    names = [os.path.basename(use.path) for use in list_uses(facts)]  # noqa: PTH119  # REASON: of a text
    names += [command.program for command in facts.commands]
    return next((name for name in names if name and name.isprintable()), facts.tool)


def digest_arguments(judged: JudgedCall) -> str:
    """Return the digest of the arguments of a call."""
    encoded = msgspec.json.encode(judged.facts.arguments, order="deterministic")
    return digest_bytes(encoded)


def _digest_base(preview: FilePreview) -> str:
    return f"{preview.digest or 'unreadable'} {preview.path}" if preview.path else ""


def _list_commands(judged: JudgedCall) -> tuple[str, ...]:
    commands = [escape_invisible(command.text) for command in judged.facts.commands]
    if judged.facts.unparsed:
        commands.append(f"(not understood: {escape_invisible(judged.facts.unparsed)})")
    return _bound(commands)


def _bound(lines: list[str]) -> tuple[str, ...]:
    if len(lines) <= _MOST_SHOWN:
        return tuple(lines)
    return (*lines[:_MOST_SHOWN], f"… and {len(lines) - _MOST_SHOWN:,} more")


def _escape_outcome(outcome: CheckOutcome) -> CheckOutcome:
    return msgspec.structs.replace(outcome, detail=escape_invisible(outcome.detail))


def _failures(question: ApprovalQuestion) -> set[str]:
    return {outcome.name for outcome in question.checks if not outcome.passed}
