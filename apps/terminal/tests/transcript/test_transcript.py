"""What the person sees of each thing that can happen in a conversation."""

from __future__ import annotations

import time

import pytest

from adh.transcript.blocks import AnswerBlock, NoteBlock, PersonBlock, ToolBlock, ToolState
from adh.transcript.fold import Transcript, place_of
from adh.transcript.outcome import OutcomeKind, describe_end, describe_failure
from holdfast import (
    AttemptAbandoned,
    ErrorCategory,
    ErrorInfo,
    ModelReplied,
    Reply,
    RetryScheduled,
    Status,
    Text,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnClosed,
    Usage,
    user,
)
from holdfast.errors import JournalStorageError
from holdfast.events import (
    AttemptStarted,
    FromAgent,
    ModelFailed,
    QuestionAnswered,
    QuestionAsked,
    ReasoningDelta,
    ResultsWithheld,
    SessionRewound,
    ToolCallDelta,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)

BUSY = ErrorInfo(category=ErrorCategory.RATE_LIMIT_RETRYABLE, safe="429 Too Many Requests")
CUT = ErrorInfo(category=ErrorCategory.TRANSIENT, safe="cut", code="unterminated")


def _open(number: int = 1, text: str = "Hello") -> TurnOpened:
    return TurnOpened(key=f"t{number}", at=0.0, message=user(text))


def _call(*names: str, arguments: str = '{"path": "a"}') -> ModelReplied:
    calls = tuple(ToolCall(f"c{i}", name, arguments) for i, name in enumerate(names))
    return ModelReplied(key="t1.i0.model", at=1.0, reply=Reply(calls, usage=Usage(10, 5)))


def _result(index: int = 0, *, text: str = "ok", error: ErrorInfo | None = None) -> ToolFinished:
    result = ToolResult(f"c{index}", "look", (Text(text),), is_error=error is not None)
    return ToolFinished(key=f"t1.i0.tool.{index}", at=3.0, result=result, error=error)


def _tool(transcript: Transcript, index: int = 0) -> ToolBlock:
    block = transcript.find(f"t1.i0.tool.{index}")
    assert isinstance(block, ToolBlock)
    return block


def _answer(transcript: Transcript) -> AnswerBlock:
    return next(one for one in transcript.blocks if isinstance(one, AnswerBlock))


def _failure(code: str) -> ErrorInfo:
    return ErrorInfo(category=ErrorCategory.CLIENT_ERROR, safe="no", code=code)


def test_the_status_lines_come_in_their_order() -> None:
    transcript = Transcript()
    lines = []
    for item in (
        _open(),
        AttemptStarted("t1.i0.model", 1),
        TextDelta("Let me\nlook at "),
        TextDelta("x" * 60),
        ToolCallDelta(0, "c0", "look"),
        TurnClosed(
            "t1.closed",
            2.0,
            Status.FAILED,
            ErrorInfo(category=ErrorCategory.EMPTY_RESPONSE, safe="Empty response: no text"),
        ),
    ):
        transcript.apply(item, 0.0)
        lines.append(transcript.status)

    assert lines == [
        "⏳ Sending message to AI...",
        "⏳ Sending message to AI...",
        "💭 Let me look at ",
        "💭 Let me look at " + "x" * 35 + "...",
        "🔧 Using look...",
        "⚠️ Empty response: no text",
    ]


@pytest.mark.parametrize(
    ("info", "kind", "words", "status"),
    [
        (
            ErrorInfo(category=ErrorCategory.EMPTY_RESPONSE, safe="Empty response: no text"),
            OutcomeKind.EMPTY,
            "Technical details: no text",
            "⚠️ Empty response: no text",
        ),
        (
            ErrorInfo(
                category=ErrorCategory.INVALID_RESPONSE,
                safe="Invalid response structure: expected a reply, got HTML page",
            ),
            OutcomeKind.WRONG_STRUCTURE,
            "Expected: a reply\nGot: HTML page\n\nThis may be a temporary API issue. Please try again.",
            "❌ Invalid response structure: expected a reply, got HTML page",
        ),
        (
            ErrorInfo(category=ErrorCategory.TRANSIENT, safe="no route"),
            OutcomeKind.FAILED,
            "An error occurred while communicating with the AI:\nTransportError: no route",
            "❌ Error: no route",
        ),
        (_failure("filtered"), OutcomeKind.FILTERED, "The AI did not answer", "❌ Error: no"),
        (_failure("refused"), OutcomeKind.REFUSED, "The AI declined", "❌ Error: no"),
        (_failure("truncated"), OutcomeKind.CUT, "The answer was cut", "❌ Error: no"),
        (CUT, OutcomeKind.BROKEN_OFF, "The answer stopped before its end", "❌ Error: cut"),
        (
            ErrorInfo(category=ErrorCategory.LIMIT, safe="The limit of 10 iterations is reached"),
            OutcomeKind.LIMIT,
            "The limit of 10 iterations is reached",
            "❌ Error: The limit of 10 iterations is reached",
        ),
        (
            JournalStorageError("/d/journal.db", "the disk is full", fix="Free some space").info,
            OutcomeKind.FAILED,
            "cannot be saved, so the turn ended: journal /d/journal.db: the disk is full. Free some space.",
            "❌ Error: The conversation cannot be saved.",
        ),
    ],
)
def test_each_failure_has_its_kind_and_its_text(
    info: ErrorInfo, kind: OutcomeKind, words: str, status: str
) -> None:
    outcome = describe_failure(info)

    assert (outcome.kind, outcome.status) == (kind, status)
    assert words in outcome.text


def test_a_text_of_a_provider_cannot_command_the_terminal() -> None:
    outcome = describe_failure(ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="a\x1b[2J"))

    assert "\x1b" not in outcome.text + outcome.status
    assert "\\x1b[2J" in outcome.text


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.COMPLETED, OutcomeKind.DONE),
        (Status.CANCELLED, OutcomeKind.CANCELLED),
        (Status.WAITING, OutcomeKind.WAITING),
        (Status.STOPPED, OutcomeKind.BLOCKED_BY_POLICY),
        (Status.LIMIT, OutcomeKind.FAILED),
    ],
)
def test_each_status_without_an_error_has_its_kind(status: Status, kind: OutcomeKind) -> None:
    assert describe_end(status, None, "text").kind is kind


def test_a_text_that_breaks_off_stays_until_the_retry_brings_another() -> None:
    transcript = Transcript()
    key = "t1.i0.model"
    for item in (_open(), AttemptStarted(key, 1), TextDelta("First")):
        transcript.apply(item, 0.0)
    transcript.apply(AttemptAbandoned(key, 1, CUT), 0.0)
    transcript.apply(RetryScheduled(key, 1, 3, 12.0, BUSY), 100.0)

    answer = _answer(transcript)
    assert (answer.text, answer.state) == ("First", "unfinished")
    assert transcript.countdown is not None
    assert "12 s" in transcript.countdown.describe(100.0)

    transcript.apply(AttemptStarted(key, 2), 112.0)
    assert (answer.text, transcript.countdown) == ("First", None)
    version = answer.version
    transcript.apply(TextDelta("Second"), 112.0)

    assert (answer.text, answer.state) == ("Second", "streaming")
    assert answer.version > version


def test_withheld_results_are_told() -> None:
    transcript = Transcript()
    error = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="no")
    transcript.apply(_open(), 0.0)
    transcript.apply(
        ResultsWithheld("t1.i1.withheld", 1.0, error, ("read_page",), lost=Usage(input=7)), 1.0
    )
    assert "read_page" in transcript.status
    assert transcript.usage.input == 7


def test_an_attempt_that_continues_keeps_the_text() -> None:
    transcript = Transcript()
    key = "t1.i0.model"
    for item in (
        _open(),
        AttemptStarted(key, 1),
        TextDelta("One "),
        AttemptStarted(key, 2, continues=True),
        TextDelta("two"),
    ):
        transcript.apply(item, 0.0)

    assert _answer(transcript).text == "One two"


def test_a_failed_turn_keeps_the_partial_text_and_says_why() -> None:
    transcript = Transcript()
    partial = Reply((Text("Half of"),))
    failed = ModelFailed(key="t1.i0.model", at=1.0, error=CUT, partial=partial)
    for item in (_open(), failed, TurnClosed("t1.closed", 2.0, Status.FAILED, CUT)):
        transcript.apply(item, 0.0)

    answer, note = transcript.blocks[-2:]
    assert isinstance(answer, AnswerBlock)
    assert (answer.text, answer.state) == ("Half of", "unfinished")
    assert isinstance(note, NoteBlock)
    assert note.kind is OutcomeKind.BROKEN_OFF
    assert transcript.outcome is not None
    assert transcript.outcome.partial == "Half of"


def test_a_call_goes_through_its_states() -> None:
    transcript = Transcript()
    states = []
    asked = QuestionAsked(
        "t1.i0.tool.0.ask.0.asked", 1.0, "PermissionQuestion", {}, before_effect=True
    )
    approved = QuestionAnswered(
        "t1.i0.tool.0.ask.0", 2.0, {"type": "approved", "arguments": {"path": "b"}}
    )
    started = ToolStarted("t1.i0.tool.0", "look", "{}")
    for at, item in enumerate(
        (_open(), _call("look", "erase"), asked, approved, started, _result())
    ):
        transcript.apply(item, at / 4)
        found = transcript.find("t1.i0.tool.0")
        states.append(found.state.value if isinstance(found, ToolBlock) else "")

    assert states == ["", "pending", "confirming", "pending", "executing", "success"]
    assert _tool(transcript).header == "✅ look(path=b) · Completed (0.25s)"
    assert _tool(transcript, 1).state is ToolState.PENDING


def test_a_command_that_failed_says_so_in_its_header() -> None:
    transcript = Transcript()
    failed = '{"success":false,"return_code":1}'
    results = (_result(text=failed), _result(1, text=failed))
    for item in (_open(), _call("execute_command", "read_file"), *results):
        transcript.apply(item, 0.0)
    assert _tool(transcript).header.endswith("Completed, exit status 1")
    assert _tool(transcript, 1).header.endswith("Completed")


@pytest.mark.parametrize(
    ("finished", "state"),
    [
        (_result(error=_failure("tool")), ToolState.FAILED),
        (_result(error=_failure("denied")), ToolState.BLOCKED),
        (_result(error=_failure("stopped")), ToolState.CANCELLED),
        (_result(error=_failure("x"), text="Safety check(s) failed: backup"), ToolState.BLOCKED),
    ],
)
def test_a_result_decides_the_state(finished: ToolFinished, state: ToolState) -> None:
    transcript = Transcript()
    for item in (_open(), _call("look"), finished):
        transcript.apply(item, 0.0)

    assert _tool(transcript).state is state


def test_a_call_that_the_person_denies_is_cancelled_and_not_blocked() -> None:
    transcript = Transcript()
    denied = QuestionAnswered("t1.i0.tool.0.ask.0", 2.0, {"type": "denied", "reason": "no"})
    for item in (_open(), _call("look"), denied, _result(error=_failure("denied"))):
        transcript.apply(item, 0.0)

    assert _tool(transcript).state is ToolState.CANCELLED


def test_a_call_that_was_running_when_the_turn_stopped_is_in_doubt() -> None:
    transcript = Transcript()
    stopped = TurnInterrupted("t1.interrupted", 2.0, "cancelled", started=("t1.i0.tool.0",))
    for item in (
        _open(),
        _call("erase", "look"),
        stopped,
        TurnClosed("t1.closed", 2.0, Status.CANCELLED),
    ):
        transcript.apply(item, 0.0)

    assert _tool(transcript).state is ToolState.IN_DOUBT
    assert _tool(transcript, 1).state is ToolState.CANCELLED
    assert transcript.outcome is not None
    assert transcript.outcome.kind is OutcomeKind.CANCELLED


def test_a_reply_with_calls_only_claims_success_only_after_a_result() -> None:
    texts = []
    for finished in (_result(), _result(error=_failure("tool"))):
        transcript = Transcript()
        for item in (
            _open(),
            _call("look"),
            finished,
            TurnClosed("t1.closed", 4.0, Status.COMPLETED),
        ):
            transcript.apply(item, 0.0)
        assert transcript.outcome is not None
        texts.append(transcript.outcome.text)

    assert texts == ["Analysis complete. Executed look successfully.", ""]


def test_long_parameters_are_cut_and_say_how_long_they_are() -> None:
    transcript = Transcript()
    arguments = '{"a": "%s", "b": 1, "c": [2], "d": "\\u001b[2J"}' % ("x" * 5_000)
    for item in (_open(), _call("look", arguments=arguments)):
        transcript.apply(item, 0.0)

    block = _tool(transcript)
    assert block.header.endswith("b=1, c=[2], +1 more) · Pending")
    assert "(5,000 characters)" in block.header
    assert max(len(one.text) for one in block.parameters) == 60
    assert "\x1b" not in block.arguments
    assert "x" * 5_000 in block.arguments


def test_live_output_keeps_the_newest_lines_of_both_streams() -> None:
    transcript = Transcript()
    for item in (_open(), _call("run"), ToolStarted("t1.i0.tool.0", "run", "{}")):
        transcript.apply(item, 0.0)
    transcript.add_output(
        "t1.i0.tool.0", "stdout", "".join(f"{n}\n" for n in range(1_500)) + "half"
    )
    transcript.add_output("t1.i0.tool.0", "stderr", "bad\x1b[2J\r\n")
    transcript.apply(_result(), 1.0)

    block = _tool(transcript)
    assert (len(block.output), block.dropped_lines) == (1_000, 502)
    assert [(one.stream, one.text) for one in block.output][-2:] == [
        ("stderr", "bad\\x1b[2J"),
        ("stdout", "half"),
    ]


def test_the_calls_of_a_delegated_agent_name_it() -> None:
    transcript = Transcript()
    reply = ModelReplied(key="t1.i0.model", at=1.0, reply=Reply((ToolCall("n0", "look", "{}"),)))
    for item in (
        _open(),
        _call("delegate_to_agent"),
        FromAgent("t1.i0.tool.0", ("tester",), reply),
    ):
        transcript.apply(item, 0.0)
    place = place_of("t1.i0.tool.0", ("t1.i0.tool.0", "tester"))
    transcript.add_output(place, "stdout", "12 passed\n")

    block = transcript.find(place)
    assert isinstance(block, ToolBlock)
    assert block.header == "⏳ look (via tester) · Pending"
    assert [line.text for line in block.output] == ["12 passed"]
    transcript.apply(
        FromAgent("t1.i0.tool.0", ("tester",), TurnClosed("t1.closed", 2.0, Status.FAILED, CUT)),
        0.0,
    )
    assert block.state is ToolState.CANCELLED
    assert _tool(transcript).state is ToolState.PENDING


def test_messages_wait_in_a_queue_and_keep_their_order() -> None:
    transcript = Transcript()
    first = transcript.send("one")
    transcript.apply(_open(1, "one"), 0.0)
    second, third = transcript.send("two", queued=True), transcript.send("three", queued=True)
    transcript.apply(TextDelta("Answer"), 0.0)

    assert [block.id for block in transcript.queued] == [second.id, third.id]
    assert [type(block) for block in transcript.blocks] == [PersonBlock, AnswerBlock]

    transcript.apply(TurnClosed("t1.closed", 1.0, Status.COMPLETED), 0.0)
    changed = transcript.apply(_open(2, "two"), 0.0)

    assert changed == (second.id,)
    assert (second.turn, second.queued, first.turn) == (2, False, 1)
    assert [block.id for block in transcript.queued] == [third.id]


def test_a_rewind_marks_the_turns_after_it_and_another_one_brings_them_back() -> None:
    transcript = Transcript()
    for number in (1, 2):
        transcript.apply(_open(number), 0.0)
        transcript.apply(TurnClosed(f"t{number}.closed", 0.0, Status.COMPLETED), 0.0)
    transcript.apply(SessionRewound("t3", 0.0, 1), 0.0)
    assert [block.undone for block in transcript.blocks] == [False, True]

    transcript.apply(SessionRewound("t4", 0.0, 2), 0.0)
    assert [block.undone for block in transcript.blocks] == [False, False]


def test_a_turn_that_a_rule_stopped_says_so() -> None:
    transcript = Transcript()
    for item in (
        _open(),
        TurnStopped("t1.stopped", 1.0, "never", text="Not here."),
        TextDelta("Not here."),
        TurnClosed("t1.closed", 1.0, Status.STOPPED),
    ):
        transcript.apply(item, 0.0)

    assert [type(block) for block in transcript.blocks] == [PersonBlock, NoteBlock]
    assert transcript.outcome is not None
    assert transcript.outcome.text == "⛔ Action blocked by policy: Not here."


def test_a_thought_is_one_line_without_markup() -> None:
    transcript = Transcript()
    transcript.apply(_open(), 0.0)
    transcript.apply(ReasoningDelta("**Reading** the "), 0.0)
    transcript.apply(ReasoningDelta("`code`\x07 " + "x" * 200 + "\nsecond"), 0.0)

    assert transcript.thought.startswith("Reading the code\\x07 xxx")
    assert len(transcript.thought) == 100


def test_only_the_newest_hundred_calls_keep_their_live_output() -> None:
    transcript = Transcript()
    names = ["look"] * 101
    for item in (_open(), _call(*names)):
        transcript.apply(item, 0.0)
        transcript.add_output("t1.i0.tool.1", "stdout", "kept\n")

    assert len(transcript.executions) == 100
    assert len(_tool(transcript, 1).output) == 1


def test_tokens_and_cost_grow_with_each_reply() -> None:
    transcript = Transcript(price=lambda usage: usage.input * 0.5)
    for item in (_open(), _call("look")):
        transcript.apply(item, 0.0)

    assert (transcript.usage.input, transcript.usage.output, transcript.cost) == (10, 5, 5.0)


@pytest.mark.slow  # takes half a second or more
def test_a_piece_of_a_long_answer_costs_no_more_than_one_of_a_short_answer() -> None:
    def begin(before: int) -> Transcript:
        transcript = Transcript()
        transcript.apply(_open(), 0.0)
        for _ in range(before):
            transcript.apply(TextDelta("some words "), 0.0)
        return transcript

    def measure(transcript: Transcript) -> float:
        begun = time.thread_time()
        for _ in range(100):
            transcript.apply(TextDelta("some words "), 0.0)
        return time.thread_time() - begun

    short, long = begin(0), begin(100_000)
    # In turns, and the best of many: what else runs on the machine takes caches from both alike.
    pairs = [(measure(short), measure(long)) for _ in range(30)]
    assert min(pair[1] for pair in pairs) < 5 * min(pair[0] for pair in pairs)
