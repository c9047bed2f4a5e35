"""The fold from a drive to its spans, without an SDK and without a clock."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.cost import Cost
from holdfast.core.errors import ErrorCategory, ErrorInfo, exception_for
from holdfast.core.events import (
    FailedTarget,
    ModelFailed,
    ModelReplied,
    QuestionAsked,
    Status,
    ToolFinished,
    TurnClosed,
)
from holdfast.core.messages import Reply, Text, ToolResult, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import AttemptAbandoned, BreakerChanged, RetryScheduled
from holdfast.resilience.pipeline import Done, Failed
from holdfast.telemetry import genai_names as names
from holdfast.telemetry.observers import ObservedAttempt, ObservedTarget, ObservedTool, ObservedTurn
from holdfast.telemetry.span_fold import (
    AddEvent,
    AddValue,
    DriveFold,
    EndSpan,
    SpanStep,
    StartSpan,
)

DOWN = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It is down.", status=500)
TARGETS = (
    ObservedTarget("openai:a", "openai", "https://api.openai.com/v1"),
    ObservedTarget("anthropic:b", "anthropic", "https://api.anthropic.com"),
)
SECOND = 1_000_000_000


def drive(**more: object) -> DriveFold:
    return DriveFold(ObservedTurn(agent="agent", run_id="r", key="t1", session="s", **more))  # type: ignore[arg-type]


def attempt(number: int = 1, target: int = 0) -> ObservedAttempt:
    request = ModelRequest(model="ab"[target], messages=())
    return ObservedAttempt(
        run_id="r",
        key="t1.i0.model",
        attempt=number,
        target=TARGETS[target],
        request=request,
        began_at=0.0,
    )


def failed(call: ObservedAttempt) -> ObservedAttempt:
    call.outcome = Failed(exception_for(DOWN), DOWN)
    return call


def ends(steps: list[SpanStep]) -> dict[str, EndSpan]:
    return {one.id: one for one in steps if isinstance(one, EndSpan)}


def test_the_time_in_a_queue_is_a_span_before_the_drive() -> None:
    steps = drive(submitted_at=5.0).begin_drive(8 * SECOND)
    queue = next(one for one in steps if isinstance(one, StartSpan) and one.name == names.QUEUE)
    assert (queue.at, ends(steps)[names.QUEUE].at) == (5 * SECOND, 8 * SECOND)
    (value,) = [one for one in steps if isinstance(one, AddValue)]
    assert (value.metric, value.value) == (names.QUEUE_DURATION, 3.0)


def test_a_submission_in_the_future_of_this_clock_takes_no_time() -> None:
    steps = drive(submitted_at=99.0).begin_drive(8 * SECOND)
    assert [one.value for one in steps if isinstance(one, AddValue)] == [0.0]


def test_a_chat_covers_the_waits_between_its_attempts() -> None:
    fold = drive()
    fold.begin_drive(0)
    first = attempt()
    span, steps = fold.begin_attempt(first, 1 * SECOND)
    steps += fold.end_attempt(failed(first), span, 2 * SECOND)
    steps += fold.feed(RetryScheduled("t1.i0.model", 1, 3, 4.0, DOWN), 2 * SECOND)
    second = attempt(2)
    span, more = fold.begin_attempt(second, 6 * SECOND)
    second.outcome = Done(Reply((Text("Hi"),)))
    more += fold.end_attempt(second, span, 9 * SECOND)
    reply = Reply((Text("Hi"),), usage=Usage(3, 4), model="a-1")
    more += fold.feed(ModelReplied("t1.i0.model", 9.0, reply, attempts=2), 9 * SECOND)
    starts = [one for one in steps + more if isinstance(one, StartSpan)]
    assert [one.name for one in starts] == ["chat a", "holdfast.attempt", "holdfast.attempt"]
    assert starts[2].attributes[names.ATTEMPT_WAIT] == 4.0
    chat = ends(more)["t1.i0.model#0"]
    assert (starts[0].at, chat.at, chat.error) == (1 * SECOND, 9 * SECOND, "")
    assert chat.attributes[names.USAGE_INPUT] == 3
    durations = [
        one.value
        for one in more
        if isinstance(one, AddValue) and one.metric == names.INFERENCE_DURATION
    ]
    assert durations == [8.0]


def test_each_target_has_its_own_usage_and_cost() -> None:
    fold = drive()
    fold.begin_drive(0)
    for target in (0, 1):
        call = attempt(target + 1, target)
        span, _ = fold.begin_attempt(call, 1)
        fold.end_attempt(failed(call), span, 2)
    tried = (FailedTarget("openai:a", 1, DOWN, Usage(10, 1), Cost(Decimal("0.5"))),)
    partial = Reply((Text("Hi"),), usage=Usage(7, 2))
    event = ModelFailed(
        "t1.i0.model", 1.0, DOWN, partial, 2, tried, Usage(10, 1), Cost(Decimal("0.75"))
    )
    ended = ends(fold.feed(event, 3))
    first, second = ended["t1.i0.model#0"], ended["t1.i0.model#1"]
    assert (first.attributes[names.USAGE_INPUT], first.attributes[names.COST]) == (10, "0.5")
    assert (second.attributes[names.USAGE_INPUT], second.attributes[names.COST]) == (7, "0.25")
    assert (first.error, second.error) == ("server_error", "server_error")


def test_an_attempt_that_was_cut_off_ends_when_its_reason_is_known() -> None:
    fold = drive()
    fold.begin_drive(0)
    call = attempt()
    span, _ = fold.begin_attempt(call, 1)
    assert fold.end_attempt(call, span, 2) == []
    cut = ErrorInfo(category=ErrorCategory.TIMEOUT, safe="It took too long.")
    ended = ends(fold.feed(AttemptAbandoned("t1.i0.model", 1, cut), 3))
    assert (ended[span].error, ended[span].at) == ("timeout", 2)


def test_a_drive_that_ends_leaves_no_span_open() -> None:
    fold = drive()
    steps = fold.begin_drive(0)
    span, more = fold.begin_attempt(attempt(), 1)
    tool = ObservedTool(run_id="r", key="t1.i0.tool.0", name="look", call_id="1", arguments="{}")
    steps += more + fold.begin_tool(tool, 2) + fold.begin_tool(tool, 3)
    steps += fold.feed(QuestionAsked("t1.i0.tool.0.ask.0.asked", 0.0, "permission", {}), 4)
    assert any(isinstance(one, AddEvent) for one in steps)
    steps += fold.end_attempt(attempt(), span, 5)
    steps += fold.end_drive(6, KeyboardInterrupt())
    opened = Counter(one.id for one in steps if isinstance(one, StartSpan))
    closed = Counter(one.id for one in steps if isinstance(one, EndSpan))
    assert opened == closed
    last = [one for one in steps if isinstance(one, EndSpan)][-1]
    assert (last.error, last.attributes[names.STATUS]) == ("KeyboardInterrupt", "open")


def test_a_result_without_an_attempt_has_no_span() -> None:
    result = ToolResult("1", "look", (Text("No."),), is_error=True)
    assert drive().feed(ToolFinished("t1.i0.tool.0", 0.0, result, attempts=0), 1) == []


def test_the_state_of_a_breaker_is_a_number() -> None:
    (step,) = drive().feed(BreakerChanged("openai:a", "closed", "open", 10.0), 1)
    assert step == AddValue(names.BREAKER_STATE, 2.0, {names.BREAKER_TARGET: "openai:a"})


KEY = "t1.i0.model"

MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            ["begin", "end", "fail", "reply", "failed", "cut", "retry", "tool", "done"]
        ),
        st.integers(0, 1),
        st.integers(1, 3),
    ),
    max_size=25,
)


EVENTS = {
    "reply": lambda number: ModelReplied(KEY, 1.0, Reply((), usage=Usage(number))),
    "failed": lambda _: ModelFailed(KEY, 1.0, DOWN),
    "cut": lambda number: AttemptAbandoned(KEY, number, DOWN),
    "retry": lambda number: RetryScheduled(KEY, number, 3, 1.0, DOWN),
    "done": lambda number: ToolFinished(
        f"t1.i0.tool.{number % 2}", 1.0, ToolResult("1", "look", (Text("a"),), number == 1)
    ),
}


def play(moves: list[tuple[str, int, int]]) -> list[SpanStep]:
    """Let a drive see anything in any order."""
    fold = drive()
    steps = fold.begin_drive(0)
    opened: list[tuple[ObservedAttempt, str]] = []
    for at, (move, target, number) in enumerate(moves, 1):
        if move in EVENTS:
            steps += fold.feed(EVENTS[move](number), at)
        elif move == "begin":
            call = attempt(number, target)
            span, more = fold.begin_attempt(call, at)
            opened.append((call, span))
            steps += more
        elif move == "tool":
            name = f"t1.i0.tool.{target}"
            tool = ObservedTool(run_id="r", key=name, name="look", call_id="", arguments="{}")
            steps += fold.begin_tool(tool, at)
        elif opened:
            call, span = opened.pop(number % len(opened))
            steps += fold.end_attempt(failed(call) if move == "fail" else call, span, at)
    for call, span in opened:
        steps += fold.end_attempt(call, span, len(moves) + 1)
    steps += fold.feed(TurnClosed("t1.closed", 1.0, Status.COMPLETED), len(moves) + 1)
    return steps + fold.end_drive(len(moves) + 1)


@given(MOVES)
def test_whatever_happens_each_span_ends_once_after_it_began_below_one_that_began(
    moves: list[tuple[str, int, int]],
) -> None:
    steps = play(moves)
    assert steps == play(moves)
    began: dict[str, int] = {}
    ended: dict[str, int] = {}
    for step in steps:
        if isinstance(step, StartSpan):
            assert step.parent == "" or step.parent in began
            began[step.id] = step.at
            ended.pop(step.id, None)
        elif isinstance(step, EndSpan) and step.id in began and step.id not in ended:
            assert step.at >= began[step.id]
            ended[step.id] = step.at
    assert began.keys() == ended.keys()
