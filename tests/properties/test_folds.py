"""What holds for every run that can happen, found by drawing runs at random."""

from __future__ import annotations

import string
from functools import cache

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import events as ev
from holdfast.core.effects import (
    CallModel,
    CheckOutput,
    CloseTurn,
    CopyResult,
    RunTool,
    extended_key,
    interrupted_key,
    resumed_key,
    turn_key,
    withheld_key,
)
from holdfast.core.errors import ErrorCategory, ErrorInfo, tool_failure_text
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, ReplyKind, Text, ToolCall, ToolResult, Usage, user
from holdfast.core.output_retries import turn_flags
from holdfast.core.problems import Problem
from holdfast.core.question_log import ASKED, ask_key, asked_key, asker_key
from holdfast.core.redaction import redact
from holdfast.core.session_state import Phase

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
CHECKS = st.tuples(
    st.sampled_from(["", "strict", "embedded", "raw"]),
    st.lists(st.builds(Problem, st.just("a"), st.just("no"), st.text(max_size=3)), max_size=3).map(
        tuple
    ),
    st.none() | st.none() | st.just(ErrorInfo(category=ErrorCategory.PROGRAMMING, safe="x")),
)
FAILURE = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
FILTERED = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="refused")
FLAGS = st.sampled_from(
    [turn_flags(checked=True), turn_flags(checked=False), turn_flags(checked=True)]
)
REASONS = st.sampled_from(["cancelled", "deadline"])
SEVERAL = st.lists(st.integers(0, 15), max_size=4)
WAITS = st.sampled_from(["hold", "suspend"])
COIN = st.booleans()


# Every strategy is made once: one of its own for each event costs more than all that is tested.
@cache
def _one_of(*kinds: str) -> st.SearchStrategy[str]:
    return st.sampled_from(kinds)


@cache
def _up_to(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)


@st.composite
def runs(draw: st.DrawFn) -> list[ev.Event]:
    """The events of one to three turns, drawn so that each is legal when it comes."""
    machine, log, at = SessionMachine(), [], 0.0
    for _ in range(1 + draw(_up_to(2))):
        _change(draw, machine, log, at)
        opened = ev.TurnOpened(_next(machine), at, user("go"), draw(LIMITS), draw(FLAGS))
        _record(machine, log, opened)
        while machine.pending_effects():
            at += draw(_up_to(5))
            _record(machine, log, _next_event(draw, machine, at))
    return log


def _next(machine: SessionMachine) -> str:
    return turn_key(machine.turn + 1)


def _change(draw: st.DrawFn, machine: SessionMachine, log: list[ev.Event], at: float) -> None:
    """Nothing, mostly; or a change of the history between two turns."""
    kind, key = draw(_one_of("", "", "rewound", "compacted")), _next(machine)
    if kind == "rewound":
        _record(machine, log, ev.SessionRewound(key, at, draw(_up_to(machine.turn))))
    if kind == "compacted":
        length = len(machine.transcript)
        kept = ((0, length),) if length and draw(COIN) else ()
        summary = "so far" if draw(COIN) else ""
        _record(machine, log, ev.HistoryCompacted(key, at, kept, summary))


def _record(machine: SessionMachine, log: list[ev.Event], event: ev.Event) -> None:
    machine.apply(event)
    log.append(event)


def _next_event(draw: st.DrawFn, machine: SessionMachine, at: float) -> ev.Event:
    first = machine.pending_effects()[0]
    if isinstance(first, CloseTurn):
        return ev.TurnClosed(first.key, at, first.status, first.error)
    match draw(_one_of(*_possible(machine))):
        case "checked":
            return ev.OutputChecked(first.key, at, *draw(CHECKS))
        case "at the limit":
            return _at_the_limit(draw, machine, at)
        case "replied":
            return ev.ModelReplied(first.key, at, draw(REPLIES))
        case "failed":
            return ev.ModelFailed(first.key, at, FAILURE)
        case "withheld":
            return ev.ResultsWithheld(withheld_key(machine.turn, machine.iteration), at, FILTERED)
        case "finished":
            return _finished(draw, machine, at)
        case "question":
            return _question_event(draw, machine, at)
        case _:
            return _interrupted(draw, machine, at)


def _possible(machine: SessionMachine) -> list[str]:
    """The kinds of events that may come now, the likely ones several times."""
    first, log = machine.pending_effects()[0], machine.questions
    # A run asks a few times, and not for ever.
    asks = ["question"] if log.due_askers or log.open_questions or len(log.questions) < 3 else []
    if isinstance(first, CheckOutput):
        return ["checked", "checked", "checked", "interrupted"]
    if not isinstance(first, CallModel):
        return ["finished", "finished", *asks, *asks, "finished", "interrupted"]
    if machine.is_over_limit():
        return ["at the limit", "at the limit", *asks, "interrupted"]
    new = machine.turn_history.find_new_results(machine.transcript)
    withheld = ["withheld", "withheld"] if new else []
    return ["replied", "replied", *asks, *asks, *withheld, "replied", "failed", "interrupted"]


def _finished(draw: st.DrawFn, machine: SessionMachine, at: float) -> ev.Event:
    effects = machine.pending_effects()
    effect = effects[draw(_up_to(len(effects) - 1))]
    if isinstance(effect, CopyResult):
        return ev.ToolFinished(effect.key, at, effect.result, same_as=effect.same_as)
    assert isinstance(effect, RunTool)
    return ev.ToolFinished(effect.key, at, _result(effect))


def _interrupted(draw: st.DrawFn, machine: SessionMachine, at: float) -> ev.Event:
    effects = machine.pending_effects()
    started = dict.fromkeys(effects[number % len(effects)].key for number in draw(SEVERAL))
    key = interrupted_key(machine.turn)
    return ev.TurnInterrupted(key, at, draw(REASONS), tuple(started))


def _question_event(draw: st.DrawFn, machine: SessionMachine, at: float) -> ev.Event:
    """The end of an open question, or a new one of anything that is under way."""
    log = machine.questions
    if log.due_askers:
        return ev.TurnResumed(resumed_key(machine.turn, log.resume_count), at)
    if log.open_questions:
        key = log.open_questions[0].key.removesuffix(ASKED)
        if draw(_one_of("answered", "answered", "not")) == "answered":
            return ev.QuestionAnswered(key, at, {"type": "approved"}, draw(COIN))
        return ev.QuestionUnanswered(key, at, "timeout", draw(COIN))
    scope = machine.pending_effects()[0].key
    number = sum(key.startswith(f"{scope}.ask.") for key in log.questions)
    key = asked_key(ask_key(scope, number))
    return ev.QuestionAsked(key, at, "PermissionQuestion", {"tool": "x"}, draw(WAITS), draw(COIN))


def _at_the_limit(draw: st.DrawFn, machine: SessionMachine, at: float) -> ev.Event:
    if machine.iteration > 6 or draw(_one_of("extended", "over")) == "over":
        over = ErrorInfo(category=ErrorCategory.LIMIT, safe="over", code="iterations")
        return ev.ModelFailed(machine.pending_effects()[0].key, at, over)
    key = extended_key(machine.turn, machine.iteration)
    return ev.LimitExtended(key, at, 1 + draw(_up_to(2)))


def _result(effect: RunTool) -> ToolResult:
    return ToolResult(effect.call.id, effect.call.name, (Text(effect.key),))


def _fold(events: list[ev.Event]) -> SessionMachine:
    machine = SessionMachine()
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
    assert machine.copy_state() == _fold(log).copy_state()


@given(runs())
def test_planned_keys_are_never_journaled_keys(log: list[ev.Event]) -> None:
    machine, journaled = SessionMachine(), set()
    for event in log:
        machine.apply(event)
        assert event.key not in journaled
        journaled.add(event.key)
        assert journaled.isdisjoint(effect.key for effect in machine.pending_effects())


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
        tools += isinstance(event, ev.ToolFinished) and not event.same_as
        assert limits.iterations is None or calls <= most
        assert limits.tool_calls is None or tools <= limits.tool_calls
    assert _fold(log).phase is Phase.IDLE


@given(runs())
def test_after_every_turn_each_call_has_exactly_one_result(log: list[ev.Event]) -> None:
    messages = list(_fold(log).transcript)
    for at, message in enumerate(messages):
        if message.calls:
            answers = [p.call_id for p in messages[at + 1].parts if isinstance(p, ToolResult)]
            assert answers == [call.id for call in message.calls]
        if message.role == "tool":
            assert messages[at - 1].calls


@given(runs())
def test_a_question_ends_at_most_once_and_none_outlives_its_turn(log: list[ev.Event]) -> None:
    machine = SessionMachine()
    for event in log:
        open_before = {asked.key for asked in machine.questions.open_questions}
        machine.apply(event)
        if isinstance(event, ev.QuestionAnswered | ev.QuestionUnanswered):
            assert asked_key(event.key) in open_before
            assert event.key in machine.questions.outcomes
        if machine.phase in (Phase.CLOSING, Phase.IDLE):
            assert machine.questions.open_questions == ()


@given(runs())
def test_who_may_be_run_again_stands_at_a_question_or_has_an_answer_to_take_up(
    log: list[ev.Event],
) -> None:
    machine = SessionMachine()
    for event in log:
        rested = machine.questions.rerunnable_askers
        machine.apply(event)
        now = machine.questions
        scope = asker_key(event.key)
        if isinstance(event, ev.QuestionAsked):
            assert (scope in now.rerunnable_askers) == (
                event.before_effect or event.wait == "suspend"
            )
        if isinstance(event, ev.QuestionAnswered | ev.QuestionUnanswered):
            # Whoever waited goes on, and may have done anything; whoever left stays where it was.
            assert (scope in now.rerunnable_askers) == (event.deferred and scope in rested)
            assert now.is_waiting == event.deferred
        if isinstance(event, ev.TurnResumed):
            assert not now.due_askers
        if machine.phase in (Phase.CLOSING, Phase.IDLE):
            assert not now.due_askers
            assert not now.rerunnable_askers


@given(runs())
def test_events_of_any_run_survive_json(log: list[ev.Event]) -> None:
    again = [msgspec.json.decode(msgspec.json.encode(event), type=ev.Event) for event in log]
    assert _fold(again).copy_state() == _fold(log).copy_state()


@given(runs())
def test_an_answer_that_must_be_checked_completes_no_turn_unchecked(log: list[ev.Event]) -> None:
    wants = checked = repairs = 0
    limits = Limits()
    for event in log:
        if isinstance(event, ev.TurnOpened):
            wants, checked, repairs, limits = event.flags & 1, 0, 0, event.limits
        if isinstance(event, ev.OutputChecked):
            assert wants
            checked = bool(event.parsed_by) and event.error is None
            repairs += not event.parsed_by and event.error is None
            assert repairs <= limits.output_repairs + 1
        if isinstance(event, ev.TurnClosed) and event.status is ev.Status.COMPLETED:
            assert bool(wants) == bool(checked)


@given(st.permutations(range(4)))
def test_any_completion_order_of_parallel_tools_gives_the_same_messages(order: list[int]) -> None:
    def run(indexes: list[int]) -> SessionMachine:
        machine = SessionMachine()
        machine.apply(ev.TurnOpened("t1", 0.0, user("go")))
        calls = tuple(ToolCall(str(n), "x") for n in range(4))
        machine.apply(ev.ModelReplied("t1.i0.model", 1.0, Reply(calls)))
        planned = machine.pending_effects()
        for index in indexes:
            effect = planned[index]
            assert isinstance(effect, RunTool)
            machine.apply(ev.ToolFinished(effect.key, 2.0, _result(effect)))
        return machine

    assert run(order).copy_state() == run([0, 1, 2, 3]).copy_state()


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
