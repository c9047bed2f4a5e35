"""The protocol of a source of rulings for `ToolPermission`, and of the rulings that it returns.

A source judges one call. It must never ask anybody itself: it returns the question, and
`ToolPermission` asks it, saves it and judges the call again with the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import PermissionQuestion
from holdfast.middleware.hook_contexts import BeforeTool

Permission = Literal["deny", "ask", "allow"]


class Ruling(Struct, frozen=True, kw_only=True):
    """The ruling of a source about one call.

    Args:
        permission: "allow" runs the call, "deny" blocks it, "ask" asks a person first.
        reason: the text that the model reads when the call is denied; "" for the plain sentence.
        question: the question to ask, such as one of your own class with a diff. Its `tool`,
            `arguments`, `call_id` and `source` are filled in. None asks a plain one.
        remembered: whether an earlier yes to the same call or tool counts instead of asking. If not,
            a yes to this question is not remembered either. An earlier no always counts.

    >>> Ruling(permission="deny", reason="Only on weekdays.").reason
    'Only on weekdays.'
    """

    permission: Permission
    reason: str = ""
    question: PermissionQuestion | None = None
    remembered: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


def check_ruling(ruling: object) -> Ruling:
    """Return the value of a source, if it is a ruling. Raises ConfigurationError."""
    if not isinstance(ruling, Ruling):
        raise ConfigurationError(
            "source",
            f"returned {type(ruling).__name__} from judge()",
            fix='Return a Ruling, such as Ruling(permission="ask")',
        )
    return ruling


class PermissionSource(Protocol):
    """Judges calls for `ToolPermission`. One instance serves any number of runs at once."""

    async def judge(self, context: BeforeTool, answered: PermissionQuestion | None) -> Ruling:
        """Return the ruling for a call.

        It is called before a person is asked, and again after each approval, because the rules, the
        arguments or the world may have changed in between. An approval of a call that is now to be
        denied does not run it.

        Args:
            context: the call, with the arguments that would run.
            answered: the question that a person approved, with the arguments that they approved, which
                are those of the call. None before an approval. "ask" then asks again.
        """
        ...

    def describe(self) -> Mapping[str, object]:
        """Return the settings, as plain values."""
        ...


class DenialsOnly:
    """Keeps the denials of a source and allows all other calls.

    Args:
        source: the source.
    """

    __slots__ = ("source",)

    def __init__(self, source: PermissionSource) -> None:
        self.source = source

    async def judge(self, context: BeforeTool, answered: PermissionQuestion | None) -> Ruling:
        """Return the ruling of the source if it denies the call."""
        ruling = check_ruling(await self.source.judge(context, answered))
        return Ruling(permission="allow") if ruling.permission == "ask" else ruling

    def describe(self) -> Mapping[str, object]:
        """Return the settings of the source."""
        return self.source.describe()
