"""What holds for every run that can happen, found by drawing runs at random."""

from __future__ import annotations

import string

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events as ev
from holdfast.core.answer import flags_of
from holdfast.core.effects import (
    CallModel,
    CheckOutput,
    CloseTurn,
    Effect,
    RunTool,
    extended_key,
    interrupted_key,
    resumed_key,
    turn_key,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo, tool_failure_text
from holdfast.core.limits import Limits
from holdfast.core.machine import RunMachine
from holdfast.core.messages import Reply, ReplyKind, Text, ToolCall, ToolResult, Usage, user
from holdfast.core.problems import Problem
from holdfast.core.question_log import ASKED, ask_key, asked_key, scope_of
from holdfast.core.redaction import redact
from holdfast.core.run_state import Phase

LIMITS = st.builds(
    Limits,
    iterations=st.integers(1, 5),
    tool_calls=st.none() | st.integers(1, 6),
    tokens=st.none() | st.integers(1, 60),
    seconds=st.none() | st.integers(1, 30),
    output_repairs=st.integers(0, 3),
    output_repair_tokens=st.none() | st.integers(1, 30),
    output_repair_seconds=st.none() | st.integers(1, 20),
    extendable=st.booleans(),
)
CALLS = st.lists(
    st.builds(ToolCall, id=st.sampled_from(["", "a", "b"]), name=st.sampled_from(["x", "y"])),
    max_size=4,
)
REPLIES = st.builds(
    lambda text, calls, kind, tokens: Reply(
        (Text(text), *calls), kind=kind, usage=Usage(tokens, tokens)
    ),
    st.text(max_size=5),
    CALLS,
    st.sampled_from([ReplyKind.COMPLETE, ReplyKind.TRUNCATED, ReplyKind.PAUSED]),
    st.integers(0, 10),
)
CHECKS = (
    st.sampled_from(["", "strict", "embedded", "raw"]),
    st.lists(st.builds(Problem, st.just("a"), st.just("no"), st.text(max_size=3)), max_size=3).map(
        tuple
    ),
    st.none() | st.none() | st.just(ErrorInfo(category=ErrorCategory.PROGRAMMING, safe="x")),
)
FAILURE = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")


@st.composite
def runs(draw: st.DrawFn) -> list[ev.Event]:
    """The events of one to three turns, drawn so that each is legal when it comes."""
    machine, log, at = RunMachine(), [], 0.0
    for _ in range(draw(st.integers(1, 3))):
        for change in draw(_changes(machine, at)):
            _record(machine, log, change)
        key = turn_key(machine.turn + 1)
        flags = draw(st.sampled_from([0, flags_of(checked=False), flags_of(checked=True)]))
        _record(machine, log, ev.TurnOpened(key, at, user("go"), draw(LIMITS), flags))
        while machine.pending():
            at += draw(st.integers(0, 5))
            _record(machine, log, draw(_next_event(machine, at)))
    return log


def _changes(machine: RunMachine, at: float) -> st.SearchStrategy[list[ev.Event]]:
    """Nothing, mostly; or a change of the history between two turns."""
    key, length = turn_key(machine.turn + 1), len(machine.transcript)
    kept = ((0, length),) if length else ()
    back = st.builds(ev.SessionRewound, st.just(key), st.just(at), st.integers(0, machine.turn))
    less = st.builds(
        ev.HistoryCompacted,
        st.just(key),
        st.just(at),
        st.sampled_from([(), kept]),
        st.sampled_from(["", "so far"]),
    )
    return st.one_of(st.just(()), st.just(()), back.map(_one), less.map(_one)).map(list)


def _one(event: ev.Event) -> tuple[ev.Event]:
    return (event,)


def _record(machine: RunMachine, log: list[ev.Event], event: ev.Event) -> None:
    machine.apply(event)
    log.append(event)


def _next_event(machine: RunMachine, at: float) -> st.SearchStrategy[ev.Event]:
    effects = machine.pending()
    first = effects[0]
    if isinstance(first, CloseTurn):
        return st.just(ev.TurnClosed(first.key, at, first.status, first.error))
    interrupted = st.builds(
        ev.TurnInterrupted,
        st.just(interrupted_key(machine.turn)),
        st.just(at),
        st.sampled_from(["cancelled", "deadline"]),
        st.lists(st.sampled_from([e.key for e in effects]), unique=True).map(tuple),
    )
    if isinstance(first, CheckOutput):
        checked = st.builds(ev.OutputChecked, st.just(first.key), st.just(at), *CHECKS)
        return st.one_of(checked, checked, checked, interrupted)
    question = _question_event(machine, effects, at)
    if isinstance(first, CallModel):
        if machine.over_limit:
            return st.one_of(_at_the_limit(machine, first.key, at), question, interrupted)
        replied = st.builds(ev.ModelReplied, st.just(first.key), st.just(at), REPLIES)
        failed = st.just(ev.ModelFailed(first.key, at, FAILURE))
        return st.one_of(replied, replied, replied, question, failed, interrupted)
    finished = st.sampled_from(effects).map(
        lambda effect: ev.ToolFinished(effect.key, at, _result(effect))
    )
    return st.one_of(finished, finished, finished, question, question, interrupted)


def _question_event(
    machine: RunMachine, effects: tuple[Effect, ...], at: float
) -> st.SearchStrategy[ev.Event]:
    """The end of an open question, or a new one of anything that is under way."""
    log = machine.questions
    if log.due:
        return st.just(ev.TurnResumed(resumed_key(machine.turn, log.resumed), at))
    if log.open:
        key = log.open[0].key.removesuffix(ASKED)
        return st.one_of(
            st.booleans().map(
                lambda later: ev.QuestionAnswered(key, at, {"type": "approved"}, later)
            ),
            st.booleans().map(lambda later: ev.QuestionUnanswered(key, at, "timeout", later)),
        )
    if len(log.asked) == 3:  # a run asks a few times, and not for ever
        return st.nothing()
    scope = effects[0].key
    number = sum(key.startswith(f"{scope}.ask.") for key in log.asked)
    key = asked_key(ask_key(scope, number))
    how = st.tuples(st.sampled_from(["hold", "suspend"]), st.booleans())
    return how.map(
        lambda pair: ev.QuestionAsked(key, at, "PermissionRequest", {"tool": "x"}, *pair)
    )


def _at_the_limit(machine: RunMachine, key: str, at: float) -> st.SearchStrategy[ev.Event]:
    over = ErrorInfo(category=ErrorCategory.LIMIT, safe="over", code="iterations")
    extended = extended_key(machine.turn, machine.iteration)
    if machine.iteration > 6:
        return st.just(ev.ModelFailed(key, at, over))
    return st.one_of(
        st.just(ev.ModelFailed(key, at, over)),
        st.builds(ev.LimitExtended, st.just(extended), st.just(at), st.integers(1, 3)),
    )


def _result(effect: RunTool) -> ToolResult:
    return ToolResult(effect.call.id, effect.call.name, (Text(effect.key),))


def _fold(events: list[ev.Event]) -> RunMachine:
    machine = RunMachine()
    for event in events:
        machine.apply(event)
    return machine


@given(runs(), st.data())
def test_the_fold_of_any_prefix_and_the_rest_is_the_fold_of_all(
    log: list[ev.Event], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(log)))
    machine = _fold(log[:cut])
    for event in log[cut:]:
        machine.apply(event)
    assert machine.state() == _fold(log).state()


@given(runs())
def test_planned_keys_are_never_journaled_keys(log: list[ev.Event]) -> None:
    machine, journaled = RunMachine(), set()
    for event in log:
        machine.apply(event)
        assert event.key not in journaled
        journaled.add(event.key)
        assert journaled.isdisjoint(effect.key for effect in machine.pending())


@given(runs())
def test_a_run_ends_within_its_limits(log: list[ev.Event]) -> None:
    limits = Limits()
    calls = tools = most = 0
    for event in log:
        if isinstance(event, ev.TurnOpened):
            limits, calls, tools = event.limits, 0, 0
            most = limits.iterations or 0
        most += event.iterations if isinstance(event, ev.LimitExtended) else 0
        calls += isinstance(event, ev.ModelReplied)
        tools += isinstance(event, ev.ToolFinished)
        assert limits.iterations is None or calls <= most
        assert limits.tool_calls is None or tools <= limits.tool_calls
    assert _fold(log).phase is Phase.IDLE


@given(runs())
def test_after_every_turn_each_call_has_exactly_one_result_and_nobody_speaks_twice(
    log: list[ev.Event],
) -> None:
    messages = list(_fold(log).transcript)
    for at, message in enumerate(messages):
        if message.calls:
            answers = [p.call_id for p in messages[at + 1].parts if isinstance(p, ToolResult)]
            assert answers == [call.id for call in message.calls]
        if message.role == "tool":
            assert messages[at - 1].calls
    assert not messages or messages[-1].role == "assistant"


@given(runs())
def test_a_question_ends_at_most_once_and_none_outlives_its_turn(log: list[ev.Event]) -> None:
    machine = RunMachine()
    for event in log:
        open_before = {asked.key for asked in machine.questions.open}
        machine.apply(event)
        if isinstance(event, ev.QuestionAnswered | ev.QuestionUnanswered):
            assert asked_key(event.key) in open_before
            assert event.key in machine.questions.ended
        if machine.phase in (Phase.CLOSING, Phase.IDLE):
            assert machine.questions.open == ()


@given(runs())
def test_who_may_be_run_again_stands_at_a_question_or_has_an_answer_to_take_up(
    log: list[ev.Event],
) -> None:
    machine = RunMachine()
    for event in log:
        rested = machine.questions.rested
        machine.apply(event)
        now = machine.questions
        scope = scope_of(event.key)
        if isinstance(event, ev.QuestionAsked):
            assert (scope in now.rested) == (event.before or event.wait == "suspend")
        if isinstance(event, ev.QuestionAnswered | ev.QuestionUnanswered):
            # Whoever waited goes on, and may have done anything; whoever left stays where it was.
            assert (scope in now.rested) == (event.later and scope in rested)
            assert now.waits == event.later
        if isinstance(event, ev.TurnResumed):
            assert not now.due
        if machine.phase in (Phase.CLOSING, Phase.IDLE):
            assert not now.due
            assert not now.rested


@given(runs())
def test_events_of_any_run_survive_json(log: list[ev.Event]) -> None:
    again = [msgspec.json.decode(msgspec.json.encode(event), type=ev.Event) for event in log]
    assert _fold(again).state() == _fold(log).state()


@given(runs())
def test_an_answer_that_must_be_checked_completes_no_turn_unchecked(log: list[ev.Event]) -> None:
    wants = checked = repairs = 0
    limits = Limits()
    for event in log:
        if isinstance(event, ev.TurnOpened):
            wants, checked, repairs, limits = event.flags & 2, 0, 0, event.limits
        if isinstance(event, ev.OutputChecked):
            assert wants
            checked = bool(event.rung) and event.error is None
            repairs += not event.rung and event.error is None
            assert repairs <= limits.output_repairs + 1
        if isinstance(event, ev.TurnClosed) and event.status is ev.Status.COMPLETED:
            assert bool(wants) == bool(checked)


@given(st.permutations(range(4)))
def test_any_completion_order_of_parallel_tools_gives_the_same_messages(order: list[int]) -> None:
    def run(indexes: list[int]) -> RunMachine:
        machine = RunMachine()
        machine.apply(ev.TurnOpened("t1", 0.0, user("go")))
        calls = tuple(ToolCall(str(n), "x") for n in range(4))
        machine.apply(ev.ModelReplied("t1.i0.model", 1.0, Reply(calls)))
        planned = machine.pending()
        for index in indexes:
            effect = planned[index]
            assert isinstance(effect, RunTool)
            machine.apply(ev.ToolFinished(effect.key, 2.0, _result(effect)))
        return machine

    assert run(order).state() == run([0, 1, 2, 3]).state()


SECRETS = st.text(string.ascii_letters + string.digits, min_size=8, max_size=40)


@given(SECRETS, st.sampled_from(["password", "api_key", "client-secret", "Authorization", "token"]))
def test_a_secret_in_an_exception_never_reaches_the_model(secret: str, name: str) -> None:
    text = f"cannot log in with {name}={secret}"
    assert secret not in tool_failure_text("login", text).replace("login", "")
    assert secret not in tool_failure_text("f", text, detailed=True).removeprefix(
        "Error invoking function 'f': cannot log in with"
    )


@given(st.text(max_size=300))
def test_redaction_is_total_and_settles(text: str) -> None:
    once = redact(text)
    twice = redact(once)
    assert redact(twice) == twice
    assert once == text or "[redacted]" in once
