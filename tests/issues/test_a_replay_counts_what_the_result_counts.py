"""`holdfast replay` left out the tokens of attempts that failed, so that it said too little was paid."""

from __future__ import annotations

import pytest

from holdfast.cli.timeline import build_timeline, state_at
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, Usage, user
from holdfast.journal.port import Record
from holdfast.telemetry.token_prices import TokenPrices

OPENED = TurnOpened("t1", 0.0, user("hi"))
INFO = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It is overloaded.")
ASKED = ModelReplied(
    "t1.i0.model",
    1.0,
    Reply((ToolCall("a", "agent", "{}"), ToolCall("b", "agent", "{}")), usage=Usage(10, 5)),
    2,
    lost=Usage(100, 50, cached_input=20),
)
BEGUN = ToolsBegun("t1.i0.begun", 1.0)
WORKED = ToolFinished(
    "t1.i0.tool.0", 2.0, ToolResult("a", "agent", (Text("ok"),)), usage=Usage(7, 3)
)
CUT = TurnInterrupted("t1.interrupted", 3.0, "cancelled", ("t1.i0.tool.1",), usage=Usage(1000, 1))
FAILED = ModelFailed(
    "t1.i0.model", 1.0, INFO, Reply((Text("a"),), usage=Usage(4, 2)), 3, lost=Usage(40, 20)
)
UNANSWERED = ModelFailed("t1.i0.model", 1.0, INFO, None, 3, lost=Usage(40, 20))


@pytest.mark.parametrize(
    ("events", "status", "wanted"),
    [
        ((ASKED, BEGUN, WORKED, CUT), Status.CANCELLED, Usage(1117, 59, cached_input=20)),
        ((FAILED,), Status.FAILED, Usage(44, 22)),
        ((UNANSWERED,), Status.FAILED, Usage(40, 20)),
    ],
)
def test_the_timeline_has_the_usage_of_the_run(
    events: tuple[Event, ...], status: Status, wanted: Usage
) -> None:
    ended = TurnClosed("t1.closed", 4.0, status)
    records = [Record(event) for event in (OPENED, *events, ended)]
    found = state_at(records, ended.key)
    assert found is not None
    (turn,) = build_timeline(records, TokenPrices(input=1e6, output=1e6))
    assert turn.usage == found[0].usage == wanted
    assert turn.cost == wanted.total
