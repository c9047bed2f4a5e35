"""Questions that a run puts to somebody outside, and their answers, as data.

A question that nobody answers counts as "no": where a kind of request can say that in its own
answer type, it does (`unanswered`), and else asking raises. This module must never wait, and must
never decide who is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_type
from holdfast.core.errors import (
    AnswerTypeError,
    ConfigurationError,
    UnansweredError,
    UnansweredReason,
)
from holdfast.core.json_strict import is_finite
from holdfast.core.limits import check_count, check_seconds

A = TypeVar("A")

DEFAULT_TIMEOUT = 300.0
"""Seconds that a question waits for its answer."""

Timeout: TypeAlias = float | Literal["default"] | None
"""Seconds to wait for an answer; None waits for ever. "default" waits as long as the kind of request
says, which is 5 minutes for most; a run that is suspended meanwhile waits for ever."""

Remember = Literal["once", "call", "tool"]
"""For this one time, for the same tool with the same arguments, or for the tool."""

NO_DESCRIPTION = "No description available"
DENIED_TEXT = "Permission denied by user."
NOBODY_TEXT = (
    "Nobody is there to answer. Give the agent `on_question=...`, or use `agent.stream(...)` "
    "and `run.answer(...)`."
)
TIMED_OUT_TEXT = "Permission request timed out. Please respond to permission requests promptly."
CANCELLED_TEXT = "Permission request was cancelled."
FAILED_TEXT = "The handler of questions failed; the log has the details."

_SAID: dict[UnansweredReason, str] = {
    "timeout": TIMED_OUT_TEXT,
    "cancelled": CANCELLED_TEXT,
    "nobody": NOBODY_TEXT,
    "failed": FAILED_TEXT,
}


class Approved(Struct, frozen=True, kw_only=True, tag="approved", omit_defaults=True):
    """Yes.

    Args:
        remember: how far the answer reaches, beyond this one time.
        arguments: run the tool with these in place of the model's; None leaves them.
    """

    remember: Remember = "once"
    arguments: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "", "remember", "arguments")


class Denied(Struct, frozen=True, kw_only=True, tag="denied", omit_defaults=True):
    """No.

    Args:
        reason: why, in words that the model may read.
        remember: how far the answer reaches, beyond this one time.
        because: "person" when somebody said no; otherwise why there was no answer.
    """

    reason: str = DENIED_TEXT
    remember: Remember = "once"
    because: Literal["person"] | UnansweredReason = "person"

    def __post_init__(self) -> None:
        check_fields(self, "", "reason", "remember", "because")


class Continued(Struct, frozen=True, kw_only=True, tag="continued", omit_defaults=True):
    """Continue; `iterations` says for how many more, and 0 uses the number in the question."""

    iterations: int = 0

    def __post_init__(self) -> None:
        check_type("iterations", self.iterations, int)
        if self.iterations < 0:
            raise ConfigurationError("iterations", f"must be at least 0, got {self.iterations}")


class Answer(Struct, Generic[A], frozen=True):
    """An answer with the key of the question that it belongs to."""

    key: str
    value: A


AnyAnswer: TypeAlias = Answer[Any]  # of what type, the request that it names tells


class Question(Struct, Generic[A], frozen=True, kw_only=True):
    """The base class of all questions; `A` is the type of the answer.

    Write your own as a frozen struct with a type that JSON can hold; the run sets the key.

    Args:
        key: names the question within its run; empty until it is asked.

    A class attribute `default_timeout` says how many seconds a question of this kind waits by default.

    >>> class Budget(Question[int], frozen=True, kw_only=True):
    ...     purpose: str
    >>> Budget(purpose="trip").reply_to(500)
    Answer(key='', value=500)
    """

    default_timeout: ClassVar[float] = DEFAULT_TIMEOUT

    key: str = ""

    def answer(self, value: A) -> Answer[A]:
        """This answer, addressed to this question. Raises AnswerTypeError for a wrong type."""
        return Answer(self.key, validate_answer(self, value))

    def default_answer(self, why: UnansweredReason) -> A:
        """What stands for an answer when none came. Raises UnansweredError where nothing can."""
        return _raise_unanswered(self, why)


AnyQuestion: TypeAlias = Question[Any]  # whatever its answer is: only isinstance tells


class PermissionQuestion(Question[Approved | Denied], frozen=True, kw_only=True):
    """May this tool run with these arguments?

    >>> PermissionQuestion(tool="pay", key="k").deny("Too much.")
    Answer(key='k', value=Denied(reason='Too much.', remember='once', because='person'))
    """

    tool: str
    arguments: Mapping[str, object] = {}
    description: str = NO_DESCRIPTION
    call_id: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "", *self.__struct_fields__)

    def approve(
        self, *, remember: Remember = "once", arguments: Mapping[str, object] | None = None
    ) -> Answer[Approved | Denied]:
        """Yes, for this once, for these arguments or for the tool; with other arguments, if given."""
        return self.answer(Approved(remember=remember, arguments=arguments))

    def deny(
        self, reason: str = DENIED_TEXT, *, remember: Remember = "once"
    ) -> Answer[Approved | Denied]:
        """No; the model reads the reason."""
        return self.answer(Denied(reason=reason, remember=remember))

    def default_answer(self, why: UnansweredReason) -> Approved | Denied:
        """No answer is a no."""
        return Denied(reason=_SAID[why], because=why)


class ContinuationQuestion(Question[Continued | Denied], frozen=True, kw_only=True):
    """The limit of iterations is reached: may the turn continue?

    Args:
        iteration: the one that would come next, counted from 1.
        limit: the limit that is reached.
        extension: how many more are offered.
    """

    default_timeout: ClassVar[float] = 120.0

    iteration: int
    limit: int
    extension: int = 3
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "", *self.__struct_fields__)
        for name in ("iteration", "limit", "extension"):
            check_count(name, getattr(self, name), at_least=0)

    def approve(self, iterations: int = 0) -> Answer[Continued | Denied]:
        """Go on, for so many iterations more; 0 takes what is offered."""
        return self.answer(Continued(iterations=iterations))

    def deny(self, reason: str = "Continuation denied by user.") -> Answer[Continued | Denied]:
        """Stop here."""
        return self.answer(Denied(reason=reason))

    def default_answer(self, why: UnansweredReason) -> Continued | Denied:
        """No answer is a no."""
        said = {"timeout": "The request to continue timed out."}
        return Denied(reason=said.get(why, _SAID[why]), because=why)


class ClarificationQuestion(Question[str], frozen=True, kw_only=True):
    """Something must be clarified before the turn can continue; the answer is a text.

    Args:
        question: what to show.
        options: answers to offer; another text is allowed too.
    """

    question: str
    options: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "", *self.__struct_fields__)


def check_timeout(argument: str, timeout: object) -> None:
    """Raise ConfigurationError unless `timeout` is a `Timeout`.

    Args:
        argument: names it in the error.
        timeout: as it was given.
    """
    if timeout != "default":
        check_seconds(argument, timeout)


def _raise_unanswered(question: AnyQuestion, why: UnansweredReason) -> NoReturn:
    raise UnansweredError(type(question).__name__, why)


@cache
def answer_type(kind: type[AnyQuestion]) -> Any:
    """The `A` of `Request[A]`.

    >>> answer_type(ClarificationQuestion)
    <class 'str'>
    """
    for one in kind.__mro__:
        for base in vars(one).get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Question):
                found = get_args(base)[0]
                if not isinstance(found, TypeVar):
                    return found
    raise ConfigurationError(
        kind.__name__, "does not say what its answer is", fix="Derive it from Request[str], say"
    )


def type_name(kind: object) -> str:
    """How messages write a type.

    >>> type_name(Approved | Denied)
    'Approved | Denied'
    """
    if get_origin(kind) in (UnionType, Union):
        return " | ".join(type_name(one) for one in get_args(kind))
    return kind.__name__ if isinstance(kind, type) else str(kind)


def validate_answer(question: AnyQuestion, value: A) -> A:
    """`value`, if it is an answer to `question`. Raises AnswerTypeError."""
    wanted = answer_type(type(question))
    members = get_args(wanted) if get_origin(wanted) in (UnionType, Union) else (wanted,)
    plain = [get_origin(one) or one for one in members]
    fits = not all(isinstance(one, type) for one in plain) or isinstance(value, tuple(plain))
    if fits:
        try:
            msgspec.convert(plain_form(value), wanted, str_keys=True)
        except (msgspec.ValidationError, ConfigurationError):
            fits = False
    if not fits:
        raise AnswerTypeError(type_name(wanted), type(value).__name__)
    return value


def plain_form(value: object) -> object:
    """What JSON can hold of a request or an answer. Raises ConfigurationError if that is not all."""
    try:
        encoded = msgspec.json.encode(value)
        # The encoder writes null for such a number.
        if b"null" in encoded and not is_finite(msgspec.to_builtins(value, str_keys=True)):
            raise ValueError("a number is infinite, or is not a number")
        plain: object = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            type(value).__name__,
            f"cannot be kept: {error}",
            fix="Use texts, numbers, lists, mappings, structs and dataclasses",
        ) from error
    return plain


def restore_answer(question: AnyQuestion, saved: object) -> object:
    """A kept answer in the type that the request wants. Raises AnswerTypeError."""
    wanted = answer_type(type(question))
    try:
        value: object = msgspec.convert(saved, wanted, str_keys=True)
    except msgspec.ValidationError as error:
        raise AnswerTypeError(type_name(wanted), type(saved).__name__) from error
    return value
