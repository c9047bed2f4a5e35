"""Questions that a run asks a person, and their answers, as data.

A question without an answer counts as "no". If the answer type of a question can express that,
`default_answer` returns it; otherwise it raises UnansweredError. This module must never wait, and
must never decide who is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

from holdfast.core.acts import Act
from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import NonNegativeInt, PositiveFloat
from holdfast.core.errors import (
    AnswerTypeError,
    ConfigurationError,
    UnansweredError,
    UnansweredReason,
)
from holdfast.core.json_strict import is_finite

A = TypeVar("A")

DEFAULT_TIMEOUT = 300.0
"""Seconds that a question waits for its answer."""

Timeout: TypeAlias = PositiveFloat | Literal["default"] | None
"""Seconds to wait for an answer; None waits without limit. "default" takes the `default_timeout` of
the question, which is 5 minutes for most, and waits without limit once the run is suspended."""

Remember = Literal["once", "call", "tool"]
"""How far an answer applies: to this call only ("once"), to the same tool with the same arguments
("call"), or to every call of the tool ("tool")."""

NO_DESCRIPTION = "No description available"
DENIED_TEXT = "Permission denied by user."
NOBODY_TEXT = (
    "Nobody is there to answer. Give the agent `on_question=...`, or use `agent.stream(...)` "
    "and `run.answer(...)`."
)
TIMED_OUT_TEXT = "Permission request timed out. Please respond to permission requests promptly."
CANCELLED_TEXT = "Permission request was cancelled."
FAILED_TEXT = "The handler of questions failed; the log has the details."
EXPIRED_TEXT = "The answer expired before it was used."

_UNANSWERED_TEXTS: dict[UnansweredReason, str] = {
    "timeout": TIMED_OUT_TEXT,
    "cancelled": CANCELLED_TEXT,
    "nobody": NOBODY_TEXT,
    "failed": FAILED_TEXT,
    "expired": EXPIRED_TEXT,
}


class Approved(Struct, frozen=True, kw_only=True, tag="approved", omit_defaults=True):
    """The answer "yes".

    Args:
        remember: how far the answer applies beyond this call.
        arguments: the tool runs with these instead of the model's arguments; None keeps the model's.
    """

    remember: Remember = "once"
    arguments: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self)


class Denied(Struct, frozen=True, kw_only=True, tag="denied", omit_defaults=True):
    """The answer "no".

    Args:
        reason: why, in words that the model may read.
        remember: how far the answer applies beyond this call.
        because: "person" when a person said no; otherwise why there was no answer.
    """

    reason: str = DENIED_TEXT
    remember: Remember = "once"
    because: Literal["person"] | UnansweredReason = "person"

    def __post_init__(self) -> None:
        check_fields(self)


class Continued(Struct, frozen=True, kw_only=True, tag="continued", omit_defaults=True):
    """The turn may continue for `iterations` more iterations; 0 takes the number that the question offers."""

    iterations: NonNegativeInt = 0

    def __post_init__(self) -> None:
        check_fields(self)


class Answer(Struct, Generic[A], frozen=True):
    """An answer to one question. `Question.answer` makes it.

    Args:
        key: the key of the question.
        value: the answer itself.
        binding: the binding of the question. An answer with another binding is refused.
        by: who gave the answer, such as "ann@example.org". It is saved with the answer.
        expires_at: when the answer ends, in seconds since the epoch; None means never. It is refused
            when it arrives later. When the run uses it later, it counts as no answer, and what it
            says about later calls ends.
        act: the act of giving it, which the journal saves in the same transaction; None for none.
    """

    key: str
    value: A
    binding: str
    by: str = ""
    expires_at: float | None = None
    act: Act | None = None

    def __post_init__(self) -> None:
        for name in ("key", "binding", "by"):
            check_value(name, getattr(self, name), str)
        check_value("expires_at", self.expires_at, PositiveFloat | None)
        plain_form(self.by)


AnyAnswer: TypeAlias = Answer[Any]  # the question that the key names determines the type


class Question(Struct, Generic[A], frozen=True, kw_only=True):
    """The base class of all questions; `A` is the type of the answer.

    Write your own question as a frozen struct whose fields JSON can represent. The run sets the key.

    Args:
        key: names the question within its run; empty until it is asked.
        binding: a digest of the run and of the content of the question, different each time that a
            question is asked; empty until then. An answer must have the same one.

    The class attribute `default_timeout` is the number of seconds that a question of this kind waits
    by default.

    >>> class Budget(Question[int], frozen=True, kw_only=True):
    ...     purpose: str
    >>> Budget(purpose="trip").answer(500).value
    500
    """

    default_timeout: ClassVar[float] = DEFAULT_TIMEOUT

    key: str = ""
    binding: str = ""

    def answer(self, value: A, *, by: str = "", expires_at: float | None = None) -> Answer[A]:
        """Return `value` as the answer to this question. Raises AnswerTypeError for a wrong type.

        Args:
            value: the answer itself.
            by: who gives it; it is saved with the answer.
            expires_at: when it ends, in seconds since the epoch; None means never.
        """
        return Answer(self.key, validate_answer(self, value), self.binding, by, expires_at)

    def default_answer(self, why: UnansweredReason) -> A:
        """Return the answer that counts when nobody answered. Raises UnansweredError if there is none."""
        return _raise_unanswered(self, why)


AnyQuestion: TypeAlias = Question[Any]  # only isinstance tells the type of the answer


class PermissionQuestion(Question[Approved | Denied], frozen=True, kw_only=True):
    """May this tool run with these arguments?

    Args:
        tool: the tool's name.
        arguments: the arguments that would run.
        description: the description of the tool.
        call_id: the id of the call, as the model wrote it.
        source: the part that asks, such as "ToolPermission".
        may_remember: whether a yes may be remembered. If not, `remember` of a yes counts as "once".
        server: the MCP server that offers the tool; empty for a tool of this program.
        tool_digest: digests of the tool's name, description and schema; empty for a tool of this program.
            An approval counts only for the tool that it was given to.
        changed: what changed of the tool since it was approved, such as "its description"; empty if nothing.

    >>> PermissionQuestion(tool="pay", key="k").deny("Too much.").value
    Denied(reason='Too much.', remember='once', because='person')
    """

    tool: str
    arguments: Mapping[str, object] = {}
    description: str = NO_DESCRIPTION
    call_id: str = ""
    source: str = ""
    may_remember: bool = True
    server: str = ""
    tool_digest: str = ""
    changed: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def approve(
        self,
        *,
        remember: Remember = "once",
        arguments: Mapping[str, object] | None = None,
        by: str = "",
        expires_at: float | None = None,
    ) -> Answer[Approved | Denied]:
        """Answer yes. `remember` and `arguments` are those of `Approved`, the others of `Answer`."""
        value = Approved(remember=remember, arguments=arguments)
        return self.answer(value, by=by, expires_at=expires_at)

    def deny(
        self,
        reason: str = DENIED_TEXT,
        *,
        remember: Remember = "once",
        by: str = "",
        expires_at: float | None = None,
    ) -> Answer[Approved | Denied]:
        """Answer no. The model reads the reason; `by` and `expires_at` are those of `Answer`."""
        return self.answer(Denied(reason=reason, remember=remember), by=by, expires_at=expires_at)

    def default_answer(self, why: UnansweredReason) -> Approved | Denied:
        """No answer is a no."""
        return Denied(reason=_UNANSWERED_TEXTS[why], because=why)


class ContinuationQuestion(Question[Continued | Denied], frozen=True, kw_only=True):
    """The limit of iterations is reached: may the turn continue?

    Args:
        iteration: the next iteration, counted from 1.
        limit: the limit that is reached.
        extension: how many more iterations are offered.
    """

    default_timeout: ClassVar[float] = 120.0

    iteration: NonNegativeInt
    limit: NonNegativeInt
    extension: NonNegativeInt = 3
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    def approve(self, iterations: int = 0, *, by: str = "") -> Answer[Continued | Denied]:
        """Answer yes, for this many more iterations; 0 takes the number that is offered. `by` gives it."""
        return self.answer(Continued(iterations=iterations), by=by)

    def deny(
        self, reason: str = "Continuation denied by user.", *, by: str = ""
    ) -> Answer[Continued | Denied]:
        """Answer no: the turn ends. `by` gives the answer."""
        return self.answer(Denied(reason=reason), by=by)

    def default_answer(self, why: UnansweredReason) -> Continued | Denied:
        """No answer is a no."""
        texts = {**_UNANSWERED_TEXTS, "timeout": "The request to continue timed out."}
        return Denied(reason=texts[why], because=why)


class Elicited(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to the question of a server.

    Args:
        action: "accept" gives the input, "decline" refuses it, and "cancel" says nothing about it.
        content: the values of the form, by the names of its fields.
    """

    action: Literal["accept", "decline", "cancel"] = "accept"
    content: Mapping[str, str | int | float | bool | Sequence[str] | None] = {}

    def __post_init__(self) -> None:
        check_fields(self)


class ElicitationQuestion(Question[Elicited], frozen=True, kw_only=True):
    """An MCP server asks for input while it runs a tool.

    Args:
        server: the name of the server.
        tool: the tool that it runs.
        message: the text of the server to show.
        form: a JSON Schema of the input: an object whose fields are texts, numbers, true or false, or lists of texts.
        url: a page that the server asks a person to visit instead; it is shown, and never opened.
        name: the server's name for the question.
        state: the server's state of the call, which is sent back with the answer.
    """

    server: str
    tool: str
    message: str
    form: Mapping[str, object] = {}
    url: str = ""
    name: str = ""
    state: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def accept(self, *, by: str = "", **content: Any) -> Answer[Elicited]:
        """Give the input, by the names of the fields. `by` gives the answer."""
        return self.answer(Elicited(content=content), by=by)

    def decline(self, *, by: str = "") -> Answer[Elicited]:
        """Refuse the input. `by` gives the answer."""
        return self.answer(Elicited(action="decline"), by=by)

    def default_answer(self, why: UnansweredReason) -> Elicited:  # noqa: ARG002  # REASON: the same for each
        """No answer says nothing about the input."""
        return Elicited(action="cancel")


class ClarificationQuestion(Question[str], frozen=True, kw_only=True):
    """The run needs a piece of information; the answer is text.

    Args:
        question: the text to show.
        options: suggested answers; any other text is allowed too.
    """

    question: str
    options: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        check_fields(self)


def question_content(question: AnyQuestion) -> dict[str, object]:
    """Return the content of a question, as JSON values. Raises ConfigurationError if JSON cannot hold it.

    >>> question_content(ClarificationQuestion(question="Where?", key="k"))
    {'question': 'Where?', 'options': [], 'source': ''}
    """
    plain = plain_form(question)
    if not isinstance(plain, dict):
        raise ConfigurationError(
            type(question).__name__, "is saved as a list", fix="Remove array_like=True"
        )
    return {name: value for name, value in plain.items() if name not in ("key", "binding")}


def _raise_unanswered(question: AnyQuestion, why: UnansweredReason) -> NoReturn:
    raise UnansweredError(type(question).__name__, why)


@cache
def answer_type(kind: type[AnyQuestion]) -> Any:
    """Return the `A` of `Question[A]`.

    >>> answer_type(ClarificationQuestion)
    <class 'str'>
    """
    for base_class in kind.__mro__:
        for base in vars(base_class).get("__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Question):
                found = get_args(base)[0]
                if not isinstance(found, TypeVar):
                    return found
    raise ConfigurationError(
        kind.__name__, "does not name the type of its answer", fix="Derive it from Question[str]"
    )


def type_name(kind: object) -> str:
    """Return the name of a type as messages write it.

    >>> type_name(Approved | Denied)
    'Approved | Denied'
    """
    if get_origin(kind) in (UnionType, Union):
        return " | ".join(type_name(member) for member in get_args(kind))
    return kind.__name__ if isinstance(kind, type) else str(kind)


def validate_answer(question: AnyQuestion, value: A) -> A:
    """Return `value` if its type is the one that `question` asks for. Raises AnswerTypeError."""
    wanted = answer_type(type(question))
    members = get_args(wanted) if get_origin(wanted) in (UnionType, Union) else (wanted,)
    plain = [get_origin(member) or member for member in members]
    fits = not all(isinstance(member, type) for member in plain) or isinstance(value, tuple(plain))
    if fits:
        try:
            msgspec.convert(plain_form(value), wanted, str_keys=True)
        except (msgspec.ValidationError, ConfigurationError):
            fits = False
    if not fits:
        raise AnswerTypeError(type_name(wanted), type(value).__name__)
    return value


def plain_form(value: object) -> object:
    """Return a question or an answer as JSON values. Raises ConfigurationError if JSON cannot hold it."""
    try:
        encoded = msgspec.json.encode(value)
        # The encoder writes null for such a number.
        if b"null" in encoded and not is_finite(msgspec.to_builtins(value, str_keys=True)):
            raise ValueError("a number is infinite, or is not a number")
        plain: object = msgspec.json.decode(encoded)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ConfigurationError(
            type(value).__name__,
            f"cannot be saved: {error}",
            fix="Use strings, numbers, lists, mappings, structs and dataclasses",
        ) from error
    return plain


def restore_answer(question: AnyQuestion, saved: object) -> object:
    """Return a saved answer in the type that the question asks for. Raises AnswerTypeError."""
    wanted = answer_type(type(question))
    try:
        value: object = msgspec.convert(saved, wanted, str_keys=True)
    except msgspec.ValidationError as error:
        raise AnswerTypeError(type_name(wanted), type(saved).__name__) from error
    return value
