"""The question whether a call may run, with all that a person needs to answer it, and its texts.

It must never show a character that a person cannot see: text of the model is escaped, but for the
arguments themselves, which would run as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from adh.checks.check_context import CheckOutcome
from holdfast import Answer, Approved, Denied, PermissionQuestion, Question
from holdfast.errors import UnansweredReason

Remember = Literal["once", "call", "tool"]
"""How far a yes holds: for this call, for equal calls, or for the tool."""

ANSWER_SECONDS = 300
"""Seconds after which a question that stands on a screen counts as answered with no."""

CANCELLED_TEXT = "Tool '{tool}' execution cancelled by user"
_UNANSWERED: Mapping[str, str] = {
    "timeout": f"nobody answered within {ANSWER_SECONDS} seconds",
    "nobody": "nobody is there to answer",
    "cancelled": "the question was closed without an answer",
    "failed": "the question could not be asked",
    "expired": "the answer came too late",
}


class NamedApproval(Approved, frozen=True, kw_only=True, tag="approved", omit_defaults=True):
    """The answer "yes", with the name that the person typed.

    Args:
        typed: the typed name; empty if the question asks for none.
    """

    typed: str = ""


class ApprovalQuestion(
    PermissionQuestion,
    Question[NamedApproval | Denied],
    frozen=True,
    kw_only=True,
):
    """May this call run? Equal calls of an unchanged project give equal questions.

    Args:
        level: "confirm" or "manual".
        risk: from "none" to "critical".
        rule: the rule that decided, with its file and line; empty if none matched.
        reason: why the level is stricter than the rule says; may be empty.
        agent: who asks.
        folder: the folder that the call works in.
        commands: the simple commands of its command line.
        paths: each path with its access, such as "write /project/a.txt".
        diff: the difference that it makes to a file; empty if none is known.
        base: the digest of the content that the difference was made against.
        shown: the digest of the arguments that the question shows.
        checks: the safety checks, as they are now.
        restrictions: the restrictions of the call, in words.
        may_remember: whether the answer may hold for later calls.
        may_edit: whether the arguments may be edited.
        inline: whether the question may be asked in passing, without a dialog.
        must_type: the name that the person must type; empty if none.
    """

    level: str
    risk: str
    rule: str = ""
    reason: str = ""
    agent: str = ""
    folder: str = ""
    commands: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    diff: str = ""
    base: str = ""
    shown: str = ""
    checks: tuple[CheckOutcome, ...] = ()
    restrictions: tuple[str, ...] = ()
    may_remember: bool = True
    may_edit: bool = False
    inline: bool = False
    must_type: str = ""

    def approve(
        self,
        *,
        remember: Remember = "once",
        arguments: Mapping[str, object] | None = None,
        by: str = "",
        expires_at: float | None = None,
        typed: str = "",
    ) -> Answer[Approved | Denied]:
        """Answer yes.

        Args:
            remember: whether it holds for this call, for equal calls ("call") or for the tool.
            arguments: edited arguments; None keeps those of the call.
            by: who answers.
            expires_at: when the answer ends, in seconds since the epoch.
            typed: the name that the person typed.
        """
        value = NamedApproval(
            remember=remember if self.may_remember else "once", arguments=arguments, typed=typed
        )
        return self.answer(value, by=by, expires_at=expires_at)

    def deny(
        self,
        reason: str = "",
        *,
        remember: Remember = "once",
        by: str = "",
        expires_at: float | None = None,
    ) -> Answer[Approved | Denied]:
        """Answer no.

        Args:
            reason: why, in words that the model reads; may be empty.
            remember: as for `approve`.
            by: who answers.
            expires_at: as for `approve`.
        """
        text = CANCELLED_TEXT.format(tool=self.tool)
        denial = f"{text}: {reason.strip()}" if reason.strip() else text
        return self.answer(Denied(reason=denial, remember=remember), by=by, expires_at=expires_at)

    def leave_unanswered(self, why: UnansweredReason = "timeout") -> Answer[Approved | Denied]:
        """Return the no of a question that nobody answered.

        Args:
            why: "timeout" after 300 seconds, "nobody" if there is nobody to ask.
        """
        return self.answer(self.default_answer(why), by=why)

    def default_answer(self, why: UnansweredReason) -> Denied:
        """No answer is a no, and the model reads why there is none."""
        text = f"Tool '{self.tool}' was not executed: {_UNANSWERED.get(why, _UNANSWERED['nobody'])}"
        return Denied(reason=text, because=why)


class UnattendedAnswer(Struct, frozen=True):
    """The policy that answers a question where no person is.

    Args:
        accept_confirm: whether questions of the level "confirm" are answered with yes. A question of
            the level "manual", and one that asks for a typed name, is always answered with no.
    """

    accept_confirm: bool = False

    def answer(self, question: ApprovalQuestion) -> Answer[Approved | Denied]:
        """Return the answer."""
        if self.accept_confirm and question.level == "confirm" and not question.must_type:
            return question.approve(by="--yes")
        return question.leave_unanswered("nobody")
