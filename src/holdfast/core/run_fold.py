"""Computes the row of a run in a list of sessions: its title, its turns, and the state of its last turn.

A journal saves the result in the row of the run, in the transaction of the record that changes it:
`make_change` returns the change of one append, without knowing the run. `RunFold` computes the same from
all records. This module is pure. It must never read a journal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.cost import EXACT, ZERO, Cost, shorten_amount
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    ResultsWithheld,
    SessionRewound,
    SessionTitled,
    ToolFinished,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.messages import NO_USAGE, Message, Usage
from holdfast.core.question_log import ASKED

COUNTS = ("input", "cached_input", "output")
"""The numbers of a `RunChange` that its turn adds up; a new turn begins with 0.

A `RunState` has them too. Databases have a column for each, and their statements are made from this.
"""

LONGEST_TITLE = 500
"""The largest number of characters of the title of a session; lists show it."""

_LONGEST_BEGINNING = 80
_MOST_TOKENS = 2**40
_MOST_TURNS = 2**31 - 1
_MESSAGES = (".model", ".begun")

EventWithCost: TypeAlias = (
    ModelReplied | ModelFailed | ResultsWithheld | ToolFinished | TurnInterrupted
)
"""An event that may have tokens, and their cost."""


class RunChange(Struct, frozen=True):
    r"""The change of one append in the row of its run.

    Args:
        turn: the number of the turn that it opens; None if it opens none.
        is_open: whether a turn is open after it; None if it neither opens nor closes one.
        status: the state of the turn that it opens or closes; None if it does neither.
        title: the title, if no turn counts yet; None without one.
        messages: the number of messages in it.
        in_doubt: whether a tool may have taken effect, and nobody knows.
        asked: the keys of its questions, each as "\nkey\n".
        answered: the key of the question that it answers, in the same form; "" for none.
        input: the tokens that were sent.
        cached_input: those of them that were cached.
        output: the tokens that a model wrote.
        cost: about the cost of these tokens, for lists; None if it is not known.
        is_rewind: whether it takes back turns, so that title, turns and messages are counted again.
        agent: the agent of the turn that it opens; None if it opens none.
    """

    turn: int | None = None
    is_open: bool | None = None
    status: str | None = None
    title: str | None = None
    messages: int = 0
    in_doubt: bool = False
    asked: str = ""
    answered: str = ""
    input: int = 0
    cached_input: int = 0
    output: int = 0
    cost: float | None = 0.0
    is_rewind: bool = False
    agent: str | None = None

    def can_precede(self, other: RunChange) -> bool:
        """Whether this change and the next one of the run are one change."""
        is_turned = other.turn is not None or self.is_rewind or other.is_rewind
        return not (is_turned or (other.answered and (self.asked or self.answered)))


_UNCHANGED = RunChange()
_ONE_MESSAGE = RunChange(messages=1)
_NOTHING = Usage()


def make_change(event: Event, marker: Event | None) -> RunChange:
    """Return the change of an append in the row of its run.

    Args:
        event: the event.
        marker: the event that is saved with it, if there is one.
    """
    change = _change_of(event)
    return change if marker is None else join_changes(change, _change_of(marker))


def join_changes(one: RunChange, other: RunChange) -> RunChange:
    """Return the change of an event and its marker, or of two appends.

    Args:
        one: the first change.
        other: the next one; `one.can_precede(other)` says whether both are one change.
    """
    if other is _UNCHANGED:
        return one
    if other is _ONE_MESSAGE:
        return replace(one, messages=one.messages + 1)
    asked = "" if other.is_open is False else one.asked + other.asked
    is_open = one.is_open if other.is_open is None else other.is_open
    status = one.status if other.status is None else other.status
    if is_open:
        status = "waiting" if asked else "open"
    return RunChange(
        turn=one.turn,
        is_open=is_open,
        status=status,
        title=one.title if other.title is None or one.turn is not None else other.title,
        messages=one.messages + other.messages,
        in_doubt=one.in_doubt or other.in_doubt,
        asked=asked,
        answered=other.answered or one.answered,
        input=one.input + other.input,
        cached_input=one.cached_input + other.cached_input,
        output=one.output + other.output,
        cost=add_costs(one.cost, other.cost),
        is_rewind=one.is_rewind or other.is_rewind,
        agent=one.agent,
    )


def _change_of(event: Event) -> RunChange:
    match event:
        case (
            ModelReplied() | ModelFailed() | ToolFinished() | TurnInterrupted() | ResultsWithheld()
        ):
            return _count_effects(event)
        case TurnOpened():
            title = "" if event.message is None else make_title(event.message)
            turn = parse_turn(event.key)
            return RunChange(turn, True, "open", title, 1, agent=event.agent)
        case TurnClosed():
            return RunChange(is_open=False, status=event.status.value)
        case QuestionAsked():
            return RunChange(asked=_wrap_key(event.key.removesuffix(ASKED)))
        case QuestionAnswered() | QuestionUnanswered():
            return RunChange(answered=_wrap_key(event.key))
        case SessionTitled():
            return RunChange(title=_shorten(_clean_text(event.title), LONGEST_TITLE))
        case SessionRewound():
            return RunChange(is_rewind=True)
        case _:
            return _ONE_MESSAGE if event.key.endswith(_MESSAGES) else _UNCHANGED


def _count_effects(event: EventWithCost) -> RunChange:
    if type(event) is ToolFinished and event.usage is NO_USAGE and not event.result.in_doubt:
        return _UNCHANGED  # nearly every tool
    messages = int(event.key.endswith(_MESSAGES))
    sent = cached = written = 0
    for _, usage in list_usage(event):
        sent += _limit_tokens(usage.input)
        cached += _limit_tokens(usage.cached_input)
        written += _limit_tokens(usage.output)
    if event.cost is None:
        cost = None if sent or written else 0.0
    else:
        cost = float(event.cost.amount) if event.cost.known else None
    return RunChange(
        messages=messages,
        in_doubt=_is_in_doubt(event),
        input=sent,
        cached_input=cached,
        output=written,
        cost=cost,
    )


def _limit_tokens(count: int) -> int:
    """Limit a number that a provider said, so that a sum of them fits into a column."""
    return count if 0 <= count <= _MOST_TOKENS else _MOST_TOKENS if count > 0 else 0


def add_costs(one: float | None, other: float | None) -> float | None:
    """Add costs; the sum is not known if one of them is not."""
    return None if one is None or other is None else one + other


def _is_in_doubt(event: Event) -> bool:
    if isinstance(event, ToolFinished):
        return event.result.in_doubt
    return isinstance(event, TurnInterrupted) and any(".tool." in key for key in event.started)


def parse_turn(key: str) -> int:
    """Return the number of the turn of a key; 0 if it has none.

    >>> parse_turn("t12.i0.model"), parse_turn("other")
    (12, 0)
    """
    head = key.partition(".")[0].removeprefix("t")
    return min(int(head), _MOST_TURNS) if head.isdecimal() and len(head) < 20 else 0


def _wrap_key(key: str) -> str:
    return f"\n{key}\n"


def split_questions(text: str) -> tuple[str, ...]:
    r"""Return the keys of questions as a row has them.

    >>> split_questions("\nt1.i0.tool.0.ask.0\n\nt1.i0.tool.1.ask.0\n")
    ('t1.i0.tool.0.ask.0', 't1.i0.tool.1.ask.0')
    """
    return tuple(text[1:-1].split("\n\n")) if text else ()


def list_usage(event: Event) -> Iterator[tuple[str, Usage]]:
    """Yield the models and tokens of an event; "" for tokens whose model is not known."""
    if isinstance(event, ModelReplied):
        yield event.reply.model, event.reply.usage
        if event.lost is not None:
            yield event.reply.model, event.lost
    elif isinstance(event, ModelFailed):
        model = event.partial.model if event.partial is not None else ""
        if event.partial is not None:
            yield model, event.partial.usage
        if event.lost is not None:
            yield model, event.lost
    elif isinstance(event, ResultsWithheld):
        if event.lost is not None:
            yield "", event.lost
    elif isinstance(event, ToolFinished | TurnInterrupted) and event.usage != _NOTHING:
        yield "", event.usage


def list_costs(event: Event) -> Iterator[tuple[str, Usage, Cost | None]]:
    """Yield the models of an event, with what their attempts used and cost.

    The models that failed before another replied have the names of their targets; "" stands for
    tokens whose model is not known. The costs add up to the cost of the event.
    """
    if not isinstance(event, _WITH_COST):
        return
    used = sum([usage for _, usage in list_usage(event)], _NOTHING)
    if event.cost is None and not (used.total or used.hosted_calls):
        return
    model = next((name for name, _ in list_usage(event)), "")
    if isinstance(event, ModelReplied):
        model = event.reply.model
    rest, cost = used, event.cost
    for failed in getattr(event, "tried", ()):
        if failed.cost is not None and cost is not None:
            rest -= failed.usage
            amount = max(ZERO, EXACT.subtract(cost.amount, failed.cost.amount))
            cost = Cost(shorten_amount(amount), cost.currency, cost.known or not failed.cost.known)
            yield failed.target, failed.usage, failed.cost
    yield model, rest, cost


_WITH_COST = get_args(EventWithCost)


def make_title(message: Message) -> str:
    r"""Return the title of a session that begins with a message: one line of at most 80 characters.

    >>> from holdfast.core.messages import user
    >>> make_title(user("Two\nlines."))
    'Two lines.'
    """
    line = " ".join(_clean_text(message.text[: _LONGEST_BEGINNING * 4]).split())
    return _shorten(line, _LONGEST_BEGINNING)


def _shorten(text: str, longest: int) -> str:
    return f"{text[: longest - 1]}…" if len(text) > longest else text


def _clean_text(text: str) -> str:
    """Replace the characters that a column of a database cannot hold."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "").encode(errors="replace").decode()


class RunState(Struct):
    r"""The turns of a run, as its row shows them.

    Args:
        title: the beginning of the first message that counts; of a run of titles, the latest one.
        turns: the number of turns that count: not the rewound ones, but the failed ones.
        messages: about how many messages these turns have.
        turn: the number of the last turn; 0 if there is none.
        status: "idle" without a turn, "open", "waiting" for an answer, or how the last turn ended.
        turn_open: whether the last turn has not ended.
        in_doubt: whether a tool of the last turn may have taken effect, and nobody knows.
        questions: the keys of its open questions, each as "\nkey\n".
        input: the tokens that were sent in the last turn.
        cached_input: those of them that were cached.
        output: the tokens that models wrote in it.
        cost: about their cost, for lists; None if it is not known.
    """

    title: str = ""
    turns: int = 0
    messages: int = 0
    turn: int = 0
    status: str = "idle"
    turn_open: bool = False
    in_doubt: bool = False
    questions: str = ""
    input: int = 0
    cached_input: int = 0
    output: int = 0
    cost: float | None = None

    def apply(self, change: RunChange) -> None:
        """Change the state as the statements of a database do."""
        if change.turn is not None:
            self.turn, self.in_doubt = change.turn, False
            self.input = self.cached_input = self.output = 0
            self.cost = 0.0
        if change.title is not None and self.turns == 0:
            self.title = change.title
        self.turns += change.turn is not None
        self.messages += change.messages
        self.in_doubt = self.in_doubt or change.in_doubt
        self.input += change.input
        self.cached_input += change.cached_input
        self.output += change.output
        self.cost = add_costs(self.cost, change.cost)
        kept = self.questions if change.is_open is None else ""
        self.questions = (
            kept.replace(change.answered, "") if change.answered else kept
        ) + change.asked
        if change.is_open is not None:
            self.turn_open = change.is_open
        if change.status is not None:
            self.status = change.status
        elif self.turn_open and (change.asked or change.answered):
            self.status = "waiting" if self.questions else "open"


class CountedTurns:
    """The turns of a run by number, also those that do not count any more."""

    def __init__(self) -> None:
        self._messages: dict[int, int] = {}
        self._titles: dict[int, str] = {}
        self._rewinds: dict[int, int] = {}

    def add(self, key: str, title: str | None = None, rewound_to: int | None = None) -> None:
        """Add a record.

        Args:
            key: its key.
            title: the title of its message, if it opens a turn.
            rewound_to: the number of the turn to which it goes back, if it does.
        """
        number = parse_turn(key)
        if title is not None:
            self._titles[number] = title
        if rewound_to is not None:
            self._rewinds[number] = rewound_to
        if title is not None or key.endswith(_MESSAGES):
            self._messages[number] = self._messages.get(number, 0) + 1

    def count(self) -> tuple[str, int, int]:
        """Return title, turns and messages of the turns that count."""
        numbers: list[int] = []
        position = _MOST_TURNS
        for number in sorted(self._titles.keys() | self._rewinds.keys(), reverse=True):
            if number > position:
                continue
            if number in self._rewinds:
                position = min(self._rewinds[number], number)
            else:
                numbers.append(number)
        title = self._titles[numbers[-1]] if numbers else ""
        return title, len(numbers), sum(self._messages.get(number, 0) for number in numbers)


class RunFold:
    """Folds the events of a run into its row."""

    def __init__(self) -> None:
        self.state = RunState()
        self._counted = CountedTurns()

    def add(self, event: Event) -> None:
        """Add the next event."""
        change = _change_of(event)
        to = event.to if isinstance(event, SessionRewound) else None
        title = change.title if isinstance(event, TurnOpened) else None
        self._counted.add(event.key, title, to)
        self.state.apply(change)
        if change.is_rewind:
            self.state.title, self.state.turns, self.state.messages = self._counted.count()
